"""One post as one or more messages, which are sent, edited as the text grows, and completed.

The channel's messages are compared with the texts they should have: correct messages are kept, wrong ones edited,
missing ones sent, and surplus ones deleted. The same steps serve posts that are sent whole, streamed, or were begun by
an earlier run of the program (EarlierPosts).
"""

from __future__ import annotations

import asyncio
import copy
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import discord

from agentic.chat.directory import clean_name
from agentic.chat.formatting import FENCE
from agentic.chat.outlet import CannotPost, Post, Posted, ignore_post, is_unfinished, pick_sources, title_of
from agentic.chat.splitting import MAX_MESSAGE
from agentic.chat.transcript import Transcript, Transcripts
from agentic.net.addresses import FetchRefused
from agentic.net.images import ImageLimits, scale
from agentic.services.discord.channels import Channel, refusal_in
from agentic.services.discord.gate import (
    FILE_NOTE_ROOM,
    NO_EXTRAS,
    REQUEST_ERRORS,
    Extras,
    Gate,
    Silenced,
    error_code,
    nonce,
    without_file_note,
)
from agentic.services.discord.mentions import to_names
from agentic.services.discord.messages import shown_text, to_entries
from agentic.state.leases import AnyLease

log = logging.getLogger(__name__)

MIN_FILE_LIMIT = 10 * 1024 * 1024  # bytes: Discord's limit in direct messages and servers without boosts
MAX_SIDE = 4096  # pixels of a picture scaled down to a server's limit


class MessageGone(Exception):
    """Somebody deleted the message to change."""


class Writer(Protocol):
    """Implemented by MessageWriter and WebhookWriter. Every method may raise CannotPost; `change` also MessageGone."""

    async def send(self, text: str | None, extras: Extras, nonce: str) -> discord.Message: ...
    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message: ...
    async def remove(self, message: discord.Message) -> None: ...


@dataclass(slots=True)
class _Part:
    message: discord.Message
    text: str | None  # as it was sent; Discord may return it slightly changed
    has_file: bool
    has_embed: bool
    gone: bool = False


class PostParts:
    """The messages of one turn's post, in order. The first is a reply to the message `reply_to`."""

    def __init__(
        self, writer: Writer, turn_id: str, earlier: EarlierPosts, ping: int | None = None, reply_to: int | None = None
    ) -> None:
        self._writer, self._turn_id, self._earlier = writer, turn_id, earlier
        self._ping, self._reply_to = ping, reply_to
        self._parts: list[_Part] = []

    @property
    def first(self) -> discord.Message | None:
        return self._parts[0].message if self._parts else None

    @property
    def abandoned(self) -> bool:
        """Whether somebody deleted a part; then nothing more is posted."""
        return any(part.gone for part in self._parts)

    async def put(self, number: int, text: str | None, extras: Extras = NO_EXTRAS) -> discord.Message:
        """Send or edit the part with this number, which exists or is the next. Raises CannotPost."""
        if number == len(self._parts):
            self._parts.append(await self._new(number, text, extras))
        part = self._parts[number]
        lacks = (extras.attach and not part.has_file) or (extras.embed and not part.has_embed)
        if not part.gone and (part.text != text or lacks):
            await self._change(part, text, extras)
        return part.message

    async def trim(self, count: int) -> None:
        """Delete the parts after the first `count`, and unfinished messages of an earlier run. Failures are only
        logged, because the post itself is complete."""
        surplus = [part.message for part in self._parts[count:] if not part.gone]
        del self._parts[count:]
        while (left := self._earlier.take_unfinished()) is not None:
            surplus.append(left)
        for message in surplus:
            try:
                await self._writer.remove(message)
            except CannotPost as error:
                log.warning("deleting message %d, a surplus part of a post, failed: %s", message.id, error.reason)

    async def _new(self, number: int, text: str | None, extras: Extras) -> _Part:
        mark = nonce(self._turn_id, number)
        message = self._earlier.take(text, mark)
        found = message is not None
        if message is None:
            reply_to = self._reply_to if number == 0 else None
            message = await self._writer.send(text, replace(extras, ping=self._ping, reply_to=reply_to), mark)
        left_so = is_unfinished(message.content) and message.content != text
        if left_so or found:  # posted by an earlier run; Discord may have recognized it by its nonce alone
            reads = message.content if left_so else text
            return _Part(message, reads, bool(message.attachments), bool(message.embeds))
        return _Part(message, text, extras.attach is not None, extras.embed is not None)

    async def _change(self, part: _Part, text: str | None, extras: Extras) -> None:
        try:
            part.message = await self._writer.change(part.message, text, replace(extras, ping=self._ping))
            part.text = text
            part.has_file, part.has_embed = part.has_file or bool(extras.attach), part.has_embed or bool(extras.embed)
        except MessageGone:
            log.info("message %d was deleted while it was being written; its post is abandoned", part.message.id)
            part.gone = True
        except CannotPost as error:
            if error.reason == "not_ours":
                raise
            log.warning("editing message %d failed: %s; its text stays the same", part.message.id, error.reason)


