"""What the program writes in a room's thread: its lines, why the room is paused, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping

from agentic.formats import FORMATS, SIDES
from agentic.rooms.opening import escaped
from agentic.state.rooms import MAX_FAILURES, MIN_MEMBERS, VOTE, Room, RoomLine
from agentic.state.silence import Silenced
from agentic.text import counted
from agentic.wire.reasons import ENDINGS

HIDDEN = "🫥 "  # bots don't read messages that begin with it
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
    "unreadable": "its model repeated a message, or its answer couldn't be read",
}
OTHER_FAILURE = "the program had an error, which is in the owner's log"
WHAT_TO_DO: Mapping[str | None, str] = {
    "stopped": "Use /resume here first, then /room resume to continue.",
    "archived": "Use /room resume to bring the thread back and continue.",
    "locked": "Unlock the thread, then use /room resume to continue.",
    "deleted": "It can't continue. Use /room create to open a new one.",
    "no_access": "Let the bots see the thread and write in it (personas also need Manage Webhooks), then use"
    " /room resume to continue.",
}
NOT_LOCKED = (
    f"{HIDDEN}I can't lock this thread outside the audience's time, because some bots here lack the Manage Threads"
    " permission. The room continues, and anyone can write at any time."
)


def line_text(room: Room, line: RoomLine) -> str:
    """Say what happened in the room, and whether a member comes back."""
    shown = [escaped(name) for name in line.members]
    who, failure = ", ".join(shown), FAILURES.get(line.why, OTHER_FAILURE)
    next_one = f" Next: {shown[0]}." if shown else ""
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
        case "phase":  # which one, how long it lasts, and what happens in it
            begun = f"**{line.why[:1].upper()}{line.why[1:]}**"
            phase, last = next((each for each in room.schedule() if each[0].name == line.why), (None, 0))
            begun += f", until turn {last}: {phase.about}." if phase is not None else ""
            return f"{HIDDEN}{begun}{next_one}"
        case "next":
            return f"{HIDDEN}{who} speaks next, <t:{line.why}:R> (<t:{line.why}:t>)."
        case "slot":  # it's over
            answered = "Nobody asked anything."
            if line.why != "0":
                messages = counted(int(line.why) if line.why.isdecimal() else 1, "message")
                answered = f"The next speakers answer {messages}."
            return f"{HIDDEN}The audience's time is over. {answered}{next_one}"
        case "unclear":
            return f"{HIDDEN}That name fits more than one member: {' or '.join(shown)}. Write the whole name."
    left = {
        "chose": f"{who} decided to leave the room, with the post above. Use /room add to bring it back.",
        "removed": f"Someone removed {who} from the room. Use /room add to bring it back.",
        "deleted": f"{who} is no longer in this room, because the persona was deleted.",
    }
    failed = (
        f"{who} has left the room after {MAX_FAILURES} failed turns in a row: {failure}. Use /room add to bring it"
        " back."
    )
    text = f"{HIDDEN}{left.get(line.why, failed)}"
    sides = {member.side for member in room.left if member.shown in line.members} - {each.side for each in room.members}
    if (side := next(iter(sides & {*SIDES[:2]}), None)) is not None:
        text += f" Nobody is {side} it now."
    if room.status == "paused" and len(room.members) < MIN_MEMBERS:
        text += " Fewer than two members are left, so use /room add before /room resume."
    return text


def slot_line(room: Room, now: float) -> str:
    seconds = counted(max(1, round((room.slot_until or now) - now)), "second")
    if room.closing_because is not None:
        which = "convinced you" if FORMATS[room.format].has_sides else "you liked best"
        return (
            f"{HIDDEN}That was the last post. You have {seconds} to vote: react with {VOTE} to the posts that {which}."
            " Then the room closes."
        )
    return f"{HIDDEN}The floor is yours for {seconds}. Ask what you want: the next speakers answer your questions."


def why_line(room: Room, silenced: Silenced | None = None) -> str:
    """Say why the room is paused, and what to do. `silenced`: the stop or pause that applies to its thread."""
    because, turns = _because(room), f" after {counted(room.turn_number, 'turn')}" if room.turn_number else ""
    what_to_do = WHAT_TO_DO.get(room.why, "Use /room resume to continue.")
    if room.why == "stopped" and silenced is not None and silenced.channel_id != room.thread_id:
        end = f"/resume in <#{silenced.channel_id}>" if silenced.channel_id is not None else "/bots resume"
        what_to_do = f"Use {end} first, then /room resume to continue."
    return f"{HIDDEN}This room is paused{turns}{because}. {what_to_do}"


def for_channel(line: str, room: Room) -> str:
    """Return a line about the room for the channel above its thread."""
    return line.replace("This room", f"The room “{room.topic}”", 1)


def closed_line(room: Room) -> str:
    turns = f" after {counted(room.turn_number, 'turn')}" if room.turn_number else ""
    text = f"{HIDDEN}**This room is closed**{turns}{_because(room)}."
    newest = room.lines[-1] if room.lines else None
    if room.why == "too_few_left" and newest is not None and newest.kind == "left":
        text += f" {line_text(room, newest).removeprefix(HIDDEN)}"
    return text


def _because(room: Room) -> str:
    return next((f": {words}" for reason, words in ENDINGS.items() if reason == room.why), "")
