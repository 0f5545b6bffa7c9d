from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from agent_config import Settings, load_settings
from agentic.check.agents import check_personas
from agentic.check.run import check_all
from agentic.findings import Findings, Level
from agentic.services.signal.check import check_signal
from tests.support.models.model_server import ModelServer
from tests.support.signal_server import ACCOUNT, ANNA, SignalServer, refused


def test_the_check_says_who_can_sit_in_rooms_and_once_why_others_cannot(tmp_path):
    for key, text in (("poet", ""), ("ada", "---\nprovider: xai\n---\n"), ("bob", "---\nprovider: xai\n---\n")):
        (tmp_path / key).mkdir()
        (tmp_path / key / "identity.md").write_text(text)
    found = Findings()
    env = {"PERSONAS_DIR": str(tmp_path), "OPENAI_API_KEY": "a-key", "BOT_TOKEN_CHATGPT": "a-token"}
    check_personas(load_settings(env, None), found)
    assert [(one.level, one.text) for one in found] == [
        (Level.OK, "Poet can join rooms, although they aren't bots; a room of 20 turns costs about $0.011"),
        (Level.NOTE, "Ada, Bob can't join rooms: XAI_API_KEY isn't set, and xai/grok-4.7 needs it"),
    ]
    assert found[-1].advice.startswith("set that key, or name another model in identity.md")


@pytest.mark.parametrize(
    ("model", "level", "advice"),
    [
        ("openai/gpt-6-luna", "none", None),
        ("google/gemini-3.8-flash", "none", "use low, medium, high"),
        ("xai/grok-4.7", "high", None),
        ("xai/grok-4.7", "none", "use low, medium, high"),
        ("xai/grok-4", "high", "remove it"),
    ],
)
def test_a_thinking_level_that_a_model_lacks_is_named(tmp_path, model: str, level: str, advice: str | None):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "identity.md").write_text(f"---\nmodel: {model}\nthinking: {level}\n---\n")
    found = Findings()
    keys = dict.fromkeys(("OPENAI_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY"), "a-key")
    check_personas(load_settings({"PERSONAS_DIR": str(tmp_path), **keys}, None), found)
    notes = [(one.text, one.advice) for one in found if one.subject == "thinking"]
    text = f"Ada: {model} has no level {level}, so it thinks as usual"
    assert notes == ([(text, advice)] if advice else [])


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
        ({"SIGNAL_ALLOWED": ""}, "nobody may write to the bots"),
        ({"SIGNAL_API_URL": "http://127.0.0.1:1"}, "signal-cli-rest-api doesn't answer at 127.0.0.1:1"),
    ],
)
async def test_what_an_agent_on_signal_lacks_is_named(tmp_path: Path, more: dict[str, str], wrong: str) -> None:
    found = Findings()
    async with SignalServer() as server:
        await check_signal(on_signal(tmp_path, server.url, **more), found)
    (text,) = [one.text for one in found if one.level is Level.WRONG]
    assert text.startswith(wrong)


@pytest.mark.parametrize("answer", [(404, "not found"), (404, {"error": "no"}), (200, "<html>"), (200, []), (401, "")])
async def test_another_web_server_is_not_taken_for_signals(tmp_path: Path, answer: tuple[int, object]) -> None:
    async def handle(_: web.Request) -> web.Response:
        status, body = answer
        if isinstance(body, str):
            return web.Response(status=status, text=body)
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found = Findings()
    await check_signal(on_signal(tmp_path, f"http://127.0.0.1:{runner.addresses[0][1]}"), found)
    await runner.cleanup()
    (wrong,) = [one.text for one in found if one.level is Level.WRONG]
    assert "isn't signal-cli-rest-api" in wrong


@pytest.mark.parametrize("knows_the_account", [True, False])
async def test_an_old_signal_server_without_an_about_page_is_recognized(
    tmp_path: Path, knows_the_account: bool
) -> None:
    found = Findings()
    async with SignalServer() as server:
        server.about_status = 404
        if not knows_the_account:
            server.fail("groups", *[lambda: refused("Specified account does not exist")] * 2)
        await check_signal(on_signal(tmp_path, server.url), found)
    wrong = [one.text for one in found if one.level is Level.WRONG]
    assert [text for text in wrong if "isn't signal-cli-rest-api" in text] == []
    assert bool(wrong) is not knows_the_account


async def test_a_persona_without_identity_is_named_where_it_has_a_number(tmp_path: Path) -> None:
    found, settings = Findings(), on_signal(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "penny" / "identity.md").unlink()
    await check_signal(settings, found)
    assert "penny can't answer" in next(one.text for one in found if one.level is Level.WRONG)


async def check_on_signal(settings: Settings) -> dict[str, Findings]:
    """What the whole check finds, by section."""
    sections = await check_all(settings, seconds=20, use_default_redis=False, clock=time.time, environment={})
    return {section.title: section.findings for section in sections}


@pytest.mark.promise(503)
async def test_a_persona_on_signal_has_its_key_its_model_and_its_options_checked(tmp_path: Path) -> None:
    models = ModelServer()
    async with SignalServer() as server, models:
        settings = on_signal(tmp_path, server.url, OPENAI_BASE_URL=models.base_url("openai"))
        card = "---\nprovider: openai\nalways_search: true\nrecall: true\n---\n"
        (tmp_path / "penny" / "identity.md").write_text(card)
        found = await check_on_signal(settings)
    assert [(one.level, one.subject) for one in found["Penny"]] == [
        (Level.NOTE, "token"),
        (Level.OK, "key"),
        (Level.OK, "model"),
        (Level.OK, "persona"),
        (Level.OK, "always_search"),
    ]
    (tools,) = [one.text for one in found["Shared"] if one.subject == "tools"]
    assert "recall" in tools
    assert not [one for one in found["Shared"] if one.level is Level.WRONG]


@pytest.mark.promise(503)
async def test_a_missing_key_of_a_persona_on_signal_is_wrong_once_and_the_key_comes_first(tmp_path: Path) -> None:
    async with SignalServer() as server:
        found = await check_on_signal(on_signal(tmp_path, server.url, OPENAI_API_KEY=""))
    (wrong,) = [one for findings in found.values() for one in findings if one.level is Level.WRONG]
    assert wrong.text == "OPENAI_API_KEY isn't set"
    assert wrong.advice == "set OPENAI_API_KEY, or name another model in identity.md of penny"


async def test_a_bot_of_the_table_without_its_key_is_not_sent_to_a_token_it_does_not_have(tmp_path: Path) -> None:
    async with SignalServer() as server:
        found = await check_on_signal(on_signal(tmp_path, server.url, SIGNAL_NUMBERS=f"claude:{ACCOUNT}"))
    (wrong,) = [one for findings in found.values() for one in findings if one.level is Level.WRONG]
    assert wrong.advice == "set ANTHROPIC_API_KEY, or remove claude from SIGNAL_NUMBERS"


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
    models = ModelServer()
    async with SignalServer() as server, models:
        found = await check_on_signal(on_signal(tmp_path, server.url, OPENAI_BASE_URL=models.base_url("openai")))
    assert list(found) == ["Penny", "Shared"]
    assert not [one for findings in found.values() for one in findings if one.level is Level.WRONG]
    assert not [one for one in found["Shared"] if one.subject == "personas" or "conversations start" in one.text]
    assert "1 person may write to the bots" in [one.text for one in found["Shared"]]
