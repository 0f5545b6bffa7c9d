"""One channel as a turn sees it: where to listen, post, type and react. The only place that turns know Discord by."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import discord

from agent_context.entries import Entry
from agent_discord.attachments import PictureReader
from agent_discord.convert import to_entry
from agent_discord.earlier_posts import EarlierPosts
from agent_discord.fetching import PAGE, PAGE_TIMEOUT, Fetcher
from agent_discord.gate import REQUEST_ERRORS, TYPING_SECONDS, Gate, nonce
from agent_discord.mentions import clean_name, from_names
from agent_discord.splitting import split_text
from agent_discord.transcript import Transcript, Transcripts
from agent_llm.types import Picture

TYPING_DELAY = 0.25  # seconds: an answer that is there sooner needs no typing

Channel = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel

log = logging.getLogger(__name__)


class CannotPost(Exception):
    """It cannot be posted. `reason` is for the result: not_permitted, unknown_channel, discord_failed or not_ours."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Posted:
    """What was posted: the first message's id, the address of the picture, if one went along, and all messages' ids."""

    message_id: int
    picture_url: str | None = None
    message_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What is to be posted. `ping` is the user id of the person who is answered.

    `after` is set where an earlier run of the program may have posted it, or some of it, behind that message.
    """

    text: str | None
    picture: Picture | None = None
    embed: discord.Embed | None = None
    ping: int | None = None
    after: int | None = None


def ignored(_: Posted) -> None:
    """For callers that wait for the end."""


class DiscordOutlet:
    """A channel or thread, spoken into by one bot."""

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
    ) -> None:
        self._channel, self._gate = channel, gate
        self._transcripts, self._fetcher, self._pictures = transcripts, fetcher, pictures
        self._names = names  # of the agents, by key
        self._may_post = may_post  # asked before each post: does this process still hold the agent?

    @property
    def channel_id(self) -> int:
        return self._channel.id

    @property
    def guild_id(self) -> int | None:
        return self._channel.guild.id

    @property
    def name(self) -> str:
        return clean_name(self._channel.name)

    @property
    def transcript(self) -> Transcript:
        return self._transcripts.of(self._channel.id)

    def _permissions(self) -> discord.Permissions:
        return self._channel.permissions_for(self._channel.guild.me)

    @property
    def may_attach(self) -> bool:
        """Pictures may be posted here."""
        return self._permissions().attach_files

    def refusal(self) -> str | None:
        """Why this bot may not take a turn here, None when it may."""
        permissions = self._permissions()
        may_send = (
            permissions.send_messages_in_threads
            if isinstance(self._channel, discord.Thread)
            else permissions.send_messages
        )
        closed = isinstance(self._channel, discord.Thread) and self._channel.locked
        return None if permissions.view_channel and may_send and not closed else "not_permitted"

    async def settle(self) -> None:
        """Waits, a short while at most, for the channel's past to be known."""
        await self._fetcher.whole(self._channel.id, self.read_page)

    async def read_page(self, limit: int, before: int | None) -> Sequence[discord.Message]:
        if not self._permissions().read_message_history:
            return ()
        return await self._gate.history(self._channel, limit, before)

    async def pictures(self, entries: Sequence[Entry]) -> Mapping[int, tuple[Picture, ...]]:
        """The newest pictures of these entries, by message id."""
        return await self._pictures.read(entries)

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Posts text and picture as one message, as several where the text is too long.

        `noted` hears of what stands in the channel as soon as it does, also when a later part takes too long. Raises
        CannotPost when nothing could be posted; what is posted when a later part fails counts.
        """
        chunks: list[str | None] = [*split_text(self._gate.clean(self._with_mentions(post.text or "")))] or [None]
        posted: Posted | None = None
        standing = EarlierPosts(await self._own_since(post.after))
        for number, chunk in enumerate(chunks):
            last = number == len(chunks) - 1
            try:
                message = standing.take(chunk, nonce(turn_id, number)) or await self._send(
                    chunk,
                    nonce=nonce(turn_id, number),
                    ping=post.ping,
                    attach=partial(_file, post.picture) if last and post.picture else None,
                    embed=post.embed if last and post.embed and self._permissions().embed_links else None,
                )
            except CannotPost as error:
                if posted is None:
                    raise
                log.warning("channel %d: only the first %d parts are posted (%s)", self.channel_id, number, error)
                return posted
            url = message.attachments[0].url if message.attachments else None
            ids = (*posted.message_ids, message.id) if posted else (message.id,)
            posted = Posted(ids[0], url, ids)
            noted(posted)
        assert posted is not None
        return posted

    async def _own_since(self, after: int | None) -> Sequence[discord.Message]:
        """This bot's posts behind a message, as Discord has them now; none where they need not or cannot be read."""
        if after is None:
            return ()
        try:
            page = await asyncio.wait_for(self.read_page(PAGE, None), PAGE_TIMEOUT)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("channel %d: own posts could not be looked for: %s", self.channel_id, _kind(error))
            return ()
        me = self._channel.guild.me.id
        return [message for message in page if message.author.id == me and message.id > after]

    async def _send(self, text: str | None, **details: Any) -> discord.Message:
        if not self._may_post():
            raise CannotPost("not_ours")
        refusal = self.refusal()  # again: rights and threads change while a bot thinks
        if refusal is not None:
            raise CannotPost(refusal)
        try:
            message = await self._gate.send(self._channel, text, **details)
        except REQUEST_ERRORS as error:
            raise self._cannot(error) from error
        self._record(message)
        return message

    async def react(self, message_id: int, emoji: str) -> bool:
        """False when the message is not one of this channel's, or Discord does not take the emoji.

        What the bot may not do is not even asked for: Discord counts refused requests.
        """
        permissions = self._permissions()
        if message_id not in self.transcript or not (permissions.add_reactions and permissions.read_message_history):
            return False
        me = self._channel.guild.me
        try:
            await self._gate.react(self._channel.get_partial_message(message_id), emoji)
        except REQUEST_ERRORS as error:
            log.info("reaction %s to %d not taken: %s", emoji, message_id, type(error).__name__)
            return False
        self.transcript.react(message_id, emoji, me.id, clean_name(me.display_name))
        return True

    @contextmanager
    def typing(self) -> Iterator[None]:
        """Typing is shown beside the work within; nothing waits for it."""
        indicator = _Typing(lambda: self._gate.typing(self._channel, self._channel.id))
        try:
            yield
        finally:
            indicator.stop()

    def _with_mentions(self, text: str) -> str:
        """Everybody is known by each name that the channel has seen: a nickname live, another one in its past.

        An agent's name is the agent's, whoever else may have taken it.
        """
        if "@" not in text:
            return text
        ids = {agent: self._transcripts.directory.id_of(agent) for agent in self._names}
        agents = {(name, user_id) for agent, name in self._names.items() if (user_id := ids[agent]) is not None}
        taken = {name.lower() for name, _ in agents}
        speakers = {entry.speaker for entry in self.transcript.entries() if entry.speaker.id}
        others = {(who.name, who.id) for who in speakers if who.agent or who.name.lower() not in taken}
        return from_names(text, agents | others)

    def _record(self, message: discord.Message) -> None:
        """Own posts enter the transcript from REST's answer: the next turn may come before the gateway's event."""
        entry = to_entry(message, self._transcripts.directory)
        if entry is not None:
            self.transcript.add(entry)

    def _cannot(self, error: Exception) -> CannotPost:
        log.warning("post to channel %d failed: %s", self._channel.id, _kind(error))
        if isinstance(error, discord.Forbidden):
            return CannotPost("not_permitted")
        if isinstance(error, discord.NotFound):
            return CannotPost("unknown_channel")
        return CannotPost("discord_failed")


class _Typing:
    """Asks for typing after a moment and again while it lasts; requests on their way are left to end by themselves."""

    _requests: ClassVar[set[asyncio.Task[None]]] = set()  # owned here, so that none is lost in mid-flight

    def __init__(self, show: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(TYPING_DELAY, self._tick)

    def _tick(self) -> None:
        task = self._loop.create_task(self._show(), name="typing")
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        # A little more than the gate's pause, or every other request would come too early by a hair and be dropped.
        self._timer = self._loop.call_later(TYPING_SECONDS + TYPING_DELAY, self._tick)

    def stop(self) -> None:
        self._timer.cancel()


def _file(picture: Picture) -> discord.File:
    suffix = picture.media_type.removeprefix("image/").replace("jpeg", "jpg")
    return discord.File(io.BytesIO(picture.data), filename=f"picture.{suffix}")


def _kind(error: Exception) -> str:
    if isinstance(error, discord.HTTPException):
        return f"HTTP {error.status}, code {error.code}"
    return type(error).__name__
