"""The automation clock: heartbeats and cron jobs of an agent, in one task.

    files → what is due → the tick is claimed, once over all processes (LastRuns) → an event in the inbox

The task sleeps until the next tick is due, a minute at most, and reads the files again each time: an edit takes effect
within a minute. The time of each last run is in Redis, so a restart neither repeats nor loses a tick. A check or job
that is seen for the first time has missed nothing. A tick is claimed only when there is room for its event, whose turn
is saved in the same step until it begins: what is due while the inbox is full, or a guild has not arrived, stays due.
Only the process that holds the agent ticks; one that takes the agent over reads the last runs first.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from agentic.agent.events import CronEvent, HeartbeatEvent, TurnEvent, save_event
from agentic.agent.persona import Persona
from agentic.agent.services import Services
from agentic.chat.outlet import NO_CHANNEL
from agentic.chat.service import AgentChannels
from agentic.inbox.inbox import TurnQueue
from agentic.personas.schedules import PUNCTUAL_SECONDS, Check, Job, beats, due, next_beat, next_time
from agentic.state.leases import AnyLease
from agentic.themes import DEFAULT_THEME

LOOK_SECONDS = 60.0  # between two readings of the files
MIN_SLEEP = 0.5  # seconds
HELD_SECONDS = 1.0  # before a tick that is due and cannot be claimed yet is tried again
LATE_SECONDS = 3600.0  # that a job without catch-up may be late
DAY = 86400.0
AWAY_SECONDS = 5.0  # before Redis is asked again

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A channel and its theme; NO_CHANNEL for none."""

    channel_id: int
    theme: str = DEFAULT_THEME


class TargetResolver:
    """Finds the channels of one agent's tasks. `output` is OUTPUT_CHANNEL_ID."""

    def __init__(self, agent: str, channels: AgentChannels, output: int | None) -> None:
        self._agent, self._channels, self._output = agent, channels, output
        self._logged: set[tuple[str, str]] = set()

    def is_pending(self, channel: int | str | None) -> bool:
        """Whether the channel may belong to a guild that has not arrived."""
        wanted = self._output if channel is None else channel
        if wanted is None or not self._channels.arriving:
            return False
        return not any(wanted in (known.channel_id, known.name) for known in self._channels.known())

    def of(self, channel: int | str | None, task: str) -> Target | None:
        """The channel of `task` by id or name, else OUTPUT_CHANNEL_ID, else none; None if it may not speak there."""
        if channel is None or channel == self._output:
            themes = {known.channel_id: known.theme for known in self._channels.known()} if self._output else {}
            channel_id = self._output or NO_CHANNEL
            return Target(channel_id, themes.get(channel_id, DEFAULT_THEME))
        for known in self._channels.known():
            if channel in (known.channel_id, known.name):
                self._logged = {(logged, reason) for logged, reason in self._logged if logged != task}
                return Target(known.channel_id, known.theme)
        if self._channels.arriving:
            reason = f"channel {channel} is not known yet, its guild has not arrived"
        else:
            reason = f"channel {channel} is not one of this bot's channels"
        if (task, reason) not in self._logged:
            self._logged.add((task, reason))
            log.warning("%s: skipped %s: %s", self._agent, task, reason)
        return None


@dataclass(frozen=True, slots=True)
class Tick:
    """A check or job. `field` is its name among the last runs."""

    field: str
    task: Check | Job

    @classmethod
    def of(cls, task: Check | Job) -> Tick:
        """A job whose times are edited is another job: it has missed nothing."""
        if isinstance(task, Check):
            return cls(f"heartbeat:{_short(task.name)}", task)
        return cls(f"cron:{_short(task.name)}:{_short(task.expression)}", task)

    def due(self, last: float, now: float, zone: tzinfo) -> float | None:
        if isinstance(self.task, Check):
            return now if beats(self.task, last, now, zone) else None
        return due(self.task, last, now, zone)

    def next(self, last: float, now: float, zone: tzinfo) -> float:
        """When to look again, in unix seconds. A check that is due outside of its hours is looked at with the files."""
        if isinstance(self.task, Check):
            moment: float | None = next_beat(self.task, last, now)
        else:
            moment = next_time(self.task, now, zone)
        return moment if moment is not None and moment > now else now + LOOK_SECONDS

    def has_run_in_future(self, last: float, now: float) -> bool:
        """Whether a clock that was ahead noted a job's last run; a check's next run is never far away."""
        return isinstance(self.task, Job) and last - now > PUNCTUAL_SECONDS

    @property
    def patience(self) -> float:
        """Seconds for which a run that is due may wait: a check until its next run, a job by its catch-up."""
        if isinstance(self.task, Check):
            return min(self.task.interval_seconds, DAY)
        return DAY if self.task.catch_up else LATE_SECONDS

    @property
    def name(self) -> str:
        return f"{self.field.partition(':')[0]} {self.task.name!r}"

    def event(self, at: float, target: Target, now: float, seconds: float) -> TurnEvent:
        """The event of a run, whose turn has `seconds`. The same run has the same id in every process."""
        common: dict[str, Any] = {
            "id": f"{self.field}:{round(at)}",
            "channel_id": target.channel_id,
            "theme": target.theme,
            "deadline": now + seconds,
            "seconds": seconds,
            "instruction": self.task.instruction,
        }
        if isinstance(self.task, Check):
            return HeartbeatEvent(**common, check=self.task.name)
        return CronEvent(**common, job=self.task.name)


