"""Whether people want messages that nobody asked for: noted for the record, and in Redis, where it counts at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agentic.state.writer import Notes
from agentic.wire.entries import ConsentNote


class Wishes(Protocol):
    """Implemented by agentic.state.unasked."""

    async def refuse(self, user_id: int) -> bool: ...
    async def allow(self, user_id: int) -> None: ...


class Consents:
    """Shared by the agents of a process. `clock` gives unix seconds, `because` is of ConsentNote."""

    def __init__(self, record: Notes, wishes: Wishes, clock: Callable[[], float]) -> None:
        self._record, self._wishes, self._clock = record, wishes, clock

    async def refuse(self, user_id: int, *, because: str, once: bool = False) -> bool:
        """The person wants no such messages; whether this is the first to hear of it. `once`: others hear the same, and
        the first of them alone notes it."""
        first = await self._wishes.refuse(user_id)
        if first or not once:
            self._note(user_id, False, because)
        return first

    async def allow(self, user_id: int, *, because: str) -> None:
        """The person wants them."""
        await self._wishes.allow(user_id)
        self._note(user_id, True, because)

    def _note(self, user_id: int, unasked: bool, because: str) -> None:
        self._record.note(ConsentNote(user_id=user_id, unasked=unasked, because=because, at=self._clock()))
