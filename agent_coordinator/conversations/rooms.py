"""The pure transitions that a room adds to a conversation: numbered turns, members who leave, slots for the audience,
and ends of its own in place of those of its policy.

The room is in the conversation's state, so that both are stored in one step. A turn that posts has the next number; one
that does not, whatever the cause, has used none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from agent_coordinator.conversations.entries import is_post, is_skip
from agent_coordinator.conversations.state import ConversationState, Missed
from agent_protocol.coordination.endings import ENDINGS, EndReason
from agent_protocol.coordination.rooms import FEWEST_MEMBERS, MOST_FAILURES, MOST_MEMBERS, Room, RoomMember
from agent_protocol.wire.messages import MAX_TOPIC, Result, RoomBrief

log = logging.getLogger(__name__)

ROOM_TURN_SECONDS = 60.0
RETRY_SECONDS = 5.0
MOST_UNSEEN = 2  # turns in a row whose agents did not see the thread, and the room pauses
IDLE_ROUNDS = 2  # so many turns a member with nothing to say, and the room closes

FAILURES = frozenset(
    {
        "agent_budget",
        "benched",
        "daily_limit",
        "deadline",
        "discord_failed",
        "internal_error",
        "invalid",
        "model_failed",
        "picture_failed",
        "refused",
        "session_lost",
        "unknown_action",
        "unknown_channel",
        "unreadable",
    }
)
"""Reasons of results for which a member leaves after some in a row; the others are skips."""
UNSEEN = "unknown_channel"
"""The agent does not see the thread: no reason to end at the first time, since after a restart its server may still be
on its way, as a thread may that is just brought back from the archive."""
ENDS: Mapping[str, EndReason] = {
    "budget": "budget",
    "person_budget": "budget",  # of the person who opened it
    "stopped": "stopped",
    "not_permitted": "no_access",
}
"""Reasons of results that end the room for all."""


def conversation_of(room: Room, theme: str) -> ConversationState:
    """The state of a room's conversation where none is stored. Its messages are in the thread."""
    return ConversationState(
        room.conversation_id,
        room.thread_id,
        theme,
        started_at=room.opened_at,
        topic=room.topic[:MAX_TOPIC],
        round_number=room.rounds,
        last_speaker=room.last_speaker,
        last_in_order=room.last_speaker,
        policy=room.policy,
        room=room,
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
    )


# turns


def retry_pause(state: ConversationState) -> float:
    """Seconds to wait before the next turn where the last one failed: an agent that starts again needs a moment."""
    last = state.room and state.last_in_order and state.room.member(state.last_in_order)
    return RETRY_SECONDS if last and (last.failures or last.name in state.away) else 0.0


def after_turn(state: ConversationState, room: Room, agent: str, outcome: Result | Missed) -> ConversationState:
    """The room's part of a turn that the conversation has recorded: its number, its cost, who leaves, the end."""
    if isinstance(outcome, str):
        return _after_no_answer(state, _updated(room, rounds=state.round_number), agent, outcome)
    room = _updated(
        room,
        rounds=state.round_number,
        skips=room.skips + is_skip(outcome),
        cost_usd=room.cost_usd + (outcome.usage.cost_usd if outcome.usage else 0.0),
    )
    if is_post(outcome):
        room = _updated(room, turn_number=room.turn_number + 1, last_speaker=agent, starter=room.starter or agent)
    failed = outcome.skipped and outcome.reason in FAILURES
    state = _after(state, room, agent, posted=is_post(outcome), failed=failed)
    state = replace(state, away=(), unseen=state.unseen + 1 if outcome.reason == UNSEEN else 0)
    if outcome.leaves:
        state = without_member(state, agent)
    reason = "no_access" if state.unseen >= MOST_UNSEEN else _end_by(outcome, room)
    return state if reason is None or room.status != "active" else state.ended(reason)


def _after_no_answer(state: ConversationState, room: Room, agent: str, missed: Missed) -> ConversationState:
    """A failure of the member; but where all are absent, one after the other, their program is down: the room waits."""
    away = (*(other for other in state.away if other != agent), agent) if missed == "absent" else ()
    if set(room.names) <= set(away):
        return replace(state, room=room, away=away)
    return _after(replace(state, away=away), room, agent, posted=False, failed=True)


