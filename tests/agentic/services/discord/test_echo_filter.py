"""What our agents post comes back to each bot; who need not hear it makes nothing of it."""

from dataclasses import replace

import pytest

from agentic.chat.directory import Directory
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Addressees, Entry, Speaker
from agentic.services.discord.gateway import skip_echoes
from tests.agentic.services.discord.test_unreadable_events import said
from tests.support.discord.gateway_scene import scene

GROK = Speaker(77, "Grok", "agent", "grok")


def known(transcripts, data, **different):
    entry = Entry(int(data["id"]), GROK, data["content"], 1.0)
    transcripts.of(int(data["channel_id"])).add(replace(entry, **different))


async def heard_of(different, **odd):
    """What the bot hears of a message that the transcript has; Discord's channel knows of it either way."""
    async with scene() as s:
        transcripts = Transcripts(Directory())
        skip_echoes(s.bot, transcripts)
        data = said(s.server, **odd)
        me = s.bot.user.id
        if different is not None:
            known(transcripts, data, **(different(me) if callable(different) else different))
        s.bot._connection.parsers["MESSAGE_CREATE"](data)
        await s.hears("something later")
        assert s.channel.last_message_id >= int(data["id"])
        return [message.content for message in s.heard if message.content != "something later"]


async def test_an_agents_post_that_is_known_already_is_not_parsed_once_more():
    assert await heard_of({}) == []


@pytest.mark.parametrize(
    "different",
    [
        None,
        lambda me: {"addressees": Addressees(replied_to=me)},
        {"text": "and so I think ▌"},
        {"text": ""},
        {"speaker": Speaker(5, "Alice", "person")},
        {"speaker": Speaker(6, "Some bot", "stranger")},
    ],
    ids=["unknown", "answers this bot", "grows", "without its words", "a person's", "a stranger's"],
)
async def test_all_else_is_heard(different):
    assert await heard_of(different) == ["hello"]


async def test_a_post_that_mentions_the_bot_is_heard():
    async with scene() as s:
        transcripts = Transcripts(Directory())
        skip_echoes(s.bot, transcripts)
        data = said(s.server, "what do you say?")
        known(transcripts, data, addressees=Addressees(frozenset((s.bot.user.id,))))
        s.bot._connection.parsers["MESSAGE_CREATE"](data)
        await s.hears("something later")
        assert s.heard[0].content == "what do you say?"
