"""Keeps rooms going: those that people open and resume, and all active ones after a restart or a stall.

A room is active as long as its Room says so, whatever runs. A conversation that dies with an error leaves it active, so
it has stalled, and goes on after a while; so has one whose channel another conversation took.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.engine import Engine
from agent_coordinator.entries import Heard
from agent_coordinator.holds import ChannelBusy
from agent_coordinator.ports import RoomStore, Sleep, Start, until_back
from agent_coordinator.room_rules import conversation_of
from agent_coordinator.running import Change
from agent_coordinator.state import ConversationState
from agentic.state.rooms import Room

STALLED_SECONDS = 60.0
BUSY_THREAD_SECONDS = 5.0
BUSY_TRIES = 20  # to change a room whose conversation is just beginning or ending
BUSY_SECONDS = 0.1

log = logging.getLogger(__name__)


class RoomKeeper:
    """Runs and changes rooms by the engine. `start` runs a task."""

    def __init__(
        self, config: CoordinatorConfig, engine: Engine, store: RoomStore, *, start: Start, sleep: Sleep
    ) -> None:
        self._config, self._engine, self._store, self._start, self._sleep = config, engine, store, start, sleep

    async def read(self, thread_id: int) -> Room | None:
        return await until_back(lambda: self._store.read(thread_id), self._sleep)

    # run

    async def run(self, room: Room, change: Change, began: Callable[[], object]) -> None:
        """Run the room as a person opened or resumed it, until it pauses or closes; `began` is called once it is
        stored. Raises ChannelBusy."""
        await self._run(change(await self._conversation_of(room)), began, changed=True)

    async def at_rest(self, room: Room) -> Room:
        """Return the room as it is once a conversation of it that was just ending has ended."""
        for _ in range(BUSY_TRIES):
            if room.thread_id not in self._engine.holds.busy:
                break
            await self._sleep(BUSY_SECONDS)
        return await self.read(room.thread_id) or room

    async def left_over(self, kept: Iterable[ConversationState]) -> list[ConversationState]:
        """The conversations of rooms that an earlier leader left: those that it kept, and those of active rooms that
        have none. Read before this process leads, since afterwards it has rooms of its own."""
        states = {state.channel_id: state for state in kept if state.room is not None}
        for room in await until_back(lambda: self._store.list("active", None), self._sleep):
            states.setdefault(room.thread_id, conversation_of(room))
        return list(states.values())

    async def go_on(self, state: ConversationState) -> None:
        """Continue a room that an earlier leader or a stall left."""
        try:
            await self._run(state, lambda: None, changed=False)
        except ChannelBusy as busy:
            log.warning("a room does not go on now: %s", busy)

    async def close(self, state: ConversationState) -> None:
        """Close a room that an earlier leader left, since it is too old to go on."""
        await self._engine.write_room(state.ended("too_old"))

    async def _run(self, state: ConversationState, began: Callable[[], object], *, changed: bool) -> None:
        try:
            await self._engine.run_room(state, began, changed=changed)
        except Exception:
            self._start(self._go_on_after_stall(state.channel_id), f"the stalled room in thread {state.channel_id}")
            raise

    async def _go_on_after_stall(self, thread_id: int) -> None:
        """After a while, go on with the room if it is still active and does not run; where another conversation has its
        thread, after that."""
        await self._sleep(STALLED_SECONDS)
        while thread_id in self._engine.holds.busy:
            if self._engine.runs_room(thread_id):
                return
            await self._sleep(BUSY_THREAD_SECONDS)
        room = await self.read(thread_id)
        if room is not None and room.status == "active":
            log.warning("the room in thread %d stalled for %.0f s and goes on", thread_id, STALLED_SECONDS)
            await self.go_on(await self._conversation_of(room))

    # change

    async def heard(self, thread_id: int, heard: Heard, called: Sequence[str]) -> bool:
        """A person's message calls members, which speak next; False if the room's conversation doesn't run."""
        return await self._engine.heard(thread_id, heard, called)

    async def change_running(self, thread_id: int, change: Change) -> bool:
        """Change the room if its conversation runs."""
        return await self._engine.change(thread_id, change)

    async def change(self, room: Room, change: Change) -> bool:
        """Change the room, whether or not its conversation runs; False where it stays busy."""
        for _ in range(BUSY_TRIES):
            if await self.change_running(room.thread_id, change):
                return True
            try:
                fresh = await self.read(room.thread_id) or room
                await self._engine.write_room(change(await self._conversation_of(fresh)))
                return True
            except ChannelBusy:
                await self._sleep(BUSY_SECONDS)
        return False

    async def _conversation_of(self, room: Room) -> ConversationState:
        """The room's conversation as it was kept, or one that begins where the room is."""
        kept = await self._engine.unfinished.of(room.thread_id)
        return conversation_of(room) if kept is None else replace(kept, room=room)
