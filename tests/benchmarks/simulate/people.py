"""The people of a simulated server: how often they write, at which hours, and what."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

DAY = 86_400.0
HOUR = 3_600.0


@dataclass(frozen=True)
class Habit:
    """`share` of all people; `visits` a day on average, each with `lines` messages that are `apart` seconds from each
    other; `hours` of the day, where an end beyond 24 is the next day's. Of the messages `asks` call an agent, `names`
    only mention one by name, `questions` end with a question mark."""

    name: str
    share: float
    visits: float = 0.0
    hours: tuple[float, float] = (8.0, 23.0)
    lines: int = 1
    apart: float = 8.0
    asks: float = 0.0
    names: float = 0.0
    questions: float = 0.0


HABITS = (
    Habit("lurkers", 0.6),
    Habit("one-liners", 0.25, visits=3.0, questions=0.2, names=0.1),
    Habit("askers", 0.1, visits=2.0, asks=0.7, questions=0.9, names=0.2),
    Habit("night owls", 0.045, visits=2.0, hours=(22.0, 28.0), lines=3, apart=40.0, questions=0.3, names=0.1),
    Habit("flood", 0.005, visits=1.0, lines=40, apart=1.5),
)


@dataclass(frozen=True)
class Visit:
    """A person comes to a channel of its choice. `at`: seconds since the start of the week."""

    at: float
    person: int
    habit: Habit


def visits(people: int, days: float, rng: random.Random, habits: Sequence[Habit] = HABITS) -> list[Visit]:
    """All visits that begin within so many days, in order."""
    found = [visit for person, habit in _habits_of(people, habits) for visit in _of(person, habit, days, rng)]
    return sorted((each for each in found if each.at < days * DAY), key=lambda visit: (visit.at, visit.person))


def _habits_of(people: int, habits: Sequence[Habit]) -> Iterator[tuple[int, Habit]]:
    """Each habit for its share of the people, in the order of the habits."""
    ends = [round(people * end) for end in accumulate(habit.share for habit in habits)]
    for person in range(people):
        yield person, habits[min(sum(person >= end for end in ends), len(habits) - 1)]


def _of(person: int, habit: Habit, days: float, rng: random.Random) -> Iterator[Visit]:
    """One person's visits: so far apart on average, and only at its hours."""
    begin, end = (hour * HOUR for hour in habit.hours)
    for day in range(int(days) + (days % 1 > 0)):
        at = begin
        while habit.visits and (at := at + rng.expovariate(habit.visits / (end - begin))) < end:
            yield Visit(day * DAY + at, person, habit)
