"""What a room adds to a conversation: numbered turns, members who leave, slots for the audience, endings of its own.

The room is part of the conversation's state, so that both are stored in one step. Only turns that post are numbered.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import cast

from agentic.state.conversation_state import (
    ConversationState,
    Counts,
    Missed,
    PersonMessage,
    SpeakerQueue,
    Talk,
    is_post,
    is_skip,
)
from agentic.state.rooms import MAX_FAILURES, MAX_MEMBERS, MIN_MEMBERS, Room, RoomMember
from agentic.text import calls_in, names_in
from agentic.wire.messages import MAX_TOPIC, Result, RoomBrief
from agentic.wire.reasons import ENDINGS, EndReason

log = logging.getLogger(__name__)

MIN_ROOM_TURN_SECONDS = 60.0
SLOW_TURN_SECONDS = 20.0  # from which on the thread is told how long a member thinks
RETRY_SECONDS = 5.0
MAX_UNSEEN = 2  # the room pauses after this many turns in a row whose agents don't see the thread
IDLE_ROUNDS = 2  # without a post; after them the room closes
FAIR_TURNS = 2  # that each member gets before agreement, repetition, or a goodbye may close the room
CHOSE, REMOVED, DELETED = "chose", "removed", "deleted"  # why a member left, besides reasons of results

FAILURES = frozenset(
    {
        *("agent_budget", "benched", "daily_limit", "deadline", "discord_failed", "internal_error", "invalid"),
        *("model_failed", "picture_failed", "refused", "session_lost", "unknown_action", "unknown_channel"),
        "unreadable",
    }
)
"""Reasons of results that count as failures: after MAX_FAILURES in a row, a member leaves. Others are skips."""
UNSEEN = "unknown_channel"
"""The agent doesn't see the thread. Once is no reason to end: after a restart Discord may not have sent its server yet,
or the thread may just be coming back from the archive."""
PASSING = frozenset({"absent", UNSEEN})
"""Failures that are reported in the thread only the second time: they are common after a restart or a resume."""
ENDS: Mapping[str, EndReason] = {
    "budget": "budget",
    "person_budget": "budget",  # of the person who opened it
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


def brief_for(room: Room, agent: str) -> RoomBrief:
    number = room.turn_number + 1
    return RoomBrief(
        turn_number=number,
        turns=room.turns,
        policy=room.policy,
        rules=room.rules,
        members=tuple(member.shown for member in room.members),
        names_next=room.policy == "moderated" and room.moderator == agent,
        closing=number >= room.turns,
        goodbye_ends=room.goodbye_ends,
    )


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


def after_turn(state: ConversationState, room: Room, agent: str, outcome: Result | Missed) -> ConversationState:
    """Apply a recorded turn to the room: its number, its cost, who leaves, whether it ends."""
    room = _updated(room, rounds=state.counts.round)
    reason = outcome if isinstance(outcome, str) else outcome.reason
    if isinstance(outcome, str) or reason == "benched":
        # A failure of the member. But if all are absent, one after the other, their program or provider is down: the
        # room waits.
        is_absent = reason in ("absent", "benched")
        away = (*(other for other in state.counts.away if other != agent), agent) if is_absent else ()
        state = replace(state, counts=replace(state.counts, away=away))
        if set(room.names) <= set(away):
            return replace(state, room=room)
        return _after(state, room, agent, posted=False, failure=reason)
    room = _updated(
        room,
        skips=room.skips + is_skip(outcome),
        cost_usd=room.cost_usd + (outcome.usage.cost_usd if outcome.usage else 0.0),
    )
    if is_post(outcome):
        room = _updated(room, turn_number=room.turn_number + 1, last_speaker=agent, starter=room.starter or agent)
    member = room.member(agent)
    if member is not None and (is_post(outcome) or outcome.reason in (None, "skipped")):
        room = _with_member(room, agent, turns_taken=member.turns_taken + 1)
    failure = outcome.reason if outcome.skipped and outcome.reason in FAILURES else None
    state = _after(state, room, agent, posted=is_post(outcome), failure=failure)
    unseen = state.counts.unseen + 1 if outcome.reason == UNSEEN else 0
    state = replace(state, counts=replace(state.counts, away=(), unseen=unseen))
    if outcome.leaves:
        state = without_member(state, agent, CHOSE)
    reason = "no_access" if state.counts.unseen >= MAX_UNSEEN else _end_by(outcome, room)
    return state if reason is None or room.status != "active" else state.ended(reason)


def _after(state: ConversationState, room: Room, agent: str, *, posted: bool, failure: str | None) -> ConversationState:
    """Count turns without a post and the member's failures in a row. The thread is told of its first failure (of a
    PASSING one, the second). After MAX_FAILURES, the member leaves."""
    member = room.member(agent)
    failures = member.failures + 1 if failure and member else 0
    room = _with_member(room, agent, failures=failures)
    idle_turns = 0 if posted else state.counts.idle_turns + (failure is None)
    state = replace(state, room=room, counts=replace(state.counts, idle_turns=idle_turns))
    if member is None or failure is None:
        return state
    if failures >= MAX_FAILURES:
        log.warning("%s leaves the room in thread %d: %d failures in a row", agent, room.thread_id, failures)
        return without_member(state, agent, failure)
    if not member.failure_noted and (failure not in PASSING or failures > 1):
        room = _with_member(room, agent, failure_noted=True).with_line("failed", member.shown, why=failure)
    return replace(state, room=room)


def _with_member(room: Room, agent: str, **changes: object) -> Room:
    members = (each.model_copy(update=changes) if each.name == agent else each for each in room.members)
    return _updated(room, members=tuple(members))


def ending(state: ConversationState, room: Room) -> EndReason | None:
    """Return why the room ends before its next turn, or None to continue."""
    if room.status != "active":  # a person ended it during the last turn
        return cast(EndReason, room.why) if room.why in ENDINGS else "paused"  # another version's reason
    if len(room.members) < MIN_MEMBERS:
        return "too_few_left"
    if room.turn_number >= room.turns:
        return "turn_limit"
    if state.counts.agreed_to_end and may_end_early(state):
        return "agreed"
    return "most_skipped" if state.counts.idle_turns >= IDLE_ROUNDS * len(room.members) else None


def may_end_early(state: ConversationState) -> bool:
    """Whether what agents say may end the conversation before its limit. In a room, each member must first have had
    FAIR_TURNS turns since it was opened or resumed."""
    return state.room is None or all(member.turns_taken >= FAIR_TURNS for member in state.room.members)


def ended(state: ConversationState, because: EndReason) -> ConversationState:
    """Pause or close the room, depending on the reason, after the current turn."""
    return state if state.room is None else replace(state, room=state.room.ended(because))


def paused(state: ConversationState, because: EndReason) -> ConversationState:
    """Pause an active room after the current turn."""
    return ended(state, because) if state.room is not None and state.room.status == "active" else state


def resumed(state: ConversationState, turns: int) -> ConversationState:
    """Make the room active, with a limit of `turns`. Failure counts are reset, and a slot is over."""
    if state.room is None:
        return state
    clean = {"failures": 0, "failure_noted": False, "turns_taken": 0, "thinking_noted": 0}
    members = tuple(member.model_copy(update=clean) for member in state.room.members)
    room = after_slot(state.room)
    room = _updated(room, status="active", why=None, turns=turns, members=members, wait_noted=False)
    return replace(state, room=room, counts=replace(state.counts, idle_turns=0, end_streak=0, unseen=0))


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
    room = room.with_line("left", member.shown, why=why)
    keeps = state.queue.pending[:1] if state.queue.asking else ()
    pending = (*keeps, *(other for other in state.queue.pending[len(keeps) :] if other != agent))
    requested = None if state.queue.requested == agent else state.queue.requested
    called = tuple(other for other in state.queue.called if other != agent)
    queue = replace(state.queue, pending=pending, requested=requested, called=called)
    return replace(state, room=room, queue=queue)


def without_deleted(state: ConversationState, agents: Collection[str]) -> ConversationState:
    """Let members leave whose personas were deleted."""
    for agent in agents:
        state = without_member(state, agent, DELETED)
    return state


def without_strangers(state: ConversationState) -> ConversationState:
    """Drop a request for an agent that isn't a member."""
    if state.room is None or state.queue.requested is None or state.room.member(state.queue.requested) is not None:
        return state
    return state.request(None)


