"""The fields that heartbeats, cron jobs and hooks share: names, channels, time spans, hours of the day."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from agentic.personas.markdown import Fields, Section, open_comment

MAX_NAME = 100  # characters
YES = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(
    r"([0-9]{1,9}) ?(s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?|d|days?)?", re.ASCII | re.IGNORECASE
)
_CHANNEL = re.compile(r"<#([0-9]{1,20})>|([0-9]{1,20})", re.ASCII)
_HOURS = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))? ?(?:-|–|—|to) ?([0-9]{1,2})(?::([0-9]{2}))?", re.ASCII)
_DAY = 24 * 60
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ActiveHours:
    """A part of the day in minutes since midnight, `end` excluded. If `end` is earlier it extends over midnight."""

    start: int
    end: int

    def cover(self, moment: datetime) -> bool:
        """Whether a local time is within them."""
        minute = moment.hour * 60 + moment.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


class Problems:
    """Collects lines such as `heartbeat.md:12: what is wrong`, in the file's order."""

    def __init__(self, file: str, text: str | None = None) -> None:
        self._file, self._found = file, list[tuple[int, str]]()
        unclosed = open_comment(text) if text else None
        if unclosed is not None:
            self.add(unclosed, "this comment is never closed, so everything after it is a comment")

    def add(self, line: int, what: str) -> None:
        self._found.append((line, what))

    def of(self, fields: Fields) -> None:
        """Add the problems that `markdown.fields_of` found."""
        self._found += fields.problems

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{self._file}:{line}: {what}" for line, what in sorted(self._found))


def good_name(section: Section, taken: Collection[str], problems: Problems) -> bool:
    """Whether a heading is a valid name: not empty, not too long, not used above (in any case). Reports the problem if
    not."""
    line, name = section.heading.number, section.title
    if not name:
        problems.add(line, "this heading has no name")
    elif len(name) > MAX_NAME:
        problems.add(line, f"a name has at most {MAX_NAME} characters")
    elif name.casefold() in taken:
        problems.add(line, f"{name!r} is given twice; the first one counts")
    else:
        return True
    return False


def read_field(fields: Fields, key: str, read: Callable[[str], Value], problems: Problems) -> tuple[Value | None, bool]:
    """Return a field's value, None if absent, and whether it is valid. `read` raises ValueError."""
    text = fields.values.get(key)
    if text is None:
        return None, True
    try:
        return read(text), True
    except ValueError as error:
        problems.add(fields.lines[key], f"{key}: {error}")
        return None, False


def read_channel(text: str) -> int | str:
    """Parse a channel: its id (`123`, `<#123>`) or its name without the #."""
    match = _CHANNEL.fullmatch(text)
    if match and int(match[1] or match[2]):
        return int(match[1] or match[2])
    name = text.removeprefix("#").strip()
    if match or not name or len(name) > MAX_NAME or any(char.isspace() for char in name):
        raise ValueError("expected a channel's id or #name")
    return name


def read_span(text: str) -> int:
    """Parse a time span into seconds: `300`, `5m`, `2 hours`."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ValueError("expected seconds, as in 300, or 5m, 2h, 1d")
    return int(match[1]) * _SECONDS[(match[2] or "s")[0].lower()]


def read_hours(text: str) -> ActiveHours:
    """Parse hours: `08:00-22:00`, `8-22`, `22:00-06:00`; 24:00 is the end of the day."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise ValueError("expected hours such as 08:00-22:00")
    start, end = (int(match[hour]) * 60 + int(match[hour + 1] or 0) for hour in (1, 3))
    minutes = [int(match[minute] or 0) for minute in (2, 4)]
    if max(minutes) > 59 or start >= _DAY or end > _DAY:
        raise ValueError("a time of the day goes from 00:00 to 24:00")
    if start == end:
        raise ValueError("these hours begin and end at the same time; leave the field out for the whole day")
    return ActiveHours(start, end)


def read_yes(text: str) -> bool:
    try:
        return YES[text.lower()]
    except KeyError:
        raise ValueError("expected yes or no") from None
