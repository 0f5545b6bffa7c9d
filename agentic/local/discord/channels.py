"""Creating, changing and deleting channels; a thread is deleted like a channel, and created in threads.py."""

from agentic.local.discord import payloads, worlds
from agentic.local.discord.backend import Backend
from agentic.local.discord.world import Channel, Guild


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