def _after(state: ConversationState, room: Room, agent: str, *, posted: bool, failed: bool) -> ConversationState:
    """Count the turns with nothing to say and the member's failures, both in a row; after too many failures it
    leaves."""
    counted = [
        member.model_copy(update={"failures": member.failures + 1 if failed else 0}) if member.name == agent else member
        for member in room.members
    ]
    room, idle_turns = _updated(room, members=tuple(counted)), 0 if posted else state.idle_turns + (not failed)
    state, member = replace(state, room=room, idle_turns=idle_turns), room.member(agent)
    if member is not None and member.failures >= MOST_FAILURES:
        log.warning("%s leaves the room in thread %d: %d failures in a row", agent, room.thread_id, member.failures)
        state = without_member(state, agent)
    return state


def ending(state: ConversationState, room: Room) -> EndReason | None:
    """Why the room ends before its next turn, None to continue."""
    if room.status != "active":  # a person wanted it so during the last turn
        return _known(room.why)
    if len(room.members) < FEWEST_MEMBERS:
        return "too_few_left"
    if room.turn_number >= room.turns:
        return "turn_limit"
    if state.agreed_to_end:
        return "agreed"
    return "most_skipped" if state.idle_turns >= IDLE_ROUNDS * len(room.members) else None


def ended(state: ConversationState, because: EndReason) -> ConversationState:
    """The room is paused or closed, by the reason, whatever it was, once the turn that is under way is over."""
    return state if state.room is None else replace(state, room=state.room.ended(because))


def paused(state: ConversationState, because: EndReason) -> ConversationState:
    """An active room is paused, by the reason, once the turn that is under way is over."""
    return ended(state, because) if state.room is not None and state.room.status == "active" else state


def resumed(state: ConversationState, turns: int) -> ConversationState:
    """The room is active, with that limit of turns; all have a clean slate, and a slot that was cut short is over."""
    if state.room is None:
        return state
    members = tuple(member.model_copy(update={"failures": 0}) for member in state.room.members)
    room = _updated(after_slot(state.room), status="active", why=None, turns=turns, members=members)
    return replace(state, room=room, idle_turns=0, end_streak=0, unseen=0)


def is_goodbye(text: str) -> bool:
    """Whether the text is a goodbye and nothing else, in any spelling."""
    return re.sub(r"[\W_]+", "", text.casefold()) == "goodbye"


def _known(why: str | None) -> EndReason:
    """The reason; one that another version wrote is a person's wish."""
    return cast(EndReason, why) if why in ENDINGS else "paused"


def _end_by(result: Result, room: Room) -> EndReason | None:
    if room.goodbye_ends and is_post(result) and is_goodbye(result.text or ""):
        return "goodbye"
    # "budget" comes with the last turn that could be paid, or with none.
    return ENDS.get(result.reason or "") if result.skipped or result.reason == "budget" else None


# members


def without_member(state: ConversationState, agent: str) -> ConversationState:
    """The member leaves. A turn of its that is under way is still recorded."""
    if state.room is None or (member := state.room.member(agent)) is None:
        return state
    room = _updated(
        state.room,
        members=tuple(other for other in state.room.members if other.name != agent),
        left=(*(other for other in state.room.left if other.name != agent), member),
    )
    keeps = state.pending[:1] if state.asking else ()
    pending = (*keeps, *(other for other in state.pending[len(keeps) :] if other != agent))
    return replace(state, room=room, pending=pending, requested=None if state.requested == agent else state.requested)


def without_strangers(state: ConversationState) -> ConversationState:
    """A request for an agent that is no member, or no longer, is dropped."""
    if state.room is None or state.requested is None or state.room.member(state.requested) is not None:
        return state
    return replace(state, requested=None)


def with_member(state: ConversationState, member: RoomMember) -> ConversationState:
    """The member joins, as the last in the order. A room that is full, since two were added at once, stays as it is."""
    if state.room is None or state.room.member(member.name) is not None or len(state.room.members) >= MOST_MEMBERS:
        return state
    left = tuple(other for other in state.room.left if other.name != member.name)
    return replace(state, room=_updated(state.room, members=(*state.room.members, member), left=left))


# slots for the audience


def slot_is_due(room: Room) -> bool:
    """Whether the thread is the audience's: as many posts as there are members came after the last slot."""
    if room.slot_until is not None:
        return True
    return room.has_slots and room.turn_number - room.slot_turn >= len(room.members)


def with_slot(room: Room, until: float) -> Room:
    return _updated(room, slot_until=until)


def after_slot(room: Room) -> Room:
    return _updated(room, slot_until=None, slot_turn=room.turn_number)


def speaking_next(state: ConversationState, agent: str | None) -> ConversationState:
    """The agent speaks next, or the next one at once; a slot for the audience is over."""
    if state.room is not None and state.room.slot_until is not None:
        state = replace(state, room=after_slot(state.room))
    return state if agent is None else replace(state, requested=agent)


def _updated(room: Room, **changes: object) -> Room:
    return room.model_copy(update=changes)
