"""A small model on the owner's machine gets a short prompt; over real sockets."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from itertools import count

import pytest

from agentic.context.small_layout import OPENERS
from agentic.local.discord.world import PUBLIC_THREAD
from agentic.runtime.services import provider_model
from tests.flows.test_commands_flow import ready, told
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
        env = {
            "COMMANDS_BOT": "claude",
            "CLAUDE_MODEL": "lab/tiny",
            "GROK_MODEL": "lab/tiny",
            "CONFIG_FILES_DIR": str(config),
            **settings,
        }
        async with flow(folder / "data", **env) as f, f.running(agents=("claude", "grok"), make_model=provider_model):
            yield f, server


async def ask(f, text="Is tea soup?", bot="claude"):
    before = len(f.said("debate", bot))
    await f.discord.say("Alice", "debate", f"<@{f.user_id(bot)}> {text}")
    await f.discord.wait_for(lambda: len(f.said("debate", bot)) > before)
    return f.said("debate", bot)[-1]


def says(text):
    return lambda request: ChatAnswer(text=f" {text}")


def parts_of(request):
    return {message["role"]: message["content"] for message in request.messages}


async def test_a_small_model_continues_a_short_discussion_as_plain_text(tmp_path):
    async with on_server(tmp_path, says("Tea has no salt.")) as (f, server):
        assert await ask(f) == "Tea has no salt."
        await ask(f, "Sure?", bot="grok")
    claude, grok = map(parts_of, server.requests)
    common, persona = claude["system"].rsplit("\n\n", 1)
    assert grok["system"].startswith(f"{common}\n\n"), "the same beginning for all bots"
    assert persona.startswith("You are Claude")
    assert claude["user"].endswith("Alice: @Claude Is tea soup?")
    assert claude["assistant"] == "Claude:"
    assert "[msg:" not in claude["system"] + claude["user"]
    assert grok["user"].endswith("\n\nClaude: Tea has no salt.\n\nAlice: @Grok Sure?")
    body = server.requests[0].body
    assert (body["max_tokens"], "tools" in body, "response_format" in body) == (160, False, False)
    assert "\nAlice:" in body["stop"]


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
    answer = says("Tea has no salt.") if is_small else in_form("Tea has no salt.")
    async with on_server(tmp_path, answer, parameters=parameters, **given) as (f, server):
        await ask(f)
    request = server.requests[0]
    assert ("[msg:" not in request.messages[1]["content"]) == is_small
    assert request.body["max_tokens"] == (160 if is_small else 500)


def in_form(text):
    return lambda request: ChatAnswer(text=json.dumps({"text": text}))


async def test_a_limit_and_tools_that_the_owner_has_set_stay(tmp_path):
    options = "max_output_tokens: 900\ntools: [calculator]\n"
    async with on_server(tmp_path, in_form("Yes."), options=options) as (f, server):
        await ask(f)
    (request,) = server.requests
    assert request.body["max_tokens"] == 900
    assert request.messages[-1]["content"].endswith("Alice said: “Is tea soup?” Claude answers that now.")


async def test_an_answer_without_end_is_posted_up_to_a_sentence(tmp_path):
    said = "Nobody eats what a cup holds with any spoon. A bowl has room for bread, and for the salt that soup needs."
    async with on_server(tmp_path, lambda request: ChatAnswer(text=f" {said} And then it", finish="length")) as (f, _):
        assert await ask(f) == said


async def test_a_copy_of_the_question_is_asked_again_and_others_lines_are_cut(tmp_path):
    answers = [" is tea a kind of soup?", " Tea has no salt.\nGrok: It does."]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, server):
        assert await ask(f, "Is tea a kind of soup?") == "Tea has no salt."
    assert len(server.requests) == 2


@pytest.mark.promise(607)
async def test_a_turn_about_something_else_is_asked_again_once(tmp_path):
    answers = [" Tea has no salt.", " you had to go home?", " nobody would come along?"]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, server):
        await ask(f, "Is tea a kind of soup?")
        await f.discord.say("Bob", "debate", f"<@{f.user_id('grok')}> m continue")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))
    assert len(server.requests) == 3
    assert f.said("debate", "grok")[0].endswith("nobody would come along?")


@pytest.mark.parametrize(
    "further",
    [" Grok: Pepper, too.", "\nTopic: Is coffee soup?", "\nThe spoon is next."],
    ids=["speaker", "topic", "line"],
)
async def test_a_turn_of_a_conversation_ends_where_the_model_goes_on_with_something_else(tmp_path, further):
    answers = [" Tea has no salt.", f" a soup needs pepper.{further}"]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, _):
        await ask(f, "Is tea a kind of soup?")
        await f.discord.say("Bob", "debate", f"<@{f.user_id('claude')}> m continue")
        await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
    assert f.said("debate", "claude")[-1].endswith("a soup needs pepper.")


async def test_a_small_model_is_asked_again_with_other_first_words_if_its_turn_repeats_a_message(tmp_path):
    first = "Tea has no salt, and soup without salt is only hot water."
    answers = [f" {first}", f" {first} {first}", " a spoon decides: nobody eats tea with a spoon."]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, server):
        await ask(f, "Is tea a kind of soup, and what is it that you eat with a spoon?")
        await f.discord.say("Bob", "debate", f"<@{f.user_id('grok')}> m continue")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))
    before, after = (parts_of(request)["assistant"] for request in server.requests[1:])
    assert before != after
    opener = after.removeprefix("Grok: ")
    assert opener in OPENERS
    assert f.said("debate", "grok") == [f"{opener} a spoon decides: nobody eats tea with a spoon."]


async def test_sentences_that_were_said_before_are_left_out(tmp_path):
    salt, spoon = (
        "Tea has no salt, and soup without salt is only hot water.",
        "A spoon is what nobody brings to breakfast.",
    )
    answers = [
        f" {salt}",
        f" A bowl decides. {salt} {spoon} {spoon}",
        " The lighthouse has a kitchen.",
        " A kettle does.",
    ]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, _):
        assert await ask(f, "Tea?") == salt
        assert await ask(f, "Why?", bot="grok") == f"A bowl decides. {spoon}"
        assert await ask(f, "Who cooks?") == "A kettle does.", "the example's subject is asked again"


async def test_a_message_that_does_not_continue_the_first_words_stands_alone(tmp_path):
    answers = [" No salt, and no spoon in it.", "A spoon decides: nobody eats tea with a spoon."]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, _):
        await ask(f, "Is tea a kind of soup, and what is it that you eat with a spoon?")
        await f.discord.say("Bob", "debate", f"<@{f.user_id('grok')}> m continue")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))
    assert f.said("debate", "grok") == ["A spoon decides: nobody eats tea with a spoon."]


async def test_first_words_are_not_in_another_language_than_the_conversation(tmp_path):
    answers = [
        " Ein Tee ist keine Suppe, weil er nicht gekocht und ohne Salz ist.",
        " Das ist mit dem Salz nicht so klar.",
    ]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, server):
        await ask(f, "Ist der Tee eine Suppe, und was ist dann mit dem Kaffee?")
        await f.discord.say("Bob", "debate", f"<@{f.user_id('grok')}> m continue")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))
    assert parts_of(server.requests[1])["assistant"] == "Grok:"


async def debate(f, turns=4, kind="debate", members="Claude, Grok"):
    """Let Claude, who is for it or the guest, and Grok debate, and return their posts."""
    await ready(f, "claude")
    values = {"topic": "Should tea be sold as a soup?", "personas": members, "turns": turns, "format": kind}
    assert "The room is open" in await told(
        f, await f.discord.interact("Alice", "debate", "claude", "room create", values)
    )
    thread = next(place for place in f.world.guild.channels.values() if place.type == PUBLIC_THREAD)
    await f.discord.wait_for(lambda: thread.archived)
    bots = {f.user_id(name) for name in ("claude", "grok")}
    said = [message for message in f.discord.messages(thread.id) if int(message["author"]["id"]) in bots]
    return [message["content"] for message in said if message["content"] and not message["content"].startswith("🫥")]


POINTS = (
    "a soup of it is sold in Kyoto with rice inside.",
    "a soup has a spoon, and nobody chews what a cup holds.",
    "the oldest soup was medicine before anybody salted it.",
    "my aunt would send such a soup back to the kitchen.",
)


@pytest.mark.promise(630)
async def test_a_debate_of_small_models_has_first_words_by_side_and_nothing_twice(tmp_path):
    left = [f" {point}" for point in POINTS]
    answers = [
        f"{left[0]} Claude's argument is strong. It warms the hands. It keeps for days.",
        f"{left[1]} Who would salt it? The cook would.",
        *(f"{left[0]}" for _ in range(2)),  # Claude says it again twice
        *left[2:],
    ]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, server):
        posts = await debate(f)
    assert len(posts) == 4
    assert posts[0].endswith(f"{POINTS[0]} It warms the hands.")
    assert posts[1].endswith(f"{POINTS[1]} Who would salt it?")
    assert [post.endswith(point) for post, point in zip(posts[2:], POINTS[2:], strict=True)] == [True, True]
    assert len(server.requests) == 6
    begun = [parts_of(request)["assistant"].partition(": ")[2] for request in server.requests]
    assert "I'm for it" in begun[0] or "I say yes" in begun[0]
    assert "I'm against it" in begun[1] or "I say no" in begun[1]
    assert len(set(begun[2:5])) == 3, "each attempt begins otherwise"
    assert {request.body["max_tokens"] for request in server.requests} == {100}
    assert [request.body.get("temperature") for request in server.requests] == [None, None, None, 1.2, 1.2, None]


@pytest.mark.parametrize(
    "bad",
    ["of the soup you're right about, which is sold in Kyoto.", f"{POINTS[0]} It's a soup for everybody, in short."],
    ids=["agrees", "repeats"],
)
async def test_a_debater_that_agrees_or_begins_with_a_repetition_is_asked_again_once(tmp_path, bad):
    answers = [f" {POINTS[0]}", f" {bad}", f" {POINTS[1]}", f" {POINTS[2]}", f" {POINTS[3]}"]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, server):
        posts = await debate(f)
    assert [post.endswith(point) for post, point in zip(posts, POINTS, strict=True)] == [True] * 4
    assert len(server.requests) == 5


@pytest.mark.promise(630)
async def test_a_member_whose_three_answers_repeat_a_post_fails_and_has_its_turn_again(tmp_path):
    asked = count()
    first = "a soup of it is sold in Kyoto with rice inside."

    def answer(request):
        return ChatAnswer(text=f" {first}" if next(asked) < 4 else " nobody calls a tea bag a cube of soup.")

    async with on_server(tmp_path, answer) as (f, server):
        posts = await debate(f, turns=2)
    assert [post.endswith(end) for post, end in zip(posts, (first, "cube of soup."), strict=True)] == [True, True]
    assert len(server.requests) == 5


async def test_a_question_may_end_with_one_word_and_is_not_answered_by_its_author(tmp_path):
    answers = [" soup?", f" {POINTS[0]}", " tea? I do.", f" {POINTS[1]}"]
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, server):
        posts = await debate(f, kind="interview", members="Claude: guest, Grok")
    ends = (" soup?", POINTS[0], " tea?", POINTS[1])
    assert [post.endswith(end) for post, end in zip(posts, ends, strict=True)] == [True] * 4
    assert [post.startswith("Claude, ") for post in posts] == [True, False, True, False]
    assert len(server.requests) == 4


async def test_closing_words_may_repeat_the_member_s_own_case_and_nobody_else_s(tmp_path):
    answers = [f" {POINTS[at]}" for at in (0, 1, 0, 0, 0, 0, 0, 0, 2)]  # Grok says three times what Claude said
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0))) as (f, _):
        posts = await debate(f)
    ends = [POINTS[at] for at in (0, 1, 0, 2)]
    assert [post.endswith(end) for post, end in zip(posts, ends, strict=True)] == [True] * 4


async def test_a_post_from_before_the_window_is_not_repeated_either(tmp_path):
    later = ("a soup may be cold, and so may this.", "no soup is served with a biscuit.")
    answers = [f" {point}" for point in (*POINTS, POINTS[0], *later)]
    options = "max_messages: 1\n"
    async with on_server(tmp_path, lambda request: ChatAnswer(text=answers.pop(0)), options=options) as (f, server):
        posts = await debate(f, turns=6)
    assert POINTS[0] not in "".join(parts_of(server.requests[4]).values())
    assert [post.endswith(end) for post, end in zip(posts, (*POINTS, *later), strict=True)] == [True] * 6
