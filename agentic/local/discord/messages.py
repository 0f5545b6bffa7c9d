"""Posts, edits, pings.

Width and height of a picture, read from its first bytes: Discord adds them to every attached picture.

The pings of a text: its mentions, limited by allowed_mentions and by the author's permissions.

https://discord.com/developers/docs/resources/message#allowed-mentions-object

Posting, editing, deleting and pinning messages: each changes the world, then publishes an event.

Used by REST for the bots, after it has checked their permissions, and by control.py for people.
"""

from __future__ import annotations

import mimetypes
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentic.local.discord import payloads
from agentic.local.discord import payloads as message_payloads
from agentic.local.discord import world as errors
from agentic.local.discord import world as permissions
from agentic.local.discord.backend import Backend, TypingEvent
from agentic.local.discord.world import DEFAULT, PINS_ADD, REPLY, Attachment, Channel, Message, User, World, iso


def image_size(content: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels of a PNG, GIF or JPEG; None for anything else."""
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) >= 24:
        width, height = struct.unpack(">II", content[16:24])
        return width, height
    if content[:6] in (b"GIF87a", b"GIF89a") and len(content) >= 10:
        width, height = struct.unpack("<HH", content[6:10])
        return width, height
    return _jpeg_size(content) if content.startswith(b"\xff\xd8") else None


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    """Walk the segments to the frame header (SOF0 to SOF15, without the tables that share its range)."""
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        marker, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None


_USER = re.compile(r"<@!?(\d{15,20})>")
_ROLE = re.compile(r"<@&(\d{15,20})>")
_EVERYONE = re.compile(r"@(everyone|here)\b")


@dataclass(frozen=True, slots=True)
class Pings:
    users: list[int] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    everyone: bool = False


def pings(
    world: World,
    channel: Channel,
    author_id: int | None,
    content: str,
    allowed: dict[str, Any] | None = None,
    replied_to: int | None = None,
) -> Pings:
    """allowed is the request's allowed_mentions, None if there is none (then all mentions count).

    replied_to is the author answered.

    A webhook (author_id None) may ping everything. Raises ApiError for allowed_mentions that Discord refuses.
    """
    check(allowed)
    users = [u for u in _ids(_USER, content) if u in world.users and _permits(allowed, "users", u)]
    if replied_to in world.users and replied_to not in users and (allowed is None or allowed.get("replied_user")):
        users.insert(0, replied_to)
    if channel.guild_id is None:
        return Pings(users)
    may_all = author_id is None or bool(
        permissions.permissions_of(world, author_id, channel) & permissions.MENTION_EVERYONE
    )
    known = world.guilds[channel.guild_id].roles
    roles = [
        r
        for r in _ids(_ROLE, content)
        if r in known and (may_all or known[r].mentionable) and _permits(allowed, "roles", r)
    ]
    everyone = may_all and bool(_EVERYONE.search(content)) and (allowed is None or "everyone" in _parse(allowed))
    return Pings(users, roles, everyone)


def check(allowed: dict[str, Any] | None) -> None:
    """Discord refuses a kind that is both parsed and listed."""
    for kind in ("users", "roles"):
        if allowed is not None and kind in _parse(allowed) and allowed.get(kind):
            text = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            raise errors.invalid_form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)


def _ids(pattern: re.Pattern[str], content: str) -> Iterable[int]:
    return dict.fromkeys(int(found) for found in pattern.findall(content))


def _permits(allowed: dict[str, Any] | None, kind: str, wanted: int) -> bool:
    if allowed is None or kind in _parse(allowed):
        return True
    return wanted in {int(listed) for listed in allowed.get(kind) or ()}


def _parse(allowed: dict[str, Any]) -> list[str]:
    return allowed.get("parse") or []


MAX_CONTENT = 2000
MAX_NONCE = 25
MAX_FILE_BYTES = 10 * 1024 * 1024


@dataclass(slots=True)
class Upload:
    filename: str
    content: bytes
    media_type: str | None = None
    description: str | None = None


@dataclass(slots=True)
class Draft:
    """A message to be posted. allowed_mentions None means that every mention in the text pings."""

    content: str = ""
    uploads: Sequence[Upload] = ()
    embeds: list[dict[str, Any]] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)
    allowed_mentions: dict[str, Any] | None = None
    reference: dict[str, Any] | None = None
    nonce: str | int | None = None
    tts: bool = False
    flags: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise Discord's ApiError for a message that it would refuse."""
        check_content(self.content)
        if self.nonce is not None and len(str(self.nonce)) > MAX_NONCE:
            raise errors.invalid_form("nonce", "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_NONCE} or fewer in length.")
        if not (self.content.strip() or self.uploads or self.embeds or self.components):
            raise errors.ApiError(400, 50006, "Cannot send an empty message")
        check_uploads(self.uploads)


def require_unarchived(channel: Channel) -> None:
    """Raise the API's error for an archived thread, in which nothing is edited, pinned or reacted to."""
    if channel.archived:
        raise errors.archived()


def check_uploads(uploads: Sequence[Upload]) -> None:
    if any(len(upload.content) > MAX_FILE_BYTES for upload in uploads):
        raise errors.ApiError(413, 40005, "Request entity too large")


def check_content(content: str) -> None:
    if len(content) > MAX_CONTENT:
        text = f"Must be {MAX_CONTENT} or fewer in length."
        raise errors.invalid_form("content", "BASE_TYPE_MAX_LENGTH", text)


@dataclass(frozen=True, slots=True)
class Posting:
    """How a message is posted that is not simply a user's."""

    type: int = DEFAULT
    webhook_id: int | None = None
    application_id: int | None = None
    interaction: dict[str, Any] | None = None


def post(backend: Backend, channel: Channel, author: User, draft: Draft, how: Posting = Posting()) -> Message:
    """Post into the channel and publish the event. Unarchives a thread, as with Discord."""
    message = build(backend, channel, author, draft, how)
    if channel.archived:
        channel.archived, channel.archive_changed_at = False, backend.clock()
        backend.emit("THREAD_UPDATE", payloads.channel(backend.world, channel), channel)
    backend.remember(channel, message)
    backend.emit("MESSAGE_CREATE", message_payloads.gateway_message(backend.world, message, channel), channel)
    return message


def build(backend: Backend, channel: Channel, author: User, draft: Draft, how: Posting) -> Message:
    """Build a message without posting it, as for hidden answers to interactions."""
    pinged = _pings(backend, channel, author, draft, how)
    return Message(
        id=backend.world.snowflakes.next(),
        channel_id=channel.id,
        author=author,
        content=draft.content,
        timestamp=backend.clock(),
        type=REPLY if draft.reference is not None and how.type == DEFAULT else how.type,
        embeds=[{"type": "rich", **embed} for embed in draft.embeds],
        components=draft.components,
        attachments=[_attachment(backend, channel, upload) for upload in draft.uploads],
        mentions=pinged.users,
        mention_roles=pinged.roles,
        mention_everyone=pinged.everyone,
        reference=draft.reference,
        nonce=draft.nonce,
        tts=draft.tts,
        flags=draft.flags,
        more=draft.more,
        webhook_id=how.webhook_id,
        application_id=how.application_id,
        interaction=how.interaction,
    )


def _pings(backend: Backend, channel: Channel, author: User, draft: Draft, how: Posting) -> Pings:
    pinger = author.id if how.webhook_id is None else None
    answered = _author_answered(backend, draft.reference) if how.type == DEFAULT else None
    return pings(backend.world, channel, pinger, draft.content, draft.allowed_mentions, answered)


def _author_answered(backend: Backend, reference: dict[str, Any] | None) -> int | None:
    if reference is None:
        return None
    channel = backend.world.find_channel(int(reference["channel_id"]))
    message = channel.messages.get(int(reference["message_id"])) if channel else None
    return message.author.id if message else None


def _attachment(backend: Backend, channel: Channel, upload: Upload) -> Attachment:
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in upload.filename) or "file"
    media_type = upload.media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    size = image_size(upload.content)
    return Attachment(
        id=backend.world.snowflakes.next(),
        filename=name,
        content=upload.content,
        media_type=media_type,
        channel_id=channel.id,
        description=upload.description,
        width=size[0] if size else None,
        height=size[1] if size else None,
    )


