"""What a trial came to, in the same numbers for every scenario, and the table of them.

double posts     a message that stands twice, or a second answer to what was answered already
double charges   model calls that are booked and were not made, or were booked twice
free             model calls that were made and are not booked
lost             a turn or a question of which nothing can be seen though it could have been kept
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

COUNTED = ("posts", "double posts", "model calls", "double charges", "free", "lost", "ended in order", "other faults")
HEADS = ("scenario", "runs", *COUNTED, "slowest")
WIDTHS = (36, 6, 7, 14, 13, 16, 6, 6, 16, 14, 10)


@dataclass(frozen=True)
class Tally:
    """One trial, or the sum of several. `slowest` in seconds; `wrong` says in words what went wrong besides."""

    runs: int = 1
    posts: int = 0
    double_posts: int = 0
    model_calls: int = 0
    double_charges: int = 0
    free: int = 0
    lost: int = 0
    conversations: int = 0
    ended: int = 0
    slowest: float = 0.0
    wrong: tuple[str, ...] = ()

    def faults(self) -> list[str]:
        """What went wrong, in words; nothing if all held."""
        counted = {
            "double posts": self.double_posts,
            "double charges": self.double_charges,
            "free calls": self.free,
            "instructions lost": self.lost,
            "conversations not ended in order": self.conversations - self.ended,
        }
        return [f"{number} {name}" for name, number in counted.items() if number] + list(self.wrong)


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum; the slowest is the slowest of all."""
    together = list(tallies)
    sums = {f.name: sum((getattr(each, f.name) for each in together), start=type(f.default)()) for f in fields(Tally)}
    return Tally(**{**sums, "slowest": max((each.slowest for each in together), default=0.0)})


def heading() -> str:
    return _line(HEADS)


def row(name: str, tally: Tally) -> str:
    ended = f"{tally.ended} of {tally.conversations}" if tally.conversations else "-"
    money = (tally.model_calls, tally.double_charges, tally.free)
    cells = (tally.runs, tally.posts, tally.double_posts, *money, tally.lost, ended)
    return _line((name, *cells, len(tally.wrong), f"{tally.slowest:.1f} s"))


def _line(cells: Iterable[object]) -> str:
    first, *others = (str(cell) for cell in cells)
    return first.ljust(WIDTHS[0]) + "".join(cell.rjust(width) for cell, width in zip(others, WIDTHS[1:], strict=True))
