"""Reading of memory, as turns and commands do it: no method raises, and none holds a turn up for long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from agentic.record.memory import Chain, Kept, Memory, Profile, Unasked


class MemoryReader(Protocol):
    """agentic.record.memory.ThreadMemory has the record of this machine. `is_here`: there is one by now."""

    @property
    def is_here(self) -> bool: ...
    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain: ...
    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]],
        ignored: Collection[int],
    ) -> tuple[Memory, ...]: ...
    async def profile(self, user_id: int) -> Profile | None: ...
    async def consent(self, user_id: int) -> bool | None: ...
    async def kept_about(self, user_id: int) -> Kept: ...
    async def unasked(self, message_id: int) -> Unasked | None: ...
    async def posted_by(self, message_id: int) -> str | None: ...


class NoMemory:
    """The memory of an installation that records nothing."""

    is_here = False

    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
        del message_id, most, reply_to
        return Chain()

    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]],
        ignored: Collection[int],
    ) -> tuple[Memory, ...]:
        del query, may_see, most, between, ignored
        return ()

    async def profile(self, user_id: int) -> Profile | None:
        del user_id
        return None

    async def consent(self, user_id: int) -> bool | None:
        del user_id
        return None

    async def kept_about(self, user_id: int) -> Kept:
        del user_id
        return Kept()

    async def unasked(self, message_id: int) -> Unasked | None:
        del message_id
        return None

    async def posted_by(self, message_id: int) -> str | None:
        del message_id
        return None
