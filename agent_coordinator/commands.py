"""Executes Commands of owners and reports the outcome of those that carry an id."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.events import ConversationStarted, Event, Observer
from agent_coordinator.ports import Bus
from agent_protocol.connection.link import RedisAway
from agent_protocol.wire import keys
from agent_protocol.wire.messages import Command, CommandOutcome

Fire = Callable[[int | None, str | None], Awaitable[object]]
Start = Callable[[Coroutine[Any, Any, None], str], object]

log = logging.getLogger(__name__)


class Commands:
    """`fire` runs a conversation to its end; `observers` are the engine's; `start` runs a task; `stopped` says whether
    a person stopped a channel."""

    def __init__(
        self,
        config: CoordinatorConfig,
        bus: Bus,
        *,
        fire: Fire,
        observers: list[Observer],
        start: Start,
        stopped: Callable[[int], bool],
    ) -> None:
        self._config, self._bus = config, bus
        self._fire, self._observers, self._start, self._stopped = fire, observers, start, stopped

    async def execute(self, command: Command) -> None:
        """Return when a conversation that it began is over. The outcome is reported as soon as it is known."""
        if command.command == "start":
            await self._start_conversation(command)
        else:
            log.warning("command %.40r is unknown and ignored", command.command)
            await self._report(command, "unknown_command")

    async def _start_conversation(self, command: Command) -> None:
        started = False

        def watch(event: Event) -> None:
            nonlocal started
            if started or not isinstance(event, ConversationStarted):
                return
            if command.channel_id in (None, event.channel_id):
                started = True
                self._start(self._report(command, "started", event.channel_id), "the report of a command's outcome")

        self._observers.append(watch)
        try:
            await self._fire(command.channel_id, command.theme)
        finally:
            self._observers.remove(watch)
        if not started:
            await self._report(command, self._refusal(command.channel_id))

    def _refusal(self, channel_id: int | None) -> str:
        if not self._config.agents:
            return "no_agents"
        if channel_id is None:
            return "none_free"
        if channel_id not in self._config.channels:
            return "unknown_channel"
        return "stopped" if self._stopped(channel_id) else "busy"

    async def _report(self, command: Command, outcome: str, channel_id: int | None = None) -> None:
        if command.command_id is None:
            return
        channel_id = command.channel_id if channel_id is None else channel_id
        report = CommandOutcome(command_id=command.command_id, outcome=outcome, channel_id=channel_id)
        try:
            await self._bus.publish(keys.COORDINATOR_OUTCOMES, report)
        except RedisAway as away:
            log.warning("a command's outcome (%s) was not reported, Redis is away: %s", outcome, away)
