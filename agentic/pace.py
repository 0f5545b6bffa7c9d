"""The pace of a room: when the next turn comes after a post.

`live` leaves people the time to read the post, `slow` is a turn an hour, a number is seconds, and times of day
("09:00 18:00") are one turn each, for a debate over days. Pure: no clock.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from agentic.text import counted

LIVE, SLOW = "live", "slow"
SLOW_SECONDS = 3600
MAX_SECONDS = 86_400
MAX_TIMES = 3  # of a day
CHARACTERS_A_SECOND = 20.0  # that people read
ANNOUNCED_SECONDS = 60.0  # from which on the thread is told who is next, and when
ARCHIVE_MARGIN = 900.0  # seconds; a model may need a while
_DAY = 86_400
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
_NUMBER = re.compile(r"(\d{1,6})\s*(s|m|min|h)?")
_TIME = re.compile(r"(\d{1,2})[:.h](\d\d)")


def parse_pace(text: str) -> str:
    """Return the pace in its stored form. Raises ValueError for anything else."""
    said = text.strip().casefold()
    if said in ("", LIVE):
        return LIVE
    if said == SLOW:
        return SLOW
    if number := _NUMBER.fullmatch(said):
        seconds = int(number[1]) * _UNITS[number[2] or ""]
        if not 0 < seconds <= MAX_SECONDS:
            raise ValueError(f"a pace is at most {MAX_SECONDS} seconds")
        return str(seconds)
    times = [_TIME.fullmatch(part) for part in re.split(r"[\s,;]+", said)]
    found = sorted({(int(time[1]), int(time[2])) for time in times if time is not None})
    if None in times or len(found) > MAX_TIMES or any(hour > 23 or minute > 59 for hour, minute in found):
        raise ValueError(f"{text!r} isn't a pace")
    return " ".join(f"{hour:02}:{minute:02}" for hour, minute in found)


def is_pace(text: str) -> bool:
    try:
        parse_pace(text)
    except ValueError:
        return False
    return True


def reading_seconds(characters: int, least: float, most: float) -> float:
    """Return how long people read a post of that many characters."""
    return max(least, min(characters / CHARACTERS_A_SECOND, most))


def next_turn_at(pace: str, now: float, zone: tzinfo) -> float | None:
    """Return when the turn after a post comes, in unix seconds; None right after people have read it."""
    if pace == LIVE:
        return None
    if (seconds := _seconds(pace)) is not None:
        return now + seconds
    today = datetime.fromtimestamp(now, zone)
    coming = []
    for days in (0, 1, 2):
        for hour, minute in _times(pace):
            day = today + timedelta(days=days)
            coming.append(day.replace(hour=hour, minute=minute, second=0, microsecond=0).timestamp())
    return min(at for at in coming if at > now)


def longest_gap(pace: str) -> float:
    """Return the longest time between two turns, in seconds. The clocks may change by an hour in between."""
    if pace == LIVE:
        return 0.0
    if (seconds := _seconds(pace)) is not None:
        return float(seconds)
    starts = [3600 * hour + 60 * minute for hour, minute in _times(pace)]
    following = [*starts[1:], starts[0] + _DAY]
    return 3600.0 + max(later - earlier for earlier, later in zip(starts, following, strict=True))


def archive_minutes(pace: str, wanted: int, offered: tuple[int, ...]) -> int:
    """Return the thread's archive time: the wanted one, or the shortest offered one in which the next turn comes."""
    enough = [minutes for minutes in offered if 60 * minutes > longest_gap(pace) + ARCHIVE_MARGIN]
    return max(wanted, min(enough, default=max(offered)))


def describe_pace(pace: str) -> str:
    """Say for people how fast the room is."""
    if pace == LIVE:
        return "live, with time to read each post"
    if (seconds := _seconds(pace)) is not None:
        size, unit = next(
            (size, unit) for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")) if not seconds % size
        )
        return f"a turn every {counted(seconds // size, unit)}" if seconds != size else f"a turn every {unit}"
    return f"a turn at {', '.join(f'{hour:02}:{minute:02}' for hour, minute in _times(pace))}"


def _seconds(pace: str) -> int | None:
    if pace == SLOW:
        return SLOW_SECONDS
    return int(pace) if pace.isdecimal() else None


def _times(pace: str) -> list[tuple[int, int]]:
    return [(int(hour), int(minute)) for hour, minute in (time.split(":") for time in pace.split())]
