"""One post as one or more messages, which are sent, edited as its text grows, and completed.

The messages in the channel are compared with those that the text should make: one that reads right is left alone,
another one is edited, a missing one is sent, a surplus one is deleted. The same steps serve a text that is posted
whole, one that is streamed, and one that an earlier run of the program began (EarlierPosts).
"""

from __future__ import annotations

import asyncio
import copy
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import discord

from agentic.chat.directory import clean_name
from agentic.chat.formatting import FENCE
from agentic.chat.outlet import (
    CannotPost,
    Post,
    Posted,
    ignore_post,
    is_unfinished,
    pick_sources,
    title_of,
)
from agentic.chat.splitting import MAX_MESSAGE
from agentic.chat.transcript import Transcript, Transcripts
from agentic.llm.types import Picture
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
    kind,
    nonce,
    without_file_note,
)
from agentic.services.discord.mentions import to_names
from agentic.services.discord.messages import shown_text, to_entries
from agentic.state.leases import AnyLease

log = logging.getLogger(__name__)

MIN_FILE_LIMIT = 10 * 1024 * 1024  # bytes: Discord's limit in direct messages and servers without boosts
MAX_SIDE = 4096  # pixels of a picture that is scaled down to a server's limit


class MessageGone(Exception):
    """Somebody deleted the message that was to be changed."""


class Writer(Protocol):
    """Implemented by MessageWriter and WebhookWriter. Every method raises CannotPost, `change` MessageGone too."""

    async def send(self, text: str | None, extras: Extras, nonce: str) -> discord.Message: ...
    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message: ...
    async def remove(self, message: discord.Message) -> None: ...


@dataclass(slots=True)
class _Part:
    message: discord.Message
    text: str | None  # as it was written; Discord may return it a little different
    has_file: bool
    has_embed: bool
    gone: bool = False


class PostParts:
    """The messages of one turn's post, in their order. The first of them is a reply to the message `reply_to`."""

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
        """Whether somebody deleted a part: then nothing more is written."""
        return any(part.gone for part in self._parts)

    async def put(self, number: int, text: str | None, extras: Extras = NO_EXTRAS) -> discord.Message:
        """Sends or edits the part with this number: an existing one or the next. Raises CannotPost."""
        if number == len(self._parts):
            self._parts.append(await self._new(number, text, extras))
        part = self._parts[number]
        lacks = (extras.attach and not part.has_file) or (extras.embed and not part.has_embed)
        if not part.gone and (part.text != text or lacks):
            await self._change(part, text, extras)
        return part.message

    async def trim(self, count: int) -> None:
        """Deletes the parts after the first `count`, and the unfinished messages of an earlier run. Raises nothing: the
        post itself is complete."""
        surplus = [part.message for part in self._parts[count:] if not part.gone]
        del self._parts[count:]
        while (left := self._earlier.take_unfinished()) is not None:
            surplus.append(left)
        for message in surplus:
            try:
                await self._writer.remove(message)
            except CannotPost as error:
                log.warning("message %d: surplus part of a post could not be deleted: %s", message.id, error.reason)

    async def _new(self, number: int, text: str | None, extras: Extras) -> _Part:
        mark = nonce(self._turn_id, number)
        message = self._earlier.take(text, mark)
        found = message is not None
        if message is None:
            reply_to = self._reply_to if number == 0 else None
            message = await self._writer.send(text, replace(extras, ping=self._ping, reply_to=reply_to), mark)
        left_so = is_unfinished(message.content) and message.content != text
        if left_so or found:  # made by an earlier run; Discord may have recognized it by its nonce alone
            reads = message.content if left_so else text
            return _Part(message, reads, bool(message.attachments), bool(message.embeds))
        return _Part(message, text, extras.attach is not None, extras.embed is not None)

    async def _change(self, part: _Part, text: str | None, extras: Extras) -> None:
        try:
            part.message = await self._writer.change(part.message, text, replace(extras, ping=self._ping))
            part.text = text
            part.has_file, part.has_embed = part.has_file or bool(extras.attach), part.has_embed or bool(extras.embed)
        except MessageGone:
            log.info("message %d was deleted while it was written, the rest of its post is dropped", part.message.id)
            part.gone = True
        except CannotPost as error:
            if error.reason == "not_ours":
                raise
            log.warning("message %d could not be edited, its text stays as it is: %s", part.message.id, error.reason)


