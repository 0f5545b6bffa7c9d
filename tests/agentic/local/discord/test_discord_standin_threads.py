"""Threads and webhooks of the stand-in, as unmodified py-cord sees them."""

from contextlib import asynccontextmanager

import discord
import pytest

from agentic.local.discord.world import MANAGE_THREADS
from tests.support.discord.discord_standin_bots import one_bot

PUBLIC = discord.ChannelType.public_thread


@asynccontextmanager
async def a_thread(**options):
    """The server, the bot, and a thread that the bot began from its own message."""
    async with one_bot(**options) as (server, bot, channel):
        await server.add_person("guest")
        start = await channel.send("the opening")
        yield server, bot, await start.create_thread(name="A room", auto_archive_duration=60)


def without_manage_threads(server, bot):
    role = server.world.guild.members[bot.user.id].roles[0]
    server.world.guild.roles[role].permissions &= ~MANAGE_THREADS


async def refused(action):
    with pytest.raises(discord.HTTPException) as raised:
        await action
    return raised.value.code


async def test_a_thread_has_the_id_of_its_message_and_only_one_begins_there():
    async with a_thread() as (server, bot, thread):
        (start,) = server.messages("debate")
        assert (thread.id, thread.auto_archive_duration) == (int(start["id"]), 60)
        message = await bot.get_channel(thread.parent_id).fetch_message(thread.id)
        assert message.flags.has_thread
        assert await refused(message.create_thread(name="again")) == 160004


async def test_a_name_or_an_archive_time_that_discord_does_not_take_is_refused():
    async with a_thread() as (_, __, thread):
        assert await refused(thread.edit(auto_archive_duration=61)) == 50035
        assert await refused(thread.parent.create_thread(name="x" * 101, type=PUBLIC)) == 50035


async def test_a_post_unarchives_a_thread_also_one_by_a_webhook():
    async with a_thread() as (server, bot, thread):
        webhook = await thread.parent.create_webhook(name="personas")
        await thread.archive()
        await thread.send("by a bot")
        await thread.archive()
        await webhook.send("by a persona", username="Ada", thread=thread)
        heard = bot.heard["raw_thread_update"]
        await server.wait_for(lambda: len(heard) == 4)
        assert [one.data["thread_metadata"]["archived"] for one in heard] == [True, False, True, False]
        assert [m["content"] for m in server.messages(thread.id)][1:] == ["by a bot", "by a persona"]


async def test_in_an_archived_thread_nothing_else_happens_until_it_is_unarchived():
    async with a_thread() as (server, _, thread):
        said = await thread.send("a point")
        await thread.archive()
        actions = (said.edit(content="another"), said.add_reaction("👍"), thread.edit(locked=True))
        assert [await refused(action) for action in actions] == [50083] * 3
        with pytest.raises(ValueError, match="Thread is archived"):
            await server.pin("claude", thread.id, said.id)
        with pytest.raises(ValueError, match="Thread is archived"):
            await server.react("you", thread.id, said.id, "👍")
        await said.delete()
        await thread.edit(archived=False, locked=True)
        assert server.world.channel(thread.id).locked


async def test_a_locked_thread_takes_posts_of_those_who_manage_threads_and_of_webhooks():
    async with a_thread() as (server, bot, thread):
        webhook = await thread.parent.create_webhook(name="personas")
        await thread.edit(locked=True)
        await server.say("you", thread.id, "by the owner of the server")
        await thread.send("by a bot that may manage threads")
        await webhook.send("by a persona", username="Ada", thread=thread)
        with pytest.raises(ValueError, match="Thread is locked"):
            await server.say("guest", thread.id, "by anybody else")
        without_manage_threads(server, bot)
        assert await refused(thread.send("by a bot that may not")) == 160005
        assert await refused(thread.edit(locked=False)) == 50013


async def test_who_may_not_manage_threads_cannot_open_one_that_was_closed():
    async with a_thread() as (server, bot, thread):
        webhook = await thread.parent.create_webhook(name="personas")
        await server.change_channel(thread.id, archived=True, locked=True)
        without_manage_threads(server, bot)
        assert await refused(thread.edit(archived=False)) == 50013
        assert await refused(webhook.send("by a persona", username="Ada", thread=thread)) == 50083


async def test_a_deleted_thread_takes_no_posts_and_bots_hear_of_it():
    async with a_thread() as (server, bot, thread):
        webhook = await thread.parent.create_webhook(name="personas")
        await server.delete_channel(thread.id)
        await server.wait_for(lambda: [gone.thread_id for gone in bot.heard["raw_thread_delete"]] == [thread.id])
        assert await refused(webhook.send("anyone?", username="Ada", thread=thread)) == 10003
