"""The common part of all events, and how long a turn may take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from agentic.chat.outlet import NO_CHANNEL
from agentic.wire.messages import DEFAULT_DEADLINE_SECONDS, Instruction

MENTION_SECONDS = 120.0  # for a mention's turn, where TURN_TIMEOUT_SECONDS is not set
LONGEST_TURN = 600.0  # seconds; a deadline comes over the wire, and clocks may be set
POST_SECONDS = 10.0  # of the deadline, kept for posting


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """An event in a lane. Nothing is posted after `deadline`, in unix seconds; with `seconds` the deadline is that long
    after the turn begins.

    The inbox sets `seq`, a number that only grows, and `at`, the time of its arrival in unix seconds.
    """

    kind: ClassVar[str] = ""  # one of the types above

    id: str
    channel_id: int
    theme: str
    deadline: float
    seconds: float = 0.0
    seq: int = 0
    at: float = 0.0

    @property
    def lane(self) -> int | str:
        """Its lane in the inbox: its channel, or one of its own where it has none."""
        return self.id if self.channel_id == NO_CHANNEL else self.channel_id

    def begun(self, now: float) -> Self:
        """The event as its turn begins."""
        return replace(self, deadline=now + self.seconds, seconds=0.0) if self.seconds else self

    @property
    def source(self) -> str:
        """Its origin, for people to read."""
        return self.kind

    def stamped(self, seq: int, at: float) -> Self:
        """The event with its place in the inbox."""
        return replace(self, seq=seq, at=at)

    @property
    def person_id(self) -> int | None:
        """The person who brought it about, where that is known before the turn has read the channel."""
        return None

    @property
    def for_people(self) -> bool:
        """Whether a person brought it about: it may use the daily turns that are reserved for people."""
        return self.person_id is not None

    @property
    def forced(self) -> bool:
        """Whether somebody waits, so that silence is no answer."""
        return False

    @property
    def cools_down(self) -> bool:
        """Whether the channel's cooldown holds for it."""
        return False

    @property
    def answers_person(self) -> bool:
        """Whether it is the answer to a person who called the agent: with the option always_search it searches."""
        return False

    @property
    def reports(self) -> bool:
        """Whether the coordinator waits for its result, and asks for it again until there is one."""
        return False

    @property
    def reply_to(self) -> int | None:
        """The message that its post is a reply to, as Discord shows one."""
        return None


def deadline_in(seconds: float, now: float) -> float:
    """The end of a turn that may take so long."""
    return now + min(seconds, LONGEST_TURN)


def deadline_of(instruction: Instruction, now: float) -> float:
    return min(instruction.deadline or now + DEFAULT_DEADLINE_SECONDS, now + LONGEST_TURN)
