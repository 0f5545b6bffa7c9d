"""What one bot does for rooms and arenas: threads, notices, locks, archives, posts, and votes.

If a request fails, it raises CannotPost with a reason: not_permitted, gone (the channel or message was deleted),
unknown_channel, discord_failed, or not_ours.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import discord

from agentic.chat.directory import Directory, clean_name
from agentic.chat.outlet import CannotPost
from agentic.chat.splitting import MAX_MESSAGE, length, split_text
from agentic.context.entries import hidden_by_text
from agentic.rooms.room_bot import Poll, RoomPost, Stands, ThreadNow, ThreadWords
from agentic.services.discord.channels import Channel, GuildChannel, permissions_in, refusal_in
from agentic.services.discord.gate import REQUEST_ERRORS, Extras, Gate, error_code, nonce
from agentic.services.discord.messages import is_said, shown_text
from agentic.services.discord.posts import explain_failure
from agentic.state.leases import AnyLease
from agentic.state.posts import WebhookPosts
from agentic.state.rooms import VOTE

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
VOTER_PAGE, MAX_VOTERS = 100, 5000  # of a poll's answer; Discord's largest page
POLL_EXPIRED = 520001
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

    def thread_problem(self, thread_id: int) -> str | None:
        """Return why a thread can't become a room, as a text for people, or None if it can."""
        thread = self._bot.get_channel(thread_id)
        if not isinstance(thread, discord.Thread):
            return "the bot can't see that thread. If it's archived, write a message in it first"
        return "that's a private thread, and rooms are open to all in the channel" if thread.is_private() else None

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

    async def find_deleted(self, channel_id: int, thread_id: int, message_ids: Sequence[int]) -> Sequence[int]:
        """Return which of the thread's messages were deleted. Each takes a request."""
        thread = await self._thread(channel_id, thread_id)
        with _explain(thread_id, what="reading a room's questions in"):
            return [each for each in message_ids if await self._gate.message(thread, each) is None]

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

    async def has_message(self, channel_id: int, message_id: int) -> bool:
        """Return whether the message exists: its deletion may have been missed."""
        with _explain(channel_id, what="reading a proposal in"):
            return await self._gate.message(self._channel(channel_id), message_id) is not None

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
            await self._gate.request(partial(thread.edit, locked=locked))

    async def archive(self, channel_id: int, thread_id: int, *, archived: bool) -> None:
        thread = await self._thread(channel_id, thread_id)
        if thread.archived != archived:
            with _explain(thread.id, what="changing a room's thread in"):
                await self._gate.request(partial(thread.edit, archived=archived))

    async def words(self, channel_id: int, thread_id: int) -> ThreadWords:
        """Return the agents' posts in the thread with names for mentions and with their votes, oldest first, and who
        else wrote there; in a long thread only the newest."""
        thread, ours = await self._thread(channel_id, thread_id), await self._posts.read(thread_id)
        newest_first: list[discord.Message] = []
        found: list[RoomPost] = []
        people: set[int] = set()
        with _explain(thread_id, what="reading a room's votes in"):
            while len(newest_first) < MAX_READ:
                page = await self._gate.history(thread, PAGE, newest_first[-1].id if newest_first else None)
                newest_first += page
                if len(page) < PAGE:
                    break
            names = {each.author.id: clean_name(each.author.display_name) for each in newest_first}
            for each in reversed(newest_first):
                if not is_said(each) or hidden_by_text(each.content):  # skip notices
                    continue
                agent = ours.get(each.id) if each.webhook_id else self._directory.agent_of(each.author.id)
                if agent is None and not each.author.bot:
                    people.add(each.author.id)
                if agent is not None:
                    votes = [one for one in each.reactions if str(one.emoji).translate(SKIN_TONES) == VOTE]
                    text = shown_text(each, self._directory, names)
                    found.append(RoomPost(each.id, agent, text, await self._voters(votes)))
        return ThreadWords(tuple(found), frozenset(people))

    def may_ask(self, channel_id: int) -> bool:
        """Return whether the bot may post polls in the text channel and its threads."""
        channel = self._bot.get_channel(channel_id)
        return isinstance(channel, discord.TextChannel) and permissions_in(channel).send_polls

    async def ask(
        self, channel_id: int, thread_id: int, text: str, poll: Poll, key: str, *, since: float | None
    ) -> int:
        """Post a poll below a text, and return its message's id. The same `key` twice makes one message. `since`: the
        poll may already exist, made after that time (unix seconds)."""
        thread = await self._thread(channel_id, thread_id)
        answers = [discord.PollAnswer(each) for each in poll.answers]
        extras = Extras(poll=discord.Poll(poll.question, answers=answers, duration=poll.hours))
        with _explain(thread_id, what="posting a room's poll in"):
            there = await self._posted_before(thread, text, since) if since is not None else None
            return there or (await self._gate.send(thread, text, extras, nonce=nonce(key, 0))).id

    async def end_poll(self, channel_id: int, thread_id: int, message_id: int) -> None:
        """End a poll that the bot posted; only its author may."""
        message = await self._poll_message(channel_id, thread_id, message_id)
        if message.author.id != message.guild.me.id:  # type: ignore[union-attr]  # threads are in guilds
            raise CannotPost("not_permitted")
        with _explain(thread_id, what="ending a room's poll in"):
            try:
                await self._gate.request(message.end_poll)
            except discord.HTTPException as error:
                if error.code != POLL_EXPIRED:
                    raise

    async def stands(self, channel_id: int, thread_id: int, message_id: int) -> Stands:
        """Return person → the answer to a poll, in small letters."""
        message = await self._poll_message(channel_id, thread_id, message_id)
        found: dict[int, str] = {}
        with _explain(thread_id, what="reading a room's poll in"):
            for answer in message.poll.answers if message.poll is not None else ():
                last = 0
                for _ in range(0, MAX_VOTERS, VOTER_PAGE):
                    voters = answer.voters(limit=VOTER_PAGE, after=discord.Object(last))
                    page = [user.id for user in await self._gate.request(voters.flatten)]
                    found |= dict.fromkeys(page, answer.text.casefold())
                    if len(page) < VOTER_PAGE:
                        break
                    last = max(page)
        return found

    async def _poll_message(self, channel_id: int, thread_id: int, message_id: int) -> discord.Message:
        thread = await self._thread(channel_id, thread_id)
        with _explain(thread_id, what="reading a room's poll in"):
            message = await self._gate.message(thread, message_id)
        if message is None:
            raise CannotPost("gone")
        return message

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

    async def upload(self, channel_id: int, text: str, name: str, data: bytes, key: str) -> tuple[int, str]:
        """Post a file. Return the message's id and the file's address. The same `key` twice makes one message."""
        extras = Extras(attach=lambda: discord.File(io.BytesIO(data), filename=name))
        with _explain(channel_id, what="posting a picture in"):
            message = await self._gate.send(self._channel(channel_id), text, extras, nonce=nonce(key, 0))
        if not message.attachments:
            raise CannotPost("discord_failed")
        return message.id, message.attachments[0].url

    async def attachment_url(self, channel_id: int, message_id: int) -> str | None:
        """Return the current address of a message's file, or None if it was deleted."""
        with _explain(channel_id, what="reading a picture in"):
            message = await self._gate.message(self._channel(channel_id), message_id)
        return message.attachments[0].url if message is not None and message.attachments else None

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
