"""Sends Commands to the coordinator and waits for their CommandOutcome.

Pub/sub has no memory, and only a coordinator that acts listens. What nobody hears is sent again, since a coordinator
may be about to act, as in the first moments of a start; where none does, the outcome is NOBODY.
"""

from __future__ import annotations

import asyncio
import secrets

from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.messages import Command, CommandOutcome
from agentic.wire.reading import read

ANSWER_SECONDS = 5.0  # to be heard and answered
RETRY_SECONDS = 0.1
NOBODY = "nobody"  # the outcome where no coordinator answers


class CoordinatorCommands:
    """Call `start()` before the bus runs."""

    def __init__(self, bus: Bus, patience: float = ANSWER_SECONDS) -> None:
        self._bus, self._patience = bus, patience
        self._waiting: dict[str, asyncio.Future[str]] = {}

    def start(self) -> None:
        self._bus.subscribe(keys.COORDINATOR_OUTCOMES, self._on_outcome)

    async def give(self, command: Command) -> str:
        """Send a command; its outcome is one of docs/protocol.md's, or NOBODY. Raises RedisAway."""
        command_id = secrets.token_hex(8)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[command_id] = answer
        sent = command.model_copy(update={"command_id": command_id})
        try:
            async with asyncio.timeout(self._patience):
                while not await self._bus.publish(keys.COORDINATOR_COMMANDS, sent):  # noqa: ASYNC110 - Redis knows
                    await asyncio.sleep(RETRY_SECONDS)
                return await answer
        except TimeoutError:
            return NOBODY
        finally:
            del self._waiting[command_id]

    def _on_outcome(self, raw: str) -> None:
        outcome = read(CommandOutcome, raw)
        waiting = self._waiting.get(outcome.command_id) if outcome is not None else None
        if outcome is not None and waiting is not None and not waiting.done():
            waiting.set_result(outcome.outcome)
