"""What a room adds to a conversation: numbered turns, members who leave, endings of its own; see also audience.py.

The room is part of the conversation's state, so that both are stored in one step. Only turns that post are numbered.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import tzinfo
from itertools import dropwhile
from typing import cast

from agent_coordinator import audience
from agentic.formats import FORMATS
from agentic.pace import ANNOUNCED_SECONDS, next_turn_at
from agentic.state.conversation_state import GAVE_WAY, ConversationState, Counts, Missed, SpeakerQueue, is_post, is_skip
from agentic.state.rooms import MAX_FAILURES, MAX_MEMBERS, MIN_MEMBERS, PERSONA_FIELDS, Room, RoomMember
from agentic.state.talk import PersonMessage, Talk
from agentic.text import calls_in
from agentic.wire.messages import MAX_TOPIC, Result, RoomBrief
from agentic.wire.reasons import ENDINGS, EndReason

log = logging.getLogger(__name__)

MIN_ROOM_TURN_SECONDS = 60.0
SLOW_TURN_SECONDS = 20.0  # from which on the thread is told how long a member thinks
RETRY_SECONDS = 5.0
MAX_UNSEEN = 2  # the room pauses after this many turns in a row whose agents don't see the thread
IDLE_ROUNDS = 2  # without a post; after them the room closes
FAIR_TURNS = 2  # that each member gets before agreement, repetition, or a goodbye may close the room
MAX_TRIES = 2  # of a member's turn in a phase in which each has one
EXTRA_TASK = "You've had your turn. A person asked you to speak again: answer them only, and don't repeat yourself."
EXTRA_LENGTH = "one to three sentences"
CHOSE, REMOVED, DELETED = "chose", "removed", "deleted"  # why a member left, besides reasons of results

FAILURES = frozenset(
    {
        *("agent_budget", "benched", "daily_limit", "deadline", "discord_failed", "internal_error", "invalid"),
        *("model_failed", "picture_failed", "refused", "session_lost", "unknown_action", "unknown_channel"),
        "unreadable",
    }
)
"""Reasons of results that count as failures: after MAX_FAILURES in a row, a member leaves. Others are skips."""
NOT_TAKEN = frozenset({*GAVE_WAY, "out_of_turn"})
"""Reasons of results of turns that are to be taken again."""
UNSEEN = "unknown_channel"
"""The agent doesn't see the thread. Once isn't a reason to end: after a restart Discord may not have sent its server
yet, or the thread may just be coming back from the archive."""
PASSING = frozenset({"absent", UNSEEN})
"""Failures that are reported in the thread only the second time: they are common after a restart or a resume."""
ENDS: Mapping[str, EndReason] = {
    "budget": "budget",
    "person_budget": "person_budget",
    "stopped": "stopped",
    "not_permitted": "no_access",
}
"""Reasons of results that end the room."""


def conversation_of(room: Room) -> ConversationState:
    """Return a new state for a room's conversation, of which none is stored. Its messages are in the thread."""
    return ConversationState(
        room.conversation_id,
        room.thread_id,
        room.theme,
        room.opened_at,
        room.policy,
        room,
        queue=SpeakerQueue(last_in_order=room.last_speaker),
        talk=Talk(topic=room.topic[:MAX_TOPIC], last_speaker=room.last_speaker),
        counts=Counts(round=room.rounds),
    )


def brief_for(room: Room, agent: str, *, is_extra: bool = False) -> RoomBrief:
    """Return what the agent is told of the room. `is_extra`: it had its turn, and people called it."""
    number, phase, role = room.turn_number + 1, room.next_phase(), room.role_of(agent)
    brief = RoomBrief(
        turn_number=number,
        turns=room.turns + is_extra,
        policy=room.policy,
        rules=room.rules,
        members=tuple(member.shown for member in room.members),
        names_next=room.policy == "moderated" and room.moderator == agent,
        closing=number >= room.turns and not is_extra,
        goodbye_ends=room.goodbye_ends,
        details=room.details,
    )
    if phase is None:
        return brief
    sides = {each.name: "moderator" if room.role_of(each.name) == "moderator" else each.side for each in room.members}
    guest = room.guest
    formatted = {
        "format": room.format,
        "format_rules": FORMATS[room.format].rules_for(role, guest.shown if guest is not None else ""),
        "side": sides.get(agent, ""),
        "sides": tuple(sides.values()),
        "phase": phase.name,
        "phase_task": EXTRA_TASK if is_extra else phase.task(role),
        "phase_length": EXTRA_LENGTH if is_extra else phase.length,
        "ledger": room.ledger,
    }
    return brief.model_copy(update=formatted)


