"""The audience of a room: which messages of people its members must answer, and the slots in which people have the
thread.

People mostly write for each other ("lol"). A member must answer a message only if it asks something, names or calls a
member, or people reacted to it. The others are in the members' prompts and bind nobody. Messages wait until a turn has
answered them, also while the room is paused: a member's next turn answers those for it, and the next turn of all those
for nobody in particular.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from agentic.questions import is_question
from agentic.state.conversation_state import ConversationState
from agentic.state.rooms import Room
from agentic.state.talk import PersonMessage
from agentic.text import calls_in
from agentic.wire.reasons import EndReason

AUDIENCE_PHASE = "audience"
PHASE_SECONDS = 60.0  # of a slot in a room with polls or an audience phase, unless its opener chose a length
RESTART_SECONDS = 15.0  # of a slot that was open when the program ended: the bots read what they missed meanwhile
VOTED_ENDS: frozenset[EndReason] = frozenset(
    {"turn_limit", "agreed", "goodbye", "repeating", "budget", "person_budget"}
)
"""Ends before which the audience has a last slot, to vote."""


def in_room(room: Room, heard: PersonMessage, called: Sequence[str] = ()) -> PersonMessage:
    """Return a person's message with the members that it names, in order, and the members it calls: by @mention, role,
    or reply, because they are in `called`, or by name in a question. They answer with their next turn. A name that fits
    several members names nobody."""
    members = {member.name: member.shown for member in room.members}
    groups = calls_in(heard.text, members)
    unclear = {agent for group in groups if len(group) > 1 for agent in group}
    calling = [agent for agent in dict.fromkeys((*called, *heard.called, heard.replied_to)) if agent in members]
    clear = [group[0] for group in groups if len(group) == 1]
    known = dict.fromkeys((*calling, *(agent for agent in (*heard.names, *clear) if agent not in unclear)))
    names = tuple(agent for agent in known if agent in members)
    calls = heard.calls and not calling
    asks = heard.asks or is_question(heard.text)
    if asks and not calling and not calls:
        calling = [*names[:1]]
    return replace(heard, names=names, called=tuple(calling), calls=calls, asks=asks)


def hearing(state: ConversationState, heard: PersonMessage) -> ConversationState:
    """Return the state after a person wrote. A message that is reported again changes nothing."""
    known = state.talk.known(heard.message_id)
    if known is None and heard.message_id <= state.talk.answered:
        return state
    after = state.hear(heard)
    new = tuple(agent for agent in heard.called if known is None or agent not in known.called)
    if after is state and not new:
        return state
    return after.with_queue(called=(*(agent for agent in after.queue.called if agent not in new), *new))


def heard_while_paused(state: ConversationState, heard: PersonMessage) -> ConversationState:
    """Keep a person's message until the room is resumed. Bots answer a call right away, even in a paused room."""
    room = state.room
    if room is None or room.status != "paused" or heard.calls:
        return state
    return hearing(state, in_room(room, heard))


def withdrawn(state: ConversationState, deleted: Collection[int]) -> ConversationState:
    """Forget people's messages that were deleted, and the calls in them."""
    room, heard = state.room, tuple(each for each in state.talk.heard if each.message_id not in deleted)
    if room is None or len(heard) == len(state.talk.heard):
        return state
    waited_for = {agent for each in heard if each.called for agent in each.waits_for(room.names) or ()}
    called = tuple(agent for agent in state.queue.called if agent in waited_for)
    return state.with_talk(heard=heard).with_queue(called=called)


def with_called(state: ConversationState) -> ConversationState:
    """Let the first member that people called speak next, unless somebody requested another member or the audience has
    the thread."""
    room = state.room
    if room is None or state.queue.requested is not None or not state.queue.called:
        return state
    if room.slot_until is not None or room.closing_because is not None:
        return state
    agent, *rest = state.queue.called
    state = state.with_queue(called=tuple(rest))
    return state.request(agent) if room.member(agent) is not None else with_called(state)


# slots


def slot_is_due(room: Room) -> bool:
    """Whether the audience has the thread, or gets it now: after as many posts as there are members, before the
    format's audience phase, and for votes before the room closes."""
    if room.slot_until is not None:
        return True
    if room.closing_because is not None:
        return not last_slot_is_over(room)
    if room.has_slots and room.turn_number - room.slot_turn >= len(room.members):
        return True
    is_new = room.phase_turns == () and not room.phase_noted
    return is_new and room.phase == AUDIENCE_PHASE and room.slot_turn < room.turn_number


def slot_seconds(room: Room) -> float:
    """Return the length of a slot; 0 in a room without any."""
    has_phase = any(phase.name == AUDIENCE_PHASE for phase, _ in room.schedule())
    return room.audience_seconds or (PHASE_SECONDS if has_phase or room.poll else 0.0)


def reopened(state: ConversationState, now: float) -> ConversationState:
    """Return the state after a restart: people get the rest of a slot, and time to ask again if it's short."""
    if state.room is None or state.room.slot_until is None:
        return state
    return state.with_room(slot_until=max(state.room.slot_until, now + RESTART_SECONDS))


def end_slot(state: ConversationState) -> ConversationState:
    """Give the thread back to the members, and tell it how many messages they answer, and who is next."""
    room = state.room
    if room is None or room.slot_until is None:
        return state
    if room.closing_because is None:
        waiting = [each for each in state.talk.heard if each.waits_for(room.names) is not None]
        shown = [member.shown for member in room.members if member.name == state.next_speaker]
        state = replace(state, room=room.with_line("slot", *shown, why=str(len(waiting))))
    return state.with_room(slot_until=None, slot_turn=room.turn_number)


def close(state: ConversationState, because: EndReason) -> ConversationState:
    """End the conversation. In a room with slots or polls, the audience first has a last slot, to vote, unless nobody
    posted."""
    room = state.room
    if room is None or because not in VOTED_ENDS or room.status != "active" or not room.turn_number:
        return state.ended(because)
    if not slot_seconds(room) or (room.closing_because is not None and last_slot_is_over(room)):
        return state.ended(because)
    if room.closing_because is not None:
        return state
    return state.with_room(closing_because=because, slot_turn=-1)


def last_slot_is_over(room: Room) -> bool:
    return room.slot_until is None and room.slot_turn >= 0


def speaking_next(state: ConversationState, agent: str | None) -> ConversationState:
    """Let the agent speak next, without a pause; None: the policy's next. A slot for the audience is over."""
    if agent is not None and (state.room is None or state.room.closing_because is None):
        state = state.request(agent)
    state = end_slot(state)
    if agent is not None or (state.room is not None and state.room.closing_because is not None):
        return state
    return state.with_room(next_turn_at=None).with_queue(hurried=True)  # the pace applies from the next post
