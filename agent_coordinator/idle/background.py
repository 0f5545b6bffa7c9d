"""The background scheduler: while nobody writes, run at most one background task per tick, by priority.

If nothing is due, a tick costs nothing. A due task passes the gates, the cheapest first. Whatever comes of it, its
schedule moves on, so nothing is checked again and again. State is stored before a turn is requested: after a crash, the
next leader doesn't ask again, but records what that turn posted. If a person writes, the turn is canceled. It may just
have posted, so its result is awaited a moment longer.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from functools import partial

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.idle import tasks as idle
from agent_coordinator.idle.schedules import IdleTaskBoard, Schedule
from agent_coordinator.scheduler import active_window, local_date
from agentic.background_tasks import BACKGROUND_TASKS, PROACTIVE
from agentic.ids import id_at
from agentic.process.tasks import cancel_and_wait
from agentic.record.idle_queries import IdleMemory
from agentic.state.idle import Candidate, RunningTask, Sent
from agentic.state.silence import ChannelRef, SilenceChange, Silenced
from agentic.wire import keys
from agentic.wire.bus import NoAnswer
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import UnaskedNote
from agentic.wire.messages import CancelNotice, Instruction, Result

log = logging.getLogger(__name__)

TICK_SECONDS = 10.0
TURN_SECONDS = 180.0  # per turn; a follow-up searches first
LEFT_SECONDS = 120.0  # after the deadline of an earlier leader's turn, for its result
CANCEL_SECONDS = 5.0  # for the result of a canceled turn
DID_SECONDS = 3600.0  # for the record to show a turn's result; it may have refused it, too
MAX_FAILED = 50  # per task and agent: failed material is tried again last
NO_CHANNEL = 0
NO_RECORD = "nothing is recorded: RECORD_DAYS is 0, or this process has no record"


class BackgroundScheduler:
    """Await `run` while this process leads, and call `person_wrote` for each person's message. `store` is None if
    nothing is recorded; `busy` returns the channels that have a conversation."""

    def __init__(
        self, context: CoordinatorContext, store: IdleMemory | None, busy: Callable[[], Collection[int]]
    ) -> None:
        self._context, self._config, self._store, self._busy = context, context.config.idle, store, busy
        self._clock, self._state = context.clock, context.state
        self._board = IdleTaskBoard(self._config, context.rng, context.clock())
        self._canceled = asyncio.Event()  # the current turn
        self._noted: dict[int, Sent] = {}  # id → an unprompted message that the record may not show yet
        # (task, agent) → newest message ids of failed material
        self._failed: dict[tuple[str, str], tuple[int, ...]] = {}

    async def run(self) -> None:
        """Tick until canceled. Returns if no agent has a task."""
        await self._context.wait_for_redis(self._load)
        if not self._config.pairs():
            return
        if self._store is None:
            log.warning("background tasks are off: %s", NO_RECORD)
            return
        while True:
            await self._context.sleep(TICK_SECONDS)
            try:
                await self.tick(self._store)
            except StateUnavailable as away:
                log.debug("background tasks wait: Redis is unavailable (%s)", away)
            except Exception:  # the edge of the loop: a bug here must not end the coordinator
                log.exception("a background task failed; continuing at the next tick")

    def person_wrote(self) -> None:
        """Restart all timers, and cancel the current turn: a person wrote somewhere."""
        self._board.person_wrote(self._clock())
        self._cancel(self._board.asking)

    async def on_silence(self, _: SilenceChange) -> None:
        """Cancel the current turn if a person silenced its channel."""
        await self._context.learn_servers()
        asking = self._board.asking
        if asking is not None and self._context.silenced(asking.channel_id) is not None:
            self._cancel(asking)

    def _silenced(self, agent: str, about: Candidate) -> Silenced | None:
        silence, place = self._context.silence, ChannelRef(about.channel_id, guild_id=about.guild_id)
        return silence.check(place, agent) if silence is not None else None

    async def tick(self, store: IdleMemory) -> None:
        """Check the task that is due, if any, and run at most one turn. Raises StateUnavailable."""
        now, board = self._clock(), self._board
        if not self._context.leadership.is_held:
            return
        board.note_clock(now)
        if board.asking is not None:
            return await self._collect(board.asking, now)
        if board.unsaved:
            await self._save()
        if (due := board.next_due(now)) is None:
            return
        task, agent, schedule = due
        wrote = board.messages
        found = await self._plan(store, task, agent, schedule, now)
        if board.messages != wrote:
            return  # a person has just written: the timers have restarted
        if isinstance(found, idle.Blocked):
            log.debug("%s of %s waits: %s", task, agent, found.why)
            schedule.postpone(now, found.why, found.until)
            await self._save()
        else:
            await self._take(found, schedule, read_at=now)

    # Gates

    async def _plan(
        self, store: IdleMemory, task: str, agent: str, schedule: Schedule, now: float
    ) -> RunningTask | idle.Blocked:
        """Pass the gates in order, and idle.choose what the task is about. Raises StateUnavailable."""
        config, settings, context = self._config, self._context.config, self._context
        if (everywhere := context.silenced(NO_CHANNEL, agent=agent)) is not None:
            is_muted = everywhere.kind == "muted"
            return idle.Blocked("it's muted", everywhere.until) if is_muted else idle.Blocked("all bots are paused")
        blocked = idle.quiet_hours(now, settings.active_start, settings.active_end, settings.timezone)
        if blocked is not None:
            return blocked
        newest = await store.newest(agent, task)
        last, pause = schedule.state.last, config.again_hours * idle.HOUR
        again = task == "discover" and 0 < pause <= now - last and last > 0
        if (blocked := idle.nothing_new(newest, schedule.state.seen, again=again)) is not None:
            return blocked
        if (until := await self._state.coordination.backoffs.until(agent)) is not None and until > now:
            return idle.Blocked("its AI provider is rejecting its requests", until)
        today = local_date(now, settings.timezone).isoformat()
        used_up = await self._state.limits.budgets.used_up(agent, NO_CHANNEL, today, idle=True)
        if (blocked := idle.budget(used_up, self._midnight(now))) is not None:
            return blocked
        failing = self._failed.get((task, agent), ())
        before, silenced = now - config.after, partial(self._silenced, agent)
        candidates = await idle.find_candidates(
            store, task, agent, now=now, before=before, failed=failing, silenced=silenced
        )
        if not candidates:
            schedule.note(seen=min(newest, id_at(now - config.after if task == "follow_up" else now)))
            return idle.Blocked(BACKGROUND_TASKS[task].nothing)
        given = idle.TaskInputs(
            now=now,
            timezone=settings.timezone,
            unprompted=config.agents[agent].unprompted,
            busy=self._busy(),
            silenced={each.channel_id: why for each in candidates if (why := silenced(each)) is not None},
            did=schedule.state.did if now - schedule.state.last < DID_SECONDS else "",
        )
        if task in PROACTIVE:
            # Unprompted messages from the record, and those that it doesn't show yet: another agent may be next right
            # away, and a recorder that is down for hours must not end a cooldown.
            since = now - idle.SENT_DAYS * idle.DAY
            recorded = await store.sent(since)
            shown = {one.message_id for one in recorded}
            self._noted = {key: one for key, one in self._noted.items() if key not in shown and one.at >= since}
            sent = sorted((*recorded, *self._noted.values()), key=lambda one: (one.at, one.message_id))
            given = replace(given, consents=await store.consents(), sent=sent)
        return idle.choose(task, agent, candidates, given, config, context.rng)

    def _midnight(self, now: float) -> float:
        timezone = self._context.config.timezone
        return active_window(local_date(now, timezone) + timedelta(days=1), 0, 24, timezone)[0]

    # Turns

    async def _take(self, chosen: RunningTask, schedule: Schedule, read_at: float) -> None:
        """Request the turn, once the state is stored. Raises StateUnavailable if it wasn't, and nothing was
        requested."""
        now, board, before = self._clock(), self._board, schedule.state
        turn = {"instruction_id": str(uuid.uuid4()), "deadline": now + TURN_SECONDS, "read_at": read_at}
        schedule.mark_begun(now)
        schedule.note(did=idle.about_of(chosen))
        board.asking = asking = chosen.model_copy(update=turn)
        wrote, asks = board.messages, False
        try:
            asks = await self._save() and board.messages == wrote
        finally:
            if not asks:
                board.asking, board.unsaved = None, True
                due = before.due if board.messages == wrote else schedule.state.due
                schedule.state = before.model_copy(update={"due": due})
        if asks:
            instruction = idle.instruction_for(asking, self._context.config.theme_of(asking.channel_id))
            log.info("%s gets a background task: %s", asking.agent, asking.task.replace("_", " "))
            result = await self._ask(asking.agent, instruction)
            await self._ended(asking, result, undisturbed=board.messages == wrote)

    async def _ask(self, agent: str, instruction: Instruction) -> Result | None:
        """Return the turn's result, or None: the agent is absent, its time was up, or a person wrote."""
        self._canceled.clear()

        async def give_up() -> None:
            await self._canceled.wait()
            await self._context.sleep(CANCEL_SECONDS)

        asking = asyncio.ensure_future(self._context.bus.ask(agent, instruction, absent_grace=None))
        giving_up = asyncio.ensure_future(give_up())
        try:
            await asyncio.wait((asking, giving_up), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        except NoAnswer as error:
            log.info("no result of a background task: %s", error)
            return None
        finally:
            await cancel_and_wait(asking, giving_up)

    def _cancel(self, asking: RunningTask | None) -> None:
        """Cancel the turn once, in whichever process it runs."""
        if asking is None or self._canceled.is_set():
            return
        notice = CancelNotice(agent_name=asking.agent, instruction_id=asking.instruction_id)
        self._canceled.set()
        sending = self._context.bus.announce(keys.COORDINATOR_CANCELS, notice)
        self._context.tasks.start(sending, "the end of a background task")

    async def _collect(self, asking: RunningTask, now: float) -> None:
        """Record the result of an earlier leader's turn. Raises StateUnavailable."""
        result = await self._state.coordination.idle.result(asking.agent, asking.instruction_id)
        left = asking.deadline + LEFT_SECONDS - now
        if result is not None or not 0 <= left <= TURN_SECONDS + LEFT_SECONDS:  # more if the clock was set back
            began = asking.deadline - TURN_SECONDS
            await self._ended(asking, result, undisturbed=self._board.person_at <= began)

    async def _ended(self, asking: RunningTask, result: Result | None, *, undisturbed: bool) -> None:
        """Record the result, and set when the task is due again, unless a person wrote meanwhile."""
        now, board = self._clock(), self._board
        note = None if result is None else idle.note_of(asking, result, now)
        if note is not None:
            self._context.record.log(asking.agent, note)
        if isinstance(note, UnaskedNote):
            self._noted[note.message_id] = idle.sent_of(note)
        board.asking = None
        if (schedule := board.schedule_of(asking.task, asking.agent)) is not None:
            if note is None:
                schedule.note(did="")
            if undisturbed:
                self._move(schedule, asking, result, now)
        await self._save()

    def _move(self, schedule: Schedule, asking: RunningTask, result: Result | None, now: float) -> None:
        reason = result.reason if result is not None else None
        if reason in idle.BUDGETS:
            schedule.postpone(now, "its share of today's budget is used up", self._midnight(now))
            return
        if in_vain := idle.has_failed(asking, result, now):
            pair = asking.task, asking.agent
            self._failed[pair] = (*self._failed.get(pair, ()), asking.upto)[-MAX_FAILED:]
        schedule.mark_complete(now, failed=in_vain)
        if asking.task in PROACTIVE and not schedule.state.failures:
            posted = result.message_id if result is not None and result.message_id else 0
            schedule.note(seen=max(posted, id_at(now)))

    # State

    async def _load(self) -> None:
        """Take over an earlier leader's state. Raises StateUnavailable."""
        kept = await self._state.coordination.idle.read()
        self._board = IdleTaskBoard(self._config, self._context.rng, self._clock(), kept)
        if self._store is None:
            self._board.explain(NO_RECORD)
        if kept is not None or self._config.pairs():
            await self._save()

    async def _save(self) -> bool:
        """Store the state. Returns False if another process leads. Raises StateUnavailable."""
        self._board.unsaved = False
        try:
            return await self._state.coordination.idle.write(self._board.kept(), self._context.leadership.epoch)
        except StateUnavailable:
            self._board.unsaved = True
            raise
