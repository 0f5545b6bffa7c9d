"""Plan each day's conversations, and start them on time.

Each local date has one plan, stored in Redis, so that a restart neither repeats nor loses a slot. The active hours are
cut into equal parts, one per conversation, with a random instant in each. A slot belongs to the date on which its hours
began, so shortly after midnight yesterday's plan may still have open slots. The scheduler sleeps for a minute at most,
so it survives clock changes and a sleeping machine. Slots more than 15 minutes late are skipped, so that missed slots
don't start in a burst.

An owner may move, skip, and add today's slots, which wakes the scheduler. A slot is claimed by its index and its time,
so a moved slot doesn't also start at its old time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any

from agent_coordinator.config import MISSED_SLOT_SECONDS
from agent_coordinator.context import CoordinatorContext
from agentic.state.schedule import Slot

log = logging.getLogger(__name__)

MAX_SLEEP = 60.0
MAX_SLOTS = 1000  # a day, as COORDINATOR_SCHEDULE_MAX
SAME_TIME = 0.5  # seconds: two times this close are the same slot, as a time loses precision in a form


@dataclass(frozen=True, slots=True)
class Due:
    """An open slot: its plan's date, its index in the plan, its time in unix seconds."""

    date: str
    index: int
    at: float


class Scheduler:
    def __init__(self, context: CoordinatorContext) -> None:
        self._context, self._config, self._clock = context, context.config, context.clock
        self._schedule = context.state.coordination.schedule
        self._known: dict[str, list[Slot]] = {}  # in case Redis is emptied
        self._changed = asyncio.Event()

    async def run(self, start: Callable[[], Awaitable[None]]) -> None:
        """Call `start`, which begins a conversation, at each slot, until canceled."""
        context, config, idle = self._context, self._config, False
        while True:
            self._changed.clear()
            due = await context.wait_for_redis(self.next_due)
            if due is None and not idle:
                why = "COORDINATOR_SCHEDULE_MAX is 0" if config.channels else "CHANNEL_THEME_MAP has no Discord channel"
                more = "no more conversations planned today; COORDINATOR_FIRE_ON_STARTUP=true begins one at each start"
                log.info(more if config.schedule_max else f"no conversations planned: {why}")
            idle = due is None
            wait = MAX_SLEEP if due is None else due.at - self._clock()
            if due is None or wait > 0:
                await context.sleep_unless(self._changed, min(wait, MAX_SLEEP))
                continue
            await context.leadership.wait_until_held()  # a slot claimed without leading would be lost
            if await context.wait_for_redis(self._claim, due):
                await start()

    async def next_due(self) -> Due | None:
        """Return the earliest open slot of the days that are not over. Raises StateUnavailable."""
        now = self._clock()
        today = local_date(now, self._config.timezone)
        days = [(day, self._lasts(day)) for day in (today - timedelta(days=1), today)]
        open_slots = [
            Due(day.isoformat(), index, slot.at)
            for day, lasts in days
            for index, slot in enumerate(await self._plan(day))
            if not slot.done
            # without a schedule, only slots that an owner added remain of an earlier plan for today
            and (slot.added or self._config.schedule_max > 0)
            and (lasts or slot.at + MISSED_SLOT_SECONDS > now)
        ]
        return min(open_slots, key=lambda due: due.at, default=None)

    async def move(self, at: float, to: float) -> bool:
        """Move the open slot at `at` to `to`. Returns False if there is none, or `to` is taken. Raises
        StateUnavailable."""
        return await self._change(lambda slots: move_slot(slots, at, to))

    async def skip(self, at: float) -> bool:
        """Skip the open slot at that time. Returns False if there is none. Raises StateUnavailable."""
        return await self._change(lambda slots: skip_slot(slots, at))

    async def add(self, at: float) -> str:
        """Add a slot today. Returns "added", "known_time", or "full_day". Raises StateUnavailable."""
        refusal = "full_day"

        def change(slots: list[Slot]) -> list[Slot] | None:
            nonlocal refusal
            refusal = "full_day" if _open_at(slots, at) is None else "known_time"
            return add_slot(slots, at)

        return "added" if await self._change(change, days_back=0) else refusal

    def is_to_come(self, at: float) -> bool:
        """Whether this time is still to come today, or later within the active hours that began today."""
        today = local_date(self._clock(), self._config.timezone)
        midnight = active_window(today, 0, 0, self._config.timezone)[1]
        return self._clock() < at <= max(midnight, self._window(today)[1])

    async def _change(self, change: Callable[[list[Slot]], list[Slot] | None], *, days_back: int = 1) -> bool:
        """Change today's plan or, failing that, yesterday's, and wake the scheduler. Returns whether a plan changed."""
        today = local_date(self._clock(), self._config.timezone)
        for back in range(days_back + 1):
            day = today - timedelta(days=back)
            await self._plan(day)  # or a day without a plan would consist of the change alone
            if await self._schedule.change_schedule(day.isoformat(), change):
                self._changed.set()
                return True
        return False

    def _lasts(self, day: date) -> bool:
        return self._window(day)[1] + MISSED_SLOT_SECONDS > self._clock()

    async def _plan(self, day: date) -> list[Slot]:
        """Return the day's plan. Makes it if there is none; stores it again if Redis has lost it."""
        key = day.isoformat()
        plan = await self._schedule.load_schedule(key)
        if plan is None:
            if key not in self._known and not (self._config.schedule_max and self._lasts(day)):
                return []
            if (plan := self._known.get(key)) is None:  # slots before now are done: nothing was planned then
                now, rng = self._clock(), self._context.rng
                count = rng.randint(self._config.schedule_min, self._config.schedule_max)
                plan = [replace(slot, done=slot.at < now) for slot in plan_slots(self._window(day), count, rng)]
            await self._schedule.save_schedule(key, plan)
        if key not in self._known:
            coming = [slot.at for slot in plan if not slot.done]
            first = datetime.fromtimestamp(min(coming), self._config.timezone) if coming else None
            ahead = f", the next at {first:%H:%M %Z}" if first else ""
            log.info("plan for %s: %d conversations, %d to come%s", day, len(plan), len(coming), ahead)
        yesterday = (day - timedelta(days=1)).isoformat()
        self._known = {known: slots for known, slots in self._known.items() if known >= yesterday}
        self._known[key] = plan
        return plan

    async def _claim(self, due: Due) -> bool:
        """Mark the slot as done. Returns whether this process starts its conversation now."""
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


