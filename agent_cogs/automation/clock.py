"""What ticks: an agent's heartbeats and cron jobs, one task per agent.

    files → what is due → the tick is taken, once over all processes (last_runs.py) → an event in the inbox

The task sleeps until the next one is due, a minute at most, and reads the files anew each time: an edit is taken up
within a minute. When something ran last is kept in Redis, so a restart neither repeats nor loses a tick. What was first
seen a moment ago has not been missed. A tick is taken only when its event has a place to go to, and its turn is kept in
the same step until it begins: what is due while the inbox is full, or a server is still on its way, stays due. Where
this process does not hold the agent, nothing ticks; who takes the agent over reads what the other one did.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Protocol

from agent_cogs.automation.target_channel import Target, TargetResolver
from agent_cogs.events import CronEvent, HeartbeatEvent, TurnEvent
from agent_cogs.turn.event_codec import save_event
from agent_personas.schedules.cron import PUNCTUAL_SECONDS, Job, due, next_time
from agent_personas.schedules.heartbeat import Check, beats, next_beat
from agent_protocol.connection.link import RedisAway

LOOK_SECONDS = 60.0  # between two looks at the files
SHORTEST_SLEEP = 0.5  # seconds
HELD_SECONDS = 1.0  # before what is due and cannot be taken yet is looked at again
LATE_SECONDS = 3600.0  # that a job may wait which is not made up for later
DAY = 86400.0
AWAY_SECONDS = 5.0  # before Redis is asked again when things ran last

log = logging.getLogger(__name__)


class Orders(Protocol):
    """What the agent's files ask for now; agent_cogs.persona.persona.Persona is one."""

    def checks(self) -> Sequence[Check]: ...
    def jobs(self) -> Sequence[Job]: ...


