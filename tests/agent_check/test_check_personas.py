from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from agent_check.findings import Findings, Level
from agent_check.personas import check_personas, check_signal
from agent_check.run import check_all
from agent_config import Settings, load_settings
from tests.support.signal_server import ACCOUNT, ANNA, SignalServer, refused


def test_the_check_says_who_can_sit_in_rooms_and_once_why_others_cannot(tmp_path):
    for key, text in (("poet", ""), ("ada", "---\nprovider: xai\n---\n"), ("bob", "---\nprovider: xai\n---\n")):
        (tmp_path / key).mkdir()
        (tmp_path / key / "identity.md").write_text(text)
    found = Findings()
    env = {"PERSONAS_DIR": str(tmp_path), "OPENAI_API_KEY": "a-key", "BOT_TOKEN_CHATGPT": "a-token"}
    check_personas(load_settings(env, None), found)
    assert [(one.level, one.text) for one in found] == [
        (Level.OK, "Poet can sit in rooms, without a bot; a room of 20 turns costs about $0.011"),
        (Level.NOTE, "Ada, Bob cannot sit in rooms: XAI_API_KEY is not set, which xai/grok-4.7 needs"),
    ]


def on_signal(folder: Path, url: str, **more: str) -> Settings:
    (folder / "penny").mkdir(exist_ok=True)
    (folder / "penny" / "identity.md").write_text("---\nprovider: openai\n---\n")
    env = {
        "PERSONAS_DIR": str(folder),
        "DATA_DIR": str(folder / "data"),
        "SIGNAL_API_URL": url,
        "SIGNAL_NUMBERS": f"penny:{ACCOUNT}",
        "SIGNAL_ALLOWED": ANNA,
        "OPENAI_API_KEY": "a-key",
        **more,
    }
    return load_settings(env, None)


async def test_an_agent_with_a_model_an_account_and_people_is_ready_on_signal(tmp_path: Path) -> None:
    found = Findings()
    async with SignalServer() as server:
        await check_signal(on_signal(tmp_path, server.url), found)
    assert {one.level for one in found} == {Level.OK}
    assert found[-1].text == "penny has the account …01"


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"OPENAI_API_KEY": ""}, "penny cannot answer: OPENAI_API_KEY is not set"),
        ({"SIGNAL_ALLOWED": ""}, "no person is heard"),
        ({"SIGNAL_API_URL": "http://127.0.0.1:1"}, "no answer of signal-cli-rest-api at 127.0.0.1:1"),
    ],
)
async def test_what_an_agent_on_signal_lacks_is_named(tmp_path: Path, more: dict[str, str], wrong: str) -> None:
    found = Findings()
    async with SignalServer() as server:
        await check_signal(on_signal(tmp_path, server.url, **more), found)
    (text,) = [one.text for one in found if one.level is Level.WRONG]
    assert text.startswith(wrong)


@pytest.mark.parametrize("mode", ["normal", "native"])
async def test_a_server_in_a_mode_that_hands_over_no_messages_is_named(tmp_path: Path, mode: str) -> None:
    found = Findings()
    async with SignalServer() as server:
        about = partial(web.json_response, {"mode": mode})
        server.fail("about", about, about)
        await check_signal(on_signal(tmp_path, server.url), found)
    (text,) = [one.text for one in found if one.level is Level.WRONG]
    assert text.startswith(f"signal-cli-rest-api runs with MODE={mode}")


async def test_a_number_that_the_server_does_not_know_is_named_without_being_shown(tmp_path: Path) -> None:
    found = Findings()
    async with SignalServer() as server:
        server.fail("groups", lambda: refused(f"User {ACCOUNT} is not registered."))
        await check_signal(on_signal(tmp_path, server.url), found)
    (text,) = [one.text for one in found if one.level is Level.WRONG]
    assert text.startswith("penny: the server has no account")
    assert "is not registered" in text
    assert ACCOUNT not in text


async def test_a_program_on_signal_alone_needs_no_token_and_no_channel(tmp_path: Path) -> None:
    async with SignalServer() as server:
        sections = await check_all(
            on_signal(tmp_path, server.url), seconds=20, use_default_redis=False, clock=time.time, environment={}
        )
    assert [section.title for section in sections] == ["Shared"]
    assert not [one for one in sections[0].findings if one.level is Level.WRONG]
