"""Count the automation turns that an agent's persona files cause in a day. Pure, except for reading the files.

Counted are heartbeats, cron jobs, and the hooks around them and around the coordinator's turns. Mentions cannot be
foreseen, but the hooks around each can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path

from agentic.personas.cron import Job, next_time, parse_cron
from agentic.personas.files import read_persona
from agentic.personas.heartbeat import Check, parse_heartbeat
from agentic.personas.hooks import Hooks, parse_hooks
from agentic.personas.prompt import unclosed_comments

DAY = 86_400.0
OFTEN = 24  # runs a day: a job this frequent is counted over one day, others over MONTH_DAYS
MONTH_DAYS = 28
STARTS = 1.0  # assumed starts a day, and as many stops


def automation_turns_a_day(
    folder: Path, instructions: float, now: float, zone: tzinfo
) -> tuple[float, tuple[str, ...]]:
    """Turns a day by the folder's files, and the problems in them. `instructions`: the coordinator's turns a day."""
    files = read_persona(folder)
    checks, check_problems = parse_heartbeat(files.heartbeat)
    jobs, job_problems = parse_cron(files.agents)
    hooks, hook_problems = parse_hooks(files.agents)
    beats, runs = beats_a_day(checks), runs_a_day(jobs, now, zone)
    events = {"heartbeat": beats, "cron": runs, "instruction": instructions}
    problems = (*unclosed_comments(files), *check_problems, *job_problems, *hook_problems)
    return beats + runs + hooks_a_day(hooks, events), tuple(dict.fromkeys(problems))


def hooks_of_a_mention(folder: Path) -> int:
    """Hook turns around each mention, by the files in the folder."""
    hooks, _ = parse_hooks(read_persona(folder).agents)
    return sum(hook.fires_for("message") for hook in (hooks.agent_begin, hooks.agent_stop) if hook is not None)


def beats_a_day(checks: Sequence[Check]) -> float:
    """Heartbeats a day, within active hours."""
    return sum(_active_share(check) * DAY / check.interval_seconds for check in checks)


def runs_a_day(jobs: Sequence[Job], now: float, zone: tzinfo) -> float:
    """Cron runs a day, averaged over the next four weeks."""
    return sum(_runs(job, now, zone) for job in jobs)


def hooks_a_day(hooks: Hooks, events: dict[str, float]) -> float:
    """Hook turns a day. `events`: how many a day, by kind."""
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
