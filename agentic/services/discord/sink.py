"""The sink of a Discord channel: whole and streamed posts, reactions, the typing indicator, and command replies."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Mapping
from typing import ClassVar, Self
from weakref import WeakSet

import discord

from agentic.chat.directory import clean_name
from agentic.chat.outlet import SPLIT_AT, UNFINISHED, CannotPost, Post, Posted, TypingSign, ignore_post, without_mark
from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.process.tasks import BackgroundTasks, wait_at_most
from agentic.services.discord.channels import Channel, me_in, parent_in, permissions_in
from agentic.services.discord.gate import (
    NO_EXTRAS,
    REQUEST_ERRORS,
    TYPING_REFRESH,
    Extras,
    Gate,
    error_code,
    fit,
    nonce,
)
from agentic.services.discord.history import PAGE, PAGE_TIMEOUT
from agentic.services.discord.posts import (
    EarlierPosts,
    MessageWriter,
    PostParts,
    extras_of,
    put_all,
    text_limit,
    text_with_sources,
)
from agentic.services.discord.view import DiscordView, split_cleaned
from agentic.state.leases import AnyLease

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 8_000_000  # below Discord's limit for a guild without boosts
FIRST_CHARACTERS = 40  # posted at first, so that no message begins with a word or two
PACE = 1.2  # seconds between two edits
HELD_BACK = 200  # characters; a longer word is shown before it ends
STOP_SECONDS = 3.0  # to wait for a running request
STREAMING_LIMIT = MAX_MESSAGE - length(UNFINISHED)


class DiscordSink:
    """A channel or thread as one bot writes to it.

    `names` are the agents' names by key. `posting` is checked before each visible request: this process must hold the
    agent's lease, and the channel must not be stopped. `lease` is checked before a deletion.
    """

    may_react = True
    _background: ClassVar[BackgroundTasks] = BackgroundTasks()

    def __init__(self, view: DiscordView, *, names: Mapping[str, str], posting: AnyLease, lease: AnyLease) -> None:
        self._view, self._channel = view, view.channel
        self._posting_gate = view.gate.under(posting)
        self._names = names
        self._channel_names: Mapping[str, str] = {}
        self._writer = MessageWriter(view.channel, view.gate, view.transcripts, posting=posting, lease=lease)
        self._streaming: DiscordStreamingPost | None = None
        self._typing: WeakSet[TypingSign] = WeakSet()
        self.command_replies = DiscordCommandReplies(view.channel, view.gate, self._writer, self._background)

    @property
    def may_attach(self) -> bool:
        return permissions_in(self._channel).attach_files

    def refusal(self) -> str | None:
        """Return why this bot may not take a turn here, or None if it may."""
        return self._writer.refusal()

    def ignore_lock(self) -> None:
        """Write even if the thread is locked: we locked it ourselves, to keep its audience out."""
        self._writer.our_lock = True

    def set_channel_names(self, channel_names: Mapping[str, str]) -> None:
        """Add names of agents, by key, that the bot may mention as `@name`."""
        self._channel_names = channel_names

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignore_post) -> Posted:
        """Post text and picture as one message, or as several if the text is too long. Completes the turn's streaming
        post if there is one. If the message it replies to is gone, it becomes an ordinary post.

        `noted` is called after each message, even if a later one takes too long. Raises CannotPost if nothing could be
        posted; if a later message fails, the result contains the earlier ones.
        """
        streaming = self._streaming if self._streaming is not None and self._streaming.turn_id == turn_id else None
        if streaming is not None:
            await streaming.stop()
            self._streaming = None
        parts = streaming.parts if streaming is not None else None
        if parts is None:
            # Discord accepts replies only from bots that may read the channel's history.
            may_reply = post.reply_to is not None and permissions_in(self._channel).read_message_history
            parts = await self.open_parts(turn_id, post.ping, post.after, post.reply_to if may_reply else None)
        limit = text_limit(post, STREAMING_LIMIT if streaming is not None else MAX_MESSAGE)
        texts: list[str | None] = [*self.split(without_mark(text_with_sources(post)), limit)] or [None]
        shows_cost = post.cost is not None and permissions_in(self._channel).embed_links
        last = await extras_of(post, self._channel, embeds=shows_cost)
        return await put_all(parts, texts, last, noted)

    def streaming(
        self, turn_id: str, *, ping: int | None = None, after: int | None = None, split_at: int = SPLIT_AT
    ) -> DiscordStreamingPost:
        """Return a streaming post for `async with`; `ping` and `after` as in Post. `post` with the same turn completes
        it, and `withdraw` deletes it. Typing ends with its first text."""
        self._streaming = DiscordStreamingPost(self, turn_id, ping, after, min(split_at, STREAMING_LIMIT))
        return self._streaming

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Delete the streaming post of a failed turn. `after` is set if an earlier run may have begun the post after
        that message."""
        streaming, self._streaming = self._streaming, None
        parts = None
        if streaming is not None and streaming.turn_id == turn_id:
            await streaming.stop()
            parts = streaming.parts
        if parts is None and after is not None:
            parts = await self.open_parts(turn_id, None, after)
        if parts is not None:
            await parts.trim(0)

    async def open_parts(
        self, turn_id: str, ping: int | None, after: int | None, reply_to: int | None = None
    ) -> PostParts:
        """Begin a turn's post, with the parts that an earlier run may have posted after the message `after`."""
        own: list[discord.Message] = []
        if after is not None:
            me = me_in(self._channel).id
            page = await self._view.newest(PAGE, PAGE_TIMEOUT)
            own = [message for message in page if message.author.id == me and message.id > after]
        return PostParts(self._writer, turn_id, EarlierPosts(own), ping, reply_to)

    @property
    def quiet(self) -> bool:
        """Whether the rate limit has room for an optional request."""
        return self._view.gate.quiet

    def split(self, text: str, limit: int, *, growing: bool = False) -> list[str]:
        return split_cleaned(self._view, text, limit, self._names, self._channel_names, growing=growing)

    async def react(self, message_id: int, emoji: str) -> bool:
        """Add a reaction. Return False if the message isn't in this channel, Discord rejects the emoji, or a person has
        stopped the channel. Without the permission nothing is requested, because Discord counts refused requests."""
        return await self._react(self._posting_gate, message_id, emoji)

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        """Add a reaction even in a stopped channel, to show that a command was understood or is in effect."""
        return await self._react(self._view.gate, message_id, emoji)

    async def _react(self, gate: Gate, message_id: int, emoji: str) -> bool:
        permissions, transcript = permissions_in(self._channel), self._view.transcript
        if message_id not in transcript or not (permissions.add_reactions and permissions.read_message_history):
            return False
        me = me_in(self._channel)
        try:
            await gate.react(self._channel.get_partial_message(message_id), emoji)
        except REQUEST_ERRORS as error:
            log.info("reacting to message %d with %s failed: %s", message_id, emoji, error_code(error))
            return False
        transcript.react(message_id, emoji, me.id, clean_name(me.display_name), bot=True)
        return True

    def typing(self) -> TypingSign:
        async def show(shown: bool) -> None:
            if shown:  # Discord ends it on its own
                await self._posting_gate.typing(self._channel, self._channel.id)

        sign = TypingSign(show, self._background, TYPING_REFRESH)
        self._typing.add(sign)
        return sign

    def end_typing(self) -> None:
        for sign in self._typing:
            sign.stop()