def with_member(state: ConversationState, member: RoomMember) -> ConversationState:
    """Add the member as the last in order. A full room, as after two additions at once, doesn't change."""
    if state.room is None or state.room.member(member.name) is not None or len(state.room.members) >= MAX_MEMBERS:
        return state
    left = tuple(other for other in state.room.left if other.name != member.name)
    return replace(state, room=_updated(state.room, members=(*state.room.members, member), left=left))


# people


def in_room(room: Room, heard: PersonMessage, called: Sequence[str] = ()) -> PersonMessage:
    """Return a person's message with the members that it names, in order, and those that it calls: by @mention, role,
    or reply, or because they are in `called`. They answer with their next turn."""
    members = {member.name: member.shown for member in room.members}
    replied_to = (heard.replied_to,) if heard.replied_to in members else ()
    known = (*called, *replied_to, *heard.names, *names_in(heard.text, members))
    names = tuple(dict.fromkeys(name for name in known if name in members))
    calling = tuple(name for name in dict.fromkeys((*called, *heard.called)) if name in members)
    return replace(heard, names=names, called=calling, calls=heard.calls and not calling)


def hearing(state: ConversationState, heard: PersonMessage) -> ConversationState:
    """Return the state after a person wrote. A message that is reported again changes nothing."""
    if heard.message_id <= state.talk.answered:
        return state
    before = next((each.called for each in state.talk.heard if each.message_id == heard.message_id), ())
    after = state.hear(heard)
    new = tuple(agent for agent in heard.called if agent not in before)
    if after is state and not new:
        return state
    called = (*(agent for agent in after.queue.called if agent not in new), *new)
    return replace(after, queue=replace(after.queue, called=called))


