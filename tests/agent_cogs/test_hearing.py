"""All bots of a process hear the same message: the first one parses it, and only those that it concerns handle it."""

import asyncio

import discord
import pytest

from agent_cogs import base
from agentic.context.entries import Addressees, Entry, Speaker
from tests.support.agent_scene import LOUNGE, Scene
from tests.support.doubles import ALICE, message, settle
from tests.support.flow import flow

GROK = Speaker(77, "Grok", "agent", "grok")


def parsed(s: Scene) -> dict[str, int]:
    return {name: len(gateway.parsed) for name, gateway in s.gateways.items()}


def deliver(s: Scene, text: str, *, to=None, mentions=(), **more) -> int:
    """Every bot gets the message in the same step of the loop, before any of them handles it."""
    message_id = s.ids()
    for name in to or s.cogs:
        s.deliver(name, message(s.clients[name].channels[LOUNGE], message_id, text, mentions=mentions, **more))
    return message_id


def handling(s: Scene) -> dict[str, int]:
    return {name: len(cog._hearing) for name, cog in s.cogs.items()}


@pytest.fixture
async def s():
    scene = await Scene("claude", "gemini", "grok").start()
    yield scene
    await scene.aclose()


@pytest.mark.promise(580)
async def test_a_message_is_parsed_once_and_handled_by_the_bot_that_it_calls(s):
    gemini = s.clients["gemini"].user
    message_id = deliver(s, f"<@{gemini.id}> hello", mentions=[gemini])
    assert parsed(s) == {"claude": 1, "gemini": 0, "grok": 0}
    assert handling(s) == {"claude": 1, "gemini": 1, "grok": 0}
    assert {client.channels[LOUNGE].last_message_id for client in s.clients.values()} >= {message_id}
    await settle()
    assert [len(s.cogs[name].asked) for name in s.cogs] == [0, 1, 0]
    assert [notice.called for notice in s.bus.noticed] == [("gemini",)]


async def test_what_follows_a_question_that_is_still_being_handled_may_belong_to_it(s):
    gemini = s.clients["gemini"].user
    deliver(s, f"<@{gemini.id}> hello", mentions=[gemini])
    deliver(s, "and what about tea?")
    assert handling(s) == {"claude": 2, "gemini": 2, "grok": 0}
    await settle()


async def test_what_is_said_while_a_question_waits_is_handled_by_the_bot_that_will_answer(s):
    gemini = s.clients["gemini"].user
    waits = asyncio.Event()
    s.cogs["gemini"].answers = [waits.wait]
    for text in ("hello", "are you there?"):  # the first one is answered, so the second one waits
        deliver(s, f"<@{gemini.id}> {text}", mentions=[gemini])
        await settle()
    deliver(s, "and what about tea?")
    assert handling(s)["gemini"] == 1
    await settle()
    [waiting] = s.cogs["gemini"].host.queue.inbox.waiting(LOUNGE)
    assert [piece.text for piece in waiting.pieces] == ["and what about tea?"]
    waits.set()
    await settle()


async def test_every_bot_obeys_an_order_and_knows_the_rights_of_its_author(s, monkeypatch):
    seen = []
    for cog in s.cogs.values():

        async def on_order(heard, who, host=cog.host):
            seen.append((host.name, heard.entry.order.word, who))
            return True

        monkeypatch.setattr(cog.host, "on_order", on_order)
    claude = s.clients["claude"].user
    deliver(s, f"<@{claude.id}> stop", mentions=[claude])
    await settle()
    assert [(name, word) for name, word, _ in seen] == [("claude", "stop"), ("gemini", "stop"), ("grok", "stop")]
    assert {who.user_id for _, _, who in seen} == {ALICE}
    assert parsed(s) == {"claude": 1, "gemini": 0, "grok": 0}


async def test_a_command_reaches_every_bot(s):
    deliver(s, "m continue")
    assert handling(s) == {"claude": 1, "gemini": 1, "grok": 1}
    await settle()


