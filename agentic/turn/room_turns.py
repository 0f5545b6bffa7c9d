"""What a room adds to a turn.

The view of a turn in a room: its brief, its summary, and of the thread's messages those of its members and its
audience.

The agent's side of a turn in a room: whether its number is still wanted, and who speaks next.

Only the coordinator that leads writes a room; here it is read. A turn is taken where its number is the room's plus one
and the room is active. What cannot be known is not guessed: while Redis is away a turn waits to be admitted, at most
until its deadline. So none is posted twice, and none is lost by it, since the coordinator asks for a number until it is
posted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentic.agent.agent import Agent, Turn
from agentic.agent.events import InstructionEvent, TurnEvent
from agentic.chat.outlet import Outlet
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry, is_visible
from agentic.context.prompt import Identity, RoomTurn
from agentic.state.context import Summary
from agentic.state.rooms import Room
from agentic.text import calls_in, named
from agentic.turn.decision import FORM, DecisionForm, room_form
from agentic.wire.connection import RedisAway
from agentic.wire.messages import Instruction
from agentic.wire.reasons import TurnOver

log = logging.getLogger(__name__)


def in_room(event: TurnEvent) -> bool:
    return isinstance(event, InstructionEvent) and event.instruction.room is not None


def room_turn(
    given: Instruction | None, inner: Mapping[str, str], names: Mapping[str, str], *, reacts: bool = True
) -> RoomTurn | None:
    """The brief of a turn in a room; None outside of rooms. `names` maps agents' keys to shown names, and `inner` to
    those by which they go in this channel, which then is a member's name too. `reacts`: the agent may react."""
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
        reacts=reacts,
        goodbye_ends=brief.goodbye_ends,
    )


def form_in(room: RoomTurn | None) -> DecisionForm:
    """The form of an answer, in a room or anywhere else."""
    return FORM if room is None else room_form(names_next=room.names_next, reacts=room.reacts)


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


async def room_summary(turn: Turn, reset: int) -> Summary | None:
    """The summary that a turn in a room is shown; None for none, for one with messages from before the agent's last
    reset, and for one with a message that was deleted or hidden since, which is dropped."""
    summary = await turn.agent.summaries.read(turn.event.channel_id)
    if summary is None or summary.first <= reset:
        return None
    if not _is_outdated(summary, turn.outlet.view.transcript):
        return summary
    try:
        await turn.agent.summaries.drop(turn.event.channel_id)
    except RedisAway:
        log.info("room %d: its summary is dropped once Redis is back", turn.event.channel_id)
    return None


def _is_outdated(summary: Summary, transcript: Transcript) -> bool:
    """Whether one of its messages is no longer to be seen."""
    if any(map(summary.covers, transcript.deleted)):
        return True
    return any(not is_visible(entry) for entry in transcript.entries() if entry.id in summary.messages)


RETRY_SECONDS = 0.5  # while Redis is away


def number_in_room(event: TurnEvent) -> int | None:
    """The number of a turn in its room; None outside of rooms."""
    return event.room_number if isinstance(event, InstructionEvent) else None


async def room_now(agent: Agent, event: TurnEvent) -> Room | None:
    """The room of a turn, as it stands; None for none, and while Redis is away."""
    try:
        return await agent.rooms.read(event.channel_id)
    except RedisAway:
        log.info("%s: turn %s waits for Redis, which has its room", agent.key, event.id)
        return None


def wants(room: Room | None, event: TurnEvent) -> bool:
    """Whether the room waits for this turn; True outside of rooms."""
    number = number_in_room(event)
    if number is None:
        return True
    return room is not None and room.status == "active" and number == room.turn_number + 1


def enter_room(outlet: Outlet, room: Room | None) -> None:
    """Let a member write in a thread that is locked between the slots of its audience."""
    if room is not None and room.has_slots:
        outlet.sink.ignore_lock()


async def admit_to_room(turn: Turn, room: Room | None) -> Room | None:
    """Return the turn's room, None outside of rooms: as it was read when the turn was claimed, or, where it could not
    be, as soon as Redis is back.

    Raises TurnOver("out_of_turn").
    """
    if room is None and number_in_room(turn.event) is not None:
        room = await _read_patiently(turn)
    if not wants(room, turn.event):
        raise TurnOver("out_of_turn")
    enter_room(turn.outlet, room)
    return room


async def _read_patiently(turn: Turn) -> Room | None:
    """The room, read until Redis answers; the turn's deadline ends it."""
    while True:
        try:
            return await turn.agent.rooms.read(turn.event.channel_id)
        except RedisAway:
            await asyncio.sleep(RETRY_SECONDS)


async def check_room(turn: Turn) -> None:
    """Look at the room once more before the post: it may have been paused while the model thought. While Redis is away
    the turn is posted, since its deadline has not come and nobody else was asked yet.

    Raises TurnOver("out_of_turn").
    """
    try:
        room = await turn.agent.rooms.read(turn.event.channel_id)
    except RedisAway:
        return
    if not wants(room, turn.event):
        raise TurnOver("out_of_turn")


def named_next(room: Room | None, name: str | None, own: str, inner: Mapping[str, str]) -> str | None:
    """The key of the member that a model names, also in a sentence; None for the agent itself, nobody, and a name that
    fits two members. `inner`: agent → the name by which models know it in this channel."""
    if room is None or not name:
        return None
    members = {member.name: inner.get(member.name, member.shown) for member in room.members}
    shown = {member.name: member.shown for member in room.members}
    exact = named(members, name) or named(shown, name)
    found = [exact] if exact else calls_in(name, members) or calls_in(name, shown)
    others = [group for group in found if own not in group]
    if others and len(others[0]) > 1:
        log.info("%s: named nobody for the next turn: %r could be %s", own, name, " or ".join(others[0]))
    return others[0][0] if others and len(others[0]) == 1 else None
