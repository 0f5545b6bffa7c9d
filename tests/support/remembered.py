"""A memory that a test fills."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from agentic.record.memories import Chain, Kept, Memory, Profile
from agentic.wire.entries import UnaskedNote


@dataclass
class Remembered:
    """`chains` are by the message that the chain begins with, its newest one; `asked` are the queries."""

    is_here: bool = True
    chains: Mapping[int, Chain] = field(default_factory=dict)
    memories: tuple[Memory, ...] = ()
    profiles: Mapping[int, Profile] = field(default_factory=dict)
    consents: Mapping[int, bool] = field(default_factory=dict)
    kept: Mapping[int, Kept] = field(default_factory=dict)
    sent: Mapping[int, UnaskedNote] = field(default_factory=dict)
    exported: list[dict[str, object]] | None = field(
        default_factory=lambda: [{"emoji": "🔥", "at": 0.0, "message_id": 7}]
    )
    asked: list[str] = field(default_factory=list)

    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
        del message_id, most
        return self.chains.get(reply_to or 0, Chain())

    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]],
        ignored: Collection[int],
    ) -> tuple[Memory, ...]:
        self.asked.append(query)
        return tuple(
            memory for memory in self.memories if may_see(memory.channel_id) and memory.people.isdisjoint(ignored)
        )[:most]

    async def profile(self, user_id: int) -> Profile | None:
        return self.profiles.get(user_id)

    async def consent(self, user_id: int) -> bool | None:
        return self.consents.get(user_id)

    async def kept_about(self, user_id: int) -> Kept:
        return self.kept.get(user_id, Kept())

    async def export(self, people: Collection[int]) -> Mapping[str, list[dict[str, object]]] | None:
        del people
        return {"reactions": self.exported} if self.is_here and self.exported is not None else None

    async def unasked(self, message_id: int) -> UnaskedNote | None:
        return self.sent.get(message_id)

    async def posted_by(self, message_id: int) -> str | None:
        return sent.agent if (sent := self.sent.get(message_id)) is not None else None
