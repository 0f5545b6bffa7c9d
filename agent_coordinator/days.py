"""Plans a day: pure arithmetic on local time.

A day's active window runs from one hour of its date to another, on the next date where that is not later. It is cut
into equal parts, one a conversation, with a random instant in each, so that they neither clump nor leave the day empty.
All is in unix seconds once the window's ends are known: an hour that daylight saving skips or repeats only changes the
window's length.
"""

from __future__ import annotations

import random
from datetime import date, datetime, time, timedelta, tzinfo


def local_date(now: float, timezone: tzinfo) -> date:
    return datetime.fromtimestamp(now, timezone).date()


def active_window(day: date, start_hour: int, end_hour: int, timezone: tzinfo) -> tuple[float, float]:
    """Start and end in unix seconds, end excluded. Equal hours mean round the clock."""
    begin = _at_hour(day, start_hour, timezone)
    end = _at_hour(day if end_hour > start_hour else day + timedelta(days=1), end_hour, timezone)
    return begin, end


def plan_date(now: float, start_hour: int, end_hour: int, timezone: tzinfo) -> date:
    """The date whose plan this moment belongs to: yesterday's until its window, which may pass midnight, is over."""
    today = local_date(now, timezone)
    yesterday = today - timedelta(days=1)
    return yesterday if now < active_window(yesterday, start_hour, end_hour, timezone)[1] else today


def plan_instants(window: tuple[float, float], count: int, rng: random.Random) -> list[float]:
    """One random instant in each of `count` equal parts of the window, ascending."""
    begin, end = window
    length = (end - begin) / count if count else 0.0
    return [begin + (index + rng.random()) * length for index in range(count)]


def _at_hour(day: date, hour: int, timezone: tzinfo) -> float:
    """An hour that comes twice means the first; a skipped one means the hour that the clock jumps to."""
    wall = datetime.combine(day, time()) + timedelta(hours=hour)
    return wall.replace(tzinfo=timezone).timestamp()
