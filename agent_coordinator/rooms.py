"""Open and change rooms by Commands, and keep active rooms running after a restart or a stall.

A room is active as long as its Room says so. If its conversation dies with an error, or another conversation takes its
channel, the room has stalled and resumes after a while. The coordinator's active hours and channels don't apply: a
person opened the room.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agent_coordinator import audience
from agent_coordinator import room_rules as rooms
from agent_coordinator.channels import ChannelBusy
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.conversation import Change
from agent_coordinator.engine import Engine
from agentic.ids import is_snowflake
from agentic.state.conversation_state import ConversationState
from agentic.state.rooms import DEFAULT_TURNS, MAX_ARGUMENTS, MAX_MEMBERS, MAX_TURNS, MIN_MEMBERS, Room, RoomMember
from agentic.state.talk import PersonMessage
from agentic.wire.messages import Command
from agentic.wire.reasons import EndReason

log = logging.getLogger(__name__)

STALLED_SECONDS = 60.0
BUSY_THREAD_SECONDS = 5.0
BUSY_TRIES = 20  # attempts to change a room whose conversation is just beginning or ending
BUSY_SECONDS = 0.1
PAUSE_REASONS: Mapping[str, EndReason] = {
    "asked": "paused",
    "archived": "archived",
    "locked": "locked",
    "deleted": "deleted",
    "no_access": "no_access",
}
STANDING = {
    *("changed_at", "closing_because", "cost_usd", "extra_turns", "last_speaker", "ledger", "left", "lines"),
    *("next_turn_at", "phase", "phase_noted", "phase_turns", "rounds", "skips", "slot_turn", "slot_until", "starter"),
    *("status", "turn_number", "wait_noted", "why"),
}
"""Fields of a Room that its opener can't set."""

RoomCommand = Callable[[Command, Room], Awaitable[str | None]]
M = TypeVar("M", bound=BaseModel)


class RoomKeeper:
    """Run and change rooms with the engine."""

    def __init__(self, context: CoordinatorContext, engine: Engine) -> None:
        self._context, self.engine = context, engine

    async def read(self, thread_id: int) -> Room | None:
        return await self._context.wait_for_redis(self._context.state.coordination.rooms.read, thread_id)

    async def run(self, room: Room, change: Change, began: Callable[[], object]) -> None:
        """Run a room that a person opened or resumed until it pauses or closes. `began` is called once it is stored.
        Raises ChannelBusy."""
        await self._run(change(await self._conversation_of(room)), began, changed=True)

    async def hear(self, channel_id: int, message: PersonMessage) -> None:
        """Let the channel's conversation answer a person's message. A paused room answers it once it is resumed."""
        if await self.engine.hear(channel_id, message):
            return
        room = await self.read(channel_id)
        if room is not None and room.status == "paused":
            await self.change(room, partial(audience.heard_while_paused, heard=message))

    async def at_rest(self, room: Room) -> Room:
        """Wait for a conversation that is just ending, and return the room."""
        for _ in range(BUSY_TRIES):
            if room.thread_id not in self.engine.locks.busy:
                break
            await self._context.sleep(BUSY_SECONDS)
        return await self.read(room.thread_id) or room

    async def left_over(self, saved: Iterable[ConversationState]) -> list[ConversationState]:
        """Return the room conversations of an earlier leader: the saved ones, and new ones for active rooms without
        any. Call it before this process leads and has rooms of its own."""
        of_rooms = (state for state in saved if state.room is not None and not state.is_at_rest)
        states = {state.channel_id: state for state in of_rooms}
        for room in await self._context.wait_for_redis(self._context.state.coordination.rooms.list, "active", None):
            states.setdefault(room.thread_id, rooms.conversation_of(room))
        return list(states.values())

    async def resume(self, state: ConversationState) -> None:
        """Continue a room that an earlier leader or a stall left."""
        try:
            await self._run(audience.reopened(state, self._context.clock()), lambda: None, changed=False)
        except ChannelBusy as busy:
            log.warning("a room was not resumed now: %s", busy)

    async def _run(self, state: ConversationState, began: Callable[[], object], *, changed: bool) -> None:
        try:
            await self.engine.run_room(state, began, changed=changed)
        except Exception:
            stalled = f"the stalled room in thread {state.channel_id}"
            self._context.tasks.start(self._resume_after_stall(state.channel_id), stalled)
            raise

    async def _resume_after_stall(self, thread_id: int) -> None:
        """Resume the room after a while, if it is still active and not running. Waits for another conversation in its
        thread."""
        await self._context.sleep(STALLED_SECONDS)
        while thread_id in self.engine.locks.busy:
            if self.engine.runs_room(thread_id):
                return
            await self._context.sleep(BUSY_THREAD_SECONDS)
        room = await self.read(thread_id)
        if room is not None and room.status == "active":
            log.warning("the room in thread %d had stalled for %.0f s; resuming it", thread_id, STALLED_SECONDS)
            await self.resume(await self._conversation_of(room))

    async def change(self, room: Room, change: Change) -> bool:
        """Change the room, whether or not its conversation runs. Returns False if it stays busy."""
        for _ in range(BUSY_TRIES):
            if await self.engine.change(room.thread_id, change):
                return True
            try:
                fresh = await self.read(room.thread_id) or room
                await self.engine.write_room(change(await self._conversation_of(fresh)))
                return True
            except ChannelBusy:
                await self._context.sleep(BUSY_SECONDS)
        return False

    async def withdraw(self, room: Room, deleted: Collection[int]) -> bool:
        """Forget people's messages that were deleted. Returns False if the room stays busy."""
        change = partial(audience.withdrawn, deleted=deleted)
        if not self.engine.runs_room(room.thread_id):
            state = await self._conversation_of(room)
            if change(state) is state:  # a room at rest isn't stored for nothing
                return True
        return await self.change(room, change)

    async def _conversation_of(self, room: Room) -> ConversationState:
        """Return the room's saved conversation, or a new one at the room's current turn."""
        read = self._context.state.coordination.conversations.read
        saved = await self._context.wait_for_redis(read, room.thread_id, at_rest=True)
        return rooms.conversation_of(room) if saved is None else replace(saved, room=room)


