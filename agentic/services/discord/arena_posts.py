"""The messages of an arena as one bot makes them, and the votes on them.

What fails raises CannotPost with its reason, as in room_threads.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import discord

from agentic.chat.directory import Directory
from agentic.chat.outlet import CannotPost
from agentic.chat.splitting import split_text
from agentic.services.discord.channels import GuildChannel, refusal_in
from agentic.services.discord.errors import REQUEST_ERRORS
from agentic.services.discord.gate import Gate
from agentic.services.discord.multipart import LIMIT
from agentic.services.discord.outbound import nonce
from agentic.services.discord.room_threads import cannot
from agentic.services.discord.room_upkeep import MOST_GIVERS, posted_before


class ArenaPosts:
    """`may_act` is asked before each request: whether this process acts for the bot."""

    def __init__(
        self, agent: str, bot: discord.Bot, gate: Gate, directory: Directory, may_act: Callable[[], bool]
    ) -> None:
        self.agent = agent
        self._bot, self._gate, self._directory = bot, gate.under(may_act), directory

    def sees(self, channel_id: int) -> bool:
        """Whether it may write in the channel or thread."""
        channel = self._bot.get_channel(channel_id)
        return isinstance(channel, GuildChannel) and refusal_in(channel) is None

    async def post(self, channel_id: int, text: str, key: str, *, since: float) -> int:
        """Post a message that pings nobody; return its id. One that is there already, made after `since` (unix
        seconds), will do; of a text that is too long the beginning is posted. `key` names the post."""
        channel, text = self._channel(channel_id), split_text(self._gate.clean(text), LIMIT)[0]
        try:
            there = await posted_before(self._gate, self._directory, channel, text, since)
            return there or (await self._gate.send(channel, text, nonce=nonce(key, 0))).id
        except REQUEST_ERRORS as error:
            raise cannot(channel_id, "message of an arena", error) from error

    async def offer(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> None:
        """Add reactions for people to press."""
        message = self._channel(channel_id).get_partial_message(message_id)
        try:
            for emoji in emojis:
                await self._gate.react(message, emoji)
        except REQUEST_ERRORS as error:
            raise cannot(channel_id, "reactions of an arena", error) from error

    async def voters(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> Sequence[frozenset[int]]:
        """The people who gave each emoji; nobody where the message is gone."""
        try:
            message = await self._gate.message(self._channel(channel_id), message_id)
            given = {str(one.emoji).rstrip("\ufe0f"): one for one in (message.reactions if message else ())}
            return [await self._people(given.get(emoji.rstrip("\ufe0f"))) for emoji in emojis]
        except REQUEST_ERRORS as error:
            raise cannot(channel_id, "votes of an arena", error) from error

    async def _people(self, reaction: discord.Reaction | None) -> frozenset[int]:
        if reaction is None:
            return frozenset()
        return frozenset(user.id for user in await self._gate.givers(reaction, MOST_GIVERS) if not user.bot)

    def _channel(self, channel_id: int) -> GuildChannel:
        channel = self._bot.get_channel(channel_id)
        if not isinstance(channel, GuildChannel):
            raise CannotPost("unknown_channel")
        return channel
