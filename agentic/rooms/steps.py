"""Decide what a room's thread needs next, purely, from the room and the marks of what was done.

    open again → lines about members → notice of the audience's slot → lock    while it is active
    unlock → lines about members → line that says why                          once it is paused
    unlock → closing card → archive                                            once it is closed

Each step is marked when it is done, so that a steward who comes later begins at the first that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agentic.rooms.new_room import escaped
from agentic.state.marks import Marks
from agentic.state.rooms import FEWEST_MEMBERS, MOST_FAILURES, Room, RoomLine
from agentic.wire.endings import ENDINGS

Step = Literal["unarchive", "settle", "unlock", "announce", "lock", "warn", "line", "report", "card", "archive"]

HIDDEN = "🫥 "  # bots do not read what begins with it
ACTIVE = "active"
GONE = "deleted"
SHUT = frozenset({"paused archived", "paused no_access"})
"""Standings, as `standing_of` has them, after which the thread of a room that goes on may still be archived."""
OUTSIDE: frozenset[str | None] = frozenset({GONE, "archived"})
"""Causes of a pause that are said in the channel above: a post would bring an archived thread back."""
WITHOUT_LINES: frozenset[str | None] = frozenset({GONE, "archived", "locked", "no_access"})
"""Causes of a pause in which a line has to wait: nobody may write in the thread, or a post would bring it back."""
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
"""The reasons of failed turns, for people."""
OTHER_FAILURE = "the program had an error, which is in the owner's log"
GO_ON = "Use /room resume to continue."
WHAT_TO_DO: Mapping[str | None, str] = {
    "stopped": "Use /resume to lift the stop, then /room resume to continue.",
    "archived": "Use /room resume to bring the thread back and continue.",
    "locked": "Unlock the thread, then use /room resume to continue.",
    GONE: "It can't continue. Use /room create to open a new one.",
    "no_access": "Let the bots see the thread and write in it (for personas: Manage Webhooks), then use"
    " /room resume to continue.",
}
NOT_LOCKED = (
    f"{HIDDEN}I can't lock this thread between the audience's slots, because not all bots here have the permission"
    " Manage Threads. Anybody may write at any time, and the room continues."
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
    if room.status == "paused" and room.why not in WITHOUT_LINES and next_line(room, marks) is not None:
        return "line"
    if marks.standing != standing_of(room):
        return "report" if room.status == "paused" else "card"
    return "archive" if room.status == "closed" and not marks.archived else None


def _of_active(room: Room, marks: Marks, now: float, may_lock: bool) -> Step | None:
    if marks.standing != ACTIVE:
        return "settle"
    if next_line(room, marks) is not None:
        return "line"
    if not room.has_slots:
        return "unlock" if marks.locked else None
    slot = slot_of(room, now)
    if slot is not None:
        return "unlock" if marks.locked else "announce" if marks.slot != slot else None
    if marks.lock_done:
        return None
    return "lock" if may_lock else None if marks.unlockable else "warn"


def next_line(room: Room, marks: Marks) -> RoomLine | None:
    return next((line for line in room.lines if line.number > marks.line), None)


def line_text(room: Room, line: RoomLine) -> str:
    """What happened in the room, in plain words, and whether a member comes back."""
    shown = [escaped(name) for name in line.members]
    who, failure = ", ".join(shown), FAILURES.get(line.why, OTHER_FAILURE)
    match line.kind:
        case "failed":
            return (
                f"{HIDDEN}{who} couldn't take its turn: {failure}. The room continues, and {who} gets another try on"
                f" its next turn. After {MOST_FAILURES} failed turns in a row it leaves the room."
            )
        case "waits":
            return (
                f"{HIDDEN}This room is waiting for a person to say who speaks next. Write a member's name, reply to a"
                f" member's post, or @mention a bot. The members are: {who}. If nobody is named for half an hour, the"
                " room pauses."
            )
        case "unclear":
            return f"{HIDDEN}That name fits more than one member: {' or '.join(shown)}. Write the whole name."
    left = {
        "chose": f"{who} has left the room. /room add brings it back.",
        "removed": f"A person removed {who} from the room. /room add brings it back.",
        "deleted": f"{who} is no longer in this room, because its persona was deleted. It won't come back.",
    }
    failed = (
        f"{who} has left the room after {MOST_FAILURES} failed turns in a row: {failure}. It won't come back by itself;"
        " /room add brings it back."
    )
    text = f"{HIDDEN}{left.get(line.why, failed)}"
    if room.status == "paused" and len(room.members) < FEWEST_MEMBERS:
        text += " Fewer than two members are left, so use /room add before /room resume."
    return text


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
    text = f"{HIDDEN}**This room is closed**{turns}{_because(room)}."
    newest = room.lines[-1] if room.lines else None
    if room.why == "too_few_left" and newest is not None and newest.kind == "left":
        text += f" {line_text(room, newest).removeprefix(HIDDEN)}"
    return text


def _because(room: Room) -> str:
    words = next((words for reason, words in ENDINGS.items() if reason == room.why), "")
    return f": {words}" if words else ""


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
