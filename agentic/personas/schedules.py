"""Parse heartbeats, cron jobs, and hooks in persona files, and compute when they are due.

Each has a heading with its name, fields as list items, and a text, the instruction (docs/persona-files.md):

    heartbeat.md                     ## Build         - interval: 15m      checks that an agent repeats on its own
    agents.md, below ## Cron Jobs    ### Monday plan  - cron: `0 9 * * 1`  tasks at times of the calendar
    agents.md, below ## Hooks        ### agent_stop   - when: message      tasks at start and stop, around each event

Cron has five fields as in cron(5), and @hourly, @daily, and so on. Times are local. cronsim handles daylight saving
time like Debian's cron: on such a day, a job at a fixed time runs once, and an hourly job runs at every real hour.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import takewhile
from typing import Any, Literal, get_args

from cronsim import CronSim, CronSimError

from agentic.personas.markdown import Fields, Problems, Section, fields_of, scan, sections, under

MAX_NAME = 100  # characters
YES = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(
    r"([0-9]{1,9}) ?(s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?|d|days?)?", re.ASCII | re.IGNORECASE
)
_CHANNEL = re.compile(r"<#([0-9]{1,20})>|([0-9]{1,20})", re.ASCII)
_HOURS = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))? ?(?:-|–|—|to) ?([0-9]{1,2})(?::([0-9]{2}))?", re.ASCII)
_DAY = 24 * 60

MIN_INTERVAL = 60

DAY_SECONDS = 86_400.0
LATE_SECONDS = 3_600.0  # that a job without catch-up may wait for room in the inbox
PUNCTUAL_SECONDS = 120.0  # a run that is later than this was missed: the program or its machine slept
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MAX_EXPRESSION = 100  # characters

HookName = Literal["startup", "agent_begin", "agent_stop", "shutdown"]
HOOKS: tuple[HookName, ...] = get_args(HookName)
AROUND: tuple[HookName, ...] = ("agent_begin", "agent_stop")  # hooks around events; the others run once per process
EVENT_TYPES = frozenset({"message", "heartbeat", "cron", "webhook", "instruction", "reflection"})
"""The types of events with hooks around them. "hook" isn't one: hooks never call hooks."""


@dataclass(frozen=True, slots=True)
class ActiveHours:
    """A part of the day in minutes since midnight, without `end`. If `end` is earlier, it extends past midnight."""

    start: int
    end: int

    def cover(self, moment: datetime) -> bool:
        minute = moment.hour * 60 + moment.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


@dataclass(frozen=True, slots=True)
class Check:
    """A check. `channel`: an id or a name without #, or None for the default channel."""

    name: str
    instruction: str
    interval_seconds: int
    channel: int | str | None = None
    active_hours: ActiveHours | None = None  # None: always

    @property
    def field(self) -> str:
        return f"heartbeat:{_short(self.name)}"

    @property
    def patience(self) -> float:
        """The seconds that a due run may wait: until the next run."""
        return min(self.interval_seconds, DAY_SECONDS)

    def next_time(self, last: float, now: float) -> float:
        """Return when it is due next, in unix seconds, ignoring active hours.

        `last` is its last run, or when it was first seen. After a long pause it is due once. A `last` that is an
        interval or more in the future is from a wrong clock.
        """
        return now if last - now >= self.interval_seconds else last + self.interval_seconds

    def due(self, last: float, now: float, zone: tzinfo) -> float | None:
        """Return `now` (unix seconds) if the check is due and its active hours in that time zone include now."""
        if now < self.next_time(last, now):
            return None
        if self.active_hours is not None and not self.active_hours.cover(datetime.fromtimestamp(now, zone)):
            return None
        return now


