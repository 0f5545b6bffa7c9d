"""Commands of the server's managers about conversations: begin one, let a bot speak next, end one, pause all bots."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent_cogs.slash import CommandInvocation
from agentic.agent.services import AgentServices
from agentic.state.stop_store import EVERYWHERE
from agentic.themes import THEMES
from agentic.wire.coordinator_commands import NOBODY
from agentic.wire.messages import Command
from agentic.wording import agent_in, agent_named, heard, unknown_value

PAUSED = "All bots are paused. Use /bots resume first."
OUTCOMES: Mapping[str, str] = {
    "started": "Started a conversation in {where}.",
    "next started": "{agent} has a turn in {where}.",
    "requested": "{agent} speaks next in {where}, after the turn that is under way.",
    "ended": "The conversation in {where} has ended; a message that is being written may still appear.",
    "busy": "A conversation is already running in {where}.",
    "stopped": "The bots are stopped in {where}. Use /resume there first.",
    "paused": PAUSED,
    "unknown_channel": "{where} is not one of the coordinator's channels.",
    "none_running": "No conversation is running in {where}.",
    "no_agents": "No bot is available for a conversation.",
    "unknown_agent": "{agent} is not one of the coordinator's bots.",
    "offline": "{agent} is offline.",
    NOBODY: "The coordinator did not answer: it is not running, or busy. Nothing was done as far as I know.",
}

IsHere = Callable[[int, CommandInvocation], bool]


class ConversationCommands:
    """`is_here` says whether a channel is in the server of the command."""

    def __init__(self, services: AgentServices, is_here: IsHere) -> None:
        self._services, self._is_here = services, is_here

    async def start(self, command: CommandInvocation) -> str:
        values = command.values
        theme_name = str(values.get("theme") or "")
        if theme_name and theme_name.strip().lower() not in THEMES:
            return unknown_value("theme", theme_name, [*THEMES])
        theme, topic = (str(values[name]) if values.get(name) else None for name in ("theme", "topic"))
        return await self._give(command, "start", "starter", theme=theme, topic=topic)

    async def next(self, command: CommandInvocation) -> str:
        agent = agent_in(command, self._services.names)
        if agent is not None and agent in await self._services.ledger.mutes.read([agent]):
            return f"{self._services.names.get(agent, agent)} is muted. Use /bots unmute first."
        return await self._give(command, "next", "bot")

    async def end(self, command: CommandInvocation) -> str:
        return await self._give(command, "end")

    async def pause(self, command: CommandInvocation) -> str:
        await self._services.stops.stop(EVERYWHERE, f"c{command.id}")
        return self._heard("All bots are paused, in every channel. Use /bots resume to lift it.")

    async def resume(self, _: CommandInvocation) -> str:
        lifted = await self._services.stops.lift(EVERYWHERE)
        return self._heard("The bots resume." if lifted else "The bots were not paused.")

    def _heard(self, text: str) -> str:
        return heard(text, self._services.bus.ready.is_set())

    async def _give(self, command: CommandInvocation, name: str, option: str = "", **fields: str | None) -> str:
        """Give a command for the chosen channel to the coordinator; `option` names a bot."""
        services, chosen = self._services, command.values.get("channel")
        channel_id = int(chosen) if chosen is not None else command.parent_id or command.channel_id
        written = str(command.values.get(option, ""))
        agent = (agent_named(written, services.names) or written) or None
        shown = {"where": f"<#{channel_id}>", "agent": services.names.get(agent or "", agent or "")}
        if channel_id not in services.scope.channels or not self._is_here(channel_id, command):
            return "{where} is not one of the bots' channels.".format(**shown)
        if agent is not None and agent not in services.names:
            return unknown_value("agent", agent, [*services.names.values()])
        if name != "end" and services.stops.paused:
            return PAUSED
        if name != "end" and services.stops.holds(channel_id):
            return OUTCOMES["stopped"].format(**shown)
        outcome = await services.orders.give(
            Command(command=name, channel_id=channel_id, agent_name=agent, **fields)  # type: ignore[arg-type]
        )
        text = OUTCOMES.get(f"{name} {outcome}") or OUTCOMES.get(outcome, "The coordinator refused: {outcome}.")
        return text.format(outcome=outcome, **shown)