@dataclass(slots=True)
class Change:
    """An edit. None leaves a field as it is; keep lists the ids of attachments that stay, new ones come after them."""

    content: str | None = None
    embeds: list[dict[str, Any]] | None = None
    components: list[dict[str, Any]] | None = None
    flags: int | None = None
    keep: set[int] | None = None
    uploads: Sequence[Upload] = ()
    allowed_mentions: dict[str, Any] | None = None


def edit(backend: Backend, channel: Channel, message: Message, change: Change) -> None:
    """Change a message in place and publish the event."""
    require_unarchived(channel)
    apply_change(backend, channel, message, change)
    backend.emit("MESSAGE_UPDATE", message_payloads.gateway_message(backend.world, message, channel), channel)


def apply_change(backend: Backend, channel: Channel, message: Message, change: Change) -> None:
    check_uploads(change.uploads)
    if change.content is not None:
        check_content(change.content)
        pinger = None if message.webhook_id else message.author.id
        pinged = pings(backend.world, channel, pinger, change.content, change.allowed_mentions)
        message.content = change.content
        message.mentions, message.mention_roles, message.mention_everyone = pinged.users, pinged.roles, pinged.everyone
    if change.embeds is not None:
        message.embeds = [{"type": "rich", **embed} for embed in change.embeds]
    if change.components is not None:
        message.components = change.components
    if change.flags is not None:
        message.flags = change.flags
    if change.keep is not None:
        message.attachments = [a for a in message.attachments if a.id in change.keep]
    added = [_attachment(backend, channel, upload) for upload in change.uploads]
    backend.attachments |= {a.id: a for a in added}
    message.attachments.extend(added)
    message.edited = backend.clock()