# turns


def retry_pause(state: ConversationState) -> float:
    """Return the seconds to wait before the next turn: an agent that failed may be restarting."""
    last = state.room and state.queue.last_in_order and state.room.member(state.queue.last_in_order)
    return RETRY_SECONDS if last and (last.failures or last.name in state.counts.away) else 0.0


def announce_thinking(state: ConversationState, agent: str, seconds: float) -> ConversationState:
    """Tell the thread that the member's turn will probably take `seconds`: once if it is slow, and again if it has
    become much slower."""
    room, member = state.room, state.room.member(agent) if state.room is not None else None
    if room is None or member is None or seconds < max(SLOW_TURN_SECONDS, 2 * member.thinking_noted):
        return state
    rounded = 5 * round(seconds / 5)
    room = _with_member(room, agent, thinking_noted=rounded).with_line("thinking", member.shown, why=str(rounded))
    return replace(state, room=room)


def with_next_turn(state: ConversationState, before: ConversationState, now: float, zone: tzinfo) -> ConversationState:
    """After a post, set when the room's next turn comes. An answer to a person in between doesn't move it."""
    room = state.room
    if room is None or before.room is None or room.turn_number == before.room.turn_number:
        return state
    if room.next_turn_at is not None and room.next_turn_at > now:
        return state
    return state.with_room(next_turn_at=next_turn_at(room.pace, now, zone))


def turn_waits_until(state: ConversationState, now: float) -> float | None:
    """Return until when a room's next turn waits because of its pace, or None. A member that a person called or asked
    to speak doesn't wait."""
    room, queue = state.room, state.queue
    if room is None or room.next_turn_at is None or room.next_turn_at <= now:
        return None
    return None if queue.asking or queue.granted or queue.hurried or room.people_choose else room.next_turn_at


def announce_next(state: ConversationState, agent: str, now: float) -> ConversationState:
    """Tell the thread once who speaks next, and when, if that is a while from now."""
    room, member = state.room, state.room.member(agent) if state.room is not None else None
    if room is None or member is None or room.next_turn_at is None or room.next_turn_at - now < ANNOUNCED_SECONDS:
        return state
    when = str(round(room.next_turn_at))
    if any((line.kind, line.members, line.why) == ("next", (member.shown,), when) for line in room.lines):
        return state
    return replace(state, room=room.with_line("next", member.shown, why=when))


def is_extra_turn(state: ConversationState, agent: str, *, has_rounds: bool) -> bool:
    """Whether a turn that people ask the member for comes on top of the room's turns. It does if the member has had its
    turn: in a phase with one turn for each, in the round if the policy `has_rounds`, or else if it has had more turns
    in the phase than another member. A room has at most as many extra turns as other turns."""
    room = state.room
    if room is None or 2 * room.extra_turns >= room.turns:
        return False
    if agent not in room.due:
        return True
    if room.turns_for_each or room.people_choose:
        return False
    if has_rounds:
        return agent in state.counts.spoke
    had = room.phase_turns or ()
    return had.count(agent) > min(map(had.count, room.names))


