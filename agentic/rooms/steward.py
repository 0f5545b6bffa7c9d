"""The steward looks after the threads of rooms: says once why one stands still, locks it between the audience's slots,
posts the closing card, archives it. It also removes members whose personas were deleted.

    notice that a room changed ─┐
    start: all rooms ───────────┼─ next step (steps.py) ─ Discord ─ mark ─ next step …
    end of an audience's slot ──┘

It acts in one process of all, the one that acts for the personas, and knows of a room only what is in Redis. So it may
be interrupted anywhere: a step that has no mark is made again, and a notice is looked for before it is repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Protocol

from agentic.agent.roster import LOOK_EVERY, Roster
from agentic.chat.outlet import CannotPost
from agentic.rooms.opening import Orders
from agentic.rooms.steps import (
    ACTIVE,
    GONE,
    NOT_LOCKED,
    OUTSIDE,
    Step,
    line_text,
    next_line,
    next_step,
    slot_line,
    slot_of,
    standing_of,
    why_line,
    why_line_outside,
)
from agentic.rooms.thread_bots import ThreadBots
from agentic.rooms.thread_watch import Rooms
from agentic.services.discord.room_upkeep import RoomPost
from agentic.state.marks import Marks
from agentic.state.rooms import Room
from agentic.wire import keys
from agentic.wire.link import RedisAway
from agentic.wire.messages import Command, RoomNotice, RoomOrder
from agentic.wire.reading import read

POLL_SECONDS = 1.0
RETRY_SECONDS = 15.0  # after a step that failed
MOST_RETRY_SECONDS = 600.0  # after one that failed again and again, as where no bot is left that sees the channel
SKEW_SECONDS = 60.0  # between the coordinator's clock and Discord's
AT_ONCE = 8  # rooms
SETTLE_SECONDS = LOOK_EVERY + 1.0  # after a change of the roster: a folder that was moved or copied is back by then

log = logging.getLogger(__name__)


class MarkStore(Protocol):
    """agentic.state.marks."""

    async def read(self, thread_id: int) -> Marks: ...
    async def set(self, thread_id: int, **marks: str | float | bool) -> None: ...


class Notices(Protocol):
    """agentic.wire.bus."""

    def subscribe(self, channel: str, handler: Callable[[str], Awaitable[None] | None], /) -> None: ...


CloseRoom = Callable[[Room, Sequence[RoomPost]], Awaitable[str]]
"""Makes the closing card of a room with these posts, and records its contest; agentic.rooms.closing."""


class Steward:
    """`may_act`: whether this process acts for the personas. `clock` gives unix seconds."""

    def __init__(
        self,
        rooms: Rooms,
        marks: MarkStore,
        bots: ThreadBots,
        close: CloseRoom,
        orders: Orders,
        roster: Roster,
        *,
        may_act: Callable[[], bool],
        clock: Callable[[], float],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._rooms, self._marks, self._bots, self._close, self._orders = rooms, marks, bots, close, orders
        self._roster, self._members_due = roster, 0.0  # when to look for deleted members, unix seconds; inf: not now
        self._may_act, self._clock, self._poll_seconds = may_act, clock, poll_seconds
        self._due: dict[int, float] = {}  # thread → when to look at it, unix seconds
        self._unsure: set[int] = set()  # threads in which a step may have been made without its mark
        self._missed: set[int] = set()  # threads that may have been archived while nobody followed them
        self._busy: set[int] = set()
        self._pauses: dict[int, float] = {}  # thread → seconds until the next try
        self._swept = False
        self._wake = asyncio.Event()

    def start(self, bus: Notices) -> None:
        """Follow the notices of rooms that change, and the roster."""
        bus.subscribe(keys.ROOM_NOTICES, self._on_notice)
        self._roster.on_change(self._on_roster)

    def _on_notice(self, raw: str) -> None:
        notice = read(RoomNotice, raw)
        if notice is not None and self._may_act():
            self._look_at(notice.thread_id, self._clock())

    def _on_roster(self) -> None:
        self._members_due = self._clock() + SETTLE_SECONDS

    async def run(self) -> None:
        """Look after all rooms while this process acts, until cancelled."""
        limit = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._follow()
                for thread_id in self._take_due():
                    self._busy.add(thread_id)
                    tasks.create_task(self._attend_within(limit, thread_id), name=f"room {thread_id}")
                await self._pause()

    async def _follow(self) -> None:
        """After this process began to act: look at every room, since notices were missed."""
        if not self._may_act():
            self._swept = False
            self._due.clear()
            return
        try:
            if not self._swept and self._bots.any():
                await self.sweep()
            if self._swept and self._members_due <= self._clock():
                await self._remove_deleted()
        except RedisAway as away:
            log.debug("rooms are looked at later: %s", away)

    async def sweep(self) -> None:
        """Have every room looked at. Raises RedisAway."""
        rooms = await self._rooms.list(limit=None)
        self._unsure |= {room.thread_id for room in rooms}
        self._missed = {room.thread_id for room in rooms if room.status == "active"}
        for room in rooms:
            self._look_at(room.thread_id, self._clock())
        self._swept = True

    async def _remove_deleted(self) -> None:
        """Have members of active rooms leave whose personas were deleted. Raises RedisAway; then it is done later."""
        self._members_due, due = inf, self._clock() + RETRY_SECONDS
        try:
            for room in await self._rooms.list("active", limit=None):
                if not (gone := self._roster.gone(room.names)):
                    continue
                order = Command(command="room-remove", channel_id=room.thread_id, room=RoomOrder(gone=gone))
                outcome = await self._orders.give(order)
                log.info("room %d: deleted personas leave it: %s: %s", room.thread_id, ", ".join(gone), outcome)
                if outcome != "removed_member":
                    self._members_due = min(due, self._members_due)
        except RedisAway:
            self._members_due = min(due, self._members_due)
            raise

    def _look_at(self, thread_id: int, at: float) -> None:
        self._due[thread_id] = min(at, self._due.get(thread_id, at))
        self._wake.set()

    def _take_due(self) -> list[int]:
        now = self._clock()
        due = [thread_id for thread_id, at in self._due.items() if at <= now and thread_id not in self._busy]
        for thread_id in due:
            del self._due[thread_id]
        return due

    async def _pause(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(self._poll_seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _attend_within(self, limit: asyncio.Semaphore, thread_id: int) -> None:
        try:
            async with limit:
                await self.attend(thread_id)
            self._pauses.pop(thread_id, None)
        except CannotPost as error:
            pause = self._pauses.get(thread_id, RETRY_SECONDS)
            self._pauses[thread_id] = min(2 * pause, MOST_RETRY_SECONDS)
            self._try_again(thread_id, pause, error)
        except RedisAway as away:
            self._try_again(thread_id, RETRY_SECONDS, away)
        except Exception:  # the edge of the task: the other rooms must not suffer
            log.exception("room %d is left alone until it changes again", thread_id)
            self._unsure.add(thread_id)
        finally:
            self._busy.discard(thread_id)
            self._wake.set()

    def _try_again(self, thread_id: int, seconds: float, error: Exception) -> None:
        log.info("room %d is looked at again in %.0f s: %s", thread_id, seconds, error)
        self._unsure.add(thread_id)
        self._look_at(thread_id, self._clock() + seconds)

    # -- one room -----------------------------------------------------------------------------------------------------

    async def attend(self, thread_id: int) -> None:
        """Do all that the thread needs now. Raises CannotPost and RedisAway where it has to be tried again."""
        while self._may_act() and (room := await self._rooms.read(thread_id)) is not None:
            marks, now = await self._marks.read(thread_id), self._clock()
            may_lock = room.status == "active" and self._bots.may_lock(room)
            step = next_step(room, marks, now, may_lock=may_lock, missed=thread_id in self._missed)
            if step is None:
                self._unsure.discard(thread_id)
                if (slot := slot_of(room, now)) is not None:
                    self._look_at(thread_id, slot)
                return
            log.debug("room %d: %s", thread_id, step)
            await self._do(step, room, marks)

    async def _do(self, step: Step, room: Room, marks: Marks) -> None:
        mark = partial(self._marks.set, room.thread_id)
        match step:
            case "settle":
                await mark(standing=ACTIVE)
            case "unarchive":
                self._note(await self._bots.archive(room, archived=False), room, step)
                await mark(archived=False, standing=ACTIVE)
                self._missed.discard(room.thread_id)
            case "archive":
                self._note(await self._bots.archive(room, archived=True), room, step)
                await mark(archived=True)
            case "lock":
                await mark(locked=True)  # first: our lock is never taken for a moderator's
                self._note(await self._bots.lock(room, locked=True), room, step)
                await mark(lock_done=True)
            case "unlock":
                self._note(await self._bots.lock(room, locked=False), room, step)
                await mark(locked=False, lock_done=False)
            case "announce":
                self._note(await self._say(room, slot_line(room, self._clock()), f"slot {room.slot_until}"), room, step)
                await mark(slot=room.slot_until or 0.0)
            case "warn":
                self._note(await self._say(room, NOT_LOCKED, "unlockable", since=room.opened_at), room, step)
                await mark(unlockable=True)
            case "line":
                line = next_line(room, marks)
                assert line is not None  # or there was no such step
                said = await self._say(room, line_text(room, line), f"line {line.number}")
                self._note(said, room, step)
                await mark(line=line.number)
            case "report" if room.why == "no_access" and await self._was_deleted(room):
                return  # the room changes, and is looked at again
            case "report":
                self._note(await self._report(room), room, step)
                await mark(standing=standing_of(room))
            case "card":
                card = await self._close(room, await self._bots.posts(room))
                self._note(await self._say(room, card, _key(room)), room, step)
                newest = room.lines[-1].number if room.lines else 0
                await mark(standing=standing_of(room), line=newest)  # the card says why it is over

    async def _was_deleted(self, room: Room) -> bool:
        """Whether the bots see the thread no longer because it's gone; then the coordinator hears of it."""
        if not await self._bots.is_gone(room):
            return False
        order = Command(command="room-pause", channel_id=room.thread_id, room=RoomOrder(reason=GONE))
        outcome = await self._orders.give(order)
        log.info("room %d: its thread was deleted: %s", room.thread_id, outcome)
        return outcome == "room_paused"

    async def _report(self, room: Room) -> bool:
        """Say why the room is paused: in the channel above where the thread is gone. False where no bot may."""
        if room.why not in OUTSIDE and await self._say(room, why_line(room), _key(room)):
            return True
        return await self._say(room, why_line_outside(room), _key(room), outside=True)

    async def _say(self, room: Room, text: str, key: str, *, outside: bool = False, since: float | None = None) -> bool:
        after = since or room.changed_at - SKEW_SECONDS
        unsure = room.thread_id in self._unsure
        return await self._bots.say(room, text, key, outside=outside, since=after if unsure else None)

    def _note(self, done: bool, room: Room, step: Step) -> None:
        """Log a step that no bot may do; it counts as done, or it would be tried for ever."""
        if not done:
            log.warning("room %d: no bot may do this in its thread, so it is left out: %s", room.thread_id, step)


def _key(room: Room) -> str:
    return f"{standing_of(room)} {room.changed_at}"
