"""Hands what an agent's account receives to the agent's host, on services whose chats have no moderators."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agentic.chat.heard import HeardChannels, HeardMessage
from agentic.chat.service import Person, PersonReaction
from agentic.services.context import ServiceContext
from agentic.services.text_commands import TextCommands


class AccountHandler:
    """Hands over what an account receives, and decides nothing. The transcript already contains it.

    Everyone in a chat may stop the agent there. If this process has no host for the agent, the process that acts for
    it answers from the transcript.
    """

    def __init__(
        self, agent: str, context: ServiceContext, channels: HeardChannels, commands: TextCommands, theme: str
    ) -> None:
        self._agent, self._context, self._channels = agent, context, channels
        self._commands, self._theme = commands, theme

    async def aclose(self) -> None:
        await self._commands.aclose()

    async def on_message(self, heard: HeardMessage) -> None:
        if (host := self._context.host_of(self._agent)) is None:
            return
        facts, entry = heard.facts, heard.entry
        if entry.order is not None:
            if not facts.mentioned_users and facts.replied_to is None:  # meant for every agent that receives it
                me = self._channels.own_id(facts.channel_id)
                facts = replace(facts, mentioned_users=frozenset(() if me is None else (me,)))
            order = HeardMessage(facts=facts, entry=entry)
            if await host.on_order(order, Person(facts.author_id, manages_messages=True)):
                return
        if await self._commands.handle(heard):
            return
        await host.on_message(facts, self._theme)

    async def on_agent_message(self, heard: HeardMessage) -> None:
        if (host := self._context.host_of(self._agent)) is not None:
            await host.on_bot_message(heard.facts.channel_id, heard.facts.message_id, self._theme)

    async def on_edit(self, heard: HeardMessage) -> None:
        """Do nothing: a turn about the edited message reads it again on its own."""

    async def on_delete(self, channel_id: int, message_ids: Collection[int]) -> None:
        self._context.services.record.gateway.deleted(channel_id, message_ids)

    async def on_reaction(self, reaction: PersonReaction, *, given: bool) -> None:
        self._context.services.record.gateway.reacted(
            self._agent, reaction.channel_id, reaction.message_id, reaction.who.user_id, reaction.emoji, given=given
        )
        if given and (host := self._context.host_of(self._agent)) is not None:
            await host.on_reaction(replace(reaction, who=Person(reaction.who.user_id, manages_messages=True)))