async def put_all(
    parts: PostParts, texts: Sequence[str | None], last: Extras, noted: Callable[[Posted], None] = ignore_post
) -> Posted:
    """Makes the post consist of these texts, with `last` in its last part.

    `noted` gets what is in the channel as soon as it is there. Raises CannotPost when nothing could be posted; when
    only a later part fails, what was posted counts.
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
            log.warning("only %d of %d messages of a post could be posted: %s", number, len(texts), error)
            return posted
        posted = _with(posted, message)
        noted(posted)
    await parts.trim(len(texts))
    if posted is None:  # somebody deleted it while it was streamed
        assert parts.first is not None, "a part is abandoned only once it was there"
        posted = _with(None, parts.first)
        noted(posted)
    return posted


def _with(before: Posted | None, newest: discord.Message) -> Posted:
    """The post with one more message; its picture is in the newest."""
    ids = (*(before.message_ids if before else ()), newest.id)
    return Posted(ids[0], newest.attachments[0].url if newest.attachments else None, ids)


class EarlierPosts:
    """The bot's own messages since a turn began, each of which an earlier run may have made for it."""

    def __init__(self, messages: Iterable[discord.Message]) -> None:
        self._messages = sorted(messages, key=lambda message: message.id)

    def take(self, text: str | None, nonce: str) -> discord.Message | None:
        """Removes and returns the message that is this part; None when it was not made. None as text is a picture
        alone."""
        for message in self._messages:
            if str(message.nonce) == nonce or _same(message, text):
                self._messages.remove(message)
                return message
        if text is not None:
            return self.take_unfinished()
        return None

    def take_unfinished(self) -> discord.Message | None:
        """Removes and returns the first unfinished message."""
        for message in self._messages:
            if is_unfinished(message.content):
                self._messages.remove(message)
                return message
        return None


def _same(message: discord.Message, text: str | None) -> bool:
    """Whether a message has this text, with or without the note about a refused file. Both are compared as people see
    them: names in a mention may have changed."""
    content = without_file_note(message.content).strip()
    if text is None:
        return not content and bool(message.attachments or message.content)
    people = {user.id: clean_name(user.display_name) for user in message.mentions}
    shown = without_file_note(shown_text(message)).strip()
    return text.strip() in (content, shown) or to_names(text, people, {}, {}).strip() == shown


