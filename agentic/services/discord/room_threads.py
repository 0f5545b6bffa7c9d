"""What one bot does for rooms and arenas: threads, notices, locks, archives, posts, and votes.

If a request fails, it raises CannotPost with a reason: not_permitted, gone (the channel or message was deleted),
unknown_channel, discord_failed, or not_ours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import discord

from agentic.chat.directory import Directory
from agentic.chat.outlet import CannotPost
from agentic.chat.splitting import MAX_MESSAGE, length, split_text
from agentic.context.entries import hidden_by_text
from agentic.rooms.room_bot import VOTE, RoomPost, ThreadNow
from agentic.services.discord.channels import Channel, GuildChannel, permissions_in, refusal_in
from agentic.services.discord.gate import REQUEST_ERRORS, Gate, error_code, nonce
from agentic.services.discord.messages import is_said
from agentic.services.discord.posts import explain_failure
from agentic.state.leases import AnyLease
from agentic.state.posts import WebhookPosts

log = logging.getLogger(__name__)

NEWEST = 50  # messages that are searched for an earlier post
THREAD_EXISTS = 160004  # discord.com/developers/docs/topics/opcodes-and-status-codes
IN_THREADS: Mapping[str, str] = {"view_channel": "View Channel", "send_messages_in_threads": "Send Messages in Threads"}
PERMISSIONS = {**IN_THREADS, "send_messages": "Send Messages", "create_public_threads": "Create Public Threads"}
WEBHOOKS = {"manage_webhooks": "Manage Webhooks"}
SKIN_TONES = dict.fromkeys(range(0x1F3FB, 0x1F400))
PAGE = 100  # Discord's largest
MAX_READ = 1000  # messages of a thread
MAX_GIVERS = 100  # of a reaction
_explain = partial(explain_failure, not_found="gone")


def lacking(channel: discord.TextChannel, wanted: Mapping[str, str]) -> Iterator[str]:
    """Return the names of the permissions that the bot lacks in the channel."""
    permissions = channel.permissions_for(channel.guild.me)
    return (shown for name, shown in wanted.items() if not getattr(permissions, name))


class DiscordRoomBot:
    """One bot in rooms and arenas; `agent` is its key. `lease` is checked before each request: this process must act
    for the agent."""

    def __init__(
        self, agent: str, bot: discord.Bot, gate: Gate, directory: Directory, posts: WebhookPosts, lease: AnyLease
    ) -> None:
        self.agent = agent
        self._bot, self._gate = bot, gate.under(lease)
        self._directory, self._posts = directory, posts

    def room_problem(self, channel_id: int, *, webhooks: bool) -> str | None:
        """Return why no room can be opened there, as a text for people, or None if it can. `webhooks`: personas will
        speak there through webhooks."""
        channel = self._bot.get_channel(channel_id)
        if channel is None:
            return "the bot can't see that channel"
        if not isinstance(channel, discord.TextChannel):
            return "rooms need a text channel, and that isn't one"
        missing = list(lacking(channel, {**PERMISSIONS, **WEBHOOKS} if webhooks else PERMISSIONS))
        return f"the bot lacks {' and '.join(missing)} there" if missing else None

    def may_write_in_threads(self, channel_id: int) -> bool | None:
        """Return whether the bot may write in the channel's threads, or None if that is unknown."""
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, discord.TextChannel):
            return None
        return not list(lacking(channel, IN_THREADS))

    async def read_thread(self, channel_id: int, thread_id: int) -> ThreadNow | None:
        """Return the state of the channel's thread, or None if it is unknown. Makes a request only if the bot doesn't
        see the thread, because it is archived or deleted."""
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, discord.TextChannel):
            return None
        try:
            thread = self._bot.get_channel(thread_id) or await self._gate.channel(channel.guild, thread_id)
        except discord.NotFound:
            return ThreadNow(deleted=True)
        except REQUEST_ERRORS as error:
            log.info("channel %d: reading a room's thread failed: %s", channel_id, error_code(error))
            return None
        return ThreadNow(thread.archived, thread.locked) if isinstance(thread, discord.Thread) else None

    async def post_opening(self, channel_id: int, text: str, request: int, *, again: bool) -> int:
        """Post the message that the thread will start at, without pings, and return its id. `request` is a message
        before it; `again`: the message may already exist."""
        channel = _text_channel(self._bot, channel_id)
        with _explain(channel_id, what="posting a room's message in"):
            if again:
                wanted, own_id = self._gate.clean(text).strip(), channel.guild.me.id
                for each in await self._gate.history(channel, NEWEST, None):
                    if each.author.id == own_id and each.id > request and each.content.strip() == wanted:
                        return each.id
            message = await self._gate.send(channel, text, nonce=nonce(f"room {request}", 0))
        return message.id

    async def start_thread(self, channel_id: int, message_id: int, name: str, minutes: int) -> None:
        """Start the message's thread, unless it exists. It has the message's id."""
        channel = _text_channel(self._bot, channel_id)
        with _explain(channel_id, what="starting a room's thread in"):
            try:
                await self._gate.start_thread(channel, message_id, name, minutes)
            except discord.HTTPException as error:
                if error.code != THREAD_EXISTS:
                    raise

    async def edit_opening(self, channel_id: int, message_id: int, text: str) -> None:
        message = _text_channel(self._bot, channel_id).get_partial_message(message_id)
        with _explain(channel_id, what="changing a room's message in"):
            await self._gate.edit_by_id(message, text)

    def sees(self, channel_id: int) -> bool:
        """Return whether the bot may read the text channel."""
        channel = self._bot.get_channel(channel_id)
        return isinstance(channel, discord.TextChannel) and permissions_in(channel).view_channel

    def may_lock(self, channel_id: int) -> bool:
        """Return whether the bot may lock threads of the text channel and write in locked ones."""
        channel = self._bot.get_channel(channel_id)
        return isinstance(channel, discord.TextChannel) and permissions_in(channel).manage_threads

    async def say(
        self, channel_id: int, thread_id: int | None, text: str, key: str, *, since: float | None = None
    ) -> None:
        """Post in the thread, or in the channel if it is None, without pings. The same `key` twice makes one message.
        `since`: the post may already exist, made after that time (unix seconds)."""
        place = _text_channel(self._bot, channel_id) if thread_id is None else await self._thread(channel_id, thread_id)
        if length(self._gate.clean(text)) > MAX_MESSAGE:
            raise ValueError(f"a notice has {len(text)} characters")
        with _explain(place.id, what="posting a room's notice in"):
            if since is not None and await self._posted_before(place, text, since):
                return
            await self._gate.send(place, text, nonce=nonce(key, 0))

    async def is_gone(self, channel_id: int, thread_id: int) -> bool:
        """Ask Discord whether the thread was deleted, because its event may have been missed."""
        channel = _text_channel(self._bot, channel_id)
        with _explain(thread_id, what="reading a room's thread in"):
            try:
                await self._gate.channel(channel.guild, thread_id)
            except discord.NotFound:
                return True
        return False

    async def lock(self, channel_id: int, thread_id: int, *, locked: bool) -> None:
        thread = await self._thread(channel_id, thread_id)
        with _explain(thread.id, what="changing a room's thread in"):
            await self._gate.edit_thread(thread, locked=locked)

    async def archive(self, channel_id: int, thread_id: int, *, archived: bool) -> None:
        thread = await self._thread(channel_id, thread_id)
        if thread.archived != archived:
            with _explain(thread.id, what="changing a room's thread in"):
                await self._gate.edit_thread(thread, archived=archived)

    async def posts(self, channel_id: int, thread_id: int) -> Sequence[RoomPost]:
        """Return the agents' posts in the thread with their votes, oldest first; in a long thread only the newest."""
        thread, ours = await self._thread(channel_id, thread_id), await self._posts.read(thread_id)
        newest_first: list[discord.Message] = []
        found: list[RoomPost] = []
        with _explain(thread_id, what="reading a room's votes in"):
            while len(newest_first) < MAX_READ:
                page = await self._gate.history(thread, PAGE, newest_first[-1].id if newest_first else None)
                newest_first += page
                if len(page) < PAGE:
                    break
            for each in reversed(newest_first):
                if not is_said(each) or hidden_by_text(each.content):  # skip notices
                    continue
                agent = ours.get(each.id) if each.webhook_id else self._directory.agent_of(each.author.id)
                if agent is not None:
                    votes = [one for one in each.reactions if str(one.emoji).translate(SKIN_TONES) == VOTE]
                    found.append(RoomPost(each.id, agent, each.content, await self._voters(votes)))
        return found

    def may_write(self, channel_id: int) -> bool:
        """Return whether the bot may write in the channel or thread."""
        channel = self._bot.get_channel(channel_id)
        return isinstance(channel, GuildChannel) and refusal_in(channel) is None

    async def post(self, channel_id: int, text: str, key: str, *, since: float) -> int:
        """Post a message without pings, unless one made after `since` (unix seconds) exists, and return its id. A text
        that is too long is cut. The same `key` twice makes one message."""
        channel, text = self._channel(channel_id), split_text(self._gate.clean(text), MAX_MESSAGE)[0]
        with _explain(channel_id, what="posting an arena's message in"):
            there = await self._posted_before(channel, text, since)
            return there or (await self._gate.send(channel, text, nonce=nonce(key, 0))).id

    async def offer(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> None:
        """Add reactions for people to press."""
        message = self._channel(channel_id).get_partial_message(message_id)
        with _explain(channel_id, what="adding an arena's reactions in"):
            for emoji in emojis:
                await self._gate.react(message, emoji)

    async def voters(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> Sequence[frozenset[int]]:
        """Return the people who gave each emoji, or nobody if the message is gone."""
        with _explain(channel_id, what="reading an arena's votes in"):
            message = await self._gate.message(self._channel(channel_id), message_id)
            given = {str(one.emoji).rstrip("\ufe0f"): one for one in (message.reactions if message else ())}
            wanted = (given.get(emoji.rstrip("\ufe0f")) for emoji in emojis)
            return [await self._voters([one] if one is not None else ()) for one in wanted]

    def _channel(self, channel_id: int) -> GuildChannel:
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, GuildChannel):
            raise CannotPost("unknown_channel")
        return channel

    async def _thread(self, channel_id: int, thread_id: int) -> discord.Thread:
        channel, known = _text_channel(self._bot, channel_id), self._bot.get_channel(thread_id)
        if isinstance(known, discord.Thread):
            return known
        with _explain(thread_id, what="reading a room's thread in"):
            found = await self._gate.channel(channel.guild, thread_id)  # py-cord doesn't know archived threads
        if not isinstance(found, discord.Thread):
            raise CannotPost("gone")
        return found

    async def _posted_before(self, place: Channel, text: str, since: float) -> int | None:
        """Find one of our newest messages, made after `since` (unix seconds), with the same first line."""
        first = self._gate.clean(text).partition("\n")[0].strip()
        newest = await self._gate.history(place, PAGE, None)
        ours = (each for each in newest if self._directory.agent_of(each.author.id) is not None)
        found = (each for each in ours if each.content.partition("\n")[0].strip() == first)
        return next((each.id for each in found if each.created_at.timestamp() >= since), None)

    async def _voters(self, reactions: Iterable[discord.Reaction]) -> frozenset[int]:
        users = [user for one in reactions for user in await self._gate.givers(one, MAX_GIVERS)]
        return frozenset(user.id for user in users if not user.bot)


def _text_channel(bot: discord.Bot, channel_id: int) -> discord.TextChannel:
    channel = bot.get_channel(channel_id)
    if not isinstance(channel, discord.TextChannel):
        raise CannotPost("unknown_channel")  # its server may still arrive
    return channel
