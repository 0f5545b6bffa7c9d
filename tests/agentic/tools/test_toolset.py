"""Which tools an agent has in a channel, from what the installation has."""

from __future__ import annotations

import logging
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest

from agent_config import load_settings
from agentic.process.root import ROOT
from agentic.runtime.services import ProcessConfig, open_tools
from agentic.tools.call_log import ToolRecord
from agentic.tools.toolset import Toolset
from tests.support.doubles import NOON
from tests.support.tools.tool_doubles import FakeTool

SERVER = ROOT / "tests/support/tools/mcp_server.py"


def services(*names, allowed=("*",), of=None):
    servers = of or {}
    tools = {agent: [FakeTool(name, str) for name in given] for agent, given in servers.items()}
    source = SimpleNamespace(tools_for=lambda agent: tools.get(agent, []))
    return Toolset([FakeTool(name, str) for name in names], source, None, allowed)


def test_a_tool_is_given_where_the_installation_and_the_options_allow_it():
    tools = services(
        "web_search", "web_fetch", "odd", allowed=("web_*", "*__*", "!x__write"), of={"claude": ["x__write", "x__read"]}
    )
    assert tuple(tools.toolbox("claude", ("*",), False)) == ("web_fetch", "web_search", "x__read")
    assert tuple(tools.toolbox("grok", ("*",), False)) == ("web_fetch", "web_search")
    assert tuple(tools.toolbox("claude", ("x__*",), False)) == ("x__read",)
    assert tuple(tools.toolbox("claude", (), False)) == ()


def test_options_never_widen_what_the_installation_allows():
    tools = services("web_fetch", "odd", allowed=("web_fetch",))
    assert tuple(tools.toolbox("claude", ("*", "odd"), False)) == ("web_fetch",)
    assert tuple(services("web_fetch", allowed=("none",)).toolbox("claude", ("*",), False)) == ()


def test_a_model_that_searches_by_itself_is_not_given_another_search():
    tools = services("web_search", "web_fetch")
    assert tuple(tools.toolbox("claude", ("*",), True)) == ("web_fetch",)


def test_a_tool_that_no_provider_would_take_is_left_out_and_told_once(caplog):
    tools = services("web_fetch", of={"claude": ["web_fetch", "no name"]})
    with caplog.at_level(logging.WARNING):
        assert tuple(tools.toolbox("claude", ("*",), False)) == ("web_fetch",)
        tools.toolbox("claude", ("*",), False)
    assert len(caplog.records) == 2


@asynccontextmanager
async def opened(folder, **settings):
    environ = {"DATA_DIR": str(folder), "CONFIG_FILES_DIR": str(folder), **settings}
    async with aiohttp.ClientSession() as session:
        read = load_settings(environ, None)
        async with open_tools(ProcessConfig(settings=read, agents=(), clock=lambda: NOON), session, str, {}) as tools:
            yield tools


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("web_fetch", "web_search")),
        ({"WEB_SEARCH": "false"}, ("web_fetch",)),
        ({"WEB_SEARCH": "false", "EXA_API_KEY": "k"}, ("web_fetch", "web_search")),
        ({"ALLOWED_TOOLS": "none"}, ()),
        ({"ALLOWED_TOOLS": "*,!web_fetch"}, ("web_search",)),
    ],
)
async def test_what_is_built_in_follows_from_the_settings(tmp_path, settings, expected):
    async with opened(tmp_path, **settings) as tools:
        assert tuple(tools.toolbox("claude", ("*",), False)) == expected


async def test_what_tools_were_asked_outlives_the_program(tmp_path):
    record = ToolRecord(
        id="r",
        agent="claude",
        channel_id=7,
        turn_id="m5",
        after_message_id=5,
        name="t",
        arguments={},
        output="o",
        at=NOON,
    )
    async with opened(tmp_path) as tools:
        tools.records.add(record)
    assert list((tmp_path / "tools" / "claude" / "7").glob("*.jsonl"))
    async with opened(tmp_path) as tools:
        assert tools.records.for_channel("claude", 7) == (record,)


async def test_the_owners_servers_are_started_with_the_settings_that_they_name_and_no_other(tmp_path):
    text = f"""
servers:
  lab:
    command: {sys.executable}
    args: ["{SERVER}"]
    env: {{LAB_KEY: "${{LAB_KEY}}"}}
    agents: [claude]
  wrong: {{command: x, url: y}}
"""
    (tmp_path / "mcp.yaml").write_text(text)
    environ = {
        "DATA_DIR": str(tmp_path),
        "CONFIG_FILES_DIR": str(tmp_path),
        "LAB_KEY": "canary-lab",
        "OTHER": "other-1",
    }
    settings = load_settings({**environ, "XAI_API_KEY": "canary-key"}, None)
    assert settings.named_texts == {"LAB_KEY": "canary-lab"}
    assert "canary-lab" in settings.secrets()
    assert "canary" not in repr(settings)
    async with (
        aiohttp.ClientSession() as session,
        open_tools(ProcessConfig(settings=settings, agents=(), clock=lambda: NOON), session, str, environ) as tools,
    ):
        await tools.servers.tried()
        box = tools.toolbox("claude", ("*",), False)
        assert "lab__add" in box
        assert not any(name.startswith("lab") for name in tools.toolbox("grok", ("*",), False))
        seen = await box.get("lab__environment").execute({}, SimpleNamespace(deadline=NOON + 30))
        assert "LAB_KEY" in seen.text
        assert "OTHER" not in seen.text
