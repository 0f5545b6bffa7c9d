"""Look after the threads of rooms: notices, lock, archive. Pause a room if someone else changes its thread.

RoomThreadManager says once why a room is paused, locks its thread between the breaks for the audience, posts the
closing card, archives the thread, and removes members whose personas were deleted:

    notice that a room changed ─┐
    start: all rooms ───────────┼─ next_step ─ Discord ─ mark ─ next step …
    end of an audience's break ─┘

It runs in one process, the one that acts for the personas, and takes its state from Redis. So it may be interrupted
anywhere: a step without a mark is repeated, and before a notice is repeated, it is looked for in the thread.

ThreadWatch pauses a room if someone else archived, locked, or deleted its thread, or if the bot lost its access. Every
bot of the server sees this, but the coordinator pauses a room once, and the manager says so once. The room's marks tell
our own locks and archives from others'.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Literal, TypeVar

from agentic.agent.roster import LOOK_EVERY
from agentic.agent.services import Services
from agentic.chat.outlet import CannotPost
from agentic.process.tasks import wait_at_most
from agentic.rooms.opening import escaped
from agentic.rooms.room_bot import RoomBot, RoomPost
from agentic.state.leases import AnyLease
from agentic.state.rooms import MAX_FAILURES, MIN_MEMBERS, Marks, Room, RoomLine
from agentic.text import counted
from agentic.wire import keys
from agentic.wire.bus import NOBODY, Bus
from agentic.wire.connection import StateUnavailable, or_default
from agentic.wire.messages import Command, RoomNotice, RoomOrder, read
from agentic.wire.reasons import ENDINGS

POLL_SECONDS = 1.0
RETRY_SECONDS = 15.0  # after a step that failed
MAX_RETRY_SECONDS = 600.0  # after repeated failures, for example if no bot sees the channel anymore
SKEW_SECONDS = 60.0  # between the coordinator's clock and Discord's
MAX_AT_ONCE = 8  # rooms
SETTLE_SECONDS = LOOK_EVERY + 1.0  # after a roster change; a moved or copied folder is back by then

HIDDEN = "🫥 "  # bots don't read messages that begin with it
ACTIVE = "active"
GONE = "deleted"
# Values of `standing_of` after which the thread of a resumed room may still be archived.
SHUT = frozenset({"paused archived", "paused no_access"})
# Causes of a pause that are announced in the channel above, since a post would reopen an archived thread.
OUTSIDE: frozenset[str | None] = frozenset({GONE, "archived"})
# Causes of a pause in which a line waits: nobody may write in the thread, or a post would reopen it.
WITHOUT_LINES: frozenset[str | None] = frozenset({GONE, "archived", "locked", "no_access"})
# The reasons of failed turns, for people.
FAILURES: Mapping[str, str] = {
    "absent": "it's offline",
    "agent_budget": "its daily budget is used up",
    "benched": "its AI provider keeps failing",
    "daily_limit": "it has used up its turns for today",
    "deadline": "it took too long",
    "discord_failed": "Discord didn't accept its post",
    "model_failed": "its AI provider returned an error",
    "picture_failed": "its picture couldn't be made",
    "refused": "its model declined to answer",
    "session_lost": "its coding session was lost",
    "timed_out": "it took too long",
    "unknown_channel": "it can't see this thread",
    "unreadable": "its model's answer couldn't be read",
}
OTHER_FAILURE = "the program had an error, which is in the owner's log"
GO_ON = "Use /room resume to continue."
WHAT_TO_DO: Mapping[str | None, str] = {
    "stopped": "Use /resume here first, then /room resume to continue.",
    "archived": "Use /room resume to bring the thread back and continue.",
    "locked": "Unlock the thread, then use /room resume to continue.",
    GONE: "It can't continue. Use /room create to open a new one.",
    "no_access": "Let the bots see the thread and write in it (personas also need Manage Webhooks), then use"
    " /room resume to continue.",
}
NOT_LOCKED = (
    f"{HIDDEN}I can't lock this thread outside the audience's time, because some bots here lack the Manage Threads"
    " permission. The room continues, and anyone can write at any time."
)

log = logging.getLogger(__name__)

T = TypeVar("T")
Step = Literal["unarchive", "settle", "unlock", "announce", "lock", "warn", "line", "report", "card", "archive"]


CloseRoom = Callable[[Room, Sequence[RoomPost]], Awaitable[str]]
"""Records a room's contest and returns its closing card; see agentic.rooms.closing."""


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
        self._rooms, self._marks = services.state.coordination.rooms, services.state.coordination.room_marks
        self._bots, self._close, self._orders, self._clock = bots, close, services.bus.orders, services.clock
        self._roster, self._members_due = services.agents.roster, 0.0  # when to look for deleted members; inf: not now
        self._lease, self._poll_seconds = lease, poll_seconds
        self._due: dict[int, float] = {}  # thread → when to look at it, unix seconds
        self._unsure: set[int] = set()  # threads in which a step may have been made without its mark
        self._missed: set[int] = set()  # threads that may have been archived while nobody followed them
        self._busy: set[int] = set()
        self._pauses: dict[int, float] = {}  # thread → seconds until the next try
        self._swept = False
        self._wake = asyncio.Event()

    def start(self, bus: Bus) -> None:
        """Subscribe to changes of rooms and of the roster."""
        bus.subscribe(keys.ROOM_NOTICES, self._on_notice)
        self._roster.on_change(self._look_for_deleted_soon)

    def _on_notice(self, raw: str) -> None:
        notice = read(RoomNotice, raw)
        if notice is not None and self._lease.is_held:
            self._look_at(notice.thread_id, self._clock())

    def _look_for_deleted_soon(self) -> None:
        self._members_due = self._clock() + SETTLE_SECONDS

    async def run(self) -> None:
        """Look after all rooms while this process acts, until cancelled."""
        limit = asyncio.Semaphore(MAX_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._follow()
                now = self._clock()
                due = [each for each, at in self._due.items() if at <= now and each not in self._busy]
                for thread_id in due:
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
            if not self._swept and self._bots.any():
                await self.sweep()
            if self._swept and self._members_due <= self._clock():
                await self._remove_deleted()
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

    async def _remove_deleted(self) -> None:
        """Remove members from active rooms if their personas were deleted. Raises StateUnavailable, after scheduling
        another try."""
        self._members_due, due = inf, self._clock() + RETRY_SECONDS
        try:
            for room in await self._rooms.list("active", limit=None):
                if not (gone := self._roster.gone(room.names)):
                    continue
                order = Command(command="room-remove", channel_id=room.thread_id, room=RoomOrder(gone=gone))
                outcome = await self._orders.give(order)
                log.info("room %d: removing deleted personas: %s: %s", room.thread_id, ", ".join(gone), outcome)
                if outcome != "removed_member":
                    self._members_due = min(due, self._members_due)
        except StateUnavailable:
            self._members_due = min(due, self._members_due)
            raise

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
        is_done = True  # False if no bot may do it: then it's marked as done, or it would be tried forever
        match step:
            case "settle":
                await mark(standing=ACTIVE)
            case "unarchive":
                is_done = await bots.archive(room, archived=False)
                await mark(archived=False, standing=ACTIVE)
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
            case "report" if room.why == "no_access" and await self._was_deleted(room):
                return  # the room changes, and is looked at again
            case "report":  # in the channel above if the thread is gone
                key = _key(room)
                is_done = room.why not in OUTSIDE and await self._say(room, why_line(room), key)
                is_done = is_done or await self._say(room, why_line_outside(room), key, outside=True)
                await mark(standing=standing_of(room))
            case "card":
                is_done = await self._say(room, await self._close(room, await bots.posts(room)), _key(room))
                newest = room.lines[-1].number if room.lines else 0
                await mark(standing=standing_of(room), line=newest)  # the card says why it is over
        if not is_done:
            log.warning(
                "room %d: no bot has the permission for this step in its thread: %s; skipped", room.thread_id, step
            )

    async def _was_deleted(self, room: Room) -> bool:
        """Whether the thread is invisible because it was deleted. If so, tell the coordinator."""
        if not await self._bots.is_gone(room):
            return False
        order = Command(command="room-pause", channel_id=room.thread_id, room=RoomOrder(reason=GONE))
        outcome = await self._orders.give(order)
        log.info("room %d: its thread was deleted: %s", room.thread_id, outcome)
        return outcome == "room_paused"

    async def _say(self, room: Room, text: str, key: str, *, outside: bool = False, since: float | None = None) -> bool:
        after = since or room.changed_at - SKEW_SECONDS
        unsure = room.thread_id in self._unsure
        return await self._bots.say(room, text, key, outside=outside, since=after if unsure else None)


def _key(room: Room) -> str:
    return f"{standing_of(room)} {room.changed_at}"


# -- what a thread needs next -----------------------------------------------------------------------------------------


def standing_of(room: Room) -> str:
    return ACTIVE if room.status == "active" else f"{room.status} {room.why or ''}".strip()


def slot_of(room: Room, now: float) -> float | None:
    """Return when the audience's running slot ends, or None."""
    return room.slot_until if room.slot_until is not None and room.slot_until > now else None


def next_step(room: Room, marks: Marks, now: float, *, may_lock: bool, missed: bool = False) -> Step | None:
    """Return the thread's next step, from the room and the marks of finished steps. None if all are done.

        open again → lines about members → notice of the audience's break → lock   while it is active
        unlock → lines about members → line that says why                          once it is paused
        unlock → closing card → archive                                            once it is closed

    Each finished step is marked, so that another manager can continue at the first missing step. `now` is in unix
    seconds. `may_lock`: the thread can be locked without shutting a member out. `missed`: the thread may have changed
    unnoticed.
    """
    if room.status == "active":
        if missed or marks.archived or marks.standing in SHUT:
            return "unarchive"
        if marks.standing != ACTIVE:
            return "settle"
        if next_line(room, marks) is not None:
            return "line"
        slot = slot_of(room, now) if room.has_slots else None
        if not room.has_slots or slot is not None:
            if marks.locked:
                return "unlock"
            return "announce" if slot is not None and marks.slot != slot else None
        if marks.lock_done:
            return None
        return "lock" if may_lock else None if marks.unlockable else "warn"
    if marks.locked:
        return "unlock"
    if room.status == "paused" and room.why not in WITHOUT_LINES and next_line(room, marks) is not None:
        return "line"
    if marks.standing != standing_of(room):
        return "report" if room.status == "paused" else "card"
    return "archive" if room.status == "closed" and not marks.archived else None


def next_line(room: Room, marks: Marks) -> RoomLine | None:
    return next((line for line in room.lines if line.number > marks.line), None)


def line_text(room: Room, line: RoomLine) -> str:
    """Say what happened in the room, and whether a member comes back."""
    shown = [escaped(name) for name in line.members]
    who, failure = ", ".join(shown), FAILURES.get(line.why, OTHER_FAILURE)
    match line.kind:
        case "failed":
            return (
                f"{HIDDEN}{who} couldn't take its turn: {failure}. The room continues, and {who} gets another try on"
                f" its next turn. After {MAX_FAILURES} failed turns in a row, it leaves the room."
            )
        case "waits":
            return (
                f"{HIDDEN}This room is waiting for a person to say who speaks next. Write a member's name, reply to a"
                f" member's post, or @mention a bot. The members are: {who}. If nobody is named for half an hour, the"
                " room pauses."
            )
        case "thinking":
            return f"{HIDDEN}{who} is thinking (about {line.why} s)…"
        case "unclear":
            return f"{HIDDEN}That name fits more than one member: {' or '.join(shown)}. Write the whole name."
    left = {
        "chose": f"{who} has left the room. Use /room add to bring it back.",
        "removed": f"Someone removed {who} from the room. Use /room add to bring it back.",
        "deleted": f"{who} is no longer in this room, because the persona was deleted.",
    }
    failed = (
        f"{who} has left the room after {MAX_FAILURES} failed turns in a row: {failure}. Use /room add to bring it"
        " back."
    )
    text = f"{HIDDEN}{left.get(line.why, failed)}"
    if room.status == "paused" and len(room.members) < MIN_MEMBERS:
        text += " Fewer than two members are left, so use /room add before /room resume."
    return text


def slot_line(room: Room, now: float) -> str:
    seconds = max(1, round((room.slot_until or now) - now))
    return f"{HIDDEN}The floor is yours for {counted(seconds, 'second')}. The next speakers will respond to you."


def why_line(room: Room) -> str:
    """Say why the room is paused, and what to do."""
    because, turns = _because(room), f" after {counted(room.turn_number, 'turn')}" if room.turn_number else ""
    return f"{HIDDEN}This room is paused{turns}{because}. {WHAT_TO_DO.get(room.why, GO_ON)}"


def why_line_outside(room: Room) -> str:
    """The same, for the channel above the thread."""
    return why_line(room).replace("This room", f"The room “{room.topic}”", 1)


def closed_line(room: Room) -> str:
    turns = f" after {counted(room.turn_number, 'turn')}" if room.turn_number else ""
    text = f"{HIDDEN}**This room is closed**{turns}{_because(room)}."
    newest = room.lines[-1] if room.lines else None
    if room.why == "too_few_left" and newest is not None and newest.kind == "left":
        text += f" {line_text(room, newest).removeprefix(HIDDEN)}"
    return text


def _because(room: Room) -> str:
    words = next((words for reason, words in ENDINGS.items() if reason == room.why), "")
    return f": {words}" if words else ""


# -- the bots that do it ----------------------------------------------------------------------------------------------


class ThreadBots:
    """`online` returns the bots that are online. `has_bot` says whether an agent has its own account, here or in
    another process. Temporary failures raise CannotPost."""

    def __init__(self, online: Callable[[], Sequence[RoomBot]], has_bot: Callable[[str], bool]) -> None:
        self._online, self._has_bot = online, has_bot

    def any(self) -> bool:
        return bool(self._online())

    def near(self, room: Room) -> list[RoomBot]:
        """Return the bots that see the room's channel, in a fixed order: a repeated notice has the same author."""
        near = sorted((bot for bot in self._online() if bot.sees(room.channel_id)), key=lambda bot: bot.agent)
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

    async def is_gone(self, room: Room) -> bool:
        """Whether the thread was deleted; False if the bots can't tell."""
        return any(await self._by_any(self.near(room), lambda bot: bot.is_gone(room.channel_id, room.thread_id)))

    async def posts(self, room: Room) -> Sequence[RoomPost]:
        """Return the agents' posts in the thread, oldest first; none if they can't be read anymore."""
        first = self.near(room)[:1]
        found = await self._by_any(first, lambda bot: bot.posts(room.channel_id, room.thread_id))
        return found[0] if found else ()

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


# -- changes by others ------------------------------------------------------------------------------------------------


class ThreadWatch:
    """Watch the rooms of one bot's servers. `lease`: whether this process acts for the bot."""

    def __init__(self, services: Services, bot: RoomBot, *, lease: AnyLease) -> None:
        self._bot, self._lease, self._orders = bot, lease, services.bus.orders
        self._rooms, self._marks = services.state.coordination.rooms, services.state.coordination.room_marks

    @or_default(None, "changes of threads and channels are not followed")
    async def changed(self, thread_id: int, *, archived: bool, locked: bool) -> None:
        room = await self._rooms.read(thread_id) if (archived or locked) and self._lease.is_held else None
        if room is not None and room.status == "active":
            marks = await self._marks.read(thread_id)
            if locked and not marks.locked:
                await self._pause(room, "locked")
            elif archived and not marks.archived:
                await self._pause(room, "archived")

    @or_default(None, "changes of threads and channels are not followed")
    async def deleted(self, thread_id: int) -> None:
        """Pause the deleted thread's room, even if it isn't active: it can never be resumed."""
        room = await self._rooms.read(thread_id) if self._lease.is_held else None
        if room is not None:
            await self._pause(room, "deleted")

    @or_default(None, "changes of threads and channels are not followed")
    async def channel_deleted(self, channel_id: int) -> None:
        """Pause the rooms of a deleted channel. Discord doesn't name the threads that went with it."""
        for room in await self._rooms.list(limit=None) if self._lease.is_held else ():
            if room.channel_id == channel_id and room.why != "deleted":
                await self._pause(room, "deleted")

    @or_default(None, "changes of threads and channels are not followed")
    async def permissions_changed(self, guild_id: int) -> None:
        """Pause the bot's rooms in which it may no longer write, after permissions changed."""
        for room in await self._rooms.list("active", limit=None) if self._lease.is_held else ():
            takes_part = room.guild_id == guild_id and self._bot.agent in room.names
            if takes_part and self._bot.may_write_in_threads(room.channel_id) is False:
                await self._pause(room, "no_access")

    @or_default(None, "changes of threads and channels are not followed")
    async def came_back(self) -> None:
        """Check the rooms after a new connection, since events were missed before it."""
        for room in await self._rooms.list(limit=None) if self._lease.is_held else ():
            if room.status == "closed" or room.why == "deleted":
                continue
            now = await self._bot.read_thread(room.channel_id, room.thread_id)
            if now is not None and now.deleted:
                await self._pause(room, "deleted")
            elif now is not None and now.locked:
                await self.changed(room.thread_id, archived=now.archived, locked=True)

    async def _pause(self, room: Room, reason: str) -> None:
        order = Command(command="room-pause", channel_id=room.thread_id, room=RoomOrder(reason=reason))
        outcome = await self._orders.give(order)
        if outcome == NOBODY:
            log.warning("%s: room %d is %s, but no coordinator answered", self._bot.agent, room.thread_id, reason)
        else:
            log.info("%s: room %d is %s: %s", self._bot.agent, room.thread_id, reason, outcome)