def after_turn(
    state: ConversationState, room: Room, agent: str, outcome: Result | Missed, *, is_extra: bool = False
) -> ConversationState:
    """Apply a recorded turn to the room: its number, its cost, who leaves, whether it ends."""
    room = _updated(room, rounds=state.counts.round)
    reason = outcome if isinstance(outcome, str) else outcome.reason
    if isinstance(outcome, str) or reason == "benched":
        # A failure of the member. But if all are absent, one after the other, their program or provider is down: the
        # room waits.
        is_absent = reason in ("absent", "benched")
        away = (*(other for other in state.counts.away if other != agent), agent) if is_absent else ()
        state = state.with_counts(away=away)
        if set(room.names) <= set(away):
            return replace(state, room=room)
        state = _after(state, room, agent, posted=False, failure=reason)
        return state if is_extra else _with_phase_turn(state, agent, reason, failed=True)
    cost = outcome.usage.cost_usd if outcome.usage else 0.0
    room = _updated(room, skips=room.skips + is_skip(outcome), cost_usd=room.cost_usd + cost)
    if is_post(outcome):
        room = _updated(room, turn_number=room.turn_number + 1, last_speaker=agent, starter=room.starter or agent)
        room = _updated(room, turns=room.turns + is_extra, extra_turns=room.extra_turns + is_extra)
    member = room.member(agent)
    if member is not None and (is_post(outcome) or outcome.reason in (None, "skipped")):
        room = _with_member(room, agent, turns_taken=member.turns_taken + 1)
    failure = outcome.reason if outcome.skipped and outcome.reason in FAILURES else None
    state = _after(state, room, agent, posted=is_post(outcome), failure=failure)
    if not is_extra:
        state = _with_phase_turn(state, agent, outcome.reason, failed=failure is not None)
    state = state.with_counts(away=(), unseen=state.counts.unseen + 1 if outcome.reason == UNSEEN else 0)
    if outcome.leaves:
        state = without_member(state, agent, CHOSE)
    reason = "no_access" if state.counts.unseen >= MAX_UNSEEN else _end_by(outcome, room)
    return state if reason is None or room.status != "active" else audience.close(state, reason)


def _after(state: ConversationState, room: Room, agent: str, *, posted: bool, failure: str | None) -> ConversationState:
    """Count turns without a post and the member's failures in a row. The thread is told of its first failure (of a
    PASSING one, the second). After MAX_FAILURES, the member leaves."""
    member = room.member(agent)
    failures = member.failures + 1 if failure and member else 0
    room = _with_member(room, agent, failures=failures)
    idle_turns = 0 if posted else state.counts.idle_turns + (failure is None)
    state = replace(state, room=room).with_counts(idle_turns=idle_turns)
    if member is None or failure is None:
        return state
    if failures >= MAX_FAILURES:
        log.warning("%s leaves the room in thread %d: %d failures in a row", agent, room.thread_id, failures)
        return without_member(state, agent, failure)
    if not member.failure_noted and (failure not in PASSING or failures > 1):
        room = _with_member(room, agent, failure_noted=True).with_line("failed", member.shown, why=failure)
    return replace(state, room=room)


def _with_phase_turn(state: ConversationState, agent: str, reason: str | None, *, failed: bool) -> ConversationState:
    """Note that the member had its turn of the phase. If it failed or gave way to a person, it gets another try."""
    room, member = state.room, state.room.member(agent) if state.room is not None else None
    if room is None or room.phase_turns is None or member is None or reason in NOT_TAKEN:
        return state
    if failed and member.failures < MAX_TRIES:
        return state
    return state.with_room(phase_turns=(*room.phase_turns, agent))


def _with_member(room: Room, agent: str, **changes: object) -> Room:
    members = (each.model_copy(update=changes) if each.name == agent else each for each in room.members)
    return _updated(room, members=tuple(members))


def with_phase(state: ConversationState) -> ConversationState:
    """If the next turn begins a phase, note it. If each member has one turn in the phase, members that have had it
    leave the queue."""
    room = state.room
    phase = room.next_phase() if room is not None else None
    if room is None or phase is None:
        return state
    if phase.name != room.phase:
        room = _updated(room, phase=phase.name, phase_turns=(), phase_noted=False)
        state = replace(state, room=room)
    if not room.turns_for_each or state.queue.granted:
        return state
    pending = tuple(dropwhile(lambda agent: agent not in room.due, state.queue.pending))
    return state if pending == state.queue.pending else state.with_queue(pending=pending)


def announce_phase(state: ConversationState, agent: str | None) -> ConversationState:
    """Tell the thread once that a phase begins, and who speaks first in it, if that's known. For the audience's phase,
    the end of the audience's slot has said so."""
    room = state.room
    if room is None or room.phase_noted or room.phase_turns is None:
        return state
    had_slot = room.phase == audience.AUDIENCE_PHASE and room.slot_turn == room.turn_number
    shown = [member.shown for member in room.members if member.name == agent]
    room = _updated(room, phase_noted=True)
    return replace(state, room=room if had_slot else room.with_line("phase", *shown, why=room.phase))


