"""One post as the messages that it is made of: they are sent, changed as the text grows, and left whole.

What stands in the channel is compared with what should: a message that reads right is left alone, another one is
edited, what lacks is sent, what is too many is deleted. So it is one thing whether a text is posted at once, grows
while the model still writes, or was begun by an earlier run of the program (earlier_posts.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import discord

from agent_chat.outlet import CannotPost
from agent_discord.objects.mentions import clean_name, to_names
from agent_discord.objects.messages import shown_text, unfinished
from agent_discord.rest.outbound import Attach, nonce

log = logging.getLogger(__name__)


class MessageGone(Exception):
    """Somebody deleted the message that was to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What goes along with a message. `ping` is the user id of the person who is answered; an edit pings nobody, but
    for them it passes where little else does."""

    ping: int | None = None
    attach: Attach | None = None
    embed: discord.Embed | None = None


NO_EXTRAS = Extras()


class Writer(Protocol):
    """What can be done to a channel's messages. All raise CannotPost, `change` MessageGone too."""

    async def send(self, text: str | None, extras: Extras, nonce: str) -> discord.Message: ...
    async def change(self, message: discord.Message, text: str | None, extras: Extras) -> discord.Message: ...
    async def remove(self, message: discord.Message) -> None: ...


@dataclass(slots=True)
class _Part:
    message: discord.Message
    text: str | None  # as it was written; Discord may give it back a little differently
    has_file: bool
    has_embed: bool
    gone: bool = False


class PostParts:
    """The messages of one turn's post, in their order."""

    def __init__(self, writer: Writer, turn_id: str, earlier: EarlierPosts, ping: int | None = None) -> None:
        self._writer, self._turn_id, self._earlier, self._ping = writer, turn_id, earlier, ping
        self._parts: list[_Part] = []

    @property
    def first(self) -> discord.Message | None:
        return self._parts[0].message if self._parts else None

    @property
    def abandoned(self) -> bool:
        """Somebody deleted what stood there: that is left alone."""
        return any(part.gone for part in self._parts)

    async def put(self, number: int, text: str | None, extras: Extras = NO_EXTRAS) -> discord.Message:
        """Makes the part with this number, which stands already or is the next one, read so. Raises CannotPost."""
        if number == len(self._parts):
            self._parts.append(await self._new(number, text, extras))
        part = self._parts[number]
        lacks = (extras.attach and not part.has_file) or (extras.embed and not part.has_embed)
        if not part.gone and (part.text != text or lacks):
            await self._change(part, text, extras)
        return part.message

    async def trim(self, count: int) -> None:
        """Deletes what stands behind the first `count` parts, and what an earlier run left unfinished. Never raises:
        what should be said is said already."""
        surplus = [part.message for part in self._parts[count:] if not part.gone]
        del self._parts[count:]
        while (left := self._earlier.take_unfinished()) is not None:
            surplus.append(left)
        for message in surplus:
            try:
                await self._writer.remove(message)
            except CannotPost as error:
                log.warning("message %d is too many and stays: %s", message.id, error.reason)

    async def _new(self, number: int, text: str | None, extras: Extras) -> _Part:
        mark = nonce(self._turn_id, number)
        message = self._earlier.take(text, mark)
        found = message is not None
        message = message or await self._writer.send(text, replace(extras, ping=self._ping), mark)
        left_so = unfinished(message.content) and message.content != text
        if left_so or found:  # of an earlier run, which Discord may know by its nonce alone
            reads = message.content if left_so else text
            return _Part(message, reads, bool(message.attachments), bool(message.embeds))
        return _Part(message, text, extras.attach is not None, extras.embed is not None)

    async def _change(self, part: _Part, text: str | None, extras: Extras) -> None:
        try:
            part.message = await self._writer.change(part.message, text, replace(extras, ping=self._ping))
            part.text = text
            part.has_file, part.has_embed = part.has_file or bool(extras.attach), part.has_embed or bool(extras.embed)
        except MessageGone:
            log.info("message %d was deleted while it grew", part.message.id)
            part.gone = True
        except CannotPost as error:
            if error.reason == "not_ours":
                raise
            log.warning("message %d stays as it is: %s", part.message.id, error.reason)


async def put_all(
    parts: PostParts,
    texts: Sequence[str | None],
    last: Extras,
    noted: Callable[[discord.Message, discord.Message], None],
) -> None:
    """Makes the post read so and end there, with `last` along with its last part.

    `noted` hears of the first message and the newest one as soon as it stands. Raises CannotPost when nothing could be
    posted; what is posted when a later part fails counts.
    """
    first: discord.Message | None = None
    for number, text in enumerate(texts):
        if parts.abandoned:
            break
        try:
            message = await parts.put(number, text, last if number == len(texts) - 1 else NO_EXTRAS)
        except CannotPost as error:
            if first is None:
                raise
            log.warning("only the first %d parts are posted (%s)", number, error)
            return
        first = first or message
        noted(first, message)
    await parts.trim(len(texts))


class EarlierPosts:
    """A bot's own messages, each of which can be one post of the turn."""

    def __init__(self, messages: Iterable[discord.Message]) -> None:
        self._messages = sorted(messages, key=lambda message: message.id)

    def take(self, text: str | None, nonce: str) -> discord.Message | None:
        """The message that is this post; None when it was not made. Without a text it is a picture alone."""
        for message in self._messages:
            if str(message.nonce) == nonce or _same(message, text):
                self._messages.remove(message)
                return message
        if text is not None:
            return self.take_unfinished()
        return None

    def take_unfinished(self) -> discord.Message | None:
        """The first message that was left while it grew."""
        for message in self._messages:
            if unfinished(message.content):
                self._messages.remove(message)
                return message
        return None


def _same(message: discord.Message, text: str | None) -> bool:
    """A mention may have been written with other names: both are compared as people see them."""
    if text is None:
        return not message.content and bool(message.attachments)
    people = {user.id: clean_name(user.display_name) for user in message.mentions}
    return text.strip() in (message.content.strip(), shown_text(message).strip()) or (
        to_names(text, people, {}, {}).strip() == shown_text(message).strip()
    )