async def put_all(
    parts: PostParts, texts: Sequence[str | None], last: Extras, noted: Callable[[Posted], None] = ignore_post
) -> Posted:
    """Make the post consist of these texts, with `last` in its last part.

    `noted` is called after each message. Raises CannotPost if nothing could be posted; if a later message fails, the
    result contains the earlier ones.
    """
    posted: Posted | None = None
    for number, text in enumerate(texts):
        if parts.abandoned:
            break
        try:
            message = await parts.put(number, text, last if number == len(texts) - 1 else NO_EXTRAS)
        except CannotPost as error:
            if posted is None:
                raise
            log.warning("posting failed after %d of %d messages: %s", number, len(texts), error)
            return posted
        posted = _with(posted, message)
        noted(posted)
    await parts.trim(len(texts))
    if posted is None:  # somebody deleted it while it was streamed
        assert parts.first is not None, "only a part that existed can be deleted"
        posted = _with(None, parts.first)
        noted(posted)
    return posted


def _with(before: Posted | None, newest: discord.Message) -> Posted:
    """Return the post with one more message; the newest message has its picture."""
    ids = (*(before.message_ids if before else ()), newest.id)
    return Posted(ids[0], newest.attachments[0].url if newest.attachments else None, ids)


class EarlierPosts:
    """The bot's own messages since a turn began. An earlier run may have posted them for the same turn."""

    def __init__(self, messages: Iterable[discord.Message]) -> None:
        self._messages = sorted(messages, key=lambda message: message.id)

    def take(self, text: str | None, nonce: str) -> discord.Message | None:
        """Remove and return the message that is this part, or None if there is none. A `text` of None means a picture
        alone."""
        same = self._take(lambda message: str(message.nonce) == nonce or _same(message, text))
        return same if same is not None or text is None else self.take_unfinished()

    def take_unfinished(self) -> discord.Message | None:
        return self._take(lambda message: is_unfinished(message.content))

    def _take(self, which: Callable[[discord.Message], bool]) -> discord.Message | None:
        if (found := next(filter(which, self._messages), None)) is not None:
            self._messages.remove(found)
        return found


def _same(message: discord.Message, text: str | None) -> bool:
    """Return whether a message has this text, with or without the note about a rejected file. Both are compared as
    people see them, because names in mentions may have changed."""
    content = without_file_note(message.content).strip()
    if text is None:
        return not content and bool(message.attachments or message.content)
    people = {user.id: clean_name(user.display_name) for user in message.mentions}
    shown = without_file_note(shown_text(message)).strip()
    return text.strip() in (content, shown) or to_names(text, people, {}, {}).strip() == shown


