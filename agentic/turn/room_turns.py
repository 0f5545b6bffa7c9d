"""A room's part in a turn: its brief, its summary, whose messages are shown, and whether it still expects the turn.

Only the leading coordinator writes a room; turns read it. A turn is taken if the room is active and the turn's number
is the room's plus one. While Redis is unavailable, the turn waits until its deadline. So no turn is posted twice, and
none is lost, since the coordinator asks for a number until it's posted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from agentic.agent.events import InstructionEvent, TurnEvent
from agentic.chat.outlet import Outlet
from agentic.context.entries import Entry, is_visible, one_line
from agentic.context.prompt import FormatTurn, RoomTurn
from agentic.state.context import Summary
from agentic.state.rooms import Room, RoomStore
from agentic.text import calls_in, named
from agentic.turn.progress import Turn
from agentic.wire.connection import or_default, wait_for_redis
from agentic.wire.messages import Instruction
from agentic.wire.reasons import TurnAborted

log = logging.getLogger(__name__)


def in_room(event: TurnEvent) -> TypeGuard[InstructionEvent]:
    return isinstance(event, InstructionEvent) and event.instruction.room is not None


@or_default(None, "turns in rooms wait")
async def read_room(rooms: RoomStore, event: TurnEvent) -> Room | None:
    """Return the turn's room; None if there is none, or while Redis is unavailable."""
    return await rooms.read(event.channel_id)


def is_expected_turn(room: Room | None, event: TurnEvent) -> bool:
    """Return whether the room waits for this turn; True outside of rooms."""
    brief = event.instruction.room if isinstance(event, InstructionEvent) else None
    if brief is None:
        return True
    return room is not None and room.status == "active" and brief.turn_number == room.turn_number + 1


def ignore_own_lock(outlet: Outlet, room: Room | None) -> None:
    """Let a member write in a thread that is only unlocked for its audience during breaks."""
    if room is not None and room.has_slots:
        outlet.sink.ignore_lock()


async def admit_to_room(turn: Turn) -> None:
    """Make sure that the turn's room waits for it. If the room couldn't be read when the turn was claimed, wait for
    Redis, at most until the turn's deadline. Raises TurnAborted("out_of_turn")."""
    event, state = turn.event, turn.state
    if in_room(event) and state.room is None:
        state.room = await wait_for_redis(lambda: turn.state.shared.coordination.rooms.read(event.channel_id))
    if not is_expected_turn(state.room, event):
        raise TurnAborted("out_of_turn")
    ignore_own_lock(turn.outlet, state.room)


async def check_room(turn: Turn) -> None:
    """Check the room again before the post, since it may have been paused while the model was answering. If Redis is
    unavailable, the turn is posted: nobody else is asked before its deadline. Raises TurnAborted("out_of_turn")."""
    read = or_default(turn.state.room, "rooms are not checked again before posts")(
        turn.state.shared.coordination.rooms.read
    )
    if not is_expected_turn(await read(turn.event.channel_id), turn.event):
        raise TurnAborted("out_of_turn")


def next_member(room: Room | None, name: str | None, own: str, inner: Mapping[str, str]) -> str | None:
    """Return the key of the member that a model names, perhaps in a sentence; None for the agent itself, for nobody,
    and for a name that fits two members. `inner` maps agents to their names in this channel."""
    if room is None or not name:
        return None
    members = {member.name: inner.get(member.name, member.shown) for member in room.members}
    shown = {member.name: member.shown for member in room.members}
    exact = named(members, name) or named(shown, name)
    found = [exact] if exact else calls_in(name, members) or calls_in(name, shown)
    others = [group for group in found if own not in group]
    if others and len(others[0]) > 1:
        log.info("%s: chose nobody for the next turn: %r could be %s", own, name, " or ".join(others[0]))
    return others[0][0] if others and len(others[0]) == 1 else None


def room_turn(given: Instruction | None, inner: Mapping[str, str], names: Mapping[str, str]) -> RoomTurn | None:
    """Return the brief of a turn in a room; None outside of rooms. `names` maps agents to their display names, `inner`
    to their special names in this channel."""
    brief = given.room if given is not None else None
    if given is None or brief is None:
        return None
    called = {names[key]: name for key, name in inner.items() if key in names}
    members = tuple(called.get(name, name) for name in brief.members)
    given_format = None
    if brief.format:
        given_format = FormatTurn(
            name=one_line(brief.format, 40),
            rules=brief.format_rules,
            side=brief.side,
            sides=dict(zip(members, brief.sides, strict=False)),
            phase=one_line(brief.phase, 40),
            task=brief.phase_task,
            length=brief.phase_length,
            ledger=brief.ledger,
        )
    return RoomTurn(
        topic=given.topic or "",
        turn_number=brief.turn_number,
        turns=brief.turns,
        rules=brief.rules,
        members=members,
        names_next=brief.names_next,
        goodbye_ends=brief.goodbye_ends,
        details=brief.details,
        format=given_format,
    )


def room_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Return the messages from members and from people, who are the audience, without other bots and webhooks."""
    return [
        replace(entry, speaker=replace(entry.speaker, audience=True)) if entry.speaker.kind == "person" else entry
        for entry in entries
        if entry.speaker.kind != "stranger"
    ]


async def room_summary(turn: Turn, reset: int) -> Summary | None:
    """Return the room's summary; None if there is none, or if it has messages from before the agent's last reset. Drop
    a summary with messages that were deleted or hidden since."""
    summary = await turn.agent.services.state.context.summaries.read(turn.event.channel_id)
    if summary is None or summary.first <= reset:
        return None
    transcript = turn.outlet.view.transcript
    hidden = (entry.id for entry in transcript.entries() if not is_visible(entry))
    if not any(map(summary.covers, transcript.deleted)) and not any(each in summary.messages for each in hidden):
        return summary
    await turn.agent.services.state.context.summaries.drop(turn.event.channel_id)
    return None