class MessageWriter:
    """Every method raises CannotPost if it fails.

    `posting` is asked before each request, since the lease may go to another process and a person may stop the
    channel while a bot thinks; permissions are checked before each new message. `lease` is asked before a deletion
    instead: what was begun is deleted in a stopped channel too. `our_lock`: a lock of the thread is our own.
    """

    def __init__(
        self,
        channel: Channel,
        gate: Gate,
        transcripts: Transcripts,
        *,
        posting: AnyLease,
        lease: AnyLease,
    ) -> None:
        self._channel, self._gate, self._transcripts = channel, gate, transcripts
        self._posting_gate = gate.under(posting)
        self.our_lock = False
        self._posting, self._lease = posting, lease

    def to(self, channel: Channel) -> MessageWriter:
        """A writer for another channel under the same conditions."""
        writer = copy.copy(self)
        writer._channel = channel
        return writer

    @property
    def _transcript(self) -> Transcript:
        return self._transcripts.of(self._channel.id)

    def refusal(self) -> str | None:
        """Why the bot may not write there; None when it may."""
        return refusal_in(self._channel, our_lock=self.our_lock)

    async def send(
        self, text: str | None, extras: Extras, nonce: str, reply_to: discord.MessageReference | None = None
    ) -> discord.Message:
        """`reply_to` is of another channel's message, `extras` name one of this channel."""
        if (refusal := self.refusal()) is not None:
            raise CannotPost(refusal if self._posting.is_held else "not_ours")
        if reply_to is None and extras.reply_to is not None:
            reply_to = discord.MessageReference(
                message_id=extras.reply_to, channel_id=self._channel.id, fail_if_not_exists=False
            )
        with explain_failure(self._channel.id, text):
            message = await self._posting_gate.send(self._channel, text, extras, nonce=nonce, reply_to=reply_to)
        # Own posts enter the transcript from REST's answer: the next turn may come before the gateway's event.
        for entry in to_entries((message,), self._transcripts.directory):
            self._transcript.add(entry)
        return message

    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message:
        """Raises MessageGone for a message that was deleted."""
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
        """Succeeds for a message that was deleted already."""
        if not self._lease.is_held:
            raise CannotPost("not_ours")
        with explain_failure(self._channel.id):
            try:
                await self._gate.delete(message)
            except discord.NotFound:
                log.debug("message %d was deleted already", message.id)
        self._transcript.delete(message.id)


@contextmanager
def explain_failure(
    channel_id: int, text: str | None = None, *, what: str = "post to", not_found: str = "unknown_channel"
) -> Iterator[None]:
    """Raise CannotPost with its reason for a failed request. It is logged, of its text the length alone."""
    try:
        yield
    except Silenced as error:
        raise CannotPost("not_ours") from error
    except REQUEST_ERRORS as error:
        length = f" ({len(text):,} characters)" if text else ""
        log.warning("%s channel %d failed%s: %s", what, channel_id, length, kind(error))
        if isinstance(error, discord.Forbidden):
            raise CannotPost("not_permitted") from error
        raise CannotPost(not_found if isinstance(error, discord.NotFound) else "discord_failed") from error


async def extras_of(post: Post, channel: Channel, *, embeds: bool) -> Extras:
    """The picture, scaled down if it is larger than the server takes, and the line about money. A picture that cannot
    be scaled stays as it is. `embeds`: whether embeds may be posted there."""
    picture = post.picture
    if picture is not None and len(picture.data) > MIN_FILE_LIMIT:
        limit = MIN_FILE_LIMIT if isinstance(channel, discord.DMChannel) else channel.guild.filesize_limit
        try:
            if len(picture.data) > limit:
                picture = await asyncio.to_thread(scale, picture.data, ImageLimits(MAX_SIDE, limit))
        except FetchRefused as error:
            log.warning("channel %d: a picture of %d bytes cannot be scaled: %s", channel.id, len(picture.data), error)
    embed = discord.Embed(colour=post.cost.colour).set_footer(text=str(post.cost)) if post.cost and embeds else None
    return Extras(attach=partial(_make_file, picture) if picture is not None else None, embed=embed)


def _make_file(picture: Picture) -> discord.File:
    suffix = picture.media_type.removeprefix("image/").replace("jpeg", "jpg")
    return discord.File(io.BytesIO(picture.data), filename=f"picture.{suffix}")


def text_limit(post: Post, most: int) -> int:
    """The longest text of a message of this post: below a picture there is room for the note that it was refused."""
    return min(post.split_at, most, MAX_MESSAGE - FILE_NOTE_ROOM if post.picture else most)


def text_with_sources(post: Post) -> str:
    """The post's text, "" for none, with a line of the sources that it does not link; addresses in <> so that none has
    a preview."""
    text = post.text or ""
    shown = pick_sources(text, post.sources) if text else []
    if not shown:
        return text
    links = " · ".join(f"[{title_of(source)}](<{source.url}>)" for source in shown)
    closing = f"\n{FENCE}" if text.count(FENCE) % 2 else ""
    return f"{text}{closing}\n-# {links}"