class AutomationClock:
    """The clock of one agent, whose events go into `queue`."""

    def __init__(
        self,
        agent: str,
        persona: Persona,
        services: Services,
        queue: TurnQueue,
        targets: TargetResolver,
        *,
        lease: AnyLease,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._agent, self._schedule, self._queue, self._targets = agent, persona, queue, targets
        self._last_runs, self._clock = services.state.turns.last_runs, services.clock
        self._seconds, self._timezone = services.settings.turn_timeout_seconds, services.settings.timezone
        self._lease, self._sleep = lease, sleep
        self._loaded = False  # the last runs were read since this process holds the agent
        self._latest: dict[str, str] = {}  # field → the id of its latest event
        self._held: dict[str, float] = {}  # field → the time of a run that is due and cannot be claimed yet

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                seconds = await self.tick()
            except Exception:
                # The outermost edge of this loop: a round that fails must not end the next ones.
                log.exception("%s: automation round failed; will retry", self._agent)
                seconds = LOOK_SECONDS
            await self._sleep(seconds)

    async def tick(self) -> float:
        """Run what is due; returns the seconds until the next look."""
        if not self._lease.is_held:
            self._loaded = False
            self._held.clear()
            return AWAY_SECONDS
        tasks: tuple[Check | Job, ...] = (*self._schedule.checks(), *self._schedule.jobs())
        ticks = [Tick.of(task) for task in tasks]
        if not self._loaded and ticks:
            if await self._last_runs.load(self._agent) is None:
                return AWAY_SECONDS
            await self._last_runs.prune(self._agent, {tick.field for tick in ticks})
            self._loaded = True
        looks = [await self._look(tick) for tick in ticks]
        now = self._clock()
        return min(max(min(looks, default=now + LOOK_SECONDS) - now, MIN_SLEEP), LOOK_SECONDS)

    async def _look(self, tick: Tick) -> float:
        """Run it if it is due; returns when to look at it again."""
        now, last = self._clock(), self._last_runs.last(self._agent, tick.field)
        if last is None:
            await self._last_runs.run(self._agent, tick.field, now)  # first seen
            last = now
        at = tick.due(last, now, self._timezone)
        if at is None and (at := self._held.get(tick.field)) is not None and now - at > tick.patience:
            log.warning("%s: skipped %s: it has waited for too long", self._agent, tick.name)
            del self._held[tick.field]
            at = None
        if at is None and tick.has_run_in_future(last, now):
            await self._last_runs.run(self._agent, tick.field, now)
            last = now
        if at is None:
            return tick.next(last, now, self._timezone)
        if self._targets.is_pending(tick.task.channel):
            return self._hold(tick, at, "its guild has not arrived")
        event = self._event(tick, at, now)
        if event is not None and not self._queue.inbox.has_room(event):
            return self._hold(tick, at, "the inbox is full")
        # End the tick; its event, if it has one, is in the inbox then, or waits in Redis for room there.
        self._held.pop(tick.field, None)
        saved = (event.id, save_event(event, 0), tick.patience) if event is not None else ()
        if await self._last_runs.run(self._agent, tick.field, at, *saved) and event is not None:
            self._latest[tick.field] = event.id
            self._queue.enqueue(event)
        return tick.next(self._last_runs.last(self._agent, tick.field) or at, now, self._timezone)

    def _hold(self, tick: Tick, at: float, reason: str) -> float:
        """Keep it due, also without catch-up; returns when to look at it again."""
        if tick.field not in self._held:
            log.info("%s: %s waits: %s", self._agent, tick.name, reason)
        self._held[tick.field] = at
        return self._clock() + HELD_SECONDS

    def _event(self, tick: Tick, at: float, now: float) -> TurnEvent | None:
        """The run's event; None if the turn of the run before is still open, or the agent may not speak there."""
        if self._queue.registry.is_open(self._latest.get(tick.field, "")):
            log.info("%s: skipped %s: its last turn is still open", self._agent, tick.name)
            return None
        target = self._targets.of(tick.task.channel, tick.name)
        return tick.event(at, target, now, self._seconds) if target is not None else None


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
