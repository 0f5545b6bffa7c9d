"""Ask people for their side before and after a debate, and count who changed sides.

A poll has an answer for each of SIDES. People's answers are read from Discord at the end and compared by person. Only
counts are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentic.formats import SIDES
from agentic.rooms.room_bot import Poll, Stands
from agentic.state.rooms import Room
from agentic.text import counted

MAX_QUESTION = 300  # characters; Discord takes no more
WHERE = " Where do you stand?"
MAX_HOURS = 32 * 24  # Discord's longest
ANSWERS = tuple(side.capitalize() for side in SIDES)
BEFORE = "**Before the debate**: say where you stand. You can change your answer until the debate is over."
AFTER = (
    "**After the debate**: say again where you stand, even if you didn't change your mind. Only the number of people"
    " who changed their minds is kept."
)


@dataclass(frozen=True, slots=True)
class Moves:
    """How people changed their minds. `voters`: people who answered both polls. `won` and `lost`: side → how many of
    them came over to it, and left it."""

    voters: int
    won: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)

    def gain(self, side: str) -> int:
        return self.won.get(side, 0) - self.lost.get(side, 0)


def poll_of(room: Room, *, hours: int) -> Poll:
    topic = room.topic if len(room.topic) + len(WHERE) <= MAX_QUESTION else f"{room.topic[: 299 - len(WHERE)]}…"
    return Poll(f"{topic}{WHERE}", ANSWERS, hours)


def moves_between(before: Stands, after: Stands) -> Moves:
    """Compare the answers of each person who answered both polls."""
    both = {person: (before[person], after[person]) for person in before if person in after}
    moved = [(of, to) for of, to in both.values() if of != to]
    return Moves(len(both), Counter(to for _, to in moved), Counter(of for of, _ in moved))


def moves_line(room: Room, moves: Moves) -> str:
    """Say for the closing card who moved the room: the side that gained most comes first."""
    if not moves.voters:
        return "**Who moved the room**: nobody answered both polls."
    sides = [side for side in SIDES if any(member.side == side for member in room.everyone)]  # that members have or had
    told = [side for side in sides if moves.won.get(side) or moves.lost.get(side)]
    people = counted(moves.voters, "person", "people")
    if not told:
        return f"**Who moved the room**: nobody. Of {people} who answered both polls, none changed sides."
    told.sort(key=lambda side: (-moves.gain(side), -moves.won.get(side, 0)))
    changes = ", ".join(_change(side, moves, is_first=side == told[0]) for side in told)
    return f"**Who moved the room**: {changes} (of {people} who answered both polls)."


def _change(side: str, moves: Moves, *, is_first: bool) -> str:
    """Say it as "against won over 3 people and lost 1", or after the first side as "for 1"."""
    won, lost = moves.won.get(side, 0), moves.lost.get(side, 0)
    if not won:
        return f"{side} lost {counted(lost, 'person', 'people') if is_first else lost}"
    gained = f"{side} won over {counted(won, 'person', 'people')}" if is_first else f"{side} {won}"
    return f"{gained} and lost {lost}" if lost else gained
