"""The thread of a room, made by one bot: a message in a text channel, and a thread from it.

What fails raises CannotPost with its reason: not_permitted, gone (a channel or message that was deleted),
unknown_channel, discord_failed, not_ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import discord

from agentic.chat.outlet import CannotPost
from agentic.services.discord.errors import REQUEST_ERRORS, Silenced, kind
from agentic.services.discord.gate import Gate
from agentic.services.discord.outbound import nonce

NEWEST = 50  # messages in which an earlier one is looked for
THREAD_EXISTS = 160004  # discord.com/developers/docs/topics/opcodes-and-status-codes
IN_THREADS: Mapping[str, str] = {
    "view_channel": "View Channel",
    "send_messages_in_threads": "Send Messages in Threads",
}
PERMISSIONS: Mapping[str, str] = {
    **IN_THREADS,
    "send_messages": "Send Messages",
    "create_public_threads": "Create Public Threads",
}
WEBHOOKS = {"manage_webhooks": "Manage Webhooks"}

log = logging.getLogger(__name__)


def lacking(channel: discord.TextChannel, wanted: Mapping[str, str]) -> Iterator[str]:
    """The names of those permissions that the bot lacks in the channel."""
    permissions = channel.permissions_for(channel.guild.me)
    return (shown for name, shown in wanted.items() if not getattr(permissions, name))


@dataclass(frozen=True, slots=True)
class ThreadNow:
    """A thread as Discord has it."""

    archived: bool = False
    locked: bool = False
    deleted: bool = False


class RoomThreads:
    """`may_act` is asked before each request: whether this process acts for the bot."""

    def __init__(self, bot: discord.Bot, gate: Gate, may_act: Callable[[], bool]) -> None:
        self._bot, self._gate = bot, gate.under(may_act)

    def problem(self, channel_id: int, *, webhooks: bool) -> str | None:
        """Why no room can be opened there, for people; None where it can. `webhooks`: some of it speak by webhook."""
        channel = self._bot.get_channel(channel_id)
        if channel is None:
            return "the bot does not see that channel"
        if not isinstance(channel, discord.TextChannel):
            return "a room is a thread of a text channel, and that is none"
        missing = list(lacking(channel, {**PERMISSIONS, **WEBHOOKS} if webhooks else PERMISSIONS))
        return f"the bot lacks the permission {' and '.join(missing)} there" if missing else None

    def may_write(self, channel_id: int) -> bool | None:
        """Whether the bot may write in the threads of the channel; None where it is not known."""
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, discord.TextChannel):
            return None
        return not list(lacking(channel, IN_THREADS))

    async def now(self, channel_id: int, thread_id: int) -> ThreadNow | None:
        """A thread of the channel; None where it cannot be known. Only one that the bot does not see is asked for: an
        archived one, or one that is gone."""
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, discord.TextChannel):
            return None
        try:
            thread = self._bot.get_channel(thread_id) or await self._gate.channel(channel.guild, thread_id)
        except discord.NotFound:
            return ThreadNow(deleted=True)
        except REQUEST_ERRORS as error:
            log.info("channel %d: the thread of a room cannot be looked at: %s", channel_id, kind(error))
            return None
        return ThreadNow(thread.archived, thread.locked) if isinstance(thread, discord.Thread) else None

    async def post(self, channel_id: int, text: str, request: int, *, again: bool) -> int:
        """Post the message above the thread, pinging nobody, and return its id. `request` is older than the message;
        `again`: it may be there already."""
        channel = self._channel(channel_id)
        try:
            if again and (there := await self._posted(channel, text, request)) is not None:
                return there
            message = await self._gate.send(channel, text, nonce=nonce(f"room {request}", 0))
        except REQUEST_ERRORS as error:
            raise cannot(channel_id, "message of a room", error) from error
        return message.id

    async def _posted(self, channel: discord.TextChannel, text: str, request: int) -> int | None:
        wanted = self._gate.clean(text).strip()
        newest = await self._gate.history(channel, NEWEST, None)
        own = (message for message in newest if message.author.id == channel.guild.me.id and message.id > request)
        return next((message.id for message in own if message.content.strip() == wanted), None)

    async def start(self, channel_id: int, message_id: int, name: str, minutes: int) -> None:
        """Start the thread of the message, which has the message's id; one that is there already will do."""
        channel = self._channel(channel_id)
        try:
            await self._gate.start_thread(channel, message_id, name, minutes)
        except REQUEST_ERRORS as error:
            if not (isinstance(error, discord.HTTPException) and error.code == THREAD_EXISTS):
                raise cannot(channel_id, "thread of a room", error) from error

    async def revise(self, channel_id: int, message_id: int, text: str) -> None:
        """Change the message above the thread."""
        message = self._channel(channel_id).get_partial_message(message_id)
        try:
            await self._gate.edit_by_id(message, text)
        except REQUEST_ERRORS as error:
            raise cannot(channel_id, "message of a room", error) from error

    def _channel(self, channel_id: int) -> discord.TextChannel:
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, discord.TextChannel):
            raise CannotPost("unknown_channel")  # its server may still arrive
        return channel


def cannot(channel_id: int, what: str, error: Exception) -> CannotPost:
    if isinstance(error, Silenced):
        return CannotPost("not_ours")
    log.warning("channel %d: %s failed: %s", channel_id, what, kind(error))
    if isinstance(error, discord.Forbidden):
        return CannotPost("not_permitted")
    return CannotPost("gone" if isinstance(error, discord.NotFound) else "discord_failed")
