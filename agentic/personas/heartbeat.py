"""heartbeat.md: checks that an agent repeats by itself.

    ## Build
    - interval: 15m
    - channel: #lab
    - active hours: 08:00-22:00

    Look whether the last build failed, and say so only if it did.

Text before the first `##` is for people. A file without checks makes no calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import takewhile

from agentic.personas.fields import ActiveHours, Problems, good_name, read_channel, read_field, read_hours, read_span
from agentic.personas.markdown import Line, Section, fields_of, scan, sections

FILE = "heartbeat.md"
MIN_SECONDS = 60
MAX_SECONDS = 366 * 86_400
FIELDS = ("interval", "channel", "active_hours")


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `channel`: an id or a name without #, None for the default channel. `active_hours`: None for
    always."""

    name: str
    instruction: str
    interval_seconds: int
    channel: int | str | None = None
    active_hours: ActiveHours | None = None


def parse_heartbeat(text: str | None) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Return the valid checks in order, and problems with file and line."""
    problems, checks = Problems(FILE, text), dict[str, Check]()
    lines = scan(text or "")
    for section in sections(lines, 2):
        check = _check(section, problems)
        if good_name(section, checks, problems) and check is not None:
            checks[check.name.casefold()] = check
    for heading in _stray(lines):
        problems.add(heading.number, "a check begins with `## ` and its name")
    return tuple(checks.values()), problems.lines()


def _stray(lines: Sequence[Line]) -> list[Line]:
    """Return headings of the wrong level that were meant as checks, which would otherwise be silently ignored."""
    levels = (1,) if sections(lines, 2) else (1, 3, 4, 5, 6)
    found = [section for level in levels for section in sections(lines, level)]
    return [section.heading for section in found if "interval" in fields_of(_own(section), FIELDS).values]


def _own(section: Section) -> Section:
    """Cut a section before the first heading in it."""
    return Section(section.heading, tuple(takewhile(lambda line: not line.level, section.body)))


def _check(section: Section, problems: Problems) -> Check | None:
    fields, line = fields_of(section, FIELDS), section.heading.number
    problems.of(fields)
    seconds, right = read_field(fields, "interval", _interval, problems)
    channel, known = read_field(fields, "channel", read_channel, problems)
    hours, timely = read_field(fields, "active_hours", read_hours, problems)
    if seconds is None and right:
        problems.add(line, f"{section.title!r} has no field interval, as in `- interval: 300`")
    if not fields.text:
        problems.add(line, f"{section.title!r} has no instruction")
    if seconds is None or not fields.text or not (known and timely):
        return None
    return Check(section.title, fields.text, seconds, channel, hours)


def _interval(text: str) -> int:
    seconds = read_span(text)
    if seconds < MIN_SECONDS:
        raise ValueError(f"the shortest interval is {MIN_SECONDS} seconds")
    if seconds > MAX_SECONDS:
        raise ValueError("the longest interval is a year")
    return seconds


def next_beat(check: Check, last: float, now: float) -> float:
    """When the check is due next, in unix seconds, regardless of active hours. `last`: its last run, or when it was
    first seen.

    After a long pause it is due once. A `last` that is an interval or more in the future came from a wrong clock.
    """
    return now if last - now >= check.interval_seconds else last + check.interval_seconds


def beats(check: Check, last: float, now: float, zone: tzinfo) -> bool:
    """Whether the check is due at `now` (unix seconds) and within its active hours in that time zone."""
    if now < next_beat(check, last, now):
        return False
    return check.active_hours is None or check.active_hours.cover(datetime.fromtimestamp(now, zone))
