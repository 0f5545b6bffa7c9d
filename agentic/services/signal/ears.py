"""The ears of one agent on Signal: they hand what its account hears to its AgentHost, and decide nothing.

What people may do there follows from the chat: each person who is heard may stop the agent in it. The owner has named
those people, and a chat has no moderators of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from agentic.agent.services import AgentServices
from agentic.chat.service import IncomingMessage, Person, PersonReaction
from agentic.inbox.host import AgentHost
from agentic.services.signal.account import SignalAccount
from agentic.services.signal.channels import SignalChannels
from agentic.services.signal.chats import Chat
from agentic.services.signal.reading import Heard
from agentic.services.signal.text_commands import TextCommands


class SignalEars:
    """An agentic.services.signal.listener.SignalHandler. `host` gives the agent's host in this process, None while
    there is none: what is heard then is in the transcript, and answered by the process that acts for the agent."""

    def __init__(
        self, agent: str, account: SignalAccount, services: AgentServices, host: Callable[[], AgentHost | None]
    ) -> None:
        self._agent, self._account, self._services, self._host = agent, account, services, host
        channels = SignalChannels(agent, account, services, may_act=self._acts)
        self._commands = TextCommands(agent, account, services, channels)

    async def aclose(self) -> None:
        """Nothing is heard any more."""
        await self._commands.aclose()

    async def on_message(self, heard: Heard) -> None:
        """A person wrote in a chat."""
        if (host := self._host()) is None:
            return
        facts, entry = self._facts(heard), heard.entry
        if entry.order is not None and await host.on_order(
            entry.order, facts, lambda: _reader(facts.author_id), entry.created_at
        ):
            return
        if await self._commands.answered(heard):
            return
        await host.on_message(facts, self._services.settings.signal_theme)

    async def on_agent_message(self, heard: Heard) -> None:
        """Another agent of ours wrote in a group."""
        if (host := self._host()) is not None:
            theme = self._services.settings.signal_theme
            await host.on_bot_message(heard.facts.channel_id, heard.facts.message_id, theme)

    async def on_edit(self, heard: Heard) -> None:
        """A person edited a message: a turn that is about it reads it again by itself."""

    async def on_delete(self, chat: Chat, message_ids: Collection[int]) -> None:
        """Messages were deleted."""
        self._services.gateway_notes.deleted(chat.channel_id, message_ids)

    async def on_reaction(self, chat: Chat, reaction: PersonReaction, *, given: bool) -> None:
        """A person gave a reaction, or took one back."""
        self._services.gateway_notes.reacted(
            self._agent, chat.channel_id, reaction.message_id, reaction.who.user_id, reaction.emoji, given=given
        )
        if given and (host := self._host()) is not None:
            await host.on_reaction(replace(reaction, who=_reader(reaction.who.user_id)))

    def _acts(self) -> bool:
        host = self._host()
        return host is not None and host.holds_lease

    def _facts(self, heard: Heard) -> IncomingMessage:
        """The facts of the message. An order that is all of a message is for the agents that hear it."""
        facts = heard.facts
        if heard.entry.order is None or facts.mentioned_users or facts.replied_to is not None:
            return facts
        return replace(facts, mentioned_users=frozenset((self._account.me.person,)))


def _reader(user_id: int) -> Person:
    return Person(user_id, manages_messages=True)
