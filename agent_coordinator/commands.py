"""Owners' wishes: does what a Command asks for, and tells whoever gave it an id what came of it."""

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
    """`fire` begins a conversation and returns when it is over; `observers` hear of its start; `start` owns a task;
    `stopped` says whether a person wants silence in a channel."""

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

    async def obey(self, command: Command) -> None:
        """Returns when what was begun is over. The outcome is told as soon as it is known."""
        if command.command == "start":
            await self._begin(command)
        else:
            log.warning("command %.40r is not known here", command.command)
            await self._tell(command, "unknown_command")

    async def _begin(self, command: Command) -> None:
        begun = False

        def watch(event: Event) -> None:
            nonlocal begun
            if begun or not isinstance(event, ConversationStarted):
                return
            if command.channel_id in (None, event.channel_id):
                begun = True
                self._start(self._tell(command, "started", event.channel_id), "a command's outcome")

        self._observers.append(watch)
        try:
            await self._fire(command.channel_id, command.theme)
        finally:
            self._observers.remove(watch)
        if not begun:
            await self._tell(command, self._why_not(command.channel_id))

    def _why_not(self, channel_id: int | None) -> str:
        if not self._config.agents:
            return "no_agents"
        if channel_id is None:
            return "none_free"
        if channel_id not in self._config.channels:
            return "unknown_channel"
        return "stopped" if self._stopped(channel_id) else "busy"

    async def _tell(self, command: Command, outcome: str, channel_id: int | None = None) -> None:
        if command.command_id is None:
            return
        where = channel_id if channel_id is not None else command.channel_id
        told = CommandOutcome(command_id=command.command_id, outcome=outcome, channel_id=where)
        try:
            await self._bus.publish(keys.COORDINATOR_OUTCOMES, told)
        except RedisAway as away:
            log.warning("whoever gave a command hears nothing of it, Redis is away: %s", away)
