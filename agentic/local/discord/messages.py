"""Posting, editing, deleting, pinning, and reacting to messages. Each changes the world, then publishes an event.

REST uses it for the bots, server.py for people. It only refuses requests that the program makes.

https://discord.com/developers/docs/resources/message#allowed-mentions-object
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from agentic.chat.emoji import is_reaction_emoji
from agentic.local.discord import payloads
from agentic.local.discord.world import (
    DEFAULT,
    MENTION_EVERYONE,
    PINS_ADD,
    REPLY,
    ApiError,
    Attachment,
    Channel,
    Message,
    MessageBody,
    User,
    World,
    iso,
)
from agentic.net.images import media_type_of, size_of

MAX_FILE_BYTES = 10 * 1024 * 1024
_USER = re.compile(r"<@!?(\d{15,20})>")
_ROLE = re.compile(r"<@&(\d{15,20})>")
_EVERYONE = re.compile(r"@(everyone|here)\b")

Emoji = tuple[int | None, str]
"""(id of a custom emoji, name)"""


@dataclass(slots=True)
class Upload:
    filename: str
    content: bytes
    media_type: str | None = None
    description: str | None = None


@dataclass(slots=True)
class Draft(MessageBody):
    """A message to post. If `allowed_mentions` is None, every mention in the text pings."""

    uploads: Sequence[Upload] = ()
    allowed_mentions: dict[str, Any] | None = None


def post(world: World, channel: Channel, author: User, draft: Draft) -> Message:
    """Post into the channel and publish the event. Unarchives a thread, as Discord does."""
    message = build(world, channel, author, draft)
    if channel.archived:
        channel.archived, channel.archive_changed_at = False, world.clock()
        world.emit("THREAD_UPDATE", payloads.channel(world, channel), channel)
    world.remember(channel, message)
    world.emit("MESSAGE_CREATE", payloads.gateway_message(world, message, channel), channel)
    return message


def build(world: World, channel: Channel, author: User, draft: Draft) -> Message:
    """Build a message without posting it, as for hidden answers to interactions."""
    answered = None
    if draft.reference is not None and draft.type == DEFAULT:
        source = world.find_channel(int(draft.reference["channel_id"]))
        original = source.messages.get(int(draft.reference["message_id"])) if source else None
        answered = original.author.id if original else None
    pinger = author.id if draft.webhook_id is None else None
    users, roles, everyone = pings(world, channel, pinger, draft.content, draft.allowed_mentions, answered)
    body = {each.name: getattr(draft, each.name) for each in fields(MessageBody)}
    body["type"] = REPLY if draft.reference is not None and draft.type == DEFAULT else draft.type
    body["embeds"] = [{"type": "rich", **embed} for embed in draft.embeds]
    return Message(
        id=world.new_id(),
        channel_id=channel.id,
        author=author,
        timestamp=world.clock(),
        attachments=[_attachment(world, channel, upload) for upload in draft.uploads],
        mentions=users,
        mention_roles=roles,
        mention_everyone=everyone,
        **body,
    )


def _attachment(world: World, channel: Channel, upload: Upload) -> Attachment:
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in upload.filename) or "file"
    media_type = upload.media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    kind = media_type_of(upload.content)
    width, height = (size_of(upload.content, kind) if kind else None) or (None, None)
    return Attachment(
        id=world.new_id(),
        filename=name,
        content=upload.content,
        media_type=media_type,
        channel_id=channel.id,
        description=upload.description,
        width=width,
        height=height,
    )


def edit(
    world: World, channel: Channel, message: Message, body: dict[str, Any], uploads: Sequence[Upload] = ()
) -> None:
    """Change a message in place, as a request's body says, and publish the event.

    A content of null empties the text. Attachments that the body doesn't list are removed; new ones follow the rest.
    """
    listed = None if body.get("attachments") is None else {int(a["id"]) for a in body["attachments"]}
    if "content" in body:
        content = str(body["content"] or "")
        pinger = None if message.webhook_id else message.author.id
        users, roles, everyone = pings(world, channel, pinger, content, body.get("allowed_mentions"))
        message.content, message.mentions = content, users
        message.mention_roles, message.mention_everyone = roles, everyone
    if "embeds" in body:
        message.embeds = [{"type": "rich", **embed} for embed in body["embeds"] or ()]
    if "components" in body:
        message.components = list(body["components"] or ())
    if body.get("flags") is not None:
        message.flags = body["flags"]
    if listed is not None:
        message.attachments = [a for a in message.attachments if a.id in listed]
    added = [_attachment(world, channel, upload) for upload in uploads]
    world.attachments |= {a.id: a for a in added}
    message.attachments.extend(added)
    message.edited = world.clock()
    publish_update(world, channel, message)


def publish_update(world: World, channel: Channel, message: Message) -> None:
    world.emit("MESSAGE_UPDATE", payloads.gateway_message(world, message, channel), channel)


def delete(world: World, channel: Channel, message_id: int) -> None:
    if message_id in channel.messages:
        world.forget(channel, message_id)
        world.emit("MESSAGE_DELETE", {"id": str(message_id), **place(channel)}, channel)


def pin(world: World, channel: Channel, message: Message, by: User, pinned: bool = True) -> None:
    """Pin or unpin, if that changes anything. A pin adds a system message, as in Discord."""
    if (message.pinned_at is not None) == pinned:
        return
    message.pinned_at = world.clock() if pinned else None
    times = [m.pinned_at for m in channel.messages.values() if m.pinned_at is not None]
    last = iso(max(times)) if times else None
    publish_update(world, channel, message)
    world.emit("CHANNEL_PINS_UPDATE", {**place(channel), "last_pin_timestamp": last}, channel)
    if pinned:
        post(world, channel, by, Draft(reference=reference(channel, message), type=PINS_ADD))


def publish_typing(world: World, channel: Channel, user_id: int) -> None:
    body: dict[str, Any] = {**place(channel), "user_id": str(user_id), "timestamp": int(world.clock())}
    if channel.guild_id is not None:
        body["member"] = payloads.member(world.guilds[channel.guild_id].members[user_id])
    world.emit("TYPING_START", body, channel)


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
    raise ApiError(400, 10014, "Unknown Emoji")


def add_reaction(
    world: World, channel: Channel, message: Message, user_id: int, emoji: Emoji, *, burst: bool = False
) -> None:
    """Add a reaction, or a super reaction (`burst`), and publish the event; an existing one changes nothing."""
    who = message.reactions.setdefault(emoji, [])
    if user_id in who:
        return
    who.append(user_id)
    if burst:
        message.super_reactions.add((emoji, user_id))
    body = _reaction(channel, message, emoji) | {"user_id": str(user_id), "burst": burst, "type": int(burst)}
    if not message.webhook_id:
        body["message_author_id"] = str(message.author.id)
    if channel.guild_id is not None and user_id in (members := world.guilds[channel.guild_id].members):
        body["member"] = payloads.member(members[user_id])
    world.emit("MESSAGE_REACTION_ADD", body, channel)


def remove_reaction(world: World, channel: Channel, message: Message, user_id: int, emoji: Emoji) -> None:
    who = message.reactions.get(emoji, [])
    if user_id not in who:
        return
    who.remove(user_id)
    if not who:
        del message.reactions[emoji]
    burst = (emoji, user_id) in message.super_reactions
    message.super_reactions.discard((emoji, user_id))
    body = {**_reaction(channel, message, emoji), "user_id": str(user_id), "burst": burst, "type": int(burst)}
    world.emit("MESSAGE_REACTION_REMOVE", body, channel)


def _reaction(channel: Channel, message: Message, emoji: Emoji) -> dict[str, Any]:
    return {**place(channel), "message_id": str(message.id), "emoji": payloads.emoji(*emoji)}


def pings(
    world: World,
    channel: Channel,
    author_id: int | None,
    content: str,
    allowed: dict[str, Any] | None = None,
    replied_to: int | None = None,
) -> tuple[list[int], list[int], bool]:
    """Return the users and roles that a text pings, and whether it pings everyone, as far as its author is allowed to.

    `allowed` is the request's allowed_mentions; without it, all mentions ping. `replied_to` is the author of the
    original message. A webhook (`author_id` None) may ping everything.
    """
    parsed, listed = {"users", "roles", "everyone"}, dict[str, set[int]]()
    if allowed is not None:
        parsed = set(allowed.get("parse") or ())
        for kind in ("users", "roles"):
            listed[kind] = {int(one) for one in allowed.get(kind) or ()}

    def mentioned(pattern: re.Pattern[str], kind: str) -> list[int]:
        ids = dict.fromkeys(int(found) for found in pattern.findall(content))
        return [one for one in ids if kind in parsed or one in listed[kind]]

    users = [u for u in mentioned(_USER, "users") if u in world.users]
    if replied_to in world.users and replied_to not in users and (allowed is None or allowed.get("replied_user")):
        users.insert(0, replied_to)
    if channel.guild_id is None:
        return users, [], False
    may_all = author_id is None or bool(world.permissions_of(author_id, channel) & MENTION_EVERYONE)
    known = world.guilds[channel.guild_id].roles
    roles = [r for r in mentioned(_ROLE, "roles") if r in known and (may_all or known[r].mentionable)]
    return users, roles, may_all and "everyone" in parsed and bool(_EVERYONE.search(content))


def reference(channel: Channel, message: Message) -> dict[str, Any]:
    """Return the message_reference of a reply."""
    return {"type": 0, "message_id": str(message.id), **place(channel)}


def place(channel: Channel) -> dict[str, Any]:
    """Return channel_id and, in a guild, guild_id; most events carry both."""
    where: dict[str, Any] = {"channel_id": str(channel.id)}
    if channel.guild_id is not None:
        where["guild_id"] = str(channel.guild_id)
    return where
