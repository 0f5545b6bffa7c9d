"""Decide what a room's thread needs next, purely, from the room and the marks of what was done.

    open again → notice of the audience's slot → lock          while it is active
    unlock → line that says why                                once it is paused
    unlock → closing card → archive                            once it is closed

Each step is marked when it is done, so that a steward who comes later begins at the first that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agent_protocol.coordination.endings import ENDINGS
from agent_protocol.coordination.rooms import Room
from agent_protocol.rooms.marks import Marks

Step = Literal["unarchive", "settle", "unlock", "announce", "lock", "warn", "report", "card", "archive"]

HIDDEN = "🫥 "  # bots do not read what begins with it
ACTIVE = "active"
GONE = "deleted"
SHUT = frozenset({"paused archived", "paused no_access"})
"""Standings, as `standing_of` has them, after which the thread of a room that goes on may still be archived."""
OUTSIDE: frozenset[str | None] = frozenset({GONE, "archived"})
"""Causes of a pause that are said in the channel above: a post would bring an archived thread back."""
GO_ON = "/room resume lets it go on."
WHAT_TO_DO: Mapping[str | None, str] = {
    "stopped": "/resume lifts the stop, /room resume lets the room go on.",
    "archived": "/room resume brings the thread back and lets it go on.",
    "locked": "Unlock the thread, then /room resume lets it go on.",
    GONE: "It cannot go on; /room create opens a new one.",
    "no_access": "Let the bots see the thread and write in it (personas: Manage Webhooks), then /room resume lets it"
    " go on.",
}
NOT_LOCKED = (
    f"{HIDDEN}I cannot lock this thread between the audience's slots, since not all bots here have the permission"
    " Manage Threads. Anybody may write at any time; the room goes on."
)


def standing_of(room: Room) -> str:
    return ACTIVE if room.status == "active" else f"{room.status} {room.why or ''}".strip()


def slot_of(room: Room, now: float) -> float | None:
    """When the audience's slot that runs now ends; None for none."""
    return room.slot_until if room.slot_until is not None and room.slot_until > now else None


def next_step(room: Room, marks: Marks, now: float, *, may_lock: bool, missed: bool = False) -> Step | None:
    """None where all is done. `now` is in unix seconds; `may_lock`: the thread may be locked without shutting a member
    out; `missed`: what happened to the thread was not followed for a while."""
    if room.status == "active":
        is_away = missed or marks.archived or marks.standing in SHUT
        return "unarchive" if is_away else _of_active(room, marks, now, may_lock)
    if marks.locked:
        return "unlock"
    if marks.standing != standing_of(room):
        return "report" if room.status == "paused" else "card"
    return "archive" if room.status == "closed" and not marks.archived else None


def _of_active(room: Room, marks: Marks, now: float, may_lock: bool) -> Step | None:
    if marks.standing != ACTIVE:
        return "settle"
    if not room.has_slots:
        return "unlock" if marks.locked else None
    slot = slot_of(room, now)
    if slot is not None:
        return "unlock" if marks.locked else "announce" if marks.slot != slot else None
    if marks.lock_done:
        return None
    return "lock" if may_lock else None if marks.unlockable else "warn"


def slot_line(room: Room, now: float) -> str:
    seconds = max(1, round((room.slot_until or now) - now))
    return f"{HIDDEN}The floor is yours for {seconds} s: what you say here is what the next turns take up."


def why_line(room: Room) -> str:
    """Why the room stands still, and what to do."""
    because, turns = _because(room), f" after {counted(room.turn_number, 'turn')}" if room.turn_number else ""
    return f"{HIDDEN}This room is paused{turns}{because}. {WHAT_TO_DO.get(room.why, GO_ON)}"


def why_line_outside(room: Room) -> str:
    """The same, for the channel above the thread."""
    return why_line(room).replace("This room", f"The room “{room.topic}”", 1)


def closed_line(room: Room) -> str:
    turns = f" after {counted(room.turn_number, 'turn')}" if room.turn_number else ""
    return f"{HIDDEN}**This room is closed**{turns}{_because(room)}."


def _because(room: Room) -> str:
    words = next((words for reason, words in ENDINGS.items() if reason == room.why), "")
    return f": {words}" if words else ""


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