def ending(state: ConversationState, room: Room) -> EndReason | None:
    """Return why the room ends before its next turn, or None to continue."""
    if room.status != "active":  # a person ended it during the last turn
        return cast(EndReason, room.why) if room.why in ENDINGS else "paused"  # another version's reason
    if len(room.members) < MIN_MEMBERS:
        return "too_few_left"
    if room.closing_because is not None:
        return room.closing_because if audience.last_slot_is_over(room) else None
    if room.has_used_its_turns:
        return "turn_limit"
    if state.counts.agreed_to_end and may_end_early(state):
        return "agreed"
    return "most_skipped" if state.counts.idle_turns >= IDLE_ROUNDS * len(room.members) else None


def may_end_early(state: ConversationState) -> bool:
    """Whether what agents say may end the conversation before its limit. In a room, each member must first have had
    FAIR_TURNS turns since it was opened or resumed. A room with phases goes through all of them."""
    if state.room is None:
        return True
    return not state.room.schedule() and all(member.turns_taken >= FAIR_TURNS for member in state.room.members)


def angle_for(state: ConversationState) -> str | None:
    """Return what the next turn should bring up; None if it makes its statement, as each member does once."""
    phase = state.room.next_phase() if state.room is not None else None
    return None if phase is not None and phase.turns else state.talk.perspective or state.talk.suggested_topic


def ended(state: ConversationState, because: EndReason) -> ConversationState:
    """Pause or close the room, depending on the reason, after the current turn."""
    return state if state.room is None else replace(state, room=state.room.ended(because))


def paused(state: ConversationState, because: EndReason) -> ConversationState:
    """Pause an active room after the current turn."""
    return ended(state, because) if state.room is not None and state.room.status == "active" else state


def resumed(state: ConversationState, turns: int) -> ConversationState:
    """Make the room active, with a limit of `turns`. Failure counts are reset, and a slot is over. Members that people
    called in the meantime speak first."""
    if state.room is None:
        return state
    clean = {"failures": 0, "failure_noted": False, "turns_taken": 0, "thinking_noted": 0}
    members = tuple(member.model_copy(update=clean) for member in state.room.members)
    room = _updated(state.room, status="active", why=None, turns=turns, members=members, wait_noted=False)
    if turns != state.room.turns:  # it divides the room differently
        room = _updated(room, phase="", phase_turns=None)
    room = _updated(room, slot_until=None, slot_turn=room.turn_number, closing_because=None, next_turn_at=None)
    waited_for = (agent for each in state.talk.heard if each.called for agent in each.waits_for(room.names) or ())
    state = replace(state, room=room).with_counts(idle_turns=0, end_streak=0, unseen=0)
    return state.with_queue(called=tuple(dict.fromkeys((*state.queue.called, *waited_for))))


def extended(state: ConversationState, turns: int) -> ConversationState:
    """Give a running room a limit of `turns`, which divides it differently. If people had a last time to vote, the room
    continues."""
    if state.room is not None and state.room.closing_because is not None:
        state = state.with_room(closing_because=None, slot_until=None, slot_turn=state.room.turn_number)
    return state.with_room(turns=turns, phase="", phase_turns=None)


def at_rest(state: ConversationState) -> ConversationState | None:
    """Return the part of a paused or closed room's conversation to keep, besides the room: which of people's messages
    wait for an answer and which have one, without their words, which are in the thread. None if there are none."""
    room = state.room
    if room is None or room.why == "deleted" or not state.talk.heard:
        return None
    heard = tuple(replace(each, text="") for each in state.talk.heard)
    return conversation_of(room).with_talk(heard=heard, answered=state.talk.answered)


def is_goodbye(text: str) -> bool:
    """Whether the text is a goodbye and nothing else, in any spelling."""
    return re.sub(r"[\W_]+", "", text.casefold()) == "goodbye"


