"""The thread of a room as one bot looks after it: notices, the lock, the archive, votes.

What fails raises CannotPost with its reason, as in room_threads.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import discord

from agentic.chat.directory import Directory, WebhookPostStore
from agentic.chat.outlet import CannotPost
from agentic.chat.splitting import length
from agentic.context.entries import hidden_by_text
from agentic.services.discord.channels import Channel, permissions_in
from agentic.services.discord.errors import REQUEST_ERRORS
from agentic.services.discord.gate import Gate
from agentic.services.discord.messages import is_said
from agentic.services.discord.multipart import LIMIT
from agentic.services.discord.outbound import nonce
from agentic.services.discord.room_threads import cannot

VOTE = "👍"
SKIN_TONES = dict.fromkeys(range(0x1F3FB, 0x1F400))
PAGE = 100  # Discord's largest
MOST_READ = 1000  # messages of a thread
MOST_GIVERS = 100  # of a reaction

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RoomPost:
    """A post of an agent in a thread. `voters` are the people who gave it a 👍 of any colour."""

    message_id: int
    agent: str
    text: str
    voters: frozenset[int] = frozenset()


class RoomUpkeep:
    """One bot; `agent` is its key. `may_act` is asked before each request: whether this process acts for it."""

    def __init__(
        self,
        agent: str,
        bot: discord.Bot,
        gate: Gate,
        directory: Directory,
        posts: WebhookPostStore,
        may_act: Callable[[], bool],
    ) -> None:
        self.agent = agent
        self._bot, self._gate = bot, gate.under(may_act)
        self._directory, self._posts = directory, posts

    def sees(self, channel_id: int) -> bool:
        """Whether it may read the text channel."""
        channel = self._bot.get_channel(channel_id)
        return isinstance(channel, discord.TextChannel) and permissions_in(channel).view_channel

    def may_lock(self, channel_id: int) -> bool:
        """Whether it may lock threads of the text channel, and write in them all the same."""
        channel = self._bot.get_channel(channel_id)
        return isinstance(channel, discord.TextChannel) and permissions_in(channel).manage_threads

    async def say(
        self, channel_id: int, thread_id: int | None, text: str, key: str, *, since: float | None = None
    ) -> None:
        """Post in the thread, or with None in the channel; it pings nobody. `key` names the post: the same one twice is
        one message. `since`: the post may be there already, made after that time (unix seconds)."""
        place = self._channel(channel_id) if thread_id is None else await self._thread(channel_id, thread_id)
        if length(self._gate.clean(text)) > LIMIT:
            raise ValueError(f"a notice has {len(text)} characters")
        try:
            if since is not None and await posted_before(self._gate, self._directory, place, text, since):
                return
            await self._gate.send(place, text, nonce=nonce(key, 0))
        except REQUEST_ERRORS as error:
            raise cannot(place.id, "notice of a room", error) from error

    async def is_gone(self, channel_id: int, thread_id: int) -> bool:
        """Whether the thread was deleted. It's asked of Discord, since an event may have been missed."""
        channel = self._channel(channel_id)
        try:
            await self._gate.channel(channel.guild, thread_id)
        except discord.NotFound:
            return True
        except REQUEST_ERRORS as error:
            raise cannot(thread_id, "look at a room's thread", error) from error
        return False

    async def lock(self, channel_id: int, thread_id: int, *, locked: bool) -> None:
        """Lock or unlock the thread."""
        thread = await self._thread(channel_id, thread_id)
        await self._change(thread, self._gate.lock_thread(thread, locked=locked))

    async def archive(self, channel_id: int, thread_id: int, *, archived: bool) -> None:
        """Archive the thread, or bring it back."""
        thread = await self._thread(channel_id, thread_id)
        if thread.archived != archived:
            await self._change(thread, self._gate.archive_thread(thread, archived=archived))

    async def _change(self, thread: discord.Thread, request: Awaitable[None]) -> None:
        try:
            await request
        except REQUEST_ERRORS as error:
            raise cannot(thread.id, "change of a room's thread", error) from error

    async def posts(self, channel_id: int, thread_id: int) -> Sequence[RoomPost]:
        """The agents' posts in the thread with their votes, oldest first; of a long thread the newest."""
        thread, ours = await self._thread(channel_id, thread_id), await self._posts.read(thread_id)
        try:
            found = await self._read(thread)
            return [await self._voted(each, agent) for each in found if (agent := self._author(each, ours)) is not None]
        except REQUEST_ERRORS as error:
            raise cannot(thread_id, "reading of a room's votes", error) from error

    async def _read(self, thread: discord.Thread) -> list[discord.Message]:
        found: list[discord.Message] = []
        while len(found) < MOST_READ:
            page = await self._gate.history(thread, PAGE, found[-1].id if found else None)
            found += page
            if len(page) < PAGE:
                break
        return found[::-1]

    def _author(self, message: discord.Message, ours: Mapping[int, str]) -> str | None:
        """The agent that wrote it; None for anybody else's, and for a notice."""
        if not is_said(message) or hidden_by_text(message.content):
            return None
        return ours.get(message.id) if message.webhook_id else self._directory.agent_of(message.author.id)

    async def _voted(self, message: discord.Message, agent: str) -> RoomPost:
        given = [one for one in message.reactions if str(one.emoji).translate(SKIN_TONES) == VOTE]
        people = [user.id for one in given for user in await self._gate.givers(one, MOST_GIVERS) if not user.bot]
        return RoomPost(message.id, agent, message.content, frozenset(people))

    def _channel(self, channel_id: int) -> discord.TextChannel:
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, discord.TextChannel):
            raise CannotPost("unknown_channel")  # its server may still arrive
        return channel

    async def _thread(self, channel_id: int, thread_id: int) -> discord.Thread:
        channel, known = self._channel(channel_id), self._bot.get_channel(thread_id)
        if isinstance(known, discord.Thread):
            return known
        try:
            found = await self._gate.channel(channel.guild, thread_id)  # an archived one is not known
        except REQUEST_ERRORS as error:
            raise cannot(thread_id, "look at a room's thread", error) from error
        if not isinstance(found, discord.Thread):
            raise CannotPost("gone")
        return found


async def posted_before(gate: Gate, directory: Directory, place: Channel, text: str, since: float) -> int | None:
    """The message of ours among the newest, made after that time (unix seconds), that begins with the same line."""
    first = gate.clean(text).partition("\n")[0].strip()
    newest = await gate.history(place, PAGE, None)
    ours = (each for each in newest if directory.agent_of(each.author.id) is not None)
    found = (each for each in ours if each.content.partition("\n")[0].strip() == first)
    return next((each.id for each in found if each.created_at.timestamp() >= since), None)
