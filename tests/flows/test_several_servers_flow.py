"""Bots in several servers: a manager's orders apply in that manager's server alone, and the owner's everywhere."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from agentic.local.discord import channels as worlds
from agentic.local.discord.dialogs import EPHEMERAL
from agentic.local.discord.world import Member
from agentic.wire import keys
from tests.support.flow import flow
from tests.support.redis_server import RedisServer, until

BOTS = ("chatgpt", "claude")
pytestmark = pytest.mark.promise(525)


def add_server(f, name, manager):
    """A server with one channel of that name, in which everybody and the bots are."""
    people = [f.world.user("Alice"), f.world.user("Bob"), f.world.users.get(manager.id, manager)]
    guild = worlds.add_guild(f.world, name, manager)
    guild.members.update({person.id: Member(person) for person in people})
    for bot in BOTS:
        worlds.invite(f.world, guild, f.world.app(bot))
    return worlds.add_channel(f.world, guild, name.lower())


@asynccontextmanager
async def three_servers(folder, redis):
    """Bob manages North, Carol manages South, and Alice owns the bots. `settings` are for the program."""
    async with flow(folder, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="1") as f:
        carol = worlds.add_person(f.world, "Carol")
        added = [add_server(f, "North", f.world.user("Bob")), add_server(f, "South", carol)]
        f.world.guild.members[carol.id] = Member(carol)
        themes = {**f.settings.channels, **{channel.id: "casual" for channel in added}}
        yield f, f.settings.with_(channel_theme_map=themes)


@asynccontextmanager
async def running(f, settings):
    async with f.running(agents=BOTS, settings=settings) as runtime:
        guilds = list(f.world.guilds)
        await f.discord.wait_for(lambda: all(f.world.app("chatgpt").commands.get(guild) for guild in guilds))
        yield runtime


async def use(f, who, channel, command, **values):
    used = await f.discord.interact(who, channel, "chatgpt", command, values)
    await f.discord.wait_for(lambda: used.answers)
    (answer,) = used.answers
    assert answer["flags"] & EPHEMERAL
    return answer["content"]


async def is_answered(f, channel, who="Bob"):
    """Whether Claude answers a mention; otherwise it shows a sign, or nothing before a later message is answered."""
    before = len(f.said(channel, "claude"))
    asked = await f.discord.say(who, channel, f"<@{f.user_id('claude')}> hello")
    messages = f.world.channel(channel).messages
    await f.discord.wait_for(lambda: messages[int(asked["id"])].reactions or len(f.said(channel, "claude")) > before)
    return len(f.said(channel, "claude")) > before


async def answered_in(f, who="Bob"):
    return [channel for channel in ("north", "south", "debate") if await is_answered(f, channel, who)]


async def test_a_manager_pauses_the_own_server_over_restarts_and_the_others_go_on(tmp_path):
    with RedisServer() as redis:
        async with three_servers(tmp_path, redis) as (f, settings):
            async with running(f, settings) as runtime:
                assert "All bots are paused in this server" in await use(f, "Bob", "north", "bots pause")
                assert await answered_in(f) == ["south", "debate"]
                assert await runtime.coordinator.start_conversation(f.channel("north")) is None
                assert (await runtime.coordinator.start_conversation(f.channel("south"))).messages > 0
                assert "weren't paused" in await use(f, "Carol", "south", "bots resume")
                assert "paused" not in await use(f, "Carol", "south", "bots status")
                assert "**All bots are paused in this server.**" in await use(f, "Bob", "north", "bots status")
            async with running(f, settings) as runtime:
                assert await runtime.coordinator.start_conversation(f.channel("north")) is None
                link = runtime.services.state.link
                await link.call(lambda redis: redis.delete(keys.SILENCE))
                while not await link.call(lambda redis: redis.hexists(keys.SILENCE, str(paused_scope(f)))):
                    await f.discord.say("Bob", "debate", "a moment passes")
                assert await answered_in(f) == ["south", "debate"]
                assert "The pause is over" in await use(f, "Bob", "north", "bots resume")
                assert await answered_in(f) == ["north", "south", "debate"]


def paused_scope(f):
    return f"g:{f.world.channel('north').guild_id}/*"


async def test_a_manager_mutes_and_ignores_in_the_own_server(tmp_path):
    with RedisServer() as redis:
        async with three_servers(tmp_path, redis) as (f, settings), running(f, settings) as runtime:
            alice = f.world.user("Alice").id
            assert "Claude is muted in this server" in await use(f, "Bob", "north", "bots mute", bot="claude")
            assert await answered_in(f) == ["south", "debate"]
            assert "Claude can speak again" in await use(f, "Bob", "north", "bots unmute", bot="claude")
            assert "in this server" in await use(f, "Bob", "north", "bots ignore", user=alice)
            await f.discord.say("Alice", "north", f"<@{f.user_id('claude')}> do you hear me?")
            assert [await is_answered(f, channel, "Alice") for channel in ("south", "debate")] == [True, True]
            assert await is_answered(f, "north")
            assert len(f.said("north", "claude")) == 1, "Alice got no answer there"
            assert f"<@{alice}>" in await use(f, "Bob", "north", "bots status")
            assert f"<@{alice}>" not in await use(f, "Carol", "south", "bots status")
            assert "weren't ignoring" in await use(f, "Carol", "south", "bots unignore", user=alice)
            await use(f, "Bob", "north", "bots unignore", user=alice)
            await until(lambda: not runtime.services.silence.active())
            assert await is_answered(f, "north", "Alice")


async def test_the_owner_acts_everywhere_and_no_manager_undoes_it(tmp_path):
    with RedisServer() as redis:
        async with three_servers(tmp_path, redis) as (f, settings), running(f, settings):
            assert "in every channel" in await use(f, "Alice", "debate", "bots pause")
            assert await answered_in(f) == []
            assert "only the owner can resume" in await use(f, "Bob", "north", "bots resume")
            assert await answered_in(f, "Carol") == [], "one sign a minute for a person"
            assert "The pause is over" in await use(f, "Alice", "debate", "bots resume")
            assert await answered_in(f) == ["north", "south", "debate"]
            await use(f, "Alice", "debate", "bots mute", bot="claude")
            assert "only the owner can unmute" in await use(f, "Bob", "north", "bots unmute", bot="claude")
            assert await answered_in(f) == []
            await use(f, "Alice", "debate", "bots unmute", bot="claude")
            assert await answered_in(f) == ["north", "south", "debate"]


@pytest.mark.promise(581)
async def test_the_owner_of_the_application_stops_bots_by_word_and_by_reaction_in_every_server(tmp_path):
    with RedisServer() as redis:
        async with three_servers(tmp_path, redis) as (f, settings), running(f, settings):
            await is_answered(f, "north", "Alice")
            await f.discord.say("Alice", "south", f"<@{f.user_id('claude')}> stop")
            await f.discord.react("Alice", "north", f.discord.messages("north")[-1], "🛑")
            for channel in ("north", "south"):
                await f.discord.wait_for(lambda here=channel: "✅" in str(f.discord.messages(here)))
            assert await answered_in(f) == ["debate"]
            await f.discord.say("Alice", "south", f"<@{f.user_id('claude')}> resume")
            await f.discord.wait_for(lambda: str(f.discord.messages("south")).count("✅") == 2)
            assert await is_answered(f, "south", "Carol")
