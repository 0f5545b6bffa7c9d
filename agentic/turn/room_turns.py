"""The agent's side of a turn in a room: whether its number is still wanted, and who speaks next.

Only the coordinator that leads writes a room; here it is read. A turn is taken where its number is the room's plus one
and the room is active. What cannot be known is not guessed: while Redis is away a turn waits to be admitted, at most
until its deadline. So none is posted twice, and none is lost by it, since the coordinator asks for a number until it is
posted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from agentic.agent.agent import Agent, Turn
from agentic.agent.events import InstructionEvent, TurnEvent
from agentic.chat.outlet import Outlet
from agentic.coordination_names import calls_in, named
from agentic.state.rooms import Room
from agentic.wire.link import RedisAway
from agentic.wire.reasons import TurnOver

RETRY_SECONDS = 0.5  # while Redis is away

log = logging.getLogger(__name__)


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
