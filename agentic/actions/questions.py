"""`/ask` and `/arena`: questions to the bots, by everyone whom they do not ignore."""

from __future__ import annotations

from collections.abc import Mapping

from agent_cogs.slash import CommandInvocation, Handle
from agent_cogs.slash_definitions import LONGEST_ARENA
from agentic.actions.conversations import PAUSED
from agentic.actions.responses import CommandReply, Response
from agentic.agent.services import AgentServices
from agentic.chat.incoming import IncomingMessage
from agentic.inbox.triggers import Ignored
from agentic.services.discord.messages import question_text
from agentic.state.arenas import Arena
from agentic.wording import agent_in, unknown_agent

USUAL_MINUTES = 5  # of an arena
EMPTY = "The question is empty."
NO_HOST = "Arenas need a running `run_all.py`, and there is none. The owner can start it."
HAS_ONE = "An arena runs in this channel already. The next one can begin when its names are shown."
OPENED = "Two agents answer, without their names. Vote by 🅰️ or 🅱️; the names are shown when the time is over."


class QuestionCommands:
    """`everyone` are the handlers, by command."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self.everyone: Mapping[str, Handle] = {"ask": self.ask, "arena": self.arena}

    async def ask(self, command: CommandInvocation) -> Response:
        """Post the question for everyone to see; it then counts as a message that mentions the agent."""
        agent, prompt = agent_in(command, self._services.names), str(command.values.get("prompt", ""))
        if agent is None:
            return unknown_agent(command, self._services.names)
        if not prompt.strip():
            return EMPTY
        if (refusal := self._refusal(command)) is not None:
            return refusal
        user_id = self._services.directory.id_of(agent)
        if user_id is None:
            return f"{self._services.names[agent]} is offline."
        return CommandReply(question_text(user_id, prompt), public=True)

    async def arena(self, command: CommandInvocation) -> str:
        """Two hidden agents answer, within the limits on their calls and costs. Raises RedisAway."""
        if (refusal := self._refusal(command)) is not None:
            return refusal
        question, arenas = str(command.values.get("prompt", "")).strip(), self._services.ledger.arenas
        if not question:
            return EMPTY
        if not await arenas.has_host():
            return NO_HOST
        return OPENED if await arenas.open(self._arena(command, question)) else HAS_ONE

    def _arena(self, command: CommandInvocation, question: str) -> Arena:
        return Arena(
            id=command.id,
            channel_id=command.channel_id,
            guild_id=command.guild_id,
            parent_id=command.parent_id,
            question=self._services.outbound.redact(question),
            asked_by=command.who.user_id,
            minutes=min(max(int(command.values.get("minutes", USUAL_MINUTES)), 1), LONGEST_ARENA),
            at=self._services.clock(),
        )

    def _refusal(self, command: CommandInvocation) -> str | None:
        """Why nobody may ask the bots here, or not this person; None where they may."""
        settings, stops = self._services.settings, self._services.stops
        if stops.paused:
            return PAUSED
        if stops.holds(command.channel_id) or (command.parent_id is not None and stops.holds(command.parent_id)):
            return "The bots are stopped here. Use /resume first."
        ignored = Ignored(
            frozenset(settings.ignore_user_ids), frozenset(settings.ignore_role_ids), self._services.ignores
        )
        message = IncomingMessage(
            author_id=command.who.user_id,
            by_person=True,
            author_roles=command.who.roles,
            guild_id=command.guild_id,
            channel_id=command.channel_id,
        )
        return "The bots are set to ignore you." if message in ignored else None
