from __future__ import annotations

import random
from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from agent_coordinator.scheduler import active_window, plan_date, plan_slots

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = date(2026, 3, 29)  # 02:00 becomes 03:00
AUTUMN = date(2026, 10, 25)  # 03:00 becomes 02:00
PLAIN = date(2026, 6, 10)
HOUR = 3600.0


def utc(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type]


@pytest.mark.promise(103)
@pytest.mark.parametrize(
    ("day", "start", "end", "begins", "ends"),
    [
        (PLAIN, 7, 23, utc(2026, 6, 10, 5), utc(2026, 6, 10, 21)),
        (PLAIN, 0, 24, utc(2026, 6, 9, 22), utc(2026, 6, 10, 22)),
        (PLAIN, 20, 2, utc(2026, 6, 10, 18), utc(2026, 6, 11, 0)),
        (PLAIN, 7, 7, utc(2026, 6, 10, 5), utc(2026, 6, 11, 5)),  # round the clock
        (PLAIN, 20, 0, utc(2026, 6, 10, 18), utc(2026, 6, 10, 22)),
        (SPRING, 7, 23, utc(2026, 3, 29, 5), utc(2026, 3, 29, 21)),
        (SPRING, 0, 24, utc(2026, 3, 28, 23), utc(2026, 3, 29, 22)),  # 23 hours
        (SPRING, 2, 6, utc(2026, 3, 29, 1), utc(2026, 3, 29, 4)),  # its first hour does not exist
        (AUTUMN, 0, 24, utc(2026, 10, 24, 22), utc(2026, 10, 25, 23)),  # 25 hours
        (AUTUMN, 2, 6, utc(2026, 10, 25, 0), utc(2026, 10, 25, 5)),  # its first hour comes twice
        (date(2026, 3, 28), 20, 4, utc(2026, 3, 28, 19), utc(2026, 3, 29, 2)),  # over midnight into spring's night
        (date(2026, 10, 24), 20, 4, utc(2026, 10, 24, 18), utc(2026, 10, 25, 3)),
    ],
)
def test_the_active_window_follows_the_wall_clock(day: date, start: int, end: int, begins: float, ends: float) -> None:
    assert active_window(day, start, end, BERLIN) == (begins, ends)


@pytest.mark.parametrize("day", [PLAIN, SPRING, AUTUMN])
@pytest.mark.parametrize("count", [1, 3, 6, 50])
def test_each_equal_part_of_the_window_has_one_slot(day: date, count: int) -> None:
    begin, end = active_window(day, 0, 24, BERLIN)
    slots = plan_slots((begin, end), count, random.Random(3))
    length = (end - begin) / count
    assert [int((slot.at - begin) // length) for slot in slots] == list(range(count))
    assert all(slot.part and slot.part[0] <= slot.at < slot.part[1] for slot in slots)


@pytest.mark.promise(55)
def test_no_conversations_have_no_slots() -> None:
    assert plan_slots((0.0, HOUR), 0, random.Random(1)) == []


def test_windows_of_a_night_window_do_not_overlap_from_day_to_day() -> None:
    for start, end in [(20, 2), (7, 7), (7, 23), (23, 22)]:
        windows = [active_window(date(2026, 10, day), start, end, BERLIN) for day in (23, 24, 25, 26)]
        assert all(one[1] <= other[0] for one, other in pairwise(windows))


@pytest.mark.parametrize(
    ("now", "start", "end", "expected"),
    [
        (utc(2026, 6, 10, 10), 7, 23, date(2026, 6, 10)),
        (utc(2026, 6, 10, 23), 20, 2, date(2026, 6, 10)),  # 01:00 on the 11th
        (utc(2026, 6, 11, 0), 20, 2, date(2026, 6, 11)),  # 02:00: over
        (utc(2026, 6, 10, 23), 7, 23, date(2026, 6, 11)),
    ],
)
def test_a_moment_belongs_to_the_day_whose_window_it_is_in(now: float, start: int, end: int, expected: date) -> None:
    assert plan_date(now, start, end, BERLIN) == expected
