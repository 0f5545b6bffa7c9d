"""Creating and changing channels and threads, and the steps to build a world: a guild, people, bots.

A thread that starts from a message has that message's id.

https://discord.com/developers/docs/topics/threads
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agentic.local.discord import payloads
from agentic.local.discord.messages import Draft, place, post, publish_update, reference
from agentic.local.discord.world import (
    BOTS,
    PEOPLE,
    PUBLIC_THREAD,
    THREAD_CREATED,
    THREAD_STARTER,
    BotApplication,
    Channel,
    Guild,
    Member,
    Message,
    Role,
    User,
    World,
)


def small_world(
    bots: Mapping[str, tuple[str, str]],
    channels: Sequence[str] = ("debate",),
    people: Sequence[str] = ("you",),
    *,
    clock: Callable[[], float] = time.time,
    guild_name: str = "Roundtable",
    ids: Mapping[str, int] = MappingProxyType({}),
) -> World:
    """A world with one guild and these text channels, people and bots.

    `bots` maps a key to (display name, token). The first person owns the guild; without people, it's a new person named
    "owner". Every bot has the managed role that Discord gives it and the mentionable role "bots". `ids` are by kind and
    name, as in World.
    """
    world = World(clock, ids)
    owner, *_ = [add_person(world, name) for name in (people or ("owner",))]
    guild = add_guild(world, guild_name, owner)
    for user in world.users.values():
        guild.members[user.id] = Member(user, joined_at=clock())
    shared = add_role(world, guild, "bots", mentionable=True)
    for key, (name, token) in bots.items():
        user = User(world.id_for("bot", key), name, bot=True)
        world.users[user.id] = user
        app = world.apps[key] = BotApplication(user.id, key, token, user)
        invite(world, guild, app, extra_roles=[shared.id])
    for name in channels:
        add_channel(world, guild, name)
    return world


def add_guild(world: World, name: str, owner: User) -> Guild:
    guild = Guild(world.id_for("guild", name), name, owner.id)
    guild.roles[guild.id] = Role(guild.id, "@everyone", PEOPLE)
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


def invite(
    world: World, guild: Guild, app: BotApplication, *, bits: int = BOTS, extra_roles: Sequence[int] = ()
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


def publish_change(world: World, channel: Channel) -> None:
    name = "THREAD_UPDATE" if channel.is_thread else "CHANNEL_UPDATE"
    world.emit(name, payloads.channel(world, channel), channel)


def create_thread(
    world: World,
    parent: Channel,
    name: str,
    owner: User,
    *,
    message: Message | None = None,
    kind: int = PUBLIC_THREAD,
    archive_minutes: int = 1440,
) -> Channel:
    """Start a thread, from a message or alone, with the system message that Discord adds."""
    guild = world.guilds[parent.guild_id or 0]
    thread = Channel(
        id=message.id if message else world.new_id(),
        guild_id=guild.id,
        name=name,
        type=kind,
        parent_id=parent.id,
        owner_id=owner.id,
        archive_minutes=archive_minutes,
        created_at=world.clock(),
        archive_changed_at=world.clock(),
        thread_members=[owner.id],
    )
    guild.channels[thread.id] = thread
    world.emit("THREAD_CREATE", {**payloads.channel(world, thread), "newly_created": True}, thread)
    if message is not None:
        message.thread_id = thread.id
        publish_update(world, parent, message)
        post(world, thread, owner, Draft(reference=reference(parent, message), type=THREAD_STARTER))
    elif kind == PUBLIC_THREAD:
        pointer = {"type": 0, **place(thread)}
        post(world, parent, owner, Draft(name, reference=pointer, type=THREAD_CREATED))
    return thread


def change_thread(world: World, thread: Channel, body: dict[str, Any]) -> None:
    """Set the fields of a request's body. The caller publishes the thread."""
    if "name" in body:
        thread.name = str(body["name"])
    thread.archive_minutes = int(body.get("auto_archive_duration") or thread.archive_minutes)
    thread.locked = bool(body.get("locked", thread.locked))
    if bool(body.get("archived", thread.archived)) != thread.archived:
        thread.archived = not thread.archived
        thread.archive_changed_at = world.clock()