class MessageWriter:
    """Writes a bot's messages. Every method raises CannotPost if it fails.

    `posting` is checked before each request, because another process may get the lease and a person may stop the
    channel while a bot is thinking; permissions are checked before each new message. Before a deletion only `lease` is
    checked: a post that was begun is deleted even in a stopped channel. `our_lock`: we locked the thread ourselves.
    """

    def __init__(
        self, channel: Channel, gate: Gate, transcripts: Transcripts, *, posting: AnyLease, lease: AnyLease
    ) -> None:
        self._channel, self._gate, self._transcripts = channel, gate, transcripts
        self._posting_gate = gate.under(posting)
        self.our_lock = False
        self._posting, self._lease = posting, lease

    def to(self, channel: Channel) -> MessageWriter:
        """Return a writer for another channel under the same conditions."""
        writer = copy.copy(self)
        writer._channel = channel
        return writer

    @property
    def _transcript(self) -> Transcript:
        return self._transcripts.of(self._channel.id)

    def refusal(self) -> str | None:
        """Return why the bot may not write there, or None if it may."""
        return refusal_in(self._channel, our_lock=self.our_lock)

    async def send(
        self, text: str | None, extras: Extras, nonce: str, reply_to: discord.MessageReference | None = None
    ) -> discord.Message:
        """Send a message. `reply_to` refers to another channel's message; for this channel use `extras`."""
        if (refusal := self.refusal()) is not None:
            raise CannotPost(refusal if self._posting.is_held else "not_ours")
        if reply_to is None and extras.reply_to is not None:
            reply_to = discord.MessageReference(
                message_id=extras.reply_to, channel_id=self._channel.id, fail_if_not_exists=False
            )
        with explain_failure(self._channel.id, text):
            message = await self._posting_gate.send(self._channel, text, extras, nonce=nonce, reply_to=reply_to)
        # Add own posts from REST's answer: the next turn may come before the gateway's event.
        for entry in to_entries((message,), self._transcripts.directory):
            self._transcript.add(entry)
        return message

    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message:
        """Edit a message. Raises MessageGone if it was deleted."""
        with explain_failure(self._channel.id, text):
            try:
                changed = await self._posting_gate.edit(message, text, extras)
            except discord.NotFound as error:
                self._transcript.delete(message.id)
                raise MessageGone from error
        for entry in to_entries((changed,), self._transcripts.directory):
            self._transcript.revise(entry)
        return changed

    async def remove(self, message: discord.Message | discord.PartialMessage) -> None:
        """Delete a message. Succeeds if it is already deleted."""
        if not self._lease.is_held:
            raise CannotPost("not_ours")
        with explain_failure(self._channel.id):
            try:
                await self._gate.delete(message)
            except discord.NotFound:
                log.debug("message %d was already deleted", message.id)
        self._transcript.delete(message.id)


@contextmanager
def explain_failure(
    channel_id: int, text: str | None = None, *, what: str = "posting to", not_found: str = "unknown_channel"
) -> Iterator[None]:
    """Raise CannotPost with its reason if the request in the `with` block fails. Logs the length of `text`, not the
    text."""
    try:
        yield
    except Silenced as error:
        raise CannotPost("not_ours") from error
    except REQUEST_ERRORS as error:
        length = f" ({len(text):,} characters)" if text else ""
        log.warning("%s channel %d failed%s: %s", what, channel_id, length, error_code(error))
        if isinstance(error, discord.Forbidden):
            raise CannotPost("not_permitted") from error
        raise CannotPost(not_found if isinstance(error, discord.NotFound) else "discord_failed") from error


async def extras_of(post: Post, channel: Channel, *, embeds: bool) -> Extras:
    """Return the post's cost line and its picture, scaled down to the server's limit if possible. `embeds`: whether
    embeds may be posted there."""
    picture = post.picture
    if picture is not None and len(picture.data) > MIN_FILE_LIMIT:
        limit = MIN_FILE_LIMIT if isinstance(channel, discord.DMChannel) else channel.guild.filesize_limit
        try:
            if len(picture.data) > limit:
                picture = await asyncio.to_thread(scale, picture.data, ImageLimits(MAX_SIDE, limit))
        except FetchRefused as error:
            log.warning("channel %d: scaling a picture of %d bytes failed: %s", channel.id, len(picture.data), error)
    embed = discord.Embed(color=post.cost.color).set_footer(text=str(post.cost)) if post.cost and embeds else None
    if picture is None:
        return Extras(embed=embed)
    data, suffix = picture.data, picture.media_type.removeprefix("image/").replace("jpeg", "jpg")
    return Extras(attach=lambda: discord.File(io.BytesIO(data), filename=f"picture.{suffix}"), embed=embed)


def text_limit(post: Post, most: int) -> int:
    """Return the longest text of a message: with a picture there must be room for the note that it was rejected."""
    return min(post.split_at, most, MAX_MESSAGE - FILE_NOTE_ROOM if post.picture else most)


def text_with_sources(post: Post) -> str:
    """Return the post's text, or "" for none, with a line of the sources that it doesn't link. Their URLs are in <> so
    that Discord shows no previews."""
    text = post.text or ""
    shown = pick_sources(text, post.sources) if text else []
    if not shown:
        return text
    links = " · ".join(f"[{title_of(source)}](<{source.url}>)" for source in shown)
    closing = f"\n{FENCE}" if text.count(FENCE) % 2 else ""
    return f"{text}{closing}\n-# {links}"