def delete(backend: Backend, channel: Channel, message_ids: Sequence[int], *, bulk: bool = False) -> None:
    """Delete those that exist: one event for each, or one for all of them."""
    there = [m for m in message_ids if m in channel.messages]
    where = place(channel)
    for message_id in there:
        backend.forget(channel, message_id)
        if not bulk:
            backend.emit("MESSAGE_DELETE", {"id": str(message_id), **where}, channel)
    if bulk and there:
        backend.emit("MESSAGE_DELETE_BULK", {"ids": [str(m) for m in there], **where}, channel)


def pin(backend: Backend, channel: Channel, message: Message, by: User, pinned: bool = True) -> None:
    """Pin or unpin. A pin adds a system message, as with Discord. Without a change nothing happens."""
    if (message.pinned_at is not None) == pinned:
        return
    require_unarchived(channel)
    message.pinned_at = backend.clock() if pinned else None
    times = [m.pinned_at for m in channel.messages.values() if m.pinned_at is not None]
    last = iso(max(times)) if times else None
    backend.emit("MESSAGE_UPDATE", message_payloads.gateway_message(backend.world, message, channel), channel)
    backend.emit("CHANNEL_PINS_UPDATE", {**place(channel), "last_pin_timestamp": last}, channel)
    if pinned:
        post(backend, channel, by, Draft(reference=reference(channel, message)), Posting(type=PINS_ADD))


def tell_typing(backend: Backend, channel: Channel, user_id: int, bot: str | None) -> None:
    """bot is the key of the bot that types, None for a person."""
    now = backend.clock()
    backend.typing_events.append(TypingEvent(bot, user_id, channel.id, now))
    body: dict[str, Any] = {**place(channel), "user_id": str(user_id), "timestamp": int(now)}
    if channel.guild_id is not None:
        body["member"] = payloads.member(backend.world.guilds[channel.guild_id].members[user_id])
    backend.emit("TYPING_START", body, channel)


def reference(channel: Channel, message: Message) -> dict[str, Any]:
    """The message_reference of a reply."""
    return {"type": 0, "message_id": str(message.id), **place(channel)}


def place(channel: Channel) -> dict[str, Any]:
    """channel_id and, in a guild, guild_id: most events carry both."""
    where: dict[str, Any] = {"channel_id": str(channel.id)}
    if channel.guild_id is not None:
        where["guild_id"] = str(channel.guild_id)
    return where