@dataclass(frozen=True, slots=True)
class Job:
    """A job. `expression`: as written; `channel`: an id or a name without #, or None for the default channel."""

    name: str
    expression: str
    instruction: str
    channel: int | str | None = None
    catch_up: bool = False

    @property
    def field(self) -> str:
        """The key of its last run. A job with new times is a new job, which hasn't missed a run."""
        return f"cron:{_short(self.name)}:{_short(self.expression)}"

    @property
    def patience(self) -> float:
        """The seconds that a due run may wait."""
        return DAY_SECONDS if self.catch_up else LATE_SECONDS

    def next_time(self, after: float, zone: tzinfo) -> float | None:
        """Return its first time after `after`, both in unix seconds, or None if there is none within fifty years."""
        return next(self._moments(after, zone), None)

    def due(self, last: float, now: float, zone: tzinfo) -> float | None:
        """Return the due time that should run now, in unix seconds, or None.

        `last` is the due time that ran last, or when the job was first seen. If several times have passed since, only
        the newest runs; if it was missed by more than PUNCTUAL_SECONDS, it runs only with catch-up. Every process gets
        the same time, so it can identify the run. A `last` more than PUNCTUAL_SECONDS ahead is from a wrong clock.
        """
        if last - now > PUNCTUAL_SECONDS:
            last = now - PUNCTUAL_SECONDS
        look, newest = 7_200.0, None  # look back in growing steps, to avoid iterating over a year of minutes
        while True:
            start = max(last, now - look)
            for moment in takewhile(lambda moment: moment <= now, self._moments(start, zone)):
                newest = moment
            if newest is not None or start <= last or look > 60 * 366 * DAY_SECONDS:
                break
            look *= 24
        if newest is None or (now - newest > PUNCTUAL_SECONDS and not self.catch_up):
            return None
        return newest

    def _moments(self, after: float, zone: tzinfo) -> Iterator[float]:
        """Yield its times after `after`, in order: an hour that occurs twice isn't repeated."""
        expression = _NAMED.get(self.expression.lower(), self.expression)
        for moment in CronSim(expression, datetime.fromtimestamp(after, zone)):
            at = moment.timestamp()
            if at > after:
                after = at
                yield at


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook. `when`: only around events of these types (None: all). `channel`: as in a check."""

    instruction: str
    when: frozenset[str] | None = None
    channel: int | str | None = None

    def fires_for(self, event_type: str) -> bool:
        return event_type in (EVENT_TYPES if self.when is None else self.when)


Hooks = Mapping[HookName, Hook]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


def parse_heartbeat(text: str | None) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Return the valid checks of heartbeat.md in order, and problems with file and line."""
    problems, checks = Problems("heartbeat.md", text), dict[str, Check]()
    lines = scan(text or "")
    found = sections(lines, 2)
    for section in found:
        fields = _read_task(section, HEARTBEAT_FIELDS, "interval: 300", checks, problems)
        if fields is not None:
            interval, channel, hours = map(fields.values.get, HEARTBEAT_FIELDS)
            checks[section.title.casefold()] = Check(section.title, fields.text, interval or 0, channel, hours)

    # Report headings of the wrong level that were meant as checks.
    for section in (section for level in ((1,) if found else (1, 3, 4, 5, 6)) for section in sections(lines, level)):
        own = Section(section.heading, tuple(takewhile(lambda line: not line.level, section.body)))
        if "interval" in fields_of(own, HEARTBEAT_FIELDS, Problems("")).lines:
            problems.add(section.heading.number, "a check starts with `## ` and its name")
    return tuple(checks.values()), problems.lines()


def parse_cron(text: str | None) -> tuple[tuple[Job, ...], tuple[str, ...]]:
    """Return the valid jobs of agents.md in order, and problems with file and line."""
    problems, jobs = Problems("agents.md", text), dict[str, Job]()
    for section in under(scan(text or ""), "Cron Jobs"):
        fields = _read_task(section, CRON_FIELDS, "cron: 0 9 * * 1", jobs, problems)
        if fields is not None:
            expression, channel, catch_up = map(fields.values.get, CRON_FIELDS)
            jobs[section.title.casefold()] = Job(section.title, expression or "", fields.text, channel, bool(catch_up))
    return tuple(jobs.values()), problems.lines()


def _read_task(
    section: Section,
    readers: Mapping[str, Callable[[str], Any]],
    example: str,
    taken: Collection[str],
    problems: Problems,
) -> Fields | None:
    """Return the fields of a check or job, or None after reporting its problems. It needs the field in `example`, and a
    name that isn't in `taken` (in any case)."""
    fields, line, name = fields_of(section, readers, problems), section.heading.number, section.title
    required = example.partition(":")[0]
    if required not in fields.lines:
        problems.add(line, f"{name!r} has no field {required}, as in `- {example}`")
    if not fields.text:
        problems.add(line, f"{name!r} has no instruction")
    if not name:
        problems.add(line, "this heading has no name")
    elif len(name) > MAX_NAME:
        problems.add(line, f"a name has at most {MAX_NAME} characters")
    elif name.casefold() in taken:
        problems.add(line, f"{name!r} appears twice; the first is used")
    elif required in fields.lines and fields.text and fields.are_valid:
        return fields
    return None


