"""Look after the threads of rooms: notices, lock, archive.

RoomThreadManager says once why a room is paused, locks its thread between the breaks for the audience, posts the
closing card, archives the thread, and removes members whose personas were deleted:

    notice that a room changed ─┐
    start: all rooms ───────────┼─ next_step ─ Discord ─ mark ─ next step …
    end of an audience's break ─┘

It runs in one process, the one that acts for the personas, and takes its state from Redis. So it may be interrupted
anywhere: a step without a mark is repeated, and before a notice is repeated, it is looked for in the thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Literal, TypeVar

from agentic.agent.roster import LOOK_EVERY
from agentic.agent.services import Services
from agentic.chat.outlet import CannotPost
from agentic.process.tasks import wait_at_most
from agentic.rooms.ledger import ledger_of, list_arguments
from agentic.rooms.notices import HIDDEN, NOT_LOCKED, for_channel, line_text, slot_line, why_line
from agentic.rooms.opening import is_opening
from agentic.rooms.polls import AFTER, BEFORE, MAX_HOURS, poll_of
from agentic.rooms.room_bot import Poll, RoomBot, Stands, ThreadWords
from agentic.state.leases import AnyLease
from agentic.state.rooms import NOT_ASKED, PERSONA_FIELDS, Marks, Room, RoomLine
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import StateUnavailable
from agentic.wire.messages import Command, RoomNotice, RoomOrder, read

POLL_SECONDS = 1.0
RETRY_SECONDS = 15.0  # after a step that failed
MAX_RETRY_SECONDS = 600.0  # after repeated failures, for example if no bot sees the channel anymore
SKEW_SECONDS = 60.0  # between the coordinator's clock and Discord's
MAX_AT_ONCE = 8  # rooms
SETTLE_SECONDS = LOOK_EVERY + 1.0  # after a roster change; a moved or copied folder is back by then

ACTIVE = "active"
GONE = "deleted"
# Values of `standing_of` after which the thread of a resumed room may still be archived.
SHUT = frozenset({"paused archived", "paused no_access"})
# Causes of a pause that are announced in the channel above, since a post would reopen an archived thread.
OUTSIDE: frozenset[str | None] = frozenset({GONE, "archived"})
# Causes of a pause in which a line waits: nobody may write in the thread, or a post would reopen it.
WITHOUT_LINES: frozenset[str | None] = frozenset({GONE, "archived", "locked", "no_access"})

log = logging.getLogger(__name__)

T = TypeVar("T")
Step = Literal[
    "unarchive",
    "settle",
    "ask before",
    "unlock",
    "announce",
    "ask after",
    "lock",
    "warn",
    "line",
    "ledger",
    "report",
    "card",
    "archive",
]


CloseRoom = Callable[[Room, ThreadWords], Awaitable[str]]
"""Records what came of a room and returns its closing card; see agentic.rooms.closing."""


class RoomThreadManager:
    """`lease`: whether this process acts for the personas."""

    def __init__(
        self,
        services: Services,
        bots: ThreadBots,
        close: CloseRoom,
        *,
        lease: AnyLease,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._services = services
        self._rooms, self._marks = services.state.coordination.rooms, services.state.coordination.room_marks
        self._bots, self._close, self._orders, self._clock = bots, close, services.bus.orders, services.clock
        self._roster, self._members_due = services.agents.roster, 0.0  # when to look for changed members; inf: not now
        self._lease, self._poll_seconds = lease, poll_seconds
        self._due: dict[int, float] = {}  # thread → when to look at it, unix seconds
        self._unsure: set[int] = set()  # threads in which a step may have been made without its mark
        self._missed: set[int] = set()  # threads that may have been archived while nobody followed them
        self._busy: set[int] = set()
        self._pauses: dict[int, float] = {}  # thread → seconds until the next try
        self._cards: dict[str, str] = {}  # closing cards that couldn't be posted yet: their calls are paid
        self._swept = False
        self._wake = asyncio.Event()

    def start(self, bus: Bus) -> None:
        """Subscribe to changes of rooms and of the roster."""
        bus.subscribe(keys.ROOM_NOTICES, self._on_notice)
        self._roster.on_change(self._look_for_members_soon)

    def _on_notice(self, raw: str) -> None:
        if (notice := read(RoomNotice, raw)) is not None and self._lease.is_held:
            self._look_at(notice.thread_id, self._clock())

    def _look_for_members_soon(self) -> None:
        self._members_due = self._clock() + SETTLE_SECONDS

    async def run(self) -> None:
        """Look after all rooms while this process acts, until cancelled."""
        limit = asyncio.Semaphore(MAX_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._follow()
                now = self._clock()
                for thread_id in [each for each, at in self._due.items() if at <= now and each not in self._busy]:
                    del self._due[thread_id]
                    self._busy.add(thread_id)
                    tasks.create_task(self._attend_within(limit, thread_id), name=f"room {thread_id}")
                self._wake.clear()
                await wait_at_most(self._wake, self._poll_seconds)

    async def _follow(self) -> None:
        """Look at every room once this process acts, since it missed notices before."""
        if not self._lease.is_held:
            self._swept = False
            self._due.clear()
            return
        try:
            if not self._swept and self._bots.online():
                await self.sweep()
            if self._swept and self._members_due <= self._clock():
                await self._update_members()
        except StateUnavailable as away:
            log.debug("could not check the rooms: %s; trying again later", away)

    async def sweep(self) -> None:
        """Schedule a look at every room. Raises StateUnavailable."""
        rooms = await self._rooms.list(limit=None)
        self._unsure |= {room.thread_id for room in rooms}
        self._missed = {room.thread_id for room in rooms if room.status == "active"}
        for room in rooms:
            self._look_at(room.thread_id, self._clock())
        self._swept = True

    async def _update_members(self) -> None:
        """Remove members from active rooms if their personas were deleted, and rename those whose personas have other
        names now. Raises StateUnavailable, after scheduling another try."""
        self._members_due, due = inf, self._clock() + RETRY_SECONDS
        try:
            for room in await self._rooms.list("active", limit=None):
                for name, order, wanted in self._changes_of(room):
                    outcome = await self._order(name, room, order)
                    log.info("room %d: %s after a change of personas: %s", room.thread_id, name, outcome)
                    if outcome != wanted:
                        self._members_due = min(due, self._members_due)
        except StateUnavailable:
            self._members_due = min(due, self._members_due)
            raise

    def _changes_of(self, room: Room) -> Iterator[tuple[str, RoomOrder, str]]:
        """Yield the commands that the roster's changes call for: name, order, and outcome."""
        if gone := self._roster.gone(room.names):
            yield "room-remove", RoomOrder(gone=gone), "removed_member"
        for entry in self._roster:
            known, now = room.member(entry.key), entry.member
            if entry.is_bot or known is None:  # a bot's persona may be known in another process only
                continue
            if any(getattr(known, name) != getattr(now, name) for name in PERSONA_FIELDS):
                yield "room-add", RoomOrder(member=now.model_dump_json()), "already_member"

    def _look_at(self, thread_id: int, at: float) -> None:
        self._due[thread_id] = min(at, self._due.get(thread_id, at))
        self._wake.set()

    async def _attend_within(self, limit: asyncio.Semaphore, thread_id: int) -> None:
        try:
            async with limit:
                await self.attend(thread_id)
            self._pauses.pop(thread_id, None)
        except (CannotPost, StateUnavailable) as error:
            seconds = RETRY_SECONDS
            if isinstance(error, CannotPost):
                seconds = self._pauses.get(thread_id, RETRY_SECONDS)
                self._pauses[thread_id] = min(2 * seconds, MAX_RETRY_SECONDS)
            log.info("room %d: step failed: %s; trying again in %.0f s", thread_id, error, seconds)
            self._unsure.add(thread_id)
            self._look_at(thread_id, self._clock() + seconds)
        except Exception:  # the edge of the task: the other rooms must not suffer
            log.exception("room %d: step failed; waiting until the room changes", thread_id)
            self._unsure.add(thread_id)
        finally:
            self._busy.discard(thread_id)
            self._wake.set()

    async def attend(self, thread_id: int) -> None:
        """Do everything that the thread needs now. Raises CannotPost and StateUnavailable if a later try may work."""
        while self._lease.is_held and (room := await self._rooms.read(thread_id)) is not None:
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
        bots, mark, now = self._bots, partial(self._marks.set, room.thread_id), self._clock()
        key = f"{standing_of(room)} {room.changed_at}"  # of what is said once about a status
        is_done = True  # False if no bot may do it: then it's marked as done, or it would be tried forever
        match step:
            case "settle":
                await mark(standing=ACTIVE, poll_after=0)
            case "ask before":
                await mark(poll_before=await self._ask(room, BEFORE, MAX_HOURS, since=room.opened_at - SKEW_SECONDS))
            case "ask after":
                await self._end_poll(room, marks.poll_before)
                await mark(poll_after=await self._ask(room, AFTER, 1))
            case "unarchive":
                is_done = await bots.archive(room, archived=False)
                await mark(archived=False, standing=ACTIVE, poll_after=0)
                self._missed.discard(room.thread_id)
            case "archive":
                is_done = await bots.archive(room, archived=True)
                await mark(archived=True)
            case "lock":
                await mark(locked=True)  # first: our lock is never taken for a moderator's
                is_done = await bots.lock(room, locked=True)
                await mark(lock_done=True)
            case "unlock":
                is_done = await bots.lock(room, locked=False)
                await mark(locked=False, lock_done=False)
            case "announce":
                is_done = await self._say(room, slot_line(room, now), f"slot {room.slot_until}")
                await mark(slot=room.slot_until or 0.0)
            case "warn":
                is_done = await self._say(room, NOT_LOCKED, "unlockable", since=room.opened_at)
                await mark(unlockable=True)
            case "line":
                line = next_line(room, marks)
                assert line is not None  # or there was no such step
                is_done = await self._say(room, line_text(room, line), f"line {line.number}")
                await mark(line=line.number)
            case "ledger":
                await self._keep_ledger(room)
                await mark(ledger=ledger_of(room))
            case "report" if room.why == "no_access" and await self._was_deleted(room):
                return  # the room changes, and is looked at again
            case "report":  # in the channel above if the thread is gone
                notice = why_line(room, self._services.silence.check(room.place))
                is_done = room.why not in OUTSIDE and await self._say(room, notice, key)
                is_done = is_done or await self._say(room, for_channel(notice, room), key, outside=True)
                await mark(standing=standing_of(room))
            case "card":
                if key not in self._cards:
                    words = replace(await bots.words(room), stands=await self._stands(room, marks))
                    self._cards[key] = await self._close(room, words)
                is_done = await self._say(room, self._cards[key], key)
                newest = room.lines[-1].number if room.lines else 0
                await mark(standing=standing_of(room), line=newest)  # the card says why it is over
                del self._cards[key]
        if not is_done:
            log.warning("room %d: no bot has the permission for this step: %s; skipped", room.thread_id, step)

    async def _keep_ledger(self, room: Room) -> None:
        """Let the cheap model list the arguments made so far, and give the list to the coordinator."""
        if made := await list_arguments(self._services, room, partial(self._bots.words, room)):
            outcome = await self._order("room-ledger", room, RoomOrder(ledger=made))
            log.info("room %d: its list of arguments: %s", room.thread_id, outcome)

    async def _order(self, name: str, room: Room, order: RoomOrder) -> str:
        return await self._orders.give(Command(command=name, channel_id=room.thread_id, room=order))

    async def _ask(self, room: Room, text: str, hours: int, *, since: float | None = None) -> int:
        """Post a poll, and return its message, or NOT_ASKED."""
        if since is None and room.thread_id in self._unsure:
            since = room.changed_at - SKEW_SECONDS
        poll, key = poll_of(room, hours=hours), f"{text} {room.slot_until}"
        made = await self._optional(room, self._bots.ask(room, f"{HIDDEN}{text}", poll, key, since=since), 0)
        return made or NOT_ASKED

    async def _end_poll(self, room: Room, message_id: int) -> None:
        if message_id > 0:
            await self._optional(room, self._bots.end_poll(room, message_id), None)

    async def _stands(self, room: Room, marks: Marks) -> tuple[Stands, Stands] | None:
        """End the room's polls, and return what people answered to both, or None."""
        polls = marks.poll_before, marks.poll_after
        for message_id in polls:
            await self._end_poll(room, message_id)
        if min(polls) <= 0:
            return None
        before, after = [await self._optional(room, self._bots.stands(room, each), None) for each in polls]
        return None if before is None or after is None else (before, after)

    async def _optional(self, room: Room, request: Awaitable[T], instead: T) -> T:
        """Return what a request about a poll returns, or `instead` if it fails twice: a room does without polls."""
        try:
            return await request
        except CannotPost as error:
            if error.reason != "discord_failed" or room.thread_id not in self._unsure:
                raise
            log.warning("room %d: a poll failed twice: %s; the room continues without it", room.thread_id, error)
            return instead

    async def _was_deleted(self, room: Room) -> bool:
        """Whether the thread is invisible because it was deleted. If so, tell the coordinator."""
        if not await self._bots.is_gone(room):
            return False
        outcome = await self._order("room-pause", room, RoomOrder(reason=GONE))
        log.info("room %d: its thread was deleted: %s", room.thread_id, outcome)
        return outcome == "room_paused"

    async def _say(self, room: Room, text: str, key: str, *, outside: bool = False, since: float | None = None) -> bool:
        after = since or room.changed_at - SKEW_SECONDS
        unsure = room.thread_id in self._unsure
        return await self._bots.say(room, text, key, outside=outside, since=after if unsure else None)


