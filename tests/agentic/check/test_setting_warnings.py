"""What a start says of settings that name something that is not there."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from agent_config import load_settings
from agentic.check.machine import taken_ports
from agentic.check.odd_settings import TOOLS, setting_warnings_here
from agentic.process.root import ROOT
from agentic.runtime import cli
from agentic.tools.toolset import NAMES


def told(folder: Path, **environ: str) -> list[str]:
    return [str(warning) for warning in setting_warnings_here(load_settings(environ, None), folder)]


def test_the_programs_own_folder_with_nothing_set_is_nothing_to_speak_of() -> None:
    assert told(ROOT) == []


@pytest.mark.promise(65)
@pytest.mark.parametrize("key", ["PERSONAS_DIR", "CONFIG_FILES_DIR"])
def test_a_folder_that_is_named_and_not_there_is_told(tmp_path: Path, key: str) -> None:
    (tmp_path / ".env").touch()
    (line,) = told(tmp_path, **{key: str(tmp_path / "misspelt")})
    assert line.startswith(f"{key}: {tmp_path / 'misspelt'} doesn't exist")
    (tmp_path / "misspelt").mkdir()
    assert told(tmp_path, **{key: str(tmp_path / "misspelt")}) == []


@pytest.mark.promise(65)
def test_a_start_in_another_folder_is_told_until_something_of_ours_is_there(tmp_path: Path) -> None:
    (line,) = told(tmp_path)
    assert line.startswith(f"working folder: {tmp_path} has no .env")
    assert str(ROOT) in line
    assert told(tmp_path, PERSONAS_DIR=str(ROOT / "personas")) == []
    (tmp_path / ".env").touch()
    assert told(tmp_path) == []


def test_a_bot_without_another_one_to_converse_with_is_told() -> None:
    alone = {"BOT_TOKEN_CLAUDE": "t", "ANTHROPIC_API_KEY": "k", "BOT_TOKEN_GROK": "u", "CHANNEL_THEME_MAP": "1"}
    (line,) = told(ROOT, **alone)
    assert line.startswith("conversations: Claude is the only bot, so each conversation ends after its first message")
    assert told(ROOT, **alone, XAI_API_KEY="k") == []
    assert told(ROOT, **alone, COORDINATOR_SCHEDULE_MAX="0") == []
    assert told(ROOT, **alone, AGENT_NAME="claude") == []


def test_a_window_beyond_what_is_kept_is_reported() -> None:
    (line,) = told(ROOT, CONTEXT_WINDOW_SIZE="500")
    assert line.startswith("CONTEXT_WINDOW_SIZE: 500 is above the maximum, so the bots use 400")
    assert told(ROOT, CONTEXT_WINDOW_SIZE="400") == []


@pytest.mark.promise(65)
@pytest.mark.parametrize(
    ("patterns", "line"),
    [
        ("web_serach,web_fetch", "ALLOWED_TOOLS: web_serach isn't a tool; did you mean web_search?"),
        ("!Web_search", "ALLOWED_TOOLS: Web_search is a tool for coding agents, and there isn't one"),
        ("teleport", "ALLOWED_TOOLS: teleport isn't a tool; use web_search, "),
        (
            "Read,web_search",
            "ALLOWED_TOOLS: Read is a tool for coding agents, and there isn't one, so it has no effect",
        ),
    ],
)
def test_a_tool_that_is_none_is_told(patterns: str, line: str) -> None:
    (found,) = told(ROOT, ALLOWED_TOOLS=patterns)
    assert found.startswith(line)
    (found,) = told(ROOT, ALLOWED_TOOLS_GROK=patterns)
    assert found.startswith(line.replace("ALLOWED_TOOLS", "ALLOWED_TOOLS_GROK"))


@pytest.mark.parametrize("patterns", ["none", ",".join(TOOLS), "web_*,!web_fetch", "github__*,git*", "docs__read_page"])
def test_tools_that_there_are_or_may_be_are_not(patterns: str) -> None:
    assert told(ROOT, ALLOWED_TOOLS=patterns) == []
    assert set(NAMES) < set(TOOLS)


def test_tools_of_a_coding_agent_are_known_where_there_is_one() -> None:
    assert told(ROOT, ALLOWED_TOOLS="Read,web_fetch", AGENT_RUNTIME="claude-agent-sdk") == []


@pytest.mark.promise(65)
def test_a_model_server_at_home_without_a_key_is_told() -> None:
    (line,) = told(ROOT, OPENAI_BASE_URL="http://127.0.0.1:11434/v1")
    assert line.startswith(
        "OPENAI_BASE_URL: ChatGPT has no model: this is your own server, but OPENAI_API_KEY isn't set"
    )
    assert told(ROOT, OPENAI_BASE_URL="http://127.0.0.1:11434/v1", OPENAI_API_KEY="any") == []
    assert told(ROOT, OPENAI_BASE_URL="https://models.example.com/v1") == []


@pytest.mark.parametrize("key", ["HEALTH_PORT", "EVENTS_PORT"])
def test_a_port_that_is_in_use_is_told(key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings = load_settings({key: str(port), "EVENTS_SECRET": "a-secret-of-some-length"}, None)
        (warning,) = taken_ports(settings)
        assert str(warning).startswith(f"{key}: {port} on 127.0.0.1 is in use")
    assert list(taken_ports(settings)) == []


def test_an_address_that_is_not_this_machines_is_told() -> None:
    given = {"EVENTS_PORT": "8090", "EVENTS_HOST": "203.0.113.7", "EVENTS_SECRET": "a-secret-of-some-length"}
    (warning,) = taken_ports(load_settings(given, None))
    assert str(warning) == (
        "EVENTS_PORT: 8090 can't be served at 203.0.113.7, which isn't an address of this machine; correct EVENTS_HOST"
    )


def test_a_start_tells_them_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PERSONAS_DIR", str(tmp_path / "misspelt"))
    monkeypatch.setenv("BOT_TOKEN_CLAUDE", "t")
    monkeypatch.setattr(cli, "_set_up_logging", lambda settings: None)
    monkeypatch.setattr(cli, "_serve", lambda *args, **more: 0)
    with caplog.at_level(logging.WARNING):
        assert cli.main([]) == 0
    assert f"PERSONAS_DIR: {tmp_path / 'misspelt'} doesn't exist" in caplog.text


def test_a_file_of_the_owners_that_nothing_reads_is_reported(tmp_path: Path) -> None:
    read = ("shared.yaml", "mcp.example.yaml", "guilds/1.yaml", "bots/claude.yaml", "notes.txt")
    for name in (*read, "endpoint.yaml", "mcp.yml", "guilds/1.yml", "bot/grok.yaml", "claude.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert told(ROOT, CONFIG_FILES_DIR=str(tmp_path)) == [
        f"{tmp_path}/bot/grok.yaml: isn't used: nothing reads a file with this name; did you mean bots/grok.yaml?",
        f"{tmp_path}/claude.yaml: isn't used: nothing reads a file with this name; did you mean bots/claude.yaml?",
        f"{tmp_path}/endpoint.yaml: isn't used: nothing reads a file with this name; did you mean endpoints.yaml?",
        f"{tmp_path}/guilds/1.yml: isn't used: nothing reads a file with this name; config/README.md lists the names",
        f"{tmp_path}/mcp.yml: isn't used: nothing reads a file with this name; did you mean mcp.yaml?",
    ]


def test_memory_without_a_record_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "shared.yaml").write_text("message_log: true\n")
    (tmp_path / ".env").touch()
    environ = {"CONFIG_FILES_DIR": str(tmp_path / "config"), "BOT_TOKEN_CLAUDE": "a-token"}
    environ |= {"SIGNAL_NUMBERS": "penny:+4915112345678", "PERSONAS_DIR": str(ROOT / "personas")}
    assert told(tmp_path, **environ) == []
    lines = told(tmp_path, **environ, RECORD_DAYS="0")
    assert [line.partition(" has no effect")[0] for line in lines] == [
        "RECORD_DAYS: nothing is recorded, so Penny's option message_log",
        "RECORD_DAYS: nothing is recorded, so Penny's option recall",
        "RECORD_DAYS: nothing is recorded, so Claude's option message_log",
    ]
