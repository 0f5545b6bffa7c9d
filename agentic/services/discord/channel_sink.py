"""The sink of one Discord channel: posts, whole or streamed, reactions and the typing sign."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import discord

from agentic.chat.directory import clean_name
from agentic.chat.outlet import SPLIT_AT, UNFINISHED, Post, Posted, ignored, without_mark
from agentic.chat.splitting import length, split_text
from agentic.process.tasks import BackgroundTasks
from agentic.services.discord.channel_view import DiscordView
from agentic.services.discord.channels import me_in, permissions_in
from agentic.services.discord.command_replies import DiscordCommandReplies
from agentic.services.discord.errors import REQUEST_ERRORS, kind
from agentic.services.discord.gate import Gate
from agentic.services.discord.history import PAGE, PAGE_TIMEOUT
from agentic.services.discord.message_writer import MessageWriter
from agentic.services.discord.multipart import LIMIT, EarlierPosts, PostParts, put_all
from agentic.services.discord.name_markup import NameMarkup, user_ids
from agentic.services.discord.post_extras import extras_of, text_limit
from agentic.services.discord.source_line import text_with_sources
from agentic.services.discord.streaming_post import DiscordStreamingPost
from agentic.services.discord.typing import TypingSign

STREAMING_LIMIT = LIMIT - length(UNFINISHED)

log = logging.getLogger(__name__)


class DiscordSink:
    """A channel or thread as one bot writes into it.

    `names` are the agents' names by key. `may_post` is asked before each request that shows the bot: whether this
    process holds the agent's lease, and no person has stopped the channel. `may_remove` is asked before a deletion.
    """

    may_react = True
    _background: ClassVar[BackgroundTasks] = BackgroundTasks()

    def __init__(
        self,
        view: DiscordView,
        *,
        names: Mapping[str, str],
        may_post: Callable[[], bool],
        may_remove: Callable[[], bool],
    ) -> None:
        self._view, self._channel = view, view.channel
        self._posting_gate = view.gate.under(may_post)
        self._names = names
        self._inner_names: Mapping[str, str] = {}
        self._writer = MessageWriter(
            view.channel, view.gate, view.transcripts, may_post=may_post, may_remove=may_remove
        )
        self._streaming: DiscordStreamingPost | None = None
        self._typing: set[TypingSign] = set()
        self.command_replies = DiscordCommandReplies(view.channel, view.gate, self._writer, self._background)

    @property
    def may_attach(self) -> bool:
        """Whether pictures may be posted here."""
        return permissions_in(self._channel).attach_files

    def refusal(self) -> str | None:
        """Why this bot may not take a turn here; None when it may."""
        return self._writer.refusal()

    def ignore_lock(self) -> None:
        """The thread is locked by ourselves, against its audience: write in it all the same."""
        self._writer.our_lock = True

    def know_as(self, inner_names: Mapping[str, str]) -> None:
        """Sets further names of agents, by key: `@name` in what the bot writes is then a mention."""
        self._inner_names = inner_names

    # -- posts --------------------------------------------------------------------------------------------------------

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Posts text and picture as one message, or as several where the text is too long. It completes the turn's
        streaming post, if there is one. Where the message that it replies to is gone, it is an ordinary post.

        `noted` gets what is in the channel as soon as it is there, also when a later part takes too long. Raises
        CannotPost when nothing could be posted; when only a later part fails, what was posted counts.
        """
        streaming = self._streaming if self._streaming is not None and self._streaming.turn_id == turn_id else None
        if streaming is not None:
            await streaming.stop()
            self._streaming = None
        parts = streaming.parts if streaming is not None else None
        parts = parts or await self._open_parts(turn_id, post.ping, post.after, self._may_reply(post.reply_to))
        limit = text_limit(post, STREAMING_LIMIT if streaming is not None else LIMIT)
        texts: list[str | None] = [*self._split(without_mark(text_with_sources(post)), limit)] or [None]
        last = await extras_of(post, self._channel, embeds=permissions_in(self._channel).embed_links)
        return await put_all(parts, texts, last, noted)

    def streaming(
        self, turn_id: str, *, ping: int | None = None, after: int | None = None, split_at: int = SPLIT_AT
    ) -> DiscordStreamingPost:
        """A streaming post, as `async with sink.streaming(...) as post`; `ping` and `after` as in Post. `post` with the
        same turn completes it, `withdraw` deletes it. Typing ends with its first message."""
        limit = min(split_at, STREAMING_LIMIT)
        self._streaming = DiscordStreamingPost(
            turn_id,
            open_parts=lambda: self._open_parts(turn_id, ping, after),
            split=lambda text: self._split(text, limit, growing=True),
            quiet=lambda: self._view.gate.quiet,
            began=self._end_typing,
        )
        return self._streaming

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Deletes the streaming post of a turn that came to nothing. `after` is set where an earlier run of the program
        may have begun it, behind that message."""
        streaming, self._streaming = self._streaming, None
        parts = None
        if streaming is not None and streaming.turn_id == turn_id:
            await streaming.stop()
            parts = streaming.parts
        if parts is None and after is not None:
            parts = await self._open_parts(turn_id, None, after)
        if parts is not None:
            await parts.trim(0)

    def _may_reply(self, message_id: int | None) -> int | None:
        """Discord takes a reply only of a bot that may read the channel's past."""
        return message_id if permissions_in(self._channel).read_message_history else None

    async def _open_parts(
        self, turn_id: str, ping: int | None, after: int | None, reply_to: int | None = None
    ) -> PostParts:
        return PostParts(self._writer, turn_id, EarlierPosts(await self._own_since(after)), ping, reply_to)

    async def _own_since(self, after: int | None) -> Sequence[discord.Message]:
        """This bot's posts behind a message, as Discord has them now; none where they need not or cannot be read."""
        if after is None:
            return ()
        me = me_in(self._channel).id
        page = await self._view.newest(PAGE, PAGE_TIMEOUT)
        return [message for message in page if message.author.id == me and message.id > after]

    def _split(self, text: str, limit: int, *, growing: bool = False) -> list[str]:
        """Splits a text after it was cleaned: half a secret is not recognised."""
        return split_text(self._name_markup().to_markup(self._view.gate.clean(text)), limit, growing=growing)

    def _name_markup(self) -> NameMarkup:
        directory = self._view.transcripts.directory
        return NameMarkup(self._channel, self._view.transcript, user_ids(directory, self._names, self._inner_names))

    # -- signs --------------------------------------------------------------------------------------------------------

    async def react(self, message_id: int, emoji: str) -> bool:
        """Adds a reaction. False when the message is not one of this channel's, Discord refuses the emoji, or a person
        has stopped the channel.

        Nothing is requested without the permission for it: Discord counts refused requests.
        """
        return await self._react(self._posting_gate, message_id, emoji)

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        """Adds a reaction also in a stopped channel, to show that an order was understood or is in force."""
        return await self._react(self._view.gate, message_id, emoji)

    async def _react(self, gate: Gate, message_id: int, emoji: str) -> bool:
        permissions, transcript = permissions_in(self._channel), self._view.transcript
        if message_id not in transcript or not (permissions.add_reactions and permissions.read_message_history):
            return False
        me = me_in(self._channel)
        try:
            await gate.react(self._channel.get_partial_message(message_id), emoji)
        except REQUEST_ERRORS as error:
            log.info("message %d: reaction %s was not added: %s", message_id, emoji, kind(error))
            return False
        transcript.react(message_id, emoji, me.id, clean_name(me.display_name), bot=True)
        return True

    @contextmanager
    def typing(self) -> Iterator[None]:
        """Shows typing beside the work within; nothing waits for it."""
        sign = TypingSign(lambda: self._posting_gate.typing(self._channel, self._channel.id), self._background)
        self._typing.add(sign)
        try:
            yield
        finally:
            sign.stop()
            self._typing.discard(sign)

    def _end_typing(self) -> None:
        for sign in self._typing:
            sign.stop()