async def test_a_bot_hears_only_what_its_own_connection_brings(s):
    gemini = s.clients["gemini"].user
    deliver(s, f"<@{gemini.id}> hello", to=("claude", "grok"), mentions=[gemini])
    await settle()
    assert not s.cogs["gemini"].asked


async def test_a_message_that_comes_again_after_a_reconnect_is_answered_once(s):
    claude, made = s.clients["claude"], s.ids()
    for _ in range(2):
        s.deliver(
            "claude", message(claude.channels[LOUNGE], made, f"<@{claude.user.id}> hello", mentions=[claude.user])
        )
        await settle()
    assert len(s.cogs["claude"].asked) == 1
    assert parsed(s)["claude"] == 1


async def test_what_is_left_to_another_process_is_read_and_noted_by_every_bot(s, monkeypatch):
    s.acts = False
    missed = []
    for name, cog in s.cogs.items():
        monkeypatch.setattr(cog.host.catch_up, "missed_message", lambda name=name: missed.append(name))
    deliver(s, "hello all")
    await settle()
    assert parsed(s) == {"claude": 1, "gemini": 1, "grok": 1}
    assert missed == ["claude", "gemini", "grok"]


async def test_a_message_without_its_words_is_parsed_by_the_next_bot_too(s):
    made = s.ids()
    for name, text in (("claude", ""), ("gemini", "hello"), ("grok", "hello")):
        s.deliver(name, message(s.clients[name].channels[LOUNGE], made, text))
    assert parsed(s) == {"claude": 1, "gemini": 1, "grok": 0}
    assert s.transcripts.of(LOUNGE).get(made).text == "hello"
    await settle()


async def test_a_bot_that_does_not_know_the_channel_yet_parses_the_message_itself(s):
    channel = s.clients["gemini"].channels.pop(LOUNGE)
    made = s.ids()
    s.deliver("claude", message(s.clients["claude"].channels[LOUNGE], made, "hello"))
    s.deliver("gemini", message(channel, made, "hello"))
    assert parsed(s) == {"claude": 1, "gemini": 1, "grok": 0}
    await settle()


async def test_only_the_newest_messages_are_remembered(s, monkeypatch):
    monkeypatch.setattr(base, "MAX_HEARD", 2)
    for _ in range(4):
        deliver(s, "hello")
    assert len(s.discord.heard) == 2
    await settle()


# -- what our agents post ---------------------------------------------------------------------------------------------


def echo(s: Scene, **different) -> bool:
    """Whether a post that the transcript has is parsed once more."""
    made, channel = s.ids(), s.clients["claude"].channels[LOUNGE]
    if different is not None:
        fields = {"speaker": GROK, "text": "hello", **different}
        s.transcripts.of(LOUNGE).add(Entry(id=made, created_at=1.0, **fields))
    s.deliver("claude", message(channel, made, "hello", author=77, name="Grok", bot=True))
    return any(each.id == made for each in s.gateways["claude"].parsed)


async def test_an_agents_post_that_is_known_already_is_not_parsed_once_more(s):
    assert not echo(s)


@pytest.mark.parametrize(
    "different",
    [
        {"addressees": Addressees(replied_to=21)},
        {"addressees": Addressees(frozenset((21,)))},
        {"text": "and so I think ▌"},
        {"text": ""},
        {"speaker": Speaker(5, "Alice", "person")},
        {"speaker": Speaker(6, "Some bot", "stranger")},
    ],
    ids=["answers this bot", "mentions this bot", "grows", "without its words", "a person's", "a stranger's"],
)
async def test_all_other_posts_are_heard(s, different):
    assert echo(s, **different)
    await settle()


# -- over py-cord's own connections -----------------------------------------------------------------------------------


async def test_four_connections_make_one_message_of_each(tmp_path, monkeypatch):
    made = []

    class Message(discord.Message):
        def __init__(self, **fields):
            made.append(fields["data"]["content"])
            super().__init__(**fields)

    monkeypatch.setattr("discord.state.Message", Message)
    async with flow(tmp_path) as f, f.running():
        await f.discord.say("Alice", "casual", "good morning")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('grok')}> and you?")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))
        assert sorted(made) == [f"<@{f.user_id('grok')}> and you?", "good morning"]
