"""The agents at work on a turn, by the notices of turns that begin and end, on any machine.

Pub/sub may lose a notice, and a process may end within a turn: a turn is dropped after the longest time that one takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentic.wire.messages import TurnNotice

MOST = 500  # turns at once


@dataclass(frozen=True, slots=True)
class Thought:
    """A turn that runs since `since`, in unix seconds."""

    agent: str
    channel_id: int
    since: float

    def to_json(self) -> dict[str, Any]:
        return {"agent": self.agent, "channel": str(self.channel_id), "since": self.since}


class Thinking:
    """`longest`: the seconds after which a turn has ended for certain. `clock` gives unix seconds."""

    def __init__(self, longest: float, clock: Callable[[], float]) -> None:
        self._longest, self._clock = longest, clock
        self._turns: dict[tuple[str, str], Thought] = {}

    def take(self, notice: TurnNotice) -> bool:
        """Whether that changed something."""
        turn = (notice.agent_name, notice.turn_id)
        if notice.state != "began":
            return self._turns.pop(turn, None) is not None
        if turn in self._turns or len(self._turns) >= MOST:
            return False
        since = min(notice.at, self._clock())  # another machine's clock may be ahead
        self._turns[turn] = Thought(notice.agent_name, notice.channel_id, since)
        return True

    def now(self) -> list[Thought]:
        """The turns that run, the oldest first."""
        oldest = self._clock() - self._longest
        self._turns = {turn: thought for turn, thought in self._turns.items() if thought.since > oldest}
        return sorted(self._turns.values(), key=lambda thought: thought.since)
