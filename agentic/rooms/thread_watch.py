"""Pauses a room whose thread was archived, locked or deleted by somebody else, or where the bot lost its access.

Every bot of the server hears of it. The coordinator pauses a room once, and the steward says so once; what is ordered
again changes nothing. Locks and archives of our own are known by the marks of the room (steward.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Protocol

from agentic.rooms.opening import Orders
from agentic.services.discord.room_threads import ThreadNow
from agentic.state.marks import Marks
from agentic.state.rooms import Room, RoomStatus
from agentic.wire.coordinator_commands import NOBODY
from agentic.wire.link import RedisAway
from agentic.wire.messages import Command, RoomOrder

log = logging.getLogger(__name__)


class Rooms(Protocol):
    """Implemented by agentic.state.room_store. Both raise RedisAway."""

    async def read(self, thread_id: int) -> Room | None: ...
    async def list(self, status: RoomStatus | None = None, limit: int | None = None) -> list[Room]: ...


class RoomMarks(Protocol):
    """Implemented by agentic.state.marks. Raises RedisAway."""

    async def read(self, thread_id: int) -> Marks: ...


def unless_away(follow: Callable[..., Awaitable[None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Without Redis the change is not followed, with a line; a turn in the thread will fail and pause the room."""

    @wraps(follow)
    async def followed(watch: ThreadWatch, *args: Any, **fields: Any) -> None:
        try:
            await follow(watch, *args, **fields)
        except RedisAway as away:
            log.warning("a change of a thread or channel was not followed, Redis is away: %s", away)

    return followed


class ThreadWatch:
    """The rooms of one bot's servers. `may_act`: whether this process acts for it; `may_write`: whether the bot may
    write in a room's thread, and `look`: how that thread is now, both None where it is not known."""

    def __init__(
        self,
        agent: str,
        rooms: Rooms,
        marks: RoomMarks,
        orders: Orders,
        *,
        may_act: Callable[[], bool],
        may_write: Callable[[Room], bool | None],
        look: Callable[[Room], Awaitable[ThreadNow | None]],
    ) -> None:
        self._agent, self._rooms, self._marks, self._orders = agent, rooms, marks, orders
        self._may_act, self._may_write, self._look = may_act, may_write, look

    @unless_away
    async def changed(self, thread_id: int, *, archived: bool, locked: bool) -> None:
        """A thread is now so."""
        if (archived or locked) and (room := await self._active(thread_id)) is not None:
            marks = await self._marks.read(thread_id)
            if locked and not marks.locked:
                await self._pause(room, "locked")
            elif archived and not marks.archived:
                await self._pause(room, "archived")

    @unless_away
    async def deleted(self, thread_id: int) -> None:
        """A thread is gone. Its room need not be active: it can never be resumed."""
        room = await self._rooms.read(thread_id) if self._may_act() else None
        if room is not None:
            await self._pause(room, "deleted")

    @unless_away
    async def channel_deleted(self, channel_id: int) -> None:
        """A channel is gone, and its threads with it, which Discord does not name."""
        for room in await self._rooms.list(limit=None) if self._may_act() else ():
            if room.channel_id == channel_id and room.why != "deleted":
                await self._pause(room, "deleted")

    @unless_away
    async def permissions_changed(self, guild_id: int) -> None:
        """Other rights of a channel, a role or the bot: only the rooms count in which the bot takes part."""
        for room in await self._all_active():
            if room.guild_id == guild_id and self._agent in room.names and self._may_write(room) is False:
                await self._pause(room, "no_access")

    @unless_away
    async def came_back(self) -> None:
        """The bot has a new connection: what happened before it came without an event. A thread that was only
        archived since nobody wrote is brought back (steward.py)."""
        for room in await self._rooms.list(limit=None) if self._may_act() else ():
            if room.status == "closed" or room.why == "deleted":
                continue
            now = await self._look(room)
            if now is not None and now.deleted:
                await self._pause(room, "deleted")
            elif now is not None and now.locked:
                await self.changed(room.thread_id, archived=now.archived, locked=True)

    async def _active(self, thread_id: int) -> Room | None:
        room = await self._rooms.read(thread_id) if self._may_act() else None
        return room if room is not None and room.status == "active" else None

    async def _all_active(self) -> list[Room]:
        return await self._rooms.list("active", limit=None) if self._may_act() else []

    async def _pause(self, room: Room, reason: str) -> None:
        order = Command(command="room-pause", channel_id=room.thread_id, room=RoomOrder(reason=reason))
        outcome = await self._orders.give(order)
        if outcome == NOBODY:
            log.warning("%s: room %d is %s, but no coordinator answered", self._agent, room.thread_id, reason)
        else:
            log.info("%s: room %d is %s: %s", self._agent, room.thread_id, reason, outcome)
