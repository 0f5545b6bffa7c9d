"""One channel as a turn sees it: where to listen, post, type and react. The only place that turns know Discord by."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

import discord

from agent_chat.attachments import AS_USUAL, Look, PictureReader
from agent_chat.incoming import Who
from agent_chat.outlet import SPLIT_AT, Post, Posted, ignored
from agent_chat.outlet import CannotPost as CannotPost
from agent_chat.text_files import MAX_FILES, TextFile
from agent_chat.transcript import Transcript, Transcripts
from agent_context.entries import Entry
from agent_context.selecting.history import Interval
from agent_discord.objects.audience import may_be_told
from agent_discord.objects.channels import Channel as Channel
from agent_discord.objects.channels import guild_id_of, guild_of, me_in, name_in, permissions_in
from agent_discord.objects.mentions import clean_name
from agent_discord.objects.messages import UNFINISHED, without_mark
from agent_discord.objects.permissions import who_is, with_members
from agent_discord.posting.command_replies import DiscordCommandReplies
from agent_discord.posting.message_writer import MessageWriter
from agent_discord.posting.multipart import EarlierPosts, Extras, Parts, put_all
from agent_discord.posting.name_markup import Naming
from agent_discord.posting.splitting import LIMIT, length, split_text
from agent_discord.posting.streaming_post import GrowingPost
from agent_discord.posting.typing import TypingSign
from agent_discord.reading.hide_reactions import MOST_GIVERS, with_marks_of_people
from agent_discord.reading.history import PAGE, PAGE_TIMEOUT, Fetcher
from agent_discord.reading.history_cache import Pasts
from agent_discord.rest.gate import REQUEST_ERRORS, Gate, kind
from agent_llm.types import Picture
from agent_process.tasks import BackgroundTasks

GROWN_LIMIT = LIMIT - length(UNFINISHED)


log = logging.getLogger(__name__)


class DiscordOutlet:
    """A channel or thread, spoken into by one bot."""

    _background: ClassVar[BackgroundTasks] = BackgroundTasks()

    def __init__(
        self,
        channel: Channel,
        *,
        gate: Gate,
        transcripts: Transcripts,
        fetcher: Fetcher,
        pictures: PictureReader,
        names: Mapping[str, str],
        may_post: Callable[[], bool] = lambda: True,
        may_remove: Callable[[], bool] | None = None,
        pasts: Pasts | None = None,
    ) -> None:
        self._channel, self._gate, self._pasts, self._may_post = channel, gate, pasts, may_post
        self._speaking = gate.under(may_post)  # all that shows that the bot is there
        self._thread = channel if isinstance(channel, discord.Thread) else None
        self._inner_names: Mapping[str, str] = {}
        self._transcripts, self._fetcher, self._pictures = transcripts, fetcher, pictures
        self._names = names  # of the agents, by key
        self._hand = MessageWriter(
            channel, gate, transcripts, may_post=may_post, may_remove=may_remove, refusal=self.refusal
        )
        self._growing: GrowingPost | None = None
        self._typing: set[TypingSign] = set()
        self.chores = DiscordCommandReplies(channel, gate, self._hand, self._background)

    @property
    def channel(self) -> Channel:
        return self._channel

    @property
    def channel_id(self) -> int:
        return self._channel.id

    @property
    def guild_id(self) -> int | None:
        return guild_id_of(self._channel)

    @property
    def name(self) -> str:
        return name_in(self._channel)

    @property
    def own_name(self) -> str:
        """What the bot is called here: `@name` in a text mentions it."""
        return clean_name(me_in(self._channel).display_name)

    @property
    def own_ids(self) -> frozenset[int]:
        """By which it is mentioned: the bot's user, and the role that is its alone."""
        guild = guild_of(self._channel)
        role = guild.self_role if guild is not None else None
        return frozenset((me_in(self._channel).id, *((role.id,) if role is not None else ())))

    @property
    def transcript(self) -> Transcript:
        return self._transcripts.of(self._channel.id)

    def _permissions(self) -> discord.Permissions:
        return permissions_in(self._channel)

    @property
    def may_attach(self) -> bool:
        """Pictures may be posted here."""
        return self._permissions().attach_files

    def refusal(self) -> str | None:
        """Why this bot may not take a turn here, None when it may."""
        permissions = self._permissions()
        may_send = permissions.send_messages_in_threads if self._thread is not None else permissions.send_messages
        closed = self._thread is not None and self._thread.locked
        return None if permissions.view_channel and may_send and not closed else "not_permitted"

    @property
    def parent(self) -> DiscordOutlet | None:
        """The channel that a thread hangs on; None for a channel, and where the parent is not known."""
        above = self._thread.parent if self._thread is not None else None
        if above is None or not isinstance(above, Channel):
            return None
        return DiscordOutlet(
            above,
            gate=self._gate,
            transcripts=self._transcripts,
            fetcher=self._fetcher,
            pictures=self._pictures,
            names=self._names,
            may_post=self._may_post,
        )

    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]:
        """What is pinned, oldest first: of a thread's channel, then here."""
        above = self.parent
        return (*(above.pins if above else ()), tuple(self.transcript.pinned()))

    def pinned(self) -> tuple[Entry, ...]:
        """What is pinned, oldest first; for a thread what is pinned in its parent comes before its own."""
        above = self.parent
        return (*(above.pinned() if above else ()), *self.transcript.pinned())

    async def settle(self) -> None:
        """Waits, a short while at most, for the channel's past and pins to be known, and a thread's parent's."""
        above = self.parent
        own = self._fetcher.whole(self._channel.id, self.read_page, self.read_pins)
        if above is None:
            await own
        else:
            await asyncio.gather(own, above.settle())

    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
        """The newest `messages` up to the last one of an interval, oldest first, in any channel of this server; None
        where the bot cannot read them, or not everybody here may (pasts.py)."""
        source = await self._source(interval.channel_id)
        if self._pasts is None or not isinstance(source, Channel) or not may_be_told(source, self._channel):
            return None
        rights = permissions_in(source)
        if not (rights.view_channel and rights.read_message_history):
            return None

        async def read(limit: int, before: int | None) -> Sequence[discord.Message]:
            return await self._known(await self._gate.history(source, limit, before))

        return await self._pasts.upto(interval, messages, read)

    async def _source(self, channel_id: int) -> object:
        guild = guild_of(self._channel)
        if channel_id == self._channel.id:
            return self._channel
        return await self._pasts.channel(self._gate, guild, channel_id) if self._pasts and guild else None

    def know_as(self, inner_names: Mapping[str, str]) -> None:
        """By which names agents go here besides their own: `@name` in what the bot writes is then a mention."""
        self._inner_names = inner_names

    async def read_page(self, limit: int, before: int | None) -> Sequence[discord.Message]:
        if not self._permissions().read_message_history:
            return ()
        return await self._known(await self._gate.history(self._channel, limit, before))

    async def read_pins(self) -> Sequence[discord.Message] | None:
        """None where the bot may not know."""
        if not self._permissions().read_message_history:
            return None
        return await self._known(await self._gate.pins(self._channel))

    async def _known(self, messages: Sequence[discord.Message]) -> Sequence[discord.Message]:
        """With what REST does not say of each message by itself."""
        return await with_marks_of_people(await with_members(messages, self._member), self._givers)

    async def _givers(self, mark: discord.Reaction) -> Sequence[discord.User | discord.Member] | None:
        try:
            return await self._gate.givers(mark, MOST_GIVERS)
        except REQUEST_ERRORS as error:
            log.info("who hid or showed message %d is not known: %s", mark.message.id, kind(error))
            return None

    async def newest(self, count: int, seconds: float) -> Sequence[discord.Message]:
        """The channel's newest messages as Discord has them now; none where they cannot be read in that time."""
        try:
            async with asyncio.timeout(seconds):
                return await self.read_page(count, None)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("channel %d: its newest messages could not be read: %s", self.channel_id, kind(error))
            return ()

    async def givers(self, message_id: int, emoji: str) -> Sequence[Who]:
        """The people who gave a reaction, with what they may do here. Raises one of REQUEST_ERRORS."""
        message = await self._gate.message(self._channel, message_id)
        given = [one for one in message.reactions if str(one.emoji) == emoji] if message is not None else []
        people = [user for one in given for user in await self._gate.givers(one, MOST_GIVERS) if not user.bot]
        return [who_is(await self._member(user.id) or user, self._channel) for user in people]

    async def _member(self, user_id: int) -> discord.Member | None:
        guild = guild_of(self._channel)
        if guild is None:
            return None
        try:
            return await self._gate.member(guild, user_id)
        except REQUEST_ERRORS as error:
            log.info("the roles of %d are not known: %s", user_id, kind(error))
            return None

    async def pictures(self, entries: Sequence[Entry], look: Look = AS_USUAL) -> Mapping[int, tuple[Picture, ...]]:
        """The newest pictures of these entries, by message id."""
        return await self._pictures.read(entries, look)

    async def text_files(
        self, entries: Sequence[Entry], *, max_characters: int, most: int = MAX_FILES
    ) -> Mapping[int, TextFile]:
        """The newest text files of these entries, by attachment id."""
        return await self._pictures.texts.read(entries, max_characters=max_characters, most=most)

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Posts text and picture as one message, as several where the text is too long; a post of the turn that grows
        (`growing`) is ended by it.

        `noted` hears of what stands in the channel as soon as it does, also when a later part takes too long. Raises
        CannotPost when nothing could be posted; what is posted when a later part fails counts.
        """
        posted: list[Posted] = []

        def stands(first: discord.Message, newest: discord.Message) -> None:
            url = newest.attachments[0].url if newest.attachments else None
            ids = dict.fromkeys((*(posted[0].message_ids if posted else ()), first.id, newest.id))
            posted[:] = [Posted(first.id, url, tuple(ids))]
            noted(posted[0])

        growing = self._growing if self._growing is not None and self._growing.turn_id == turn_id else None
        if growing is not None:
            await growing.stop()
            self._growing = None
        parts = growing.parts if growing is not None else None
        parts = parts or await self._open_parts(turn_id, post.ping, post.after)
        limit = min(post.split_at, GROWN_LIMIT if growing is not None else LIMIT)
        texts: list[str | None] = [*self._split(without_mark(post.text or ""), limit)] or [None]
        last = Extras(
            attach=partial(_file, post.picture) if post.picture else None,
            embed=post.embed if post.embed and self._permissions().embed_links else None,
        )
        await put_all(parts, texts, last, stands)
        if not posted and parts.first is not None:  # somebody deleted it while it grew
            stands(parts.first, parts.first)
        return posted[0]

    def growing(
        self, turn_id: str, *, ping: int | None = None, after: int | None = None, split_at: int = SPLIT_AT
    ) -> GrowingPost:
        """A post that is read while it is written, as `async with outlet.growing(...) as growing`; the first two as in
        Post. `post` with the same turn ends it, `withdraw` takes it back; typing ends when it begins to stand."""
        limit = min(split_at, GROWN_LIMIT)
        self._growing = GrowingPost(
            turn_id,
            open_parts=lambda: self._open_parts(turn_id, ping, after),
            split=lambda text: self._split(text, limit),
            quiet=lambda: self._gate.quiet,
            began=self._end_typing,
        )
        return self._growing

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Deletes what has grown of a turn that came to nothing; `after` is set where it may have grown in an earlier
        run of the program, behind that message."""
        growing, self._growing = self._growing, None
        parts = None
        if growing is not None and growing.turn_id == turn_id:
            await growing.stop()
            parts = growing.parts
        if parts is None and after is not None:
            parts = await self._open_parts(turn_id, None, after)
        if parts is not None:
            await parts.trim(0)

    async def _open_parts(self, turn_id: str, ping: int | None, after: int | None) -> Parts:
        return Parts(self._hand, turn_id, EarlierPosts(await self._own_since(after)), ping)

    def _split(self, text: str, limit: int) -> list[str]:
        """Cleaned as a whole, before it is split: half a secret is not found."""
        return split_text(self._naming().to_markup(self._gate.clean(text)), limit)

    async def _own_since(self, after: int | None) -> Sequence[discord.Message]:
        """This bot's posts behind a message, as Discord has them now; none where they need not or cannot be read."""
        if after is None:
            return ()
        try:
            page = await asyncio.wait_for(self.read_page(PAGE, None), PAGE_TIMEOUT)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("channel %d: own posts could not be looked for: %s", self.channel_id, kind(error))
            return ()
        me = me_in(self._channel).id
        return [message for message in page if message.author.id == me and message.id > after]

    async def react(self, message_id: int, emoji: str) -> bool:
        """False when the message is not one of this channel's, Discord does not take the emoji, or a person wants
        silence.

        What the bot may not do is not even asked for: Discord counts refused requests.
        """
        return await self._react(self._speaking, message_id, emoji)

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        """Shows that an order was heard, or is in force: the one thing that leaves a silent channel. As `react`."""
        return await self._react(self._gate, message_id, emoji)

    async def _react(self, gate: Gate, message_id: int, emoji: str) -> bool:
        permissions = self._permissions()
        if message_id not in self.transcript or not (permissions.add_reactions and permissions.read_message_history):
            return False
        me = me_in(self._channel)
        try:
            await gate.react(self._channel.get_partial_message(message_id), emoji)
        except REQUEST_ERRORS as error:
            log.info("reaction %s to %d not taken: %s", emoji, message_id, type(error).__name__)
            return False
        self.transcript.react(message_id, emoji, me.id, clean_name(me.display_name), bot=True)
        return True

    @contextmanager
    def typing(self) -> Iterator[None]:
        """Typing is shown beside the work within; nothing waits for it."""
        sign = TypingSign(lambda: self._speaking.typing(self._channel, self._channel.id), self._background)
        self._typing.add(sign)
        try:
            yield
        finally:
            sign.stop()
            self._typing.discard(sign)

    def _end_typing(self) -> None:
        for sign in self._typing:
            sign.stop()

    def _naming(self) -> Naming:
        ids = {name: self._transcripts.directory.id_of(agent) for agent, name in self._names.items()}
        ids |= {name: self._transcripts.directory.id_of(agent) for agent, name in self._inner_names.items()}
        agents = {name: user_id for name, user_id in ids.items() if user_id is not None}
        return Naming(self._channel, self.transcript, agents)


def _file(picture: Picture) -> discord.File:
    suffix = picture.media_type.removeprefix("image/").replace("jpeg", "jpg")
    return discord.File(io.BytesIO(picture.data), filename=f"picture.{suffix}")