def with_called(state: ConversationState) -> ConversationState:
    """Let the first member that people called speak next, unless somebody requested another member or the audience has
    the thread."""
    room = state.room
    if room is None or state.queue.requested is not None or not state.queue.called or room.slot_until is not None:
        return state
    agent, *rest = state.queue.called
    state = replace(state, queue=replace(state.queue, called=tuple(rest)))
    return state.request(agent) if room.member(agent) is not None else with_called(state)


def waiting(state: ConversationState) -> ConversationState:
    """Tell the thread, once, that the room waits for a person to name the next speaker."""
    room = state.room
    if room is None or room.wait_noted:
        return state
    return replace(
        state, room=_updated(room, wait_noted=True).with_line("waits", *(each.shown for each in room.members))
    )


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


# slots for the audience


def slot_is_due(room: Room) -> bool:
    """Whether the audience has the thread, or gets it now: after as many posts as there are members."""
    if room.slot_until is not None:
        return True
    return room.has_slots and room.turn_number - room.slot_turn >= len(room.members)


def after_slot(room: Room) -> Room:
    return _updated(room, slot_until=None, slot_turn=room.turn_number)


def speaking_next(state: ConversationState, agent: str | None) -> ConversationState:
    """Let the agent (None: the next in order) speak next. A slot for the audience is over."""
    if state.room is not None and state.room.slot_until is not None:
        state = replace(state, room=after_slot(state.room))
    return state if agent is None else state.request(agent)


def _updated(room: Room, **changes: object) -> Room:
    return room.model_copy(update=changes)
