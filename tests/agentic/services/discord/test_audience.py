"""What was learned in one channel is told in another only where everybody there may read the first; by unpatched
py-cord on the stand-in."""

from types import SimpleNamespace

import discord
import pytest

from agentic.local.discord import world as permissions
from agentic.local.discord.world import Overwrite
from agentic.services.discord.channels import Audience
from tests.support.discord.discord_standin_bots import a_world, logged_in
from tests.support.discord.stand_in import DiscordStandIn

VIEW, HISTORY = permissions.VIEW_CHANNEL, permissions.READ_MESSAGE_HISTORY
STAFF, GUESTS = 5551, 5552
NAMES = ("lobby", "den", "staff", "office", "vault", "muted")


def closed_to_all_but(world, channel, *roles, bits=VIEW):
    everyone = world.guild.id
    overwrites = {everyone: Overwrite(everyone, 0, deny=bits)}
    overwrites |= {role: Overwrite(role, 0, allow=bits) for role in roles}
    world.channel(channel).overwrites.update(overwrites)


@pytest.fixture
async def seen():
    """`seen(source, here)`, by the names of the channels."""
    world = a_world("claude", channels=NAMES)
    bot = world.app("claude").user.id
    for channel in ("staff", "office"):
        closed_to_all_but(world, channel, STAFF)
    closed_to_all_but(world, "vault", GUESTS)
    world.channel("muted").overwrites[GUESTS] = Overwrite(GUESTS, 0, deny=HISTORY)
    for name in NAMES:  # the bot reads them all, by overwrites of its own
        if name in ("staff", "office", "vault"):
            world.channel(name).overwrites[bot] = Overwrite(bot, 1, allow=VIEW)
    ids = {name: world.channel(name).id for name in NAMES}
    async with DiscordStandIn(world) as server, logged_in(server, "claude") as bot_client:
        audience = Audience(bot_client.get_channel)
        yield lambda source, here: audience.may_see(ids.get(here, here))(ids.get(source, source))


async def test_an_open_channels_entries_are_shown_anywhere(seen):
    assert all(seen("lobby", here) for here in NAMES)
    assert seen("den", "lobby")


async def test_a_closed_channels_matters_stay_in_it(seen):
    assert seen("staff", "staff")
    assert not any(seen("staff", here) for here in ("lobby", "den", "vault", "muted"))


async def test_two_channels_that_keep_out_the_same_people_share_what_they_know(seen):
    assert seen("staff", "office")
    assert seen("office", "staff")


async def test_a_channel_that_keeps_out_anybody_is_not_open(seen):
    assert not seen("muted", "lobby")
    assert seen("lobby", "muted")


@pytest.mark.promise(40)
async def test_open_is_what_everybody_of_the_server_reads():
    world = a_world("claude", channels=("lobby", "staff"))
    closed_to_all_but(world, "staff", STAFF, world.app("claude").user.id)
    bot_id = world.app("claude").user.id
    world.channel("staff").overwrites[bot_id] = Overwrite(bot_id, 1, allow=VIEW)
    async with DiscordStandIn(world) as server, logged_in(server, "claude") as bot:
        lobby, staff = (bot.get_channel(world.channel(name).id) for name in ("lobby", "staff"))
        channels = {one.id: one for one in (lobby, staff, thread_of(lobby, 71), thread_of(lobby, 72, private=True))}
        audience = Audience(channels.get)
        assert [audience.is_open(one) for one in (lobby.id, 71, staff.id, 72, 424242)] == [
            True,
            True,
            False,
            False,
            False,
        ]
        assert [audience.guild_of(one) for one in (lobby.id, 71, 424242)] == [world.guild.id, world.guild.id, None]


async def test_an_unknown_channels_entries_are_shown_nowhere_else(seen):
    assert not seen(424242, "lobby")
    assert not seen("lobby", 424242)
    assert seen(424242, 424242), "a direct message's matters stay in it"
    assert not seen("lobby", 0)
    assert not seen(0, 0)


async def test_threads_are_their_channels_readers_and_private_ones_are_their_own():
    world = a_world("claude", channels=("lobby",))
    async with DiscordStandIn(world) as server, logged_in(server, "claude") as bot:
        lobby = bot.get_channel(world.channel("lobby").id)
        public, private = thread_of(lobby, 71), thread_of(lobby, 72, private=True)
        audience = Audience({lobby.id: lobby, 71: public, 72: private}.get)
        assert audience.may_see(lobby.id)(71)
        assert audience.may_see(71)(lobby.id)
        assert audience.may_see(72)(71)
        assert not audience.may_see(lobby.id)(72)
        assert audience.may_see(72)(72)
        assert [audience.origin(here) for here in (lobby.id, 71, 72, 99, 0)] == [lobby.id, lobby.id, 72, 99, 0]


def thread_of(channel, thread_id, *, private=False):
    kind = 12 if private else 11
    data = {
        "id": str(thread_id), "parent_id": str(channel.id), "owner_id": "1", "name": "t", "type": kind,
        "last_message_id": None, "message_count": 0, "member_count": 1, "guild_id": str(channel.guild.id),
        "thread_metadata": {
            "archived": False, "auto_archive_duration": 60, "archive_timestamp": "2026-11-20T00:00:00+00:00",
            "locked": False, "invitable": True, "create_timestamp": None,
        },
    }  # fmt: skip
    return discord.Thread(guild=channel.guild, state=channel._state, data=data)


def test_a_channel_that_is_no_channel_of_a_server_is_not_known():
    audience = Audience(lambda _: SimpleNamespace(id=5))
    assert not audience.may_see(5)(6)
    assert audience.origin(5) == 5
