"""Reactions to a message, and what counts as an emoji."""

from agentic.chat.emoji import is_reaction_emoji
from agentic.local.discord import errors, payloads
from agentic.local.discord.backend import Backend
from agentic.local.discord.messages import place, require_unarchived
from agentic.local.discord.world import Channel, Message, World

MAX_KINDS = 20
Emoji = tuple[int | None, str]


def parse_emoji(world: World, text: str) -> Emoji:
    """Read a fully qualified Unicode emoji, or "name:id" of a custom one (also as <:name:id>).

    Raises ApiError 10014 for anything else, as Discord does.
    """
    text = text.strip("<>").removeprefix("a:").removeprefix(":")
    name, colon, custom = text.rpartition(":")
    if colon and custom.isdecimal():
        if any(int(custom) in guild.emojis for guild in world.guilds.values()):
            return int(custom), name
    elif is_reaction_emoji(text):
        return None, text
    raise errors.ApiError(400, 10014, "Unknown Emoji")


def add(backend: Backend, channel: Channel, message: Message, user_id: int, emoji: Emoji) -> None:
    """Add a reaction and publish the event; an existing one changes nothing.

    Raises ApiError 30010 for one kind too many, and for an archived thread.
    """
    require_unarchived(channel)
    if emoji not in message.reactions and len(message.reactions) >= MAX_KINDS:
        raise errors.ApiError(403, 30010, f"Maximum number of reactions reached ({MAX_KINDS})")
    who = message.reactions.setdefault(emoji, [])
    if user_id in who:
        return
    who.append(user_id)
    body = _body(channel, message, emoji) | {"user_id": str(user_id), "burst": False, "type": 0}
    if not message.webhook_id:
        body["message_author_id"] = str(message.author.id)
    if channel.guild_id is not None and user_id in (members := backend.world.guilds[channel.guild_id].members):
        body["member"] = payloads.member(members[user_id])
    backend.emit("MESSAGE_REACTION_ADD", body, channel)


def remove(backend: Backend, channel: Channel, message: Message, user_id: int, emoji: Emoji) -> None:
    who = message.reactions.get(emoji, [])
    if user_id not in who:
        return
    require_unarchived(channel)
    who.remove(user_id)
    if not who:
        del message.reactions[emoji]
    body = _body(channel, message, emoji) | {"user_id": str(user_id), "burst": False, "type": 0}
    backend.emit("MESSAGE_REACTION_REMOVE", body, channel)


def remove_kind(backend: Backend, channel: Channel, message: Message, emoji: Emoji) -> None:
    if message.reactions.pop(emoji, None) is not None:
        backend.emit("MESSAGE_REACTION_REMOVE_EMOJI", _body(channel, message, emoji), channel)


def remove_all(backend: Backend, channel: Channel, message: Message) -> None:
    message.reactions.clear()
    backend.emit("MESSAGE_REACTION_REMOVE_ALL", {**place(channel), "message_id": str(message.id)}, channel)


def _body(channel: Channel, message: Message, emoji: Emoji) -> payloads.Json:
    return {**place(channel), "message_id": str(message.id), "emoji": payloads.emoji(*emoji)}