def parse_hooks(text: str | None) -> tuple[Hooks, tuple[str, ...]]:
    """Return the valid hooks of agents.md, and problems with file and line."""
    problems, found = Problems("agents.md", text), dict[HookName, Hook]()
    for section in under(scan(text or ""), "Hooks"):
        line, title = section.heading.number, section.title.lower().replace(" ", "_").replace("-", "_")
        name = next((name for name in HOOKS if name == title), None)
        if name is None:
            problems.add(line, f"{section.title!r} isn't a hook; the hooks are {', '.join(HOOKS)}")
            continue
        fields = fields_of(section, HOOK_FIELDS, problems)
        when, channel = map(fields.values.get, HOOK_FIELDS)
        if when is not None and name not in AROUND:
            problems.add(fields.lines["when"], f"when: ignored, because {name} doesn't belong to an event")
            when = None
        if not fields.text:
            problems.add(line, f"{name} has no instruction")
        if name in found:
            problems.add(line, f"{name} appears twice; the first is used")
        elif fields.text and fields.are_valid:
            # Skip hooks with an unreadable condition: running them for each event may cost a lot.
            found[name] = Hook(fields.text, when, channel)
    return found, problems.lines()


def read_expression(text: str) -> str:
    """Return the text if it is a cron expression that ever matches. Raises ValueError with the problem."""
    if len(text) > _MAX_EXPRESSION:
        raise ValueError(f"an expression has at most {_MAX_EXPRESSION} characters")
    fields = _NAMED.get(text.lower(), text)
    if len(fields.split()) != 5:
        raise ValueError("expected five fields (minute, hour, day, month, day of the week), such as 0 9 * * 1")
    try:
        next(CronSim(fields, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise ValueError(f"{text!r} isn't a cron expression: {str(error).lower()}") from None
    except StopIteration:
        raise ValueError(f"{text!r} never matches a date") from None
    return text


def read_interval(text: str) -> int:
    seconds = read_span(text)
    if seconds < MIN_INTERVAL:
        raise ValueError(f"the shortest interval is {MIN_INTERVAL} seconds")
    if seconds > 366 * DAY_SECONDS:
        raise ValueError("the longest interval is a year")
    return seconds


def read_event_types(text: str) -> frozenset[str]:
    named = frozenset(word.strip().lower() for word in text.split(",") if word.strip())
    if not named or named - EVENT_TYPES:
        raise ValueError(f"expected types of events: {', '.join(sorted(EVENT_TYPES))}")
    return named


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
        raise ValueError("expected seconds such as 300, or a time such as 5m, 2h, or 1d")
    return int(match[1]) * _SECONDS[(match[2] or "s")[0].lower()]


def read_hours(text: str) -> ActiveHours:
    """Parse hours: `08:00-22:00`, `8-22`, `22:00-06:00`; 24:00 is the end of the day."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise ValueError("expected hours such as 08:00-22:00")
    start, end = (int(match[hour]) * 60 + int(match[hour + 1] or 0) for hour in (1, 3))
    minutes = [int(match[minute] or 0) for minute in (2, 4)]
    if max(minutes) > 59 or start >= _DAY or end > _DAY:
        raise ValueError("expected times from 00:00 to 24:00")
    if start == end:
        raise ValueError("these hours start and end at the same time; for the whole day, leave this field out")
    return ActiveHours(start, end)


def read_yes(text: str) -> bool:
    if text.lower() not in YES:
        raise ValueError("expected yes or no")
    return YES[text.lower()]


HEARTBEAT_FIELDS: dict[str, Callable[[str], Any]] = {
    "interval": read_interval,
    "channel": read_channel,
    "active_hours": read_hours,
}
CRON_FIELDS: dict[str, Callable[[str], Any]] = {"cron": read_expression, "channel": read_channel, "catch_up": read_yes}
HOOK_FIELDS: dict[str, Callable[[str], Any]] = {"when": read_event_types, "channel": read_channel}