class TickBook(Protocol):
    """When things ran last; agent_protocol.state.last_runs.Ticks is the one in Redis."""

    async def load(self, agent: str) -> dict[str, float]: ...
    def last(self, agent: str, field: str) -> float | None: ...
    async def run(
        self, agent: str, field: str, at: float, turn_id: str = "", event: str = "", keep_seconds: float = ...
    ) -> bool: ...
    async def prune(self, agent: str, known: Collection[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Tick:
    """A check or job that can be due. `field` is its name among the last runs."""

    field: str
    order: Check | Job

    @classmethod
    def of(cls, order: Check | Job) -> Tick:
        """A job whose times are changed is another one: it has missed nothing."""
        if isinstance(order, Check):
            return cls(f"heartbeat:{_short(order.name)}", order)
        return cls(f"cron:{_short(order.name)}:{_short(order.expression)}", order)

    def due(self, last: float, now: float, zone: tzinfo) -> float | None:
        """The time of the run that is due, None for none."""
        if isinstance(self.order, Check):
            return now if beats(self.order, last, now, zone) else None
        return due(self.order, last, now, zone)

    def next(self, last: float, now: float, zone: tzinfo) -> float:
        """When to look again, unix seconds; what is due and held back by its hours is looked at with the files."""
        if isinstance(self.order, Check):
            moment: float | None = next_beat(self.order, last, now)
        else:
            moment = next_time(self.order, now, zone)
        return moment if moment is not None and moment > now else now + LOOK_SECONDS

    def comes_from_ahead(self, last: float, now: float) -> bool:
        """A job's last time is of a clock that was wrong: what it has still to come would count as done. A check's
        next time is an interval away at most, whatever the clock was."""
        return isinstance(self.order, Job) and last - now > PUNCTUAL_SECONDS

    @property
    def patience(self) -> float:
        """Seconds that a run which is due may wait: a check until the next one, a job by whether it is made up for."""
        if isinstance(self.order, Check):
            return min(self.order.interval_seconds, DAY)
        return DAY if self.order.catch_up else LATE_SECONDS

    @property
    def name(self) -> str:
        """For the log."""
        return f"{self.field.partition(':')[0]} {self.order.name!r}"

    def event(self, at: float, place: Target, now: float, seconds: float) -> TurnEvent:
        """The same run has the same id in every process. Its turn has so many seconds."""
        turn_id = f"{self.field}:{round(at)}"
        order, where, theme, deadline = self.order, place.channel_id, place.theme, now + seconds
        if isinstance(order, Check):
            return HeartbeatEvent(
                id=turn_id,
                channel_id=where,
                theme=theme,
                deadline=deadline,
                seconds=seconds,
                check=order.name,
                instruction=order.instruction,
            )
        return CronEvent(
            id=turn_id,
            channel_id=where,
            theme=theme,
            deadline=deadline,
            seconds=seconds,
            job=order.name,
            instruction=order.instruction,
        )


class Clocks:
    """One agent's. `has_room` says whether an event would fit into the inbox, `enter` puts it there; `is_open` tells of
    an event's id whether its turn waits or runs; a turn has `seconds`; `clock` in unix seconds, `sleep` for so many
    seconds."""

    def __init__(
        self,
        agent: str,
        orders: Orders,
        ticks: TickBook,
        placing: TargetResolver,
        *,
        enter: Callable[[TurnEvent], bool],
        has_room: Callable[[TurnEvent], bool],
        is_open: Callable[[str], bool],
        may_act: Callable[[], bool],
        seconds: float,
        timezone: tzinfo,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._agent, self._orders, self._ticks, self._placing = agent, orders, ticks, placing
        self._enter, self._has_room, self._is_open, self._may_act = enter, has_room, is_open, may_act
        self._seconds, self._timezone, self._clock, self._sleep = seconds, timezone, clock, sleep
        self._loaded = False  # what ran last is known, since this process holds the agent
        self._latest: dict[str, str] = {}  # field → the id of its latest event
        self._held: dict[str, float] = {}  # field → the time of a run that is due and cannot be taken yet

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                seconds = await self.tick()
            except Exception:
                # The outermost edge of this loop: what one round could not do must not end the next ones.
                log.exception("%s: heartbeats and jobs could not be looked at", self._agent)
                seconds = LOOK_SECONDS
            await self._sleep(seconds)

    async def tick(self) -> float:
        """Runs what is due; the seconds until the next look."""
        if not self._may_act():
            self._loaded = False
            self._held.clear()
            return AWAY_SECONDS
        orders: tuple[Check | Job, ...] = (*self._orders.checks(), *self._orders.jobs())
        ticks = [Tick.of(order) for order in orders]
        try:
            await self._load(ticks)
        except RedisAway:
            return AWAY_SECONDS
        looks = [await self._look(tick) for tick in ticks]
        now = self._clock()
        return min(max(min(looks, default=now + LOOK_SECONDS) - now, SHORTEST_SLEEP), LOOK_SECONDS)

    async def _load(self, ticks: Sequence[Tick]) -> None:
        if not self._loaded and ticks:
            await self._ticks.load(self._agent)
            await self._ticks.prune(self._agent, {tick.field for tick in ticks})
            self._loaded = True

    async def _look(self, tick: Tick) -> float:
        """Runs it if it is due; when to look at it again."""
        now, last = self._clock(), self._ticks.last(self._agent, tick.field)
        if last is None:
            await self._ticks.run(self._agent, tick.field, now)  # first seen
            last = now
        at = tick.due(last, now, self._timezone) or self._still_held(tick, now)
        if at is None and tick.comes_from_ahead(last, now):
            await self._ticks.run(self._agent, tick.field, now)
            last = now
        if at is not None:
            if self._placing.pending(tick.order.channel):
                return self._hold(tick, at, "its server is not there yet")
            event = self._event(tick, at, now)
            if event is not None and not self._has_room(event):
                return self._hold(tick, at, "there is no room in the inbox")
            await self._take(tick, at, event)
            last = self._ticks.last(self._agent, tick.field) or at
        return tick.next(last, now, self._timezone)

    def _still_held(self, tick: Tick, now: float) -> float | None:
        """The time of a run that was due and could not be taken; None where it has waited for too long."""
        at = self._held.get(tick.field)
        if at is not None and now - at > tick.patience:
            log.warning("%s: %s is skipped, it has waited for too long", self._agent, tick.name)
            del self._held[tick.field]
            return None
        return at

    def _hold(self, tick: Tick, at: float, reason: str) -> float:
        """It stays due, also where it is not made up for later; when to look at it again."""
        if tick.field not in self._held:
            log.info("%s: %s waits: %s", self._agent, tick.name, reason)
        self._held[tick.field] = at
        return self._clock() + HELD_SECONDS

    def _event(self, tick: Tick, at: float, now: float) -> TurnEvent | None:
        """The run's event; None where the one before it is not over or nobody would hear it."""
        if self._is_open(self._latest.get(tick.field, "")):
            log.info("%s: %s is passed over, its last turn is not over", self._agent, tick.name)
            return None
        place = self._placing.of(tick.order.channel, tick.name)
        return tick.event(at, place, now, self._seconds) if place is not None else None

    async def _take(self, tick: Tick, at: float, event: TurnEvent | None) -> None:
        """The tick is over, and its event, where it has one, is in the inbox or waits in Redis for room there."""
        self._held.pop(tick.field, None)
        kept = (event.id, save_event(event, 0), tick.patience) if event is not None else ()
        if await self._ticks.run(self._agent, tick.field, at, *kept) and event is not None:
            self._latest[tick.field] = event.id
            self._enter(event)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
