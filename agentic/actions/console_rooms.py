"""Rooms as the console needs them: who may sit in one, and the opening of one, which a bot of this process does.

agentic.runtime implements RoomSide over the same functions as Discord's `/room create`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentic.state.rooms import DEFAULT_ARCHIVE_MINUTES, DEFAULT_POLICY, DEFAULT_THEME, DEFAULT_TURNS, RoomMember

NO_BOT = "no bot of this process is online, and a bot makes the thread of a room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """An agent that may sit in a room, as a member. `why_not` says why it cannot at present; `model` is
    provider/model."""

    member: RoomMember
    is_bot: bool
    model: str = ""
    why_not: str | None = None

    @property
    def key(self) -> str:
        return self.member.name


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRoom:
    """A room to open in a text channel. `personas` are keys, in speaking order."""

    channel_id: int
    topic: str
    personas: tuple[str, ...]
    policy: str = DEFAULT_POLICY
    turns: int = DEFAULT_TURNS
    archive_minutes: int = DEFAULT_ARCHIVE_MINUTES
    audience_seconds: int = 0
    goodbye_ends: bool = False
    theme: str = DEFAULT_THEME
    rules: str = ""


@dataclass(frozen=True, slots=True)
class OpenedRoom:
    """The outcome: a line for the owner; `thread_id` is None where no room was opened."""

    text: str
    thread_id: int | None = None


class RoomSide(Protocol):
    """The part of rooms that the bots of this process know and do."""

    def seats(self) -> Sequence[Seat]:
        """Bots first, then personas."""
        ...

    def gone(self, agents: Sequence[str]) -> tuple[str, ...]:
        """Those of the agents whose personas were deleted."""
        ...

    def can_open(self) -> bool:
        """Whether a bot of this process is there to make a thread."""
        ...

    async def open(self, wanted: NewRoom) -> OpenedRoom:
        """Raises RedisAway."""
        ...


class NoRoomSide:
    """A process without bots."""

    def seats(self) -> Sequence[Seat]:
        return ()

    def gone(self, agents: Sequence[str]) -> tuple[str, ...]:
        del agents
        return ()

    def can_open(self) -> bool:
        return False

    async def open(self, wanted: NewRoom) -> OpenedRoom:
        del wanted
        return OpenedRoom(f"No room was opened: {NO_BOT}.")
