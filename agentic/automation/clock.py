"""The automation clock: heartbeats and cron jobs of an agent, in one task.

    files → what is due → the tick is claimed, once over all processes (LastRuns) → an event in the inbox

The task sleeps until the next tick is due, a minute at most, and reads the files again each time: an edit takes effect
within a minute. Redis has the time of each last run, so a restart neither repeats nor loses a tick. A new check or job
has missed nothing. A tick is claimed only if there is room for its event, whose turn is saved in the same step until it
begins: a tick stays due while the inbox is full, or a server hasn't arrived. Only the process that acts for the agent
ticks; when a process takes over the agent, it reads the last runs first.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from typing import Any

from agentic.agent.events import CronEvent, HeartbeatEvent, TurnEvent, save_event
from agentic.agent.persona import Persona
from agentic.agent.services import Services
from agentic.chat.outlet import NO_CHANNEL
from agentic.chat.service import AgentChannels, ChannelInfo
from agentic.inbox.inbox import TurnQueue
from agentic.personas.schedules import PUNCTUAL_SECONDS, Check, Job
from agentic.state.leases import AnyLease
from agentic.themes import DEFAULT_THEME

LOOK_SECONDS = 60.0  # between two readings of the files
MIN_SLEEP = 0.5  # seconds
HELD_SECONDS = 1.0  # before a tick that is due and cannot be claimed yet is tried again
AWAY_SECONDS = 5.0  # before Redis is asked again

log = logging.getLogger(__name__)


class TargetResolver:
    """Finds the channels of one agent's tasks. `output` is OUTPUT_CHANNEL_ID."""

    def __init__(self, agent: str, channels: AgentChannels, output: int | None) -> None:
        self._agent, self._channels, self._output = agent, channels, output
        self._logged: dict[str, str] = {}  # task → why it was skipped

    def is_pending(self, channel: int | str | None) -> bool:
        """Return whether the channel may belong to a server that hasn't arrived."""
        wanted = self._output if channel is None else channel
        if wanted is None or not self._channels.arriving:
            return False
        return not any(wanted in (known.channel_id, known.name) for known in self._channels.known())

    def of(self, channel: int | str | None, task: str) -> ChannelInfo | None:
        """Return the channel of `task`, by id or name, or OUTPUT_CHANNEL_ID; None if the agent may not speak there."""
        wanted = self._output if channel is None else channel
        for known in self._channels.known():
            if wanted in (known.channel_id, known.name):
                self._logged.pop(task, None)
                return known
        if channel is None or channel == self._output:
            return ChannelInfo(self._output or NO_CHANNEL, "", DEFAULT_THEME)
        if self._channels.arriving:
            reason = f"channel {channel} is unknown: Discord hasn't sent its server yet"
        else:
            reason = f"channel {channel} isn't one of this bot's channels"
        if self._logged.get(task) != reason:
            self._logged[task] = reason
            log.warning("%s: skipped %s: %s", self._agent, task, reason)
        return None


def next_look(task: Check | Job, last: float, now: float, zone: tzinfo) -> float:
    """Return when to look again, in unix seconds. A check that is due outside its hours is looked at with the files."""
    moment = task.next_time(last, now) if isinstance(task, Check) else task.next_time(now, zone)
    return moment if moment is not None and moment > now else now + LOOK_SECONDS


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
        while True:
            try:
                seconds = await self.tick()
            except Exception:
                # The outermost edge of this loop: a round that fails must not end the next ones.
                log.exception("%s: automation round failed; will retry", self._agent)
                seconds = LOOK_SECONDS
            await self._sleep(seconds)

    async def tick(self) -> float:
        """Run what is due; return the seconds until the next look."""
        if not self._lease.is_held:
            self._loaded = False
            self._held.clear()
            return AWAY_SECONDS
        tasks: tuple[Check | Job, ...] = (*self._schedule.checks(), *self._schedule.jobs())
        if not self._loaded and tasks:
            if await self._last_runs.load(self._agent) is None:
                return AWAY_SECONDS
            await self._last_runs.prune(self._agent, {task.field for task in tasks})
            self._loaded = True
        looks = [await self._look(task) for task in tasks]
        now = self._clock()
        return min(max(min(looks, default=now + LOOK_SECONDS) - now, MIN_SLEEP), LOOK_SECONDS)

    async def _look(self, task: Check | Job) -> float:
        """Run it if it is due; return when to look at it again."""
        field = task.field
        now, last = self._clock(), self._last_runs.last(self._agent, field)
        if last is None:
            await self._last_runs.run(self._agent, field, now)  # first seen
            last = now
        at = task.due(last, now, self._timezone)
        if at is None and (at := self._held.get(field)) is not None and now - at > task.patience:
            log.warning("%s: skipped %s: it has waited for too long", self._agent, _title(task))
            del self._held[field]
            at = None
        # A clock that was ahead noted a job's last run. A check's next run is never far away.
        if at is None and isinstance(task, Job) and last - now > PUNCTUAL_SECONDS:
            await self._last_runs.run(self._agent, field, now)
            last = now
        if at is None:
            return next_look(task, last, now, self._timezone)
        if self._targets.is_pending(task.channel):
            return self._hold(task, at, "Discord hasn't sent its server yet")
        event = self._event(task, at, now)
        if event is not None and not self._queue.inbox.has_room(event):
            return self._hold(task, at, "the inbox is full")
        # End the tick; its event, if it has one, is in the inbox then, or waits in Redis for room there.
        self._held.pop(field, None)
        saved = (event.id, save_event(event, 0), task.patience) if event is not None else ()
        if await self._last_runs.run(self._agent, field, at, *saved) and event is not None:
            self._latest[field] = event.id
            self._queue.enqueue(event)
        return next_look(task, self._last_runs.last(self._agent, field) or at, now, self._timezone)

    def _hold(self, task: Check | Job, at: float, reason: str) -> float:
        """Keep it due, even for a job without catch-up. Returns when to look at it again."""
        if task.field not in self._held:
            log.info("%s: %s waits: %s", self._agent, _title(task), reason)
        self._held[task.field] = at
        return self._clock() + HELD_SECONDS

    def _event(self, task: Check | Job, at: float, now: float) -> TurnEvent | None:
        """Return the run's event, with the same id in every process; None if the turn of the run before is still open,
        or the agent may not speak there."""
        if self._queue.registry.is_open(self._latest.get(task.field, "")):
            log.info("%s: skipped %s: its last turn is still open", self._agent, _title(task))
            return None
        if (target := self._targets.of(task.channel, _title(task))) is None:
            return None
        common: dict[str, Any] = {
            "id": f"{task.field}:{round(at)}",
            "channel_id": target.channel_id,
            "theme": target.theme,
            "deadline": now + self._seconds,
            "seconds": self._seconds,
            "instruction": task.instruction,
        }
        if isinstance(task, Check):
            return HeartbeatEvent(**common, check=task.name)
        return CronEvent(**common, job=task.name)


def _title(task: Check | Job) -> str:
    return f"{'heartbeat' if isinstance(task, Check) else 'cron'} {task.name!r}"
