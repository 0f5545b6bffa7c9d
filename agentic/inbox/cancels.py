"""Cancels of turns that the coordinator gave: a person writes, so an idle task ends.

Every process hears of each, since the turn may run in any of them. Pub/sub has no memory: a process that misses one
ends its turn by its deadline, or where it sees the person's message itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Protocol

from agentic.wire import keys
from agentic.wire.messages import CancelNotice, read

OnCancel = Callable[[str], Awaitable[None]]  # with the instruction's id


class Subscriptions(Protocol):
    """Implemented by agentic.wire.bus."""

    def subscribe(self, channel: str, handler: Callable[[str], Awaitable[None]]) -> None: ...
    def unsubscribe(self, channel: str) -> None: ...


class Cancels:
    """Shared by the agents of a process."""

    def __init__(self, bus: Subscriptions) -> None:
        self._bus, self._subscribed = bus, False
        self._callbacks: dict[str, list[OnCancel]] = defaultdict(list)

    def on_cancel(self, agent: str, callback: OnCancel) -> None:
        """Call `callback` with the id of each of the agent's turns that is cancelled."""
        if not self._subscribed:
            self._subscribed = True
            self._bus.subscribe(keys.COORDINATOR_CANCELS, self._on_notice)
        self._callbacks[agent].append(callback)

    def off(self, agent: str, callback: OnCancel) -> None:
        """Call it no more."""
        self._callbacks[agent] = [other for other in self._callbacks[agent] if other != callback]
        if self._subscribed and not any(self._callbacks.values()):
            self._subscribed = False
            self._bus.unsubscribe(keys.COORDINATOR_CANCELS)

    async def _on_notice(self, raw: str) -> None:
        if (notice := read(CancelNotice, raw)) is None:
            return
        for callback in tuple(self._callbacks.get(notice.agent_name, ())):
            await callback(notice.instruction_id)
