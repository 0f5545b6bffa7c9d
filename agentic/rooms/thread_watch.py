"""ThreadWatch pauses a room if someone else archived, locked, or deleted its thread, or if the bot lost its access.

Every bot of the server sees this, but the coordinator pauses a room once, and the manager says so once (threads.py).
The room's marks tell our own locks and archives from others'.
"""

from __future__ import annotations

import logging

from agentic.agent.services import Services
from agentic.chat.outlet import CannotPost
from agentic.rooms.room_bot import RoomBot
from agentic.state.leases import AnyLease
from agentic.state.rooms import Room
from agentic.wire.bus import NOBODY
from agentic.wire.connection import or_default
from agentic.wire.messages import Command, RoomOrder

log = logging.getLogger(__name__)

followed = or_default(None, "changes of threads and channels are not followed")


class ThreadWatch:
    """Watch the rooms of one bot's servers. `lease`: whether this process acts for the bot."""

    def __init__(self, services: Services, bot: RoomBot, *, lease: AnyLease) -> None:
        self._bot, self._lease, self._orders = bot, lease, services.bus.orders
        self._rooms, self._marks = services.state.coordination.rooms, services.state.coordination.room_marks
        self._conversations = services.state.coordination.conversations

    @followed
    async def changed(self, thread_id: int, *, archived: bool, locked: bool) -> None:
        room = await self._rooms.read(thread_id) if (archived or locked) and self._lease.is_held else None
        if room is not None and room.status == "active":
            marks = await self._marks.read(thread_id)
            if locked and not marks.locked:
                await self._pause(room, "locked")
            elif archived and not marks.archived:
                await self._pause(room, "archived")

    @followed
    async def deleted(self, thread_id: int) -> None:
        """Pause the deleted thread's room, even if it isn't active: it can never be resumed."""
        room = await self._rooms.read(thread_id) if self._lease.is_held else None
        if room is not None:
            await self._pause(room, "deleted")

    @followed
    async def channel_deleted(self, channel_id: int) -> None:
        """Pause the rooms of a deleted channel. Discord doesn't name the threads that went with it."""
        for room in await self._rooms.list(limit=None) if self._lease.is_held else ():
            if room.channel_id == channel_id and room.why != "deleted":
                await self._pause(room, "deleted")

    @followed
    async def permissions_changed(self, guild_id: int) -> None:
        """Pause the bot's rooms in which it may no longer write, after permissions changed."""
        for room in await self._rooms.list("active", limit=None) if self._lease.is_held else ():
            takes_part = room.guild_id == guild_id and self._bot.agent in room.names
            if takes_part and self._bot.may_write_in_threads(room.channel_id) is False:
                await self._pause(room, "no_access")

    @followed
    async def came_back(self) -> None:
        """Check the rooms after a new connection, since events were missed before it."""
        for room in await self._rooms.list(limit=None) if self._lease.is_held else ():
            if room.status == "closed" or room.why == "deleted":
                continue
            now = await self._bot.read_thread(room.channel_id, room.thread_id)
            if now is not None and now.deleted:
                await self._pause(room, "deleted")
            elif now is not None:
                if now.locked:
                    await self.changed(room.thread_id, archived=now.archived, locked=True)
                await self._withdraw_deleted(room)

    async def _withdraw_deleted(self, room: Room) -> None:
        """Tell the coordinator which of the messages that wait for an answer were deleted meanwhile."""
        state = await self._conversations.read(room.thread_id, at_rest=True)
        heard = state.talk.heard if state is not None else ()
        waiting = [each.message_id for each in heard if each.waits_for(room.names) is not None]
        try:
            deleted = await self._bot.find_deleted(room.channel_id, room.thread_id, waiting) if waiting else ()
        except CannotPost as error:
            log.info("room %d: looking for deleted messages failed: %s; they still count", room.thread_id, error)
            return
        if deleted:
            order = RoomOrder(deleted=tuple(deleted))
            await self._orders.give(Command(command="room-withdraw", channel_id=room.thread_id, room=order))

    async def _pause(self, room: Room, reason: str) -> None:
        order = Command(command="room-pause", channel_id=room.thread_id, room=RoomOrder(reason=reason))
        outcome = await self._orders.give(order)
        if outcome == NOBODY:
            log.warning("%s: room %d is %s, but no coordinator answered", self._bot.agent, room.thread_id, reason)
        else:
            log.info("%s: room %d is %s: %s", self._bot.agent, room.thread_id, reason, outcome)
