"""Today's plan and its start times.

Plans a day: pure arithmetic on local time.

A day's active window runs from one hour of its date to another, on the next date where that is not later. It is cut
into equal parts, one a conversation, with a random instant in each, so that they neither clump nor leave the day empty.
All is in unix seconds once the window's ends are known: an hour that daylight saving skips or repeats only changes the
window's length.

Changes of a day's plan by an owner: pure functions from its slots to new ones, None where nothing changes.

A slot is named by its time and keeps its index, which the scheduler may be waiting for.

Starts conversations at the planned times.

Each local date has a plan, made once and stored in Redis, so that a restart neither repeats nor loses a slot. A slot
belongs to the date on which its window began, so shortly after midnight yesterday's plan may still have some. The
scheduler sleeps for a minute at most, so it survives changes of the clock and a machine that slept; a slot that is more
than a quarter of an hour late is skipped, so that missed slots do not fire in a burst.

An owner may move, skip and add slots of today. That wakes the scheduler. A slot is claimed by its index and its
time, so one that was moved does not fire at its old time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time as time_module
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo

from agent_coordinator.config import MISSED_SLOT_SECONDS, CoordinatorConfig
from agentic.process.tasks import Clock, Sleep, sleep_unless
from agentic.state.leases import Leadership
from agentic.state.schedule import Slot
from agentic.state.shared_state import Ledger
from agentic.wire.connection import until_back

log = logging.getLogger(__name__)


def local_date(now: float, timezone: tzinfo) -> date:
    return datetime.fromtimestamp(now, timezone).date()


def active_window(day: date, start_hour: int, end_hour: int, timezone: tzinfo) -> tuple[float, float]:
    """Start and end in unix seconds, end excluded. Equal hours mean round the clock."""
    begin = _at_hour(day, start_hour, timezone)
    end = _at_hour(day if end_hour > start_hour else day + timedelta(days=1), end_hour, timezone)
    return begin, end


def plan_date(now: float, start_hour: int, end_hour: int, timezone: tzinfo) -> date:
    """The date whose plan this moment belongs to: yesterday's until its window, which may pass midnight, is over."""
    today = local_date(now, timezone)
    yesterday = today - timedelta(days=1)
    return yesterday if now < active_window(yesterday, start_hour, end_hour, timezone)[1] else today


def plan_instants(window: tuple[float, float], count: int, rng: random.Random) -> list[float]:
    """One random instant in each of `count` equal parts of the window, ascending."""
    begin, end = window
    length = (end - begin) / count if count else 0.0
    return [begin + (index + rng.random()) * length for index in range(count)]


def _at_hour(day: date, hour: int, timezone: tzinfo) -> float:
    """An hour that comes twice means the first; a skipped one means the hour that the clock jumps to."""
    wall = datetime.combine(day, time()) + timedelta(hours=hour)
    return wall.replace(tzinfo=timezone).timestamp()


MOST_SLOTS = 1000  # a day, as COORDINATOR_SCHEDULE_MAX
SAME_TIME = 0.5  # seconds: a time that went through a form is the same


def moved(slots: list[Slot], at: float, to: float) -> list[Slot] | None:
    """None where no open slot has the time `at`, or one has `to` already."""
    return None if _open_at(slots, to) is not None else _replaced(slots, at, to)


def skipped(slots: list[Slot], at: float) -> list[Slot] | None:
    """None where no open slot has that time."""
    return _replaced(slots, at, None)


def added(slots: list[Slot], at: float) -> list[Slot] | None:
    """None if an open slot has that time already, or the day is full."""
    return None if is_taken(slots, at) or len(slots) >= MOST_SLOTS else [*slots, Slot(at, added=True)]


def is_taken(slots: list[Slot], at: float) -> bool:
    """Whether an open slot has that time."""
    return _open_at(slots, at) is not None


def _replaced(slots: list[Slot], at: float, to: float | None) -> list[Slot] | None:
    """The slots with the open one of `at` at `to`; done, where that is None."""
    index = _open_at(slots, at)
    if index is None:
        return None
    slot = replace(slots[index], done=True) if to is None else replace(slots[index], at=to)
    return [*slots[:index], slot, *slots[index + 1 :]]


def _open_at(slots: list[Slot], at: float) -> int | None:
    found = (index for index, slot in enumerate(slots) if not slot.done and abs(slot.at - at) <= SAME_TIME)
    return next(found, None)


LONGEST_SLEEP = 60.0


@dataclass(frozen=True, slots=True)
class Due:
    """An open slot: the date of its plan, its index there, its time (unix seconds)."""

    date: str
    index: int
    at: float