class RoomCommands:
    """Execute commands about rooms. Each returns its outcome, or None if it was reported already; docs/dev/protocol.md
    lists the outcomes, and agentic/actions/rooms.py puts them into words."""

    def __init__(self, context: CoordinatorContext, keeper: RoomKeeper, report: Callable[[Command, str, int], object]):
        self._context, self._keeper, self._report = context, keeper, report
        self.known: Mapping[str, Callable[[Command], Awaitable[str | None]]] = {
            "room-open": self._open,
            "room-pause": partial(self._in_room, self._pause),
            "room-resume": partial(self._in_room, self._resume),
            "room-next": partial(self._in_room, self._next),
            "room-close": partial(self._in_room, self._close),
            "room-add": partial(self._in_room, self._add),
            "room-remove": partial(self._in_room, self._remove),
            "room-ledger": partial(self._in_room, self._keep_ledger),
            "room-withdraw": partial(self._in_room, self._withdraw),
        }

    async def _in_room(self, execute: RoomCommand, command: Command) -> str | None:
        room = None if command.channel_id is None else await self._keeper.read(command.channel_id)
        if room is None or (room.why == "deleted" and command.command != "room-pause"):
            return "no_room"
        return await execute(command, room)

    async def _open(self, command: Command) -> str | None:
        """Open a room. The same order again opens no second room, and neither does another order for its thread."""
        if (wanted := _wanted(command)) is None:
            return "incomplete"
        if (outcome := await self._known(wanted)) is not None:
            return outcome
        if len(wanted.members) > MAX_MEMBERS:
            return "full"
        outcome = self._refusal(wanted) or await self._run(command, wanted, lambda state: state, "opened")
        return await self._known(wanted) or outcome if outcome == "busy" else outcome

    async def _known(self, wanted: Room) -> str | None:
        """Return the outcome if the thread has a room: this one, or one of another order. None if it has none."""
        room = await self._keeper.read(wanted.thread_id)
        if room is None:
            return None
        return "opened" if room.conversation_id == wanted.conversation_id else "exists"

    async def _pause(self, command: Command, room: Room) -> str:
        because = PAUSE_REASONS.get((command.room and command.room.reason) or "asked", "paused")
        if because == "deleted":  # in any state: it can't be resumed
            return await self._change(room, partial(rooms.ended, because="deleted"), "room_paused")
        if room.status != "active":
            return f"already_{room.status}"
        return await self._change(room, partial(rooms.paused, because=because), "room_paused")

    async def _close(self, _: Command, room: Room) -> str:
        if room.status == "closed":
            return "already_closed"
        return await self._change(room, partial(rooms.ended, because="closed"), "room_closed")

    async def _resume(self, command: Command, room: Room) -> str | None:
        more = command.room.turns if command.room else None
        if room.status == "active":
            if not more:
                return "already_active"
            return await self._change(room, partial(rooms.extended, turns=_limit(room, more)), "room_extended")
        gone = [agent for agent in (command.room.gone if command.room else ()) if room.member(agent) is not None]
        if gone:
            if not await self._keeper.change(room, partial(rooms.without_deleted, agents=gone)):
                return "busy"
            room = await self._keeper.at_rest(room)
        if (refusal := self._refusal(room)) is not None:
            return refusal
        if await self._keeper.engine.change(room.thread_id, partial(rooms.resumed, turns=_limit(room, more))):
            return "room_resumed"
        room = await self._keeper.at_rest(room)
        return await self._run(command, room, partial(rooms.resumed, turns=_limit(room, more)), "room_resumed")

    async def _next(self, command: Command, room: Room) -> str:
        agent = command.agent_name
        if room.status != "active":
            return "not_active"
        if agent is not None and room.member(agent) is None:
            return "no_member"
        # presence is known only of bots with an account
        presence = self._context.state.coordination.presence
        if agent in self._context.config.agents and agent not in await presence.online([agent]):
            return "offline"
        if agent is not None and command.room is not None and (message_id := command.room.message_id) is not None:
            message = PersonMessage(message_id, names=(agent,))
            return "requested" if await self._keeper.engine.hear(room.thread_id, message, (agent,)) else "busy"
        return await self._change(room, partial(audience.speaking_next, agent=agent), "requested")

    async def _add(self, command: Command, room: Room) -> str:
        member = _read_order(RoomMember, command.room and command.room.member, "a member is not added")
        if member is None:
            return "incomplete"
        if room.member(member.name) is not None:
            return await self._change(room, partial(rooms.with_persona, member=member), "already_member")
        if len(room.members) >= MAX_MEMBERS:
            return "full"
        return await self._change(room, partial(rooms.with_member, member=member), "added_member")

    async def _remove(self, command: Command, room: Room) -> str:
        if command.room is not None and command.room.gone:
            return await self._change(room, partial(rooms.without_deleted, agents=command.room.gone), "removed_member")
        if (agent := command.agent_name) is None:
            return "incomplete"
        if room.member(agent) is None:
            return "no_member"
        return await self._change(room, partial(rooms.without_member, agent=agent, why=rooms.REMOVED), "removed_member")

    async def _keep_ledger(self, command: Command, room: Room) -> str:
        ledger = command.room.ledger[:MAX_ARGUMENTS] if command.room is not None else ()
        return await self._change(room, lambda state: state.with_room(ledger=ledger), "kept")

    async def _withdraw(self, command: Command, room: Room) -> str:
        deleted = frozenset(command.room.deleted if command.room is not None else ())
        return "withdrawn" if await self._keeper.withdraw(room, deleted) else "busy"

    # pieces

    async def _run(self, command: Command, room: Room, change: Change, outcome: str) -> str | None:
        """Run the room to its end. Reports the outcome once it runs."""
        try:
            await self._keeper.run(room, change, lambda: self._report(command, outcome, room.thread_id))
        except ChannelBusy:
            return "busy"
        return None

    async def _change(self, room: Room, change: Change, outcome: str) -> str:
        return outcome if await self._keeper.change(room, change) else "busy"

    def _refusal(self, room: Room) -> str | None:
        if len(room.members) < MIN_MEMBERS:
            return "too_few_members"
        silenced = self._context.silenced(room.thread_id, room)
        return silenced.kind if silenced is not None else None


def _wanted(command: Command) -> Room | None:
    """Return the room to open, or None, after a warning, if it can't be read."""
    room = _read_order(Room, command.room and command.room.room, "a room is not opened")
    if room is None or not room.conversation_id or command.channel_id not in (None, room.thread_id):
        return None
    if not (is_snowflake(room.thread_id) and is_snowflake(room.channel_id)):
        return None
    definition = room.model_dump(exclude=STANDING) | {"turns": max(1, min(room.turns, MAX_TURNS))}
    return Room.model_validate(definition)


def _read_order(kind: type[M], text: object, consequence: str) -> M | None:
    try:
        return kind.model_validate_json(str(text or ""))
    except ValidationError as error:
        log.warning("%s: its order can't be read (%d errors)", consequence, error.error_count())
        return None


def _limit(room: Room, more: int | None) -> int:
    """Return a resumed room's limit of turns. A room at its limit gets as many more as a new one."""
    if more:
        return max(room.turns, room.turn_number) + min(more, MAX_TURNS)
    return room.turn_number + DEFAULT_TURNS if room.has_used_its_turns else room.turns
