"""Heartbeats, cron jobs and hooks as data: what persona files say, and when it is due. Pure.

Each is a heading with its name, fields as list items below it, and a text, the instruction (docs/persona-files.md):

    heartbeat.md                     ## Build         - interval: 15m      checks that an agent repeats by itself
    agents.md, below ## Cron Jobs    ### Monday plan  - cron: `0 9 * * 1`  tasks at times of the calendar
    agents.md, below ## Hooks        ### agent_stop   - when: message      tasks at start and stop, around each event

Cron has five fields as in cron(5), and @hourly, @daily and so on. Times are local. cronsim treats changes of daylight
saving time as Debian's cron does: a job at a fixed time runs once on such a day, an hourly one at every real hour.
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
PUNCTUAL_SECONDS = 120.0  # what runs later than this was missed: the program or its machine slept
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
AROUND: tuple[HookName, ...] = ("agent_begin", "agent_stop")  # an event; the others run once in a process
EVENT_TYPES = frozenset({"message", "heartbeat", "cron", "webhook", "instruction", "reflection"})
"""Those that have hooks around them. The type "hook" is not among them: hooks never call hooks."""


@dataclass(frozen=True, slots=True)
class ActiveHours:
    """A part of the day in minutes since midnight, `end` excluded. If `end` is earlier it extends over midnight."""

    start: int
    end: int

    def cover(self, moment: datetime) -> bool:
        minute = moment.hour * 60 + moment.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `channel`: an id or a name without #, None for the default channel. `active_hours`: None for
    always."""

    name: str
    instruction: str
    interval_seconds: int
    channel: int | str | None = None
    active_hours: ActiveHours | None = None

    @property
    def field(self) -> str:
        """Its name among the last runs."""
        return f"heartbeat:{_short(self.name)}"

    @property
    def patience(self) -> float:
        """Seconds for which a run that is due may wait: until the next one."""
        return min(self.interval_seconds, DAY_SECONDS)

    def next_time(self, last: float, now: float) -> float:
        """When it is due next, in unix seconds, regardless of active hours. `last`: its last run, or when it was
        first seen.

        After a long pause it is due once. A `last` that is an interval or more in the future came from a wrong clock.
        """
        return now if last - now >= self.interval_seconds else last + self.interval_seconds

    def due(self, last: float, now: float, zone: tzinfo) -> float | None:
        """Return `now` (unix seconds) if it is due and within its active hours in that time zone."""
        if now < self.next_time(last, now):
            return None
        if self.active_hours is not None and not self.active_hours.cover(datetime.fromtimestamp(now, zone)):
            return None
        return now


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `expression` as written; `channel`: an id or a name without #, None for the default channel."""

    name: str
    expression: str
    instruction: str
    channel: int | str | None = None
    catch_up: bool = False

    @property
    def field(self) -> str:
        """Its name among the last runs. A job whose times are edited is another job: it has missed nothing."""
        return f"cron:{_short(self.name)}:{_short(self.expression)}"

    @property
    def patience(self) -> float:
        """Seconds for which a run that is due may wait."""
        return DAY_SECONDS if self.catch_up else LATE_SECONDS

    def next_time(self, after: float, zone: tzinfo) -> float | None:
        """Return its first time after `after`, both in unix seconds. None if there is none in fifty years."""
        return next(self._moments(after, zone), None)

    def due(self, last: float, now: float, zone: tzinfo) -> float | None:
        """Return the moment that has to run now, in unix seconds; None if there is nothing to do.

        `last` is the moment that was run last, or when the job was first seen. Of several moments in between only the
        newest counts; one that was missed by more than PUNCTUAL_SECONDS counts only for a job that catches up. The
        moment is the same for every process that asks, so it can name the run. A `last` that lies more than
        PUNCTUAL_SECONDS ahead is of a clock that was wrong: what is due just now runs.
        """
        if last - now > PUNCTUAL_SECONDS:
            last = now - PUNCTUAL_SECONDS
        look, newest = 7_200.0, None  # look back in growing steps: a year of minutes is not counted
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
        """Yield its moments after `after`, ever later: an hour that comes twice is not repeated."""
        expression = _NAMED.get(self.expression.lower(), self.expression)
        for moment in CronSim(expression, datetime.fromtimestamp(after, zone)):
            at = moment.timestamp()
            if at > after:
                after = at
                yield at


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook. `when`: only around events of these types, None for all. `channel`: as in a check."""

    instruction: str
    when: frozenset[str] | None = None
    channel: int | str | None = None

    def fires_for(self, event_type: str) -> bool:
        return event_type in (EVENT_TYPES if self.when is None else self.when)


Hooks = Mapping[HookName, Hook]
"""The hooks that an agent has."""


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

    # headings of the wrong level that were meant as checks would otherwise be silently ignored
    for section in (section for level in ((1,) if found else (1, 3, 4, 5, 6)) for section in sections(lines, level)):
        own = Section(section.heading, tuple(takewhile(lambda line: not line.level, section.body)))
        if "interval" in fields_of(own, HEARTBEAT_FIELDS, Problems("")).lines:
            problems.add(section.heading.number, "a check begins with `## ` and its name")
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
    """Return the fields of a check or job, None after reporting what is wrong. The field of `example` is required, and
    a name that is not in `taken` (in any case)."""
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
        problems.add(line, f"{name!r} is given twice; the first one counts")
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
            problems.add(line, f"{section.title!r} is not a hook; the hooks are {', '.join(HOOKS)}")
            continue
        fields = fields_of(section, HOOK_FIELDS, problems)
        when, channel = map(fields.values.get, HOOK_FIELDS)
        if when is not None and name not in AROUND:
            problems.add(fields.lines["when"], f"when: ignored, {name} does not belong to an event")
            when = None
        if not fields.text:
            problems.add(line, f"{name} has no instruction")
        if name in found:
            problems.add(line, f"{name} is given twice; the first one counts")
        elif fields.text and fields.are_valid:
            # without an unreadable condition: a hook that runs for every event may cost a lot
            found[name] = Hook(fields.text, when, channel)
    return found, problems.lines()


def read_expression(text: str) -> str:
    """Return the text if cron accepts it and it ever comes true. Raises ValueError with the problem."""
    if len(text) > _MAX_EXPRESSION:
        raise ValueError(f"an expression has at most {_MAX_EXPRESSION} characters")
    fields = _NAMED.get(text.lower(), text)
    if len(fields.split()) != 5:
        raise ValueError("expected five fields: minute, hour, day, month, day of the week")
    try:
        next(CronSim(fields, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise ValueError(f"{text!r} is not a cron expression: {str(error).lower()}") from None
    except StopIteration:
        raise ValueError(f"{text!r} never comes true") from None
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
    if text.lower() not in YES:
        raise ValueError("expected yes or no")
    return YES[text.lower()]


HEARTBEAT_FIELDS: dict[str, Callable[[str], Any]] = {
    "interval": read_interval,
    "channel": read_channel,
    "active_hours": read_hours,
}
CRON_FIELDS: dict[str, Callable[[str], Any]] = {
    "cron": read_expression,
    "channel": read_channel,
    "catch_up": read_yes,
}
HOOK_FIELDS: dict[str, Callable[[str], Any]] = {"when": read_event_types, "channel": read_channel}
