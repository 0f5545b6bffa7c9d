"""The section "Cron Jobs" of agents.md: tasks at times of the calendar.

    ## Cron Jobs

    ### Monday plan
    - cron: `0 9 * * 1`
    - channel: #general
    - catch_up: yes

    Ask everybody for the one thing that must happen this week.

Five fields as in cron(5), and @hourly, @daily, @weekly, @monthly, @yearly. Times are local. cronsim treats changes of
daylight saving time as Debian's cron does: a job at a fixed time runs once on such a day, an hourly one at every real
hour. `due` is pure: the caller stores the time of the last run and passes the clock's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from cronsim import CronSim, CronSimError

from agentic.personas.fields import Problems, good_name, read_channel, read_field, read_yes
from agentic.personas.markdown import Section, fields_of, scan, under

FILE = "agents.md"
HEADING = "Cron Jobs"
FIELDS = ("cron", "channel", "catch_up")
PUNCTUAL_SECONDS = 120.0
"""What is run later than this was missed: the program or its machine slept."""

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
_FIRST_LOOK = 7_200.0  # seconds
_YEAR = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `expression` as written; `channel`: an id or a name without #, None for the default channel."""

    name: str
    expression: str
    instruction: str
    channel: int | str | None = None
    catch_up: bool = False


def parse_cron(text: str | None) -> tuple[tuple[Job, ...], tuple[str, ...]]:
    """Return the valid jobs of agents.md in order, and problems with file and line."""
    problems, jobs = Problems(FILE, text), dict[str, Job]()
    for section in under(scan(text or ""), HEADING):
        job = _job(section, problems)
        if good_name(section, jobs, problems) and job is not None:
            jobs[job.name.casefold()] = job
    return tuple(jobs.values()), problems.lines()


def _job(section: Section, problems: Problems) -> Job | None:
    fields, line = fields_of(section, FIELDS), section.heading.number
    problems.of(fields)
    expression, right = read_field(fields, "cron", read_expression, problems)
    channel, known = read_field(fields, "channel", read_channel, problems)
    catch_up, said = read_field(fields, "catch_up", read_yes, problems)
    if expression is None and right:
        problems.add(line, f"{section.title!r} has no field cron, as in `- cron: 0 9 * * 1`")
    if not fields.text:
        problems.add(line, f"{section.title!r} has no instruction")
    if expression is None or not fields.text or not (known and said):
        return None
    return Job(section.title, expression, fields.text, channel, bool(catch_up))


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


def next_time(job: Job, after: float, zone: tzinfo) -> float | None:
    """Return the job's first time after `after`, both in unix seconds. None if there is none in fifty years."""
    return next(_moments(job, after, zone), None)


def due(job: Job, last: float, now: float, zone: tzinfo) -> float | None:
    """The moment that shall be run now, in unix seconds; None where there is nothing to do.

    `last` is the moment that was run last, or when the job was first seen. Of several moments in between only the
    newest counts; one that was missed by more than PUNCTUAL_SECONDS counts only for a job that catches up. The moment
    is the same for every process that asks, so it can name the run. A `last` that lies more than PUNCTUAL_SECONDS
    ahead is of a clock that was wrong: what is due just now runs.
    """
    if last - now > PUNCTUAL_SECONDS:
        last = now - PUNCTUAL_SECONDS
    moment = _newest(job, last, now, zone)
    if moment is None or (now - moment > PUNCTUAL_SECONDS and not job.catch_up):
        return None
    return moment


def _newest(job: Job, last: float, now: float, zone: tzinfo) -> float | None:
    """The newest moment after `last`, up to `now`. Looks back in growing steps: a year of minutes is not counted."""
    look = _FIRST_LOOK
    while True:
        start, newest = max(last, now - look), None
        for moment in _moments(job, start, zone):
            if moment > now:
                break
            newest = moment
        if newest is not None or start <= last or look > 60 * _YEAR:
            return newest
        look *= 24


def _moments(job: Job, after: float, zone: tzinfo) -> Iterator[float]:
    """The job's moments after `after`, ever later: an hour that comes twice is not repeated."""
    expression = _NAMED.get(job.expression.lower(), job.expression)
    for moment in CronSim(expression, datetime.fromtimestamp(after, zone)):
        at = moment.timestamp()
        if at > after:
            after = at
            yield at