class Scheduler:
    def __init__(
        self,
        config: CoordinatorConfig,
        ledger: Ledger,
        *,
        clock: Clock = time_module.time,
        rng: random.Random | None = None,
        sleep: Sleep = asyncio.sleep,
        leadership: Leadership | None = None,
    ) -> None:
        self._config = config
        self._schedule = ledger.schedule
        self._clock = clock
        self._rng = rng or random.Random()
        self._sleep = sleep
        self._leadership = leadership or Leadership(None, sleep)
        self._known: dict[str, list[Slot]] = {}  # in case Redis is emptied
        self._changed = asyncio.Event()

    async def run(self, fire: Callable[[], Awaitable[None]]) -> None:
        """Call `fire` at each slot, for ever. It begins a conversation and returns."""
        idle = False
        while True:
            self._changed.clear()
            due = await until_back(self.next_due, self._sleep)
            if due is None and not idle:
                log.info(self._why_idle())
            idle = due is None
            wait = LONGEST_SLEEP if due is None else due.at - self._clock()
            if due is None or wait > 0:
                await sleep_unless(self._changed, min(wait, LONGEST_SLEEP), self._sleep)
                continue
            await self._leadership.until_held()  # a slot claimed by a process that does not lead would be lost
            if await until_back(lambda due=due: self._claim(due), self._sleep):  # type: ignore[misc]
                await fire()

    async def next_due(self) -> Due | None:
        """The earliest open slot of the days that are not over. Raises RedisAway."""
        now = self._clock()
        today = local_date(now, self._config.timezone)
        days = [(day, self._lasts(day)) for day in (today - timedelta(days=1), today)]
        open_slots = [
            Due(day.isoformat(), index, slot.at)
            for day, lasts in days
            for index, slot in enumerate(await self._plan(day))
            if self._is_open(slot) and (lasts or slot.at + MISSED_SLOT_SECONDS > now)
        ]
        return min(open_slots, key=lambda due: due.at, default=None)

    async def move(self, at: float, to: float) -> bool:
        """Move the open slot of the time `at` to `to`; False where there is none, or one at `to`. Raises RedisAway."""
        return await self._change(lambda slots: moved(slots, at, to))

    async def skip(self, at: float) -> bool:
        """Skip the open slot of that time; False where there is none. Raises RedisAway."""
        return await self._change(lambda slots: skipped(slots, at))

    async def add(self, at: float) -> str:
        """Add a slot to today's, even if none are scheduled. Returns "added", "known_time", or "full_day".

        Raises RedisAway.
        """
        refusal = "full_day"

        def change(slots: list[Slot]) -> list[Slot] | None:
            nonlocal refusal
            refusal = "known_time" if is_taken(slots, at) else "full_day"
            return added(slots, at)

        return "added" if await self._change(change, days_back=0) else refusal

    def is_to_come(self, at: float) -> bool:
        """Whether it is a time of today, or of the active hours that began today, that is not past."""
        today = local_date(self._clock(), self._config.timezone)
        midnight = active_window(today, 0, 0, self._config.timezone)[1]
        return self._clock() < at <= max(midnight, self._window(today)[1])

    async def _change(self, change: Callable[[list[Slot]], list[Slot] | None], *, days_back: int = 1) -> bool:
        """Change today's plan, or yesterday's whose hours are not over; wakes the scheduler."""
        today = local_date(self._clock(), self._config.timezone)
        for back in range(days_back + 1):
            day = today - timedelta(days=back)
            await self._plan(day)  # a plan that is not made yet must not consist of the change alone
            if await self._schedule.change_schedule(day.isoformat(), change):
                self._changed.set()
                return True
        return False

    def _is_open(self, slot: Slot) -> bool:
        """Without a schedule only what an owner added counts, whatever an earlier process had planned for today."""
        return not slot.done and (slot.added or self._config.schedule_max > 0)

    def _lasts(self, day: date) -> bool:
        return self._window(day)[1] + MISSED_SLOT_SECONDS > self._clock()

    async def _plan(self, day: date) -> list[Slot]:
        """The day's plan, made where there is none yet; one that Redis has lost is stored again."""
        key = day.isoformat()
        plan = await self._schedule.load_schedule(key)
        if plan is None:
            if key not in self._known and not (self._config.schedule_max and self._lasts(day)):
                return []
            plan = self._known[key] if key in self._known else self._new_plan(day)
            await self._schedule.save_schedule(key, plan)
        if key not in self._known:
            coming = [slot.at for slot in plan if not slot.done]
            log.info("plan for %s: %d conversations, %d to come%s", day, len(plan), len(coming), self._next_of(coming))
        self._known = {known: slots for known, slots in self._known.items() if known >= _day_before(day)}
        self._known[key] = plan
        return plan

    def _next_of(self, coming: list[float]) -> str:
        """The end of the plan's line: when the next conversation begins."""
        return f", the next at {datetime.fromtimestamp(min(coming), self._config.timezone):%H:%M}" if coming else ""

    def _why_idle(self) -> str:
        if self._config.schedule_max:
            return "no further conversation is planned today; COORDINATOR_FIRE_ON_STARTUP=true begins one at a start"
        if not self._config.channels:
            return "no conversations are planned: they need a channel of Discord, in CHANNEL_THEME_MAP"
        return "no conversations are planned: COORDINATOR_SCHEDULE_MAX is 0"

    def _new_plan(self, day: date) -> list[Slot]:
        """A new plan; its slots before now are done, since there was no plan then."""
        count = self._rng.randint(self._config.schedule_min, self._config.schedule_max)
        now = self._clock()
        return [Slot(at=at, done=at < now) for at in plan_instants(self._window(day), count, self._rng)]

    async def _claim(self, due: Due) -> bool:
        """Mark the slot as done; whether this process fires it now."""
        ours = await self._schedule.claim_slot(due.date, due.index, due.at)
        slots = self._known[due.date]
        slots[due.index] = replace(slots[due.index], done=True)
        late = self._clock() - due.at
        if ours and late > MISSED_SLOT_SECONDS:
            log.info("slot %d of %s skipped: %.0f minutes late", due.index, due.date, late / 60)
            return False
        return ours

    def _window(self, day: date) -> tuple[float, float]:
        return active_window(day, self._config.active_start, self._config.active_end, self._config.timezone)


def _day_before(day: date) -> str:
    return (day - timedelta(days=1)).isoformat()
