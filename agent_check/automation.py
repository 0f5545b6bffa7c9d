"""What an agent's persona files make it do by itself, in turns a day. Pure but for reading the files.

Heartbeats, cron jobs, and the hooks around these and around the coordinator's turns. How much people bring about is not
foreseen; how many hooks stand around each of their mentions is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path

from agent_personas.files import read_persona
from agent_personas.prompt import unclosed_comments
from agent_personas.schedules.cron import Job, next_time, parse_cron
from agent_personas.schedules.heartbeat import Check, parse_heartbeat
from agent_personas.schedules.hooks import Hooks, parse_hooks

DAY = 86_400.0
OFTEN = 24  # times a day: a job that is due so often is counted over one day
MONTH_DAYS = 28
STARTS = 1.0  # a day, and as many stops


def automation_turns_a_day(
    folder: Path, instructions: float, now: float, zone: tzinfo
) -> tuple[float, tuple[str, ...]]:
    """Turns a day by the folder's files, and what is wrong in them; `instructions` a day come from the coordinator."""
    files = read_persona(folder)
    checks, wrong = parse_heartbeat(files.heartbeat)
    jobs, more_wrong = parse_cron(files.agents)
    hooks, still_more = parse_hooks(files.agents)
    beats, runs = beats_a_day(checks), runs_a_day(jobs, now, zone)
    events = {"heartbeat": beats, "cron": runs, "instruction": instructions}
    problems = (*unclosed_comments(files), *wrong, *more_wrong, *still_more)
    return beats + runs + hooks_a_day(hooks, events), tuple(dict.fromkeys(problems))


def hooks_of_a_mention(folder: Path) -> int:
    """Turns that come with each mention, by the folder's files."""
    hooks, _ = parse_hooks(read_persona(folder).agents)
    return sum(hook.fires_for("message") for hook in (hooks.agent_begin, hooks.agent_stop) if hook is not None)


def beats_a_day(checks: Sequence[Check]) -> float:
    """In their active hours."""
    return sum(_active_share(check) * DAY / check.interval_seconds for check in checks)


def runs_a_day(jobs: Sequence[Job], now: float, zone: tzinfo) -> float:
    """On average, over the next four weeks."""
    return sum(_runs(job, now, zone) for job in jobs)


def hooks_a_day(hooks: Hooks, events: dict[str, float]) -> float:
    """`events` a day by their kind."""
    around = [hook for hook in (hooks.agent_begin, hooks.agent_stop) if hook is not None]
    alone = [hook for hook in (hooks.startup, hooks.shutdown) if hook is not None]
    return len(alone) * STARTS + sum(count for hook in around for kind, count in events.items() if hook.fires_for(kind))


def _active_share(check: Check) -> float:
    hours = check.active_hours
    return 1.0 if hours is None else ((hours.end - hours.start) % 1440 or 1440) / 1440


def _runs(job: Job, now: float, zone: tzinfo) -> float:
    in_a_day = sum(1 for _ in _moments(job, now, now + DAY, zone))
    if in_a_day >= OFTEN:
        return in_a_day
    return sum(1 for _ in _moments(job, now, now + MONTH_DAYS * DAY, zone)) / MONTH_DAYS


def _moments(job: Job, now: float, end: float, zone: tzinfo) -> Iterator[float]:
    moment = next_time(job, now, zone)
    while moment is not None and moment <= end:
        yield moment
        moment = next_time(job, moment, zone)