def _end_by(result: Result, room: Room) -> EndReason | None:
    has_been_fair = all(member.turns_taken >= FAIR_TURNS for member in room.members)
    if room.goodbye_ends and has_been_fair and is_post(result) and is_goodbye(result.text or ""):
        return "goodbye"
    # "budget" comes with the last turn that could be paid, or with none.
    return ENDS.get(result.reason or "") if result.skipped or result.reason == "budget" else None


# members


def without_member(state: ConversationState, agent: str, why: str) -> ConversationState:
    """Let the member leave, and tell the thread why: CHOSE, REMOVED, DELETED, or the reason of its failures. Its open
    turn is still recorded."""
    if state.room is None or (member := state.room.member(agent)) is None:
        return state
    room = _updated(
        state.room,
        members=tuple(other for other in state.room.members if other.name != agent),
        left=(*(other for other in state.room.left if other.name != agent), member),
    )
    room = room.with_sides().with_line("left", member.shown, why=why)  # a guest's seat isn't left empty
    keeps = state.queue.pending[:1] if state.queue.asking else ()
    pending = (*keeps, *(other for other in state.queue.pending[len(keeps) :] if other != agent))
    requested = None if state.queue.requested == agent else state.queue.requested
    called = tuple(other for other in state.queue.called if other != agent)
    queue = replace(state.queue, pending=pending, requested=requested, called=called)
    if state.queue.speaker == agent and not state.queue.asking:
        queue = replace(queue, granted=False, is_extra=False)
    if queue.last_in_order == agent:  # the next in order is the one after it
        names = state.room.names
        queue = replace(queue, last_in_order=names[names.index(agent) - 1])
    return replace(state, room=room, queue=queue)


def without_deleted(state: ConversationState, agents: Collection[str]) -> ConversationState:
    """Let members leave whose personas were deleted."""
    for agent in agents:
        state = without_member(state, agent, DELETED)
    return state


def without_strangers(state: ConversationState) -> ConversationState:
    """Drop a request for an agent that isn't a member."""
    room, agent = state.room, state.queue.requested
    return state if room is None or agent is None or room.member(agent) is not None else state.request(None)


def with_member(state: ConversationState, member: RoomMember) -> ConversationState:
    """Add the member as the last in order. A full room, as after two additions at once, doesn't change."""
    if state.room is None or state.room.member(member.name) is not None or len(state.room.members) >= MAX_MEMBERS:
        return state
    left = tuple(other for other in state.room.left if other.name != member.name)
    return replace(state, room=_updated(state.room, members=(*state.room.members, member), left=left).with_sides())


def with_persona(state: ConversationState, member: RoomMember) -> ConversationState:
    """Give a member the name and the character that its persona has now."""
    if state.room is None or state.room.member(member.name) is None:
        return state
    persona = {name: getattr(member, name) for name in PERSONA_FIELDS}
    return replace(state, room=_with_member(state.room, member.name, **persona))


# people


def waiting(state: ConversationState) -> ConversationState:
    """Tell the thread, once, that the room waits for a person to name the next speaker."""
    room = state.room
    if room is None or room.wait_noted:
        return state
    lined = room.with_line("waits", *(each.shown for each in room.members))
    return replace(state, room=lined).with_room(wait_noted=True)


def with_unclear_name(state: ConversationState, heard: PersonMessage) -> ConversationState:
    """If the room waits for a name, tell the thread that the message's name fits several members."""
    room = state.room
    if room is None or state.queue.waits_until is None:
        return state
    groups = calls_in(heard.text, {member.name: member.shown for member in room.members})
    if not groups or len(groups[0]) == 1 or heard.called or heard.replied_to in room.names:
        return state
    shown = (member.shown for member in room.members if member.name in groups[0])
    return replace(state, room=room.with_line("unclear", *shown))


def with_lines_of(state: ConversationState, known: ConversationState) -> ConversationState:
    """Return the state after a step, with the lines that others added meanwhile before the step's own."""
    if state.room is None or known.room is None or state.room.lines == known.room.lines:
        return state
    own = [line for line in state.room.lines if line not in known.room.lines]
    room = _updated(state.room, lines=known.room.lines)
    for line in own:
        room = room.with_line(line.kind, *line.members, why=line.why)
    return replace(state, room=room)


def _updated(room: Room, **changes: object) -> Room:
    return room.model_copy(update=changes)
