"""What a room adds to a turn: its brief, its summary, whose messages are shown, whether its number is still expected.

Only the coordinator that leads writes a room; here it is read. A turn is taken if its number is the room's plus one and
the room is active. Nothing is guessed: while Redis is unavailable a turn waits to be admitted, at most until its
deadline. So no turn is posted twice, and none is lost by it, since the coordinator asks for a number until it is
posted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from agentic.agent.events import InstructionEvent, TurnEvent
from agentic.chat.outlet import Outlet
from agentic.context.entries import Entry, is_visible
from agentic.context.prompt import RoomTurn
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
    """The room of a turn as it is now; None if there is none, and while Redis is unavailable."""
    return await rooms.read(event.channel_id)


def is_expected_turn(room: Room | None, event: TurnEvent) -> bool:
    """Whether the room waits for this turn; True outside of rooms."""
    brief = event.instruction.room if isinstance(event, InstructionEvent) else None
    if brief is None:
        return True
    return room is not None and room.status == "active" and brief.turn_number == room.turn_number + 1


def ignore_own_lock(outlet: Outlet, room: Room | None) -> None:
    """Let a member write in a thread that is locked between the breaks for its audience."""
    if room is not None and room.has_slots:
        outlet.sink.ignore_lock()


async def admit_to_room(turn: Turn) -> None:
    """Make sure that the turn's room waits for it. A room that could not be read when the turn was claimed is read as
    soon as Redis is back; the turn's deadline ends the wait.

    Raises TurnAborted("out_of_turn").
    """
    event, state = turn.event, turn.state
    if in_room(event) and state.room is None:
        state.room = await wait_for_redis(lambda: turn.state.shared.coordination.rooms.read(event.channel_id))
    if not is_expected_turn(state.room, event):
        raise TurnAborted("out_of_turn")
    ignore_own_lock(turn.outlet, state.room)


async def check_room(turn: Turn) -> None:
    """Look at the room once more before the post: it may have been paused while the model thought. While Redis is
    unavailable the turn is posted, since its deadline has not come and nobody else was asked yet.

    Raises TurnAborted("out_of_turn").
    """
    read = or_default(turn.state.room, "rooms are not looked at again before posts")(
        turn.state.shared.coordination.rooms.read
    )
    if not is_expected_turn(await read(turn.event.channel_id), turn.event):
        raise TurnAborted("out_of_turn")


def next_member(room: Room | None, name: str | None, own: str, inner: Mapping[str, str]) -> str | None:
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
        goodbye_ends=brief.goodbye_ends,
    )


def room_entries(entries: Iterable[Entry]) -> list[Entry]:
    """The messages of members and of people, who are the audience; without those of other bots and webhooks."""
    return [
        replace(entry, speaker=replace(entry.speaker, audience=True)) if entry.speaker.kind == "person" else entry
        for entry in entries
        if entry.speaker.kind != "stranger"
    ]


async def room_summary(turn: Turn, reset: int) -> Summary | None:
    """The summary that a turn in a room is shown; None if there is none, or it has messages from before the agent's
    last reset. One with a message that was deleted or hidden since is dropped."""
    summary = await turn.agent.services.state.context.summaries.read(turn.event.channel_id)
    if summary is None or summary.first <= reset:
        return None
    transcript = turn.outlet.view.transcript
    hidden = (entry.id for entry in transcript.entries() if not is_visible(entry))
    if not any(map(summary.covers, transcript.deleted)) and not any(each in summary.messages for each in hidden):
        return summary
    await turn.agent.services.state.context.summaries.drop(turn.event.channel_id)
    return None