# -- what a thread needs next -----------------------------------------------------------------------------------------


def standing_of(room: Room) -> str:
    return ACTIVE if room.status == "active" else f"{room.status} {room.why or ''}".strip()


def slot_of(room: Room, now: float) -> float | None:
    """Return when the audience's running slot ends, or None."""
    return room.slot_until if room.slot_until is not None and room.slot_until > now else None


def next_step(room: Room, marks: Marks, now: float, *, may_lock: bool, missed: bool = False) -> Step | None:
    """Return the thread's next step, from the room and the marks of finished steps. None if all are done.

        open again → first poll → lines about members → notice of the audience's break → last poll → lock
                                             while it is active; last, at the end of a phase, the list of arguments
        unlock → lines about members → line that says why                          once it is paused
        unlock → closing card → archive                                            once it is closed

    Each finished step is marked, so that another manager can continue at the first missing step. `now` is in unix
    seconds. `may_lock`: the thread can be locked without shutting a member out. `missed`: the thread may have changed
    unnoticed.
    """
    if room.status == "active":
        if missed or marks.archived or marks.standing in SHUT:
            return "unarchive"
        if marks.standing != ACTIVE or (marks.poll_after and room.closing_because is None):
            return "settle"
        if room.poll and not marks.poll_before:
            return "ask before"
        if next_line(room, marks) is not None:
            return "line"
        is_due = marks.ledger != (ledger_of(room) or marks.ledger)
        return _slot_step(room, marks, now, may_lock=may_lock) or ("ledger" if is_due else None)
    if room.why == "too_old":  # its thread is gone with the stand-in for Discord
        return None
    if marks.locked:
        return "unlock"
    if room.status == "paused" and room.why not in WITHOUT_LINES and next_line(room, marks) is not None:
        return "line"
    if marks.standing != standing_of(room):
        return "report" if room.status == "paused" else "card"
    return "archive" if room.status == "closed" and not marks.archived else None


