"""What is wrong in a pinned `.config` is told to its author: one reply, whichever bots it is meant for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from agent_context.entries import Entry
from agent_context.pins import Pin
from agent_discord.background import Background
from agent_discord.chores import Chores

MOST_LINES = 5
MAX_LINE = 300  # characters

log = logging.getLogger(__name__)


class Memory(Protocol):
    """What was told already; agent_protocol.notices is the one in Redis."""

    async def first(self, message_id: int, what: str) -> bool: ...


class Place(Protocol):
    """An outlet, as far as it matters here."""

    @property
    def parent(self) -> Place | None: ...
    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]: ...
    @property
    def chores(self) -> Chores | None: ...


class PinLines:
    """Nobody waits for what it says, and nothing depends on it."""

    def __init__(self, told: Memory) -> None:
        self._told = told
        self._background = Background()
        self._seen: set[tuple[int, tuple[str, ...]]] = set()

    def tell(self, pins: Sequence[Pin], place: Place) -> None:
        """`pins` as they count at `place`: a thread's channel may hold some of them."""
        for pin in pins:
            if pin.problems and (pin.message_id, pin.problems) not in self._seen:
                self._seen.add((pin.message_id, pin.problems))
                above = place.parent
                here = above is None or any(entry.id == pin.message_id for entry in place.pins[-1])
                chores = place.chores if here or above is None else above.chores
                log.info("pin %d is wrong: %s", pin.message_id, "; ".join(pin.problems))
                if chores is not None:
                    self._background.start(self._tell(pin, chores), f"pin {pin.message_id}")

    async def _tell(self, pin: Pin, chores: Chores) -> None:
        if await self._told.first(pin.message_id, "\n".join(pin.problems)):
            lines = [line[:MAX_LINE] for line in pin.problems[:MOST_LINES]]
            text = "\n".join(("Of this `.config` I cannot use:", *lines, "The rest counts."))
            await chores.reply(pin.message_id, text, f"pin:{pin.message_id}:{len(pin.problems)}")
