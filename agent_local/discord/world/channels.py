"""Creating, changing and deleting channels and threads.

A thread that grows from a message has that message's id.
"""

from agent_local.discord import message_payloads, payloads
from agent_local.discord.backend import Backend
from agent_local.discord.world import worlds
from agent_local.discord.world.messages import Draft, Posting, place, post, reference
from agent_local.discord.world.world import PUBLIC_THREAD, THREAD_CREATED, THREAD_STARTER, Channel, Guild, Message, User


def create(backend: Backend, guild: Guild, name: str, topic: str | None = None) -> Channel:
    channel = worlds.add_channel(backend.world, guild, name, topic)
    backend.emit("CHANNEL_CREATE", payloads.channel(backend.world, channel), channel)
    return channel


def tell_changed(backend: Backend, channel: Channel) -> None:
    """Publish the changed record of a channel or thread."""
    name = "THREAD_UPDATE" if channel.is_thread else "CHANNEL_UPDATE"
    backend.emit(name, payloads.channel(backend.world, channel), channel)


def delete(backend: Backend, channel: Channel) -> None:
    """Delete a guild's channel, its threads first, or one thread."""
    guild = backend.world.guilds[channel.guild_id or 0]
    for thread in [c for c in guild.channels.values() if c.is_thread and c.parent_id == channel.id]:
        delete(backend, thread)
    for message_id in list(channel.messages):
        backend.forget(channel, message_id)
    body = payloads.channel(backend.world, channel)
    if channel.is_thread:
        body = {key: body[key] for key in ("id", "guild_id", "parent_id", "type")}
    backend.emit("THREAD_DELETE" if channel.is_thread else "CHANNEL_DELETE", body, channel)
    del guild.channels[channel.id]


def create_thread(
    backend: Backend, parent: Channel, name: str, owner: User, message: Message | None = None, kind: int = PUBLIC_THREAD
) -> Channel:
    """Start a thread, from a message or alone, with the system message that Discord adds."""
    guild = backend.world.guilds[parent.guild_id or 0]
    thread = Channel(
        id=message.id if message else backend.world.snowflakes.next(),
        guild_id=guild.id,
        name=name,
        type=kind,
        parent_id=parent.id,
        owner_id=owner.id,
        thread_members=[owner.id],
    )
    guild.channels[thread.id] = thread
    backend.emit("THREAD_CREATE", {**payloads.channel(backend.world, thread), "newly_created": True}, thread)
    if message is not None:
        message.thread_id = thread.id
        backend.emit("MESSAGE_UPDATE", message_payloads.gateway_message(backend.world, message, parent), parent)
        post(backend, thread, owner, Draft(reference=reference(parent, message)), Posting(type=THREAD_STARTER))
    elif kind == PUBLIC_THREAD:
        pointer = {"type": 0, **place(thread)}
        post(backend, parent, owner, Draft(name, reference=pointer), Posting(type=THREAD_CREATED))
    return thread


def direct(backend: Backend, bot_id: int, user_id: int) -> Channel:
    """The DM between a bot and a user, created if there is none."""
    people = sorted((bot_id, user_id))
    for channel in backend.world.direct.values():
        if channel.recipients == people:
            return channel
    name = f"dm-{backend.world.users[bot_id].username}-{backend.world.users[user_id].username}"
    channel = Channel(backend.world.snowflakes.next(), None, name, type=1, recipients=people)
    backend.world.direct[channel.id] = channel
    return channel