def _slot_step(room: Room, marks: Marks, now: float, *, may_lock: bool) -> Step | None:
    """Return the active room's next step for its audience's break, and between two breaks."""
    slot = slot_of(room, now)
    if not room.has_slots or slot is not None:
        if marks.locked:
            return "unlock"
        if slot is not None and marks.slot != slot:
            return "announce"
        is_last = slot is not None and room.closing_because is not None
        return "ask after" if is_last and marks.poll_before > 0 and not marks.poll_after else None
    if marks.lock_done:
        return None
    return "lock" if may_lock else None if marks.unlockable else "warn"


def next_line(room: Room, marks: Marks) -> RoomLine | None:
    return next((line for line in room.lines if line.number > marks.line), None)


# -- the bots that do it ----------------------------------------------------------------------------------------------


class ThreadBots:
    """`online` returns the bots that are online. `has_bot` says whether an agent has its own account, here or in
    another process. Temporary failures raise CannotPost."""

    def __init__(self, online: Callable[[], Sequence[RoomBot]], has_bot: Callable[[str], bool]) -> None:
        self.online, self._has_bot = online, has_bot

    def near(self, room: Room) -> list[RoomBot]:
        """Return the bots that see the room's channel, in a fixed order: a repeated notice has the same author."""
        near = sorted((bot for bot in self.online() if bot.sees(room.channel_id)), key=lambda bot: bot.agent)
        if not near:
            raise CannotPost("unknown_channel")
        return near

    def may_lock(self, room: Room) -> bool:
        """Whether all bots in the thread can write if it is locked. A webhook always can."""
        near = self.near(room)
        here = {bot.agent for bot in near}
        elsewhere = any(self._has_bot(name) and name not in here for name in room.names)
        return not elsewhere and all(bot.may_lock(room.channel_id) for bot in near)

    async def say(self, room: Room, text: str, key: str, *, outside: bool = False, since: float | None = None) -> bool:
        """Post in the thread, or `outside` in the channel above. False if no bot may."""
        thread_id, key = None if outside else room.thread_id, f"room {room.thread_id} {key}"
        first = self.near(room)[:1]
        return bool(await self._by_any(first, lambda bot: bot.say(room.channel_id, thread_id, text, key, since=since)))

    async def ask(self, room: Room, text: str, poll: Poll, key: str, *, since: float | None) -> int:
        """Post a poll in the thread, and return its message; 0 if no bot may."""
        able, key = [bot for bot in self.near(room) if bot.may_ask(room.channel_id)], f"room {room.thread_id} {key}"
        place = room.channel_id, room.thread_id
        return sum(await self._by_any(able, lambda bot: bot.ask(*place, text, poll, key, since=since)))

    async def end_poll(self, room: Room, message_id: int) -> None:
        """End a poll, if the bot that posted it is here."""
        await self._by_any(self.near(room), lambda bot: bot.end_poll(room.channel_id, room.thread_id, message_id))

    async def stands(self, room: Room, message_id: int) -> Stands | None:
        """Return what people answered to a poll; None if it can't be read anymore."""
        first = self.near(room)[:1]
        found = await self._by_any(first, lambda bot: bot.stands(room.channel_id, room.thread_id, message_id))
        return found[0] if found else None

    async def is_gone(self, room: Room) -> bool:
        """Whether the thread was deleted; False if the bots can't tell."""
        return any(await self._by_any(self.near(room), lambda bot: bot.is_gone(room.channel_id, room.thread_id)))

    async def words(self, room: Room) -> ThreadWords:
        """Return what was said in the thread; nothing if it can't be read anymore. Only members' posts are posts of the
        room, and nothing before its opening message, if it was opened in a thread."""
        found = await self._by_any(self.near(room)[:1], lambda bot: bot.words(room.channel_id, room.thread_id))
        words, names = found[0] if found else ThreadWords(), {member.name for member in room.everyone}
        opened = next((post.message_id for post in words.posts if is_opening(room, post.text)), 0)
        posts = (post for post in words.posts if post.message_id > opened and post.agent in names)
        return replace(words, posts=tuple(posts))

    async def lock(self, room: Room, *, locked: bool) -> bool:
        able = [bot for bot in self.near(room) if bot.may_lock(room.channel_id)]
        return bool(await self._by_any(able, lambda bot: bot.lock(room.channel_id, room.thread_id, locked=locked)))

    async def archive(self, room: Room, *, archived: bool) -> bool:
        """Return False if no bot may. Without Manage Threads a bot may only archive threads it started."""
        bots = sorted(self.near(room), key=lambda bot: not bot.may_lock(room.channel_id))
        place = room.channel_id, room.thread_id
        return bool(await self._by_any(bots, lambda bot: bot.archive(*place, archived=archived)))

    async def _by_any(self, bots: Sequence[RoomBot], request: Callable[[RoomBot], Awaitable[T]]) -> Sequence[T]:
        """Return the answer of the first bot that may make the request; nothing if none may."""
        for bot in bots:
            try:
                return [await request(bot)]
            except CannotPost as error:
                if not error.is_final:
                    raise
        return []