# Changes of a day's plan. Each returns the new slots, or None if nothing changes. A slot is named by its time.


def move_slot(slots: list[Slot], at: float, to: float) -> list[Slot] | None:
    """Return None if no open slot is at `at`, or `to` is taken."""
    index = _open_at(slots, at)
    if index is None or _open_at(slots, to) is not None:
        return None
    slot = slots[index]
    return _with_changed(slots, at, at=to, planned=slot.at if slot.planned is None else slot.planned)


def skip_slot(slots: list[Slot], at: float) -> list[Slot] | None:
    return _with_changed(slots, at, done=True)


def add_slot(slots: list[Slot], at: float) -> list[Slot] | None:
    """Return None if that time is taken, or the day is full."""
    return None if _open_at(slots, at) is not None or len(slots) >= MAX_SLOTS else [*slots, Slot(at, added=True)]


def _with_changed(slots: list[Slot], time_of_slot: float, **changes: Any) -> list[Slot] | None:
    index = _open_at(slots, time_of_slot)
    return None if index is None else [*slots[:index], replace(slots[index], **changes), *slots[index + 1 :]]


def _open_at(slots: list[Slot], at: float) -> int | None:
    found = (index for index, slot in enumerate(slots) if not slot.done and abs(slot.at - at) <= SAME_TIME)
    return next(found, None)


# Active hours are local time, converted to unix seconds: an hour that daylight saving skips or repeats only changes the
# length of the window.


def local_date(now: float, timezone: tzinfo) -> date:
    return datetime.fromtimestamp(now, timezone).date()


def active_window(day: date, start_hour: int, end_hour: int, timezone: tzinfo) -> tuple[float, float]:
    """Return the day's active hours as [start, end) in unix seconds. Equal hours mean round the clock."""

    def at_hour(day: date, hour: int) -> float:
        """Of a repeated hour the first; for a skipped hour, the hour that the clock jumps to."""
        wall = datetime.combine(day, time()) + timedelta(hours=hour)
        return wall.replace(tzinfo=timezone).timestamp()

    return at_hour(day, start_hour), at_hour(day if end_hour > start_hour else day + timedelta(days=1), end_hour)


def plan_date(now: float, start_hour: int, end_hour: int, timezone: tzinfo) -> date:
    """Return the date whose plan applies now: yesterday's until its active hours, which may pass midnight, are over."""
    today = local_date(now, timezone)
    yesterday = today - timedelta(days=1)
    return yesterday if now < active_window(yesterday, start_hour, end_hour, timezone)[1] else today


def plan_slots(window: tuple[float, float], count: int, rng: random.Random) -> list[Slot]:
    """Return a slot at a random instant in each of `count` equal parts of the window, ascending."""
    begin, end = window
    length = (end - begin) / count if count else 0.0
    parts = [(begin + index * length, begin + (index + 1) * length) for index in range(count)]
    return [Slot(begin + (index + rng.random()) * length, part=part) for index, part in enumerate(parts)]
