"""BackgroundScheduler: one idle task at a time.

Asks an agent for the turn of an idle task, and cancels it when a person writes.

A turn that is cancelled may just have posted: its result is waited for a moment longer, so that the post is noted.

The background scheduler: while nobody writes, one task a tick, by priority, and mostly none.

A tick asks for nothing where nothing is due, so a quiet server costs nothing. What is due passes the gates, the
cheapest first, and moves its schedule whatever comes of it, so nothing is looked at again and again. The state is
written before a turn is asked for: after a crash the next leader does not ask again, but notes what that turn posted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.idle import tasks as gates
from agent_coordinator.idle.schedules import Schedule, Standing
from agent_coordinator.idle.tasks import (
    BUDGETS,
    DAY,
    NOTHING,
    SENT_DAYS,
    Circumstances,
    Closed,
    IdleStore,
    Plan,
    about_of,
    asking_for,
    choose,
    failed,
    instruction_for,
    look,
    note_of,
    sent_of,
)
from agent_coordinator.scheduler import active_window, local_date
from agentic.ids import id_at
from agentic.process.tasks import Clock, Sleep
from agentic.state.idle import UNASKED, Asking, Sent
from agentic.state.leases import Leadership
from agentic.state.record_stream import Notes
from agentic.state.shared_state import Ledger
from agentic.state.silence import Stops
from agentic.wire import keys
from agentic.wire.bus import Bus, NoAnswer
from agentic.wire.connection import RedisAway, until_back
from agentic.wire.entries import UnaskedNote
from agentic.wire.messages import CancelNotice, Instruction, Result

log = logging.getLogger(__name__)


CANCEL_SECONDS = 5.0  # for the result of a turn that was cancelled


class IdleAsker:
    """One turn at a time. `start` runs a task of a name."""

    def __init__(self, bus: Bus, *, start: Callable[[Coroutine[Any, Any, None], str], object], sleep: Sleep) -> None:
        self._bus, self._start, self._sleep = bus, start, sleep
        self._cancelled = asyncio.Event()

    async def ask(self, agent: str, instruction: Instruction) -> Result | None:
        """The result of the turn; None without one: the agent is absent, its time was up, or a person wrote."""
        self._cancelled.clear()
        asking = asyncio.ensure_future(self._bus.ask(agent, instruction, absent_grace=None))
        giving_up = asyncio.ensure_future(self._given_up())
        try:
            await asyncio.wait((asking, giving_up), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        except (NoAnswer, RedisAway) as error:
            log.info("no result of an idle task: %s", error)
            return None
        finally:
            asking.cancel()
            giving_up.cancel()
            await asyncio.gather(asking, giving_up, return_exceptions=True)

    def cancel(self, asking: Asking | None) -> None:
        """Cancel the turn, in whichever process it runs, once; nothing without one."""
        if asking is not None and not self._cancelled.is_set():
            self._cancelled.set()
            self._start(self._publish(asking), "the end of an idle task")

    async def _given_up(self) -> None:
        await self._cancelled.wait()
        await self._sleep(CANCEL_SECONDS)

    async def _publish(self, asking: Asking) -> None:
        notice = CancelNotice(agent_name=asking.agent, instruction_id=asking.instruction_id)
        try:
            await self._bus.publish(keys.COORDINATOR_CANCELS, notice)
        except RedisAway as away:
            log.warning("%s: an idle task is not cancelled, Redis is away: %s", asking.agent, away)


TICK_SECONDS = 10.0
TURN_SECONDS = 180.0  # for a turn of a task: a follow-up searches first
LEFT_SECONDS = 120.0  # after its deadline, for the result of a turn that an earlier leader asked for
DID_SECONDS = 3600.0  # for the record to show what a turn made; it may also have refused it
MOST_FAILED = 50  # remembered of a task and agent: what it failed at comes last
NO_CHANNEL = 0
NO_RECORD = "nothing is recorded: RECORD_DAYS is 0, or this process has no record"


class BackgroundScheduler:
    """Run `run` while this process leads. `person_wrote` is called for each person's message. `store` is None where
    nothing is recorded; `busy` gives the channels with a conversation."""

    def __init__(
        self,
        config: CoordinatorConfig,
        asker: IdleAsker,
        ledger: Ledger,
        store: IdleStore | None,
        record: Notes,
        *,
        leadership: Leadership,
        busy: Callable[[], Collection[int]],
        stops: Stops | None,
        clock: Clock,
        rng: random.Random,
        sleep: Sleep,
    ) -> None:
        self._settings, self._config, self._asker, self._ledger = config, config.idle, asker, ledger
        self._store, self._record, self._leadership, self._busy, self._stops = store, record, leadership, busy, stops
        self._clock, self._rng, self._sleep = clock, rng, sleep
        self._standing = Standing(self._config, rng, clock())
        self._noted: dict[int, Sent] = {}  # unasked messages, which the record may show later, by id
        self._failed: dict[tuple[str, str], tuple[int, ...]] = {}  # task and agent → the newest messages of what failed

    async def run(self) -> None:
        """Tick until cancelled. Ends where no agent has a task."""
        await until_back(self._load, self._sleep)
        if not self._config.pairs():
            return
        if self._store is None:
            log.warning("idle tasks are not done: %s", NO_RECORD)
            return
        while True:
            await self._sleep(TICK_SECONDS)
            try:
                await self.tick(self._store)
            except RedisAway as away:
                log.debug("idle tasks wait, Redis is away: %s", away)
            except Exception:  # the edge of the loop: a mistake here must not end the coordinator
                log.exception("an idle task failed, the next tick goes on")

    def person_wrote(self) -> None:
        """A person wrote somewhere: all timers start over, and a turn under way is cancelled."""
        self._standing.person_wrote(self._clock())
        self._asker.cancel(self._standing.asking)

    def stopped(self, channel_id: int) -> None:
        """A person stopped the bots there, or everywhere."""
        asking = self._standing.asking
        if asking is not None and (self._stops is None or self._stops.holds(asking.channel_id)):
            self._asker.cancel(asking)

    async def tick(self, store: IdleStore) -> None:
        """Do what is due: one look, and one turn at most. Raises RedisAway."""
        now, standing = self._clock(), self._standing
        if not self._leadership.held:
            return
        standing.note_clock(now)
        if standing.asking is not None:
            return await self._collect(standing.asking, now)
        if standing.unsaved:
            await self._save()
        if (due := standing.next_due(now)) is None:
            return
        task, agent, schedule = due
        wrote = standing.messages
        found = await self._plan(store, task, agent, schedule, now)
        if standing.messages != wrote:
            return  # a person has just written, and the timers start over
        if isinstance(found, Closed):
            log.debug("%s of %s waits: %s", task, agent, found.why)
            schedule.postpone(now, found.why, found.until)
            await self._save()
        else:
            await self._take(found, schedule, read_at=now)

    # -- gates ---------------------------------------------------------------------------------------------------------

    async def _plan(self, store: IdleStore, task: str, agent: str, schedule: Schedule, now: float) -> Plan | Closed:
        """The gates in their order. Raises RedisAway."""
        config, settings = self._config, self._settings
        closed = gates.paused(self._stops is not None and self._stops.paused) or gates.quiet_hours(
            now, settings.active_start, settings.active_end, settings.timezone
        )
        if closed is not None:
            return closed
        newest = await store.newest(agent, task)
        last, pause = schedule.state.last, config.again_hours * gates.HOUR
        again = task == "discover" and 0 < pause <= now - last and last > 0
        if (closed := gates.nothing_new(newest, schedule.state.seen, again=again)) is not None:
            return closed
        if (closed := await self._agent_gates(agent, now)) is not None:
            return closed
        failing = self._failed.get((task, agent), ())
        candidates = await look(store, task, agent, now=now, before=now - config.after, failed=failing)
        if not candidates:
            schedule.note(seen=min(newest, id_at(now - config.after if task == "follow_up" else now)))
            return Closed(NOTHING[task])
        given = Circumstances(
            now=now,
            timezone=settings.timezone,
            unasked=config.agents[agent].unasked,
            busy=self._busy(),
            stopped=[each.channel_id for each in candidates if self._stops and self._stops.holds(each.channel_id)],
            did=schedule.state.did if now - schedule.state.last < DID_SECONDS else "",
        )
        if task in UNASKED:
            sent = self._with_noted(await store.sent(now - SENT_DAYS * DAY), now - SENT_DAYS * DAY)
            given = replace(given, consents=await store.consents(), sent=sent)
        return choose(task, agent, candidates, given, config, self._rng)

    def _with_noted(self, sent: Sequence[Sent], since: float) -> list[Sent]:
        """The record's unasked messages and those that it does not show yet: another agent may be next at once, and a
        recorder that is down for hours must end no cooldown."""
        shown = {one.message_id for one in sent}
        self._noted = {key: one for key, one in self._noted.items() if key not in shown and one.at >= since}
        return sorted((*sent, *self._noted.values()), key=lambda one: (one.at, one.message_id))

    async def _agent_gates(self, agent: str, now: float) -> Closed | None:
        muted = await self._ledger.mutes.read([agent])
        closed = gates.silenced(muted.get(agent), await self._ledger.backoffs.until(agent), now)
        if closed is not None:
            return closed
        today = local_date(now, self._settings.timezone)
        used_up = await self._ledger.budgets.used_up(agent, NO_CHANNEL, today.isoformat(), idle=True)
        return gates.budget(used_up, self._midnight(now))

    def _midnight(self, now: float) -> float:
        timezone = self._settings.timezone
        return active_window(local_date(now, timezone) + timedelta(days=1), 0, 24, timezone)[0]

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _take(self, plan: Plan, schedule: Schedule, read_at: float) -> None:
        """Ask for the turn, once the state says so. Raises RedisAway: then nothing was asked for."""
        now, standing, before = self._clock(), self._standing, schedule.state
        instruction_id, deadline = str(uuid.uuid4()), now + TURN_SECONDS
        schedule.mark_begun(now)
        schedule.note(did=about_of(plan.about))
        standing.asking = asking = asking_for(plan, instruction_id, deadline, read_at)
        wrote, asks = standing.messages, False
        try:
            asks = await self._save() and standing.messages == wrote
        finally:
            if not asks:
                standing.asking, standing.unsaved = None, True
                due = before.due if standing.messages == wrote else schedule.state.due
                schedule.state = before.model_copy(update={"due": due})
        if asks:
            instruction = instruction_for(
                plan, instruction_id, deadline, self._settings.theme_of(plan.about.channel_id)
            )
            log.info("%s is asked to %s", plan.agent, plan.task.replace("_", " "))
            result = await self._asker.ask(plan.agent, instruction)
            await self._ended(asking, result, undisturbed=standing.messages == wrote)

    async def _collect(self, asking: Asking, now: float) -> None:
        """Note the result of a turn that an earlier leader asked for. Raises RedisAway."""
        result = await self._ledger.idle.result(asking.agent, asking.instruction_id)
        left = asking.deadline + LEFT_SECONDS - now
        if result is not None or not 0 <= left <= TURN_SECONDS + LEFT_SECONDS:  # more: the clock was set back
            began = asking.deadline - TURN_SECONDS
            await self._ended(asking, result, undisturbed=self._standing.person_at <= began)

    async def _ended(self, asking: Asking, result: Result | None, *, undisturbed: bool) -> None:
        """Note what came of it, and when the task is due again; where a person wrote meanwhile, that has been said."""
        now, standing = self._clock(), self._standing
        note = None if result is None else note_of(asking, result, now)
        if note is not None:
            self._record.log(asking.agent, note)
        if isinstance(note, UnaskedNote):
            self._noted[note.message_id] = sent_of(note)
        standing.asking = None
        schedule = standing.schedule_of(asking.task, asking.agent)
        if schedule is not None:
            if note is None:
                schedule.note(did="")
            if undisturbed:
                self._move(schedule, asking, result, now)
        await self._save()

    def _move(self, schedule: Schedule, asking: Asking, result: Result | None, now: float) -> None:
        reason = result.reason if result is not None else None
        if reason in BUDGETS:
            schedule.postpone(now, "its share of the day is used up", self._midnight(now))
            return
        if in_vain := failed(asking, result, now):
            pair = asking.task, asking.agent
            self._failed[pair] = (*self._failed.get(pair, ()), asking.upto)[-MOST_FAILED:]
        schedule.mark_complete(now, failed=in_vain)
        if asking.task in UNASKED and not schedule.state.failures:
            posted = result.message_id if result is not None and result.message_id else 0
            schedule.note(seen=max(posted, id_at(now)))

    # -- state ---------------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Take over the state of an earlier leader. Raises RedisAway."""
        kept = await self._ledger.idle.read()
        self._standing = Standing(self._config, self._rng, self._clock(), kept)
        if self._store is None:
            self._standing.explain(NO_RECORD)
        if kept is not None or self._config.pairs():
            await self._save()

    async def _save(self) -> bool:
        """Write the state; False where another process leads. Raises RedisAway."""
        self._standing.unsaved = False
        try:
            return await self._ledger.idle.write(self._standing.kept(), self._leadership.epoch)
        except RedisAway:
            self._standing.unsaved = True
            raise
