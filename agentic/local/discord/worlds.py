"""A ready-made world, and the steps to build others: a guild, people, bots, channels."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from agentic.local.discord import permissions
from agentic.local.discord.world import BotApplication, Channel, Guild, Member, Role, User, World

THEIR_ROLE = "bots"


def small_world(
    bots: Mapping[str, tuple[str, str]],
    channels: Sequence[str] = ("debate",),
    people: Sequence[str] = ("you",),
    *,
    clock: Callable[[], float] = time.time,
    guild_name: str = "Roundtable",
    bots_role: str | None = THEIR_ROLE,
    ids: Mapping[str, int] = MappingProxyType({}),
) -> World:
    """A world with one guild and these text channels, people and bots.

    bots maps a key to (shown name, token). The first of people owns the guild (a person named "owner" is made when
    there are none). Every bot has the managed role that Discord gives it, and all carry bots_role, a mentionable one,
    unless that is None. `ids` are those of an earlier
    world, by its `named_ids()`.
    """
    world = World(clock, ids)
    owner, *_ = [add_person(world, name) for name in (people or ("owner",))]
    guild = add_guild(world, guild_name, owner)
    for user in world.users.values():
        guild.members[user.id] = Member(user, joined_at=clock())
    shared = add_role(world, guild, bots_role, mentionable=True) if bots_role else None
    for key, (name, token) in bots.items():
        app = add_bot(world, key, name, token)
        invite(world, guild, app, extra_roles=[shared.id] if shared else [])
    for name in channels:
        add_channel(world, guild, name)
    return world


def add_guild(world: World, name: str, owner: User) -> Guild:
    guild = Guild(world.id_for("guild", name), name, owner.id)
    guild.roles[guild.id] = Role(guild.id, "@everyone", permissions.PEOPLE)
    world.guilds[guild.id] = guild
    return guild


def add_person(world: World, name: str) -> User:
    username = name.lower().replace(" ", "_")
    user = User(world.id_for("user", username), username, global_name=name)
    world.users[user.id] = user
    return user


def add_role(world: World, guild: Guild, name: str, bits: int = 0, *, mentionable: bool = False) -> Role:
    role = Role(world.id_for("role", name), name, bits, position=len(guild.roles), mentionable=mentionable)
    guild.roles[role.id] = role
    return role


def add_bot(world: World, key: str, name: str, token: str) -> BotApplication:
    """Add an application and its bot user, not yet in a guild."""
    user = User(world.id_for("bot", key), name, bot=True)
    world.users[user.id] = user
    app = BotApplication(user.id, key, token, user)
    world.apps[key] = app
    return app


def invite(
    world: World, guild: Guild, app: BotApplication, *, bits: int = permissions.BOTS, extra_roles: Sequence[int] = ()
) -> Member:
    """Add a bot to a guild, with the managed role that Discord would create."""
    role = add_role(world, guild, app.user.username, bits)
    role.bot_id = app.user.id
    member = Member(app.user, [role.id, *extra_roles], joined_at=world.clock())
    guild.members[app.user.id] = member
    return member


def add_channel(world: World, guild: Guild, name: str, topic: str | None = None) -> Channel:
    channel = Channel(world.id_for("channel", name), guild.id, name, topic=topic, position=len(guild.channels))
    guild.channels[channel.id] = channel
    return channel
