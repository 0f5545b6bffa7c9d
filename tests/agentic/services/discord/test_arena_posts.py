"""The messages and votes of an arena: unpatched py-cord on the stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentic.chat.directory import Directory
from agentic.chat.outlet import CannotPost
from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.process.redaction import Redactor
from agentic.services.discord.gate import Gate, OutboundShared
from agentic.services.discord.room_threads import DiscordRoomBot
from agentic.state.leases import ALWAYS_HELD
from tests.support.discord.discord_standin_bots import one_bot
from tests.support.doubles import MemoryPosts

SECRET = "sesame-open-1234"
BOXES = ("🅰️", "🅱️")


@asynccontextmanager
async def scene() -> AsyncIterator[tuple[Any, Any, DiscordRoomBot]]:
    async with one_bot() as (server, bot, channel):
        directory = Directory()
        directory.learn("claude", bot.user.id)
        gate = Gate(shared=OutboundShared(Redactor([SECRET])))
        yield server, channel, DiscordRoomBot("claude", bot, gate, directory, MemoryPosts(), ALWAYS_HELD)


async def test_a_message_is_posted_once_pings_nobody_and_has_no_secret():
    async with scene() as (server, channel, posts):
        first = await posts.post(channel.id, f"🫥 @everyone {SECRET}", "k", since=0.0)
        assert await posts.post(channel.id, f"🫥 @everyone {SECRET}", "another process", since=0.0) == first
        (message,) = server.messages(channel.id)
        assert (message["mention_everyone"], SECRET in message["content"]) == (False, False)


async def test_an_answer_that_is_too_long_is_one_message():
    async with scene() as (server, channel, posts):
        await posts.post(channel.id, "🫥 🅰️\n" + "🫠 " * 1500, "k", since=0.0)
        (message,) = server.messages(channel.id)
        assert length(message["content"]) <= MAX_MESSAGE


async def test_people_vote_by_the_reactions_that_the_bot_put_there():
    async with scene() as (server, channel, posts):
        message_id = await posts.post(channel.id, "🫥 Which?", "vote", since=0.0)
        await posts.offer(channel.id, message_id, BOXES)
        await server.react("you", channel.id, message_id, BOXES[1])
        voters = await posts.voters(channel.id, message_id, BOXES)
        assert voters == [frozenset(), frozenset({server.world.user("you").id})]


async def test_a_vote_whose_message_was_deleted_has_nobody():
    async with scene() as (server, channel, posts):
        message_id = await posts.post(channel.id, "🫥 Which?", "vote", since=0.0)
        assert await posts.has_message(channel.id, message_id)
        await server.delete(channel.id, message_id)
        assert not await posts.has_message(channel.id, message_id)
        assert await posts.voters(channel.id, message_id, BOXES) == [frozenset(), frozenset()]


async def test_a_channel_that_the_bot_does_not_see_may_still_come():
    async with scene() as (_, channel, posts):
        assert posts.may_write(channel.id)
        assert not posts.may_write(1)
        with pytest.raises(CannotPost, match="unknown_channel"):
            await posts.post(1, "🫥 Which?", "vote", since=0.0)
