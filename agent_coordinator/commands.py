"""Execute owners' Commands, and report the outcome of each Command that carries an id.

start       begin a conversation            next   let an agent speak next
end         end a channel's conversation    move, skip, add   a scheduled time of today
room-…      agent_coordinator/rooms.py

docs/dev/protocol.md lists the outcomes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from agent_coordinator.channels import ChannelBusy
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.engine import Engine
from agent_coordinator.rooms import RoomCommands, RoomKeeper
from agent_coordinator.scheduler import Scheduler
from agentic.wire import keys
from agentic.wire.connection import StateUnavailable
from agentic.wire.messages import Command, CommandOutcome

log = logging.getLogger(__name__)


class Commands:
    """`start` is Coordinator.start_conversation."""

    def __init__(
        self,
        context: CoordinatorContext,
        engine: Engine,
        scheduler: Scheduler,
        rooms: RoomKeeper,
        start: Callable[..., Awaitable[object]],
    ) -> None:
        self._context, self._engine, self._scheduler, self._start = context, engine, scheduler, start
        self._known: dict[str, Callable[[Command], Awaitable[str | None]]] = {
            "start": self._start_conversation,
            "next": self._speak_next,
            "end": self._end_conversation,
            "move": self._change_schedule,
            "skip": self._change_schedule,
            "add": self._change_schedule,
            **RoomCommands(context, rooms, self._report_soon).known,
        }

    async def execute(self, command: Command) -> None:
        """Execute the command. Returns when the conversation that it began is over; its outcome is reported earlier."""
        known = self._known.get(command.command)
        if known is None:
            log.warning("command %.40r ignored: unknown", command.command)
            await self._report(command, "unknown_command")
            return
        try:
            outcome = await known(command)
        except StateUnavailable as away:
            log.warning("command %s not executed: Redis is unavailable (%s)", command.command, away)
            return
        if outcome is not None:
            await self._report(command, outcome)

    # conversations

    async def _start_conversation(self, command: Command) -> str | None:
        """Return the outcome, or None if it was reported already."""
        if command.agent_name is not None and command.agent_name not in self._context.config.agents:
            return "unknown_agent"
        started = False

        def began(channel_id: int) -> None:
            nonlocal started
            started = True
            self._report_soon(command, "started", channel_id)

        wanted = {"starter": command.agent_name, "topic": command.topic, "began": began}
        await self._start(command.channel_id, command.theme, **wanted)
        if started:
            return None
        return self._context.refusal(command.channel_id) or ("busy" if command.channel_id else "none_free")

    async def _speak_next(self, command: Command) -> str | None:
        """Request the next turn in the running conversation, or give the agent a turn of its own. Returns None if the
        outcome was reported already."""
        agent, channel_id, config = command.agent_name, command.channel_id, self._context.config
        if agent is None or channel_id is None:
            return "incomplete"
        await self._context.learn_servers()
        if (refusal := self._context.refusal(channel_id)) is not None:
            return refusal
        if agent not in config.agents:
            return "unknown_agent"
        if agent not in await self._context.state.coordination.presence.online([agent]):
            return "offline"
        if await self._engine.request_next(channel_id, agent):
            return "requested"
        theme, began = command.theme or config.theme_of(channel_id), partial(self._report_soon, command, "started")
        try:
            await self._engine.single_turn(channel_id, theme, agent, partial(began, channel_id))
        except ChannelBusy:
            return "busy"
        return None

    async def _end_conversation(self, command: Command) -> str:
        if command.channel_id is None:
            return "incomplete"
        return "ended" if self._engine.end(command.channel_id) else "none_running"

    async def _change_schedule(self, command: Command) -> str:
        """Move, skip, or add a time of today."""
        at, scheduler = command.at, self._scheduler
        new_time = command.to if command.command == "move" else at
        if at is None or new_time is None:
            return "incomplete"
        if command.command == "skip":
            return "skipped" if await scheduler.skip(at) else "no_such_time"
        if not scheduler.is_to_come(new_time):
            return "out_of_day"
        if command.command == "add":
            return await scheduler.add(at)
        return "moved" if await scheduler.move(at, new_time) else "no_such_time"

    # reports

    def _report_soon(self, command: Command, outcome: str, channel_id: int) -> None:
        self._context.tasks.start(self._report(command, outcome, channel_id), "the report of a command's outcome")

    async def _report(self, command: Command, outcome: str, channel_id: int | None = None) -> None:
        if command.command_id is None:
            return
        channel_id = command.channel_id if channel_id is None else channel_id
        report = CommandOutcome(command_id=command.command_id, outcome=outcome, channel_id=channel_id)
        await self._context.bus.announce(keys.COORDINATOR_OUTCOMES, report)
