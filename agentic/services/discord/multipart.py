"""One post as one or more messages, which are sent, edited as its text grows, and completed.

The messages in the channel are compared with those that the text should make: one that reads right is left alone,
another one is edited, a missing one is sent, a surplus one is deleted. The same steps serve a text that is posted
whole, one that is streamed, and one that an earlier run of the program began (EarlierPosts).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import discord

from agentic.chat.directory import clean_name
from agentic.chat.outlet import CannotPost, Posted, ignored, unfinished
from agentic.services.discord.mentions import to_names
from agentic.services.discord.messages import shown_text
from agentic.services.discord.outbound import Attach, nonce, without_file_note

LIMIT = 2000
"""UTF-16 units of a message. Discord counts code points (discord/discord-api-docs#1315), clients and libraries count
UTF-16 units, which are never fewer."""

log = logging.getLogger(__name__)


class MessageGone(Exception):
    """Somebody deleted the message that was to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """The parts of a message besides its text. `ping` is the user id of the person who is answered. An edit pings
    nobody, but with `ping` it passes the gate while little else does. `reply_to` is the message that it replies to."""

    ping: int | None = None
    reply_to: int | None = None
    attach: Attach | None = None
    embed: discord.Embed | None = None


NO_EXTRAS = Extras()


class Writer(Protocol):
    """agentic.services.discord.message_writer. Every method raises CannotPost, `change` MessageGone too."""

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
        self,
        writer: Writer,
        turn_id: str,
        earlier: EarlierPosts,
        ping: int | None = None,
        reply_to: int | None = None,
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
        left_so = unfinished(message.content) and message.content != text
        if left_so or found:  # made by an earlier run; Discord may have recognised it by its nonce alone
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
    parts: PostParts, texts: Sequence[str | None], last: Extras, noted: Callable[[Posted], None] = ignored
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
            if unfinished(message.content):
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
