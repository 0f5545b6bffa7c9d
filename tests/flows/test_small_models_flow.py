"""A small model on the owner's machine gets a short prompt; over real sockets."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from agentic.runtime.services import provider_model
from tests.support.flow import flow
from tests.support.models.chat_api import ChatAnswer, ChatServer

SMALL, LARGE = 1_500_000_000, 20_000_000_000


@asynccontextmanager
async def on_server(folder, answer, *, parameters=SMALL, options="", **settings):
    """Claude and Grok on a server whose model has so many parameters."""
    config = folder / "config"
    config.mkdir()
    async with ChatServer(answer, models=("tiny",), parameters=parameters) as server:
        (config / "endpoints.yaml").write_text(f"endpoints: {{lab: {{base_url: '{server.base_url}'}}}}\n")
        (config / "shared.yaml").write_text(options)
        env = {"CLAUDE_MODEL": "lab/tiny", "GROK_MODEL": "lab/tiny", "CONFIG_FILES_DIR": str(config), **settings}
        async with flow(folder / "data", **env) as f, f.running(agents=("claude", "grok"), make_model=provider_model):
            yield f, server


async def ask(f, text="Is tea soup?", bot="claude"):
    before = len(f.said("debate", bot))
    await f.discord.say("Alice", "debate", f"<@{f.user_id(bot)}> {text}")
    await f.discord.wait_for(lambda: len(f.said("debate", bot)) > before)
    return f.said("debate", bot)[-1]


def says(text):
    return lambda request: ChatAnswer(text=json.dumps({"text": text}))


async def test_a_small_model_gets_plain_lines_and_one_task_and_writes_only_a_text(tmp_path):
    async with on_server(tmp_path, says("Tea has no salt.")) as (f, server):
        assert await ask(f) == "Tea has no salt."
        await ask(f, "Sure?", bot="grok")
    claude, grok = server.requests
    system, *rest = (message["content"] for message in claude.messages)
    said = "\n\n".join(rest)
    assert said.startswith("Alice: @Claude Is tea soup?")
    assert "Alice said: “Is tea soup?” Claude answers that now." in said.splitlines()[-1]
    assert "[msg:" not in said
    common, persona = system.split("\n\n")
    assert grok.messages[0]["content"].startswith(f"{common}\n\n"), "the same beginning for all bots"
    assert persona.startswith("You are Claude")
    assert "\nClaude: Tea has no salt.\n" in grok.messages[1]["content"]
    assert (claude.body["max_tokens"], "tools" in claude.body) == (160, False)
    schema = claude.body["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == ["text"]
    assert schema["properties"]["text"]["maxLength"] == 400


@pytest.mark.parametrize(
    ("parameters", "given", "is_small"),
    [
        (LARGE, {}, False),
        (None, {}, False),
        (SMALL, {"PROMPT_PROFILE": "full"}, False),
        (LARGE, {"PROMPT_PROFILE": "small"}, True),
        (LARGE, {"options": "prompt_profile: small\n"}, True),
    ],
)
async def test_the_owner_decides_and_otherwise_the_size(tmp_path, parameters, given, is_small):
    answer = says("Tea has no salt.")
    async with on_server(tmp_path, answer, parameters=parameters, **given) as (f, server):
        await ask(f)
    request = server.requests[0]
    assert ("[msg:" not in request.messages[1]["content"]) == is_small
    assert request.body["max_tokens"] == (160 if is_small else 500)


async def test_a_limit_that_the_owner_has_set_stays(tmp_path):
    options = "max_output_tokens: 900\ntools: [calculator]\n"
    async with on_server(tmp_path, says("Yes."), options=options) as (f, server):
        await ask(f)
    assert server.requests[0].body["max_tokens"] == 900


async def test_an_answer_without_end_is_posted_up_to_a_sentence(tmp_path):
    salt, spoon = "Tea has no salt, and soup without salt is water. ", "Nobody eats what a cup holds with any spoon. "
    endless = [
        ChatAnswer(text=json.dumps({"text": (salt * 20)[:400]})),  # the schema ended it
        ChatAnswer(text='{"text": "' + spoon * 4 + "And then it", finish="length"),  # the limit did
    ]
    async with on_server(tmp_path, lambda request: endless.pop(0)) as (f, _):
        assert await ask(f) == (salt * 8).strip()
        assert await ask(f, "Go on?") == (spoon * 4).strip()


async def test_a_copy_of_the_question_is_asked_again_and_others_lines_are_cut(tmp_path):
    answers = ["is tea a kind of soup?", "ChatGPT: Tea has no salt.\nGrok: It does."]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=json.dumps({"text": answers.pop(0)}))) as (
        f,
        server,
    ):
        assert await ask(f, "Is tea a kind of soup?") == "Tea has no salt."
    assert len(server.requests) == 2


async def test_a_small_model_is_asked_again_if_its_turn_repeats_a_message(tmp_path):
    first = "Tea has no salt, and soup without salt is only hot water."
    answers = [first, f"I agree. {first}", "A spoon decides: nobody eats tea with a spoon."]
    async with on_server(tmp_path, lambda request: says(answers.pop(0))(request)) as (f, server):
        await ask(f)
        await f.discord.say("Bob", "debate", f"<@{f.user_id('grok')}> m continue")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))
        assert f.said("debate", "grok") == ["A spoon decides: nobody eats tea with a spoon."]
    assert len(server.requests) == 3
