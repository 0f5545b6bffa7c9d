"""The view of a turn in a room: its brief, and of the thread's messages those of its members and its audience."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agent_cogs.answer.schema import FORM, DecisionForm, room_form
from agent_cogs.events import InstructionEvent, TurnEvent
from agent_context.build import Identity
from agent_context.entries import Entry
from agent_context.layout.room import RoomTurn
from agent_protocol.wire.messages import Instruction


def in_room(event: TurnEvent) -> bool:
    return isinstance(event, InstructionEvent) and event.instruction.room is not None


def room_turn(given: Instruction | None, inner: Mapping[str, str], names: Mapping[str, str]) -> RoomTurn | None:
    """The brief of a turn in a room; None outside of rooms. `names` maps agents' keys to shown names, and `inner` to
    those by which they go in this channel, which then is a member's name too."""
    brief = given.room if given is not None else None
    if given is None or brief is None:
        return None
    called = {names[key]: name for key, name in inner.items() if key in names}
    return RoomTurn(
        topic=given.topic or "",
        turn_number=brief.turn_number,
        turns=brief.turns,
        rules=brief.rules,
        members=tuple(called.get(name, name) for name in brief.members),
        names_next=brief.names_next,
    )


def form_in(room: RoomTurn | None) -> DecisionForm:
    """The form of an answer, in a room or anywhere else."""
    return FORM if room is None else room_form(names_next=room.names_next)


def with_members(me: Identity, room: RoomTurn | None) -> Identity:
    """The identity of an agent that knows the members' names too: a person may not go by one of them."""
    if room is None:
        return me
    others = (*me.others, *(name for name in room.names if name != me.display_name))
    return replace(me, others=tuple(dict.fromkeys(others)))


def room_entries(entries: Iterable[Entry]) -> list[Entry]:
    """The messages of members and of people, who are the audience; those of other bots and foreign webhooks are left
    out."""
    return [_marked(entry) for entry in entries if entry.speaker.kind != "stranger"]


def _marked(entry: Entry) -> Entry:
    if entry.speaker.kind != "person":
        return entry
    return replace(entry, speaker=replace(entry.speaker, audience=True))