class DiscordStreamingPost:
    """A post that grows while the model writes. Use with `async with`.

    Its pace is well below Discord's limit of five edits per channel in five seconds. An edit is skipped while the bot
    sends many requests: only the last one matters, and the sink's post() makes it. Until then each message ends with a
    mark, which shows a run after a crash what to complete. Only whole words are posted: redaction doesn't recognize
    half a key.

        the model's text ─ update() ─ the newest text ─ every 1.2 s ─ PostParts ─ … ─ the sink's post() completes it
    """

    def __init__(self, sink: DiscordSink, turn_id: str, ping: int | None, after: int | None, limit: int) -> None:
        self.turn_id = turn_id
        self._sink, self._ping, self._after, self._limit = sink, ping, after, limit
        self.parts: PostParts | None = None  # None while nothing was posted
        self._text = self._note = ""
        self._has_text = False  # some of the text was shown
        self._updated, self._stopping = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._stream(), name=f"streaming post {self.turn_id}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def update(self, text: str) -> None:
        """Set the whole text so far. It may be shorter than before."""
        self._text = text
        self._updated.set()

    def note(self, line: str) -> None:
        """Set a line that is shown until there is text."""
        self._note = line
        self._updated.set()

    async def stop(self) -> None:
        """Stop streaming. Waits for a running request, which must not arrive after the final one."""
        self._stopping.set()
        self._updated.set()
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait((task,), timeout=STOP_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("turn %s: streaming the post failed; it is posted whole", self.turn_id, exc_info=error)

    async def _stream(self) -> None:
        try:
            while True:
                await self._updated.wait()
                if self._stopping.is_set():
                    return
                self._updated.clear()
                await self._show(whole_words(self._text))
                await wait_at_most(self._stopping, PACE)
        except CannotPost as error:
            log.info("turn %s: streaming the post ended: %s", self.turn_id, error.reason)

    async def _show(self, text: str) -> None:
        begun = self.parts is not None and self.parts.first is not None
        has_text = len(text) >= FIRST_CHARACTERS
        if not has_text:
            text = "" if self._has_text else self._note
        if not text or (self.parts is not None and self.parts.abandoned):
            return
        if (begun or not has_text) and not self._sink.quiet:
            self._updated.set()  # tried again after the pause
            return
        if self.parts is None:
            self.parts = await self._sink.open_parts(self.turn_id, self._ping, self._after)
        for number, chunk in enumerate(self._sink.split(text, self._limit, growing=True)):
            await self.parts.put(number, chunk + UNFINISHED)
            if has_text and not self._has_text:
                self._has_text = True
                self._sink.end_typing()


def whole_words(text: str) -> str:
    """Remove a text's last word, which may be incomplete, unless it is very long."""
    end = max(text.rfind(" "), text.rfind("\n"), len(text) - HELD_BACK, 0)
    return text[:end].rstrip()


class DiscordCommandReplies:
    """Replies to commands that people write in a channel (`m context`, a pinned `.config`). Each reply begins with a
    period so that bots don't take it for part of the conversation."""

    def __init__(self, channel: Channel, gate: Gate, writer: MessageWriter, background: BackgroundTasks) -> None:
        self._channel, self._gate, self._writer, self._background = channel, gate, writer, background

    def discard(self, message_id: int) -> bool:
        """Start to delete a command. Return whether the bot has the permission for it."""
        if not permissions_in(self._channel).manage_messages:
            log.info("channel %d: a command was not deleted: the bot lacks Manage Messages", self._channel.id)
            return False

        async def delete() -> None:
            try:
                await self._writer.remove(self._channel.get_partial_message(message_id))
            except CannotPost as error:
                log.info("channel %d: deleting a command failed: %s", self._channel.id, error.reason)

        self._background.start(delete(), f"discard {message_id}")
        return True

    async def reply(self, message_id: int, text: str, occasion: str, *, in_parent: bool = False) -> bool:
        """Reply to a person's message with one line, without a ping. Return False if it could not be posted.
        `in_parent`: the message is in the channel of this thread.

        For some minutes Discord ignores a second reply on the same `occasion`. A caller that must never repeat a reply
        remembers it for longer (agentic.state.posts).
        """
        channel = (parent_in(self._channel) if in_parent else None) or self._channel
        to = discord.MessageReference(message_id=message_id, channel_id=channel.id, fail_if_not_exists=False)
        return await self._say(self._writer.to(channel), text, occasion, reply_to=to)

    async def send_file(self, filename: str, content: str, note: str, occasion: str) -> bool:
        """Post a text as a file, without secrets. Return False if it could not be posted; a line says why."""
        if not permissions_in(self._channel).attach_files:
            await self._say(self._writer, f"{note}: no file, because I lack Attach Files here", occasion)
            return False
        data = self._gate.clean(content).encode("utf-8", "replace")
        if len(data) > MAX_FILE_BYTES:
            data = data[:MAX_FILE_BYTES].decode("utf-8", "ignore").encode() + b"\n(cut here: too long for Discord)\n"
        extras = Extras(attach=lambda: discord.File(io.BytesIO(data), filename=filename))
        return await self._say(self._writer, note, occasion, extras)

    async def _say(
        self,
        writer: MessageWriter,
        text: str,
        occasion: str,
        extras: Extras = NO_EXTRAS,
        reply_to: discord.MessageReference | None = None,
    ) -> bool:
        line = fit(f". {self._gate.clean(text).lstrip('. ')}")
        try:
            await writer.send(line, extras, nonce(occasion, 0), reply_to)
        except CannotPost as error:
            log.info("channel %d: posting a reply to a command failed: %s", self._channel.id, error.reason)
            return False
        return True
