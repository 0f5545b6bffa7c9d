"""Asks an agent for the turn of an idle task, and cancels it when a person writes.

A turn that is cancelled may just have posted: its result is waited for a moment longer, so that the post is noted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from agent_coordinator.ports import Bus, Sleep
from agentic.state.idle_state import Asking
from agentic.wire import keys
from agentic.wire.link import RedisAway
from agentic.wire.messages import CancelNotice, Instruction, Result
from agentic.wire.requests import NoAnswer

CANCEL_SECONDS = 5.0  # for the result of a turn that was cancelled

log = logging.getLogger(__name__)


class IdleAsker:
    """One turn at a time. `start` runs a task of a name."""

    def __init__(self, bus: Bus, *, start: Callable[[Coroutine[Any, Any, None], str], object], sleep: Sleep) -> None:
        self._bus, self._start, self._sleep = bus, start, sleep
        self._cancelled = asyncio.Event()

    async def ask(self, agent: str, instruction: Instruction) -> Result | None:
        """The result of the turn; None without one: the agent is absent, its time was up, or a person wrote."""
        self._cancelled.clear()
        asking = asyncio.ensure_future(self._bus.ask(agent, instruction, absent_grace=None))
        giving_up = asyncio.ensure_future(self._given_up())
        try:
            await asyncio.wait((asking, giving_up), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        except (NoAnswer, RedisAway) as error:
            log.info("no result of an idle task: %s", error)
            return None
        finally:
            asking.cancel()
            giving_up.cancel()
            await asyncio.gather(asking, giving_up, return_exceptions=True)

    def cancel(self, asking: Asking | None) -> None:
        """Cancel the turn, in whichever process it runs, once; nothing without one."""
        if asking is not None and not self._cancelled.is_set():
            self._cancelled.set()
            self._start(self._publish(asking), "the end of an idle task")

    async def _given_up(self) -> None:
        await self._cancelled.wait()
        await self._sleep(CANCEL_SECONDS)

    async def _publish(self, asking: Asking) -> None:
        notice = CancelNotice(agent_name=asking.agent, instruction_id=asking.instruction_id)
        try:
            await self._bus.publish(keys.COORDINATOR_CANCELS, notice)
        except RedisAway as away:
            log.warning("%s: an idle task is not cancelled, Redis is away: %s", asking.agent, away)
