"""Calls in the thread of a room: a member answers a person's @mention or reply with its next turn, not beside it.

A bot that is no member answers as in any other thread, and so does everybody while the room is paused or closed.
"""

from __future__ import annotations

import logging

from agentic.agent.services import AgentServices
from agentic.context.entries import Entry
from agentic.state.rooms import Room
from agentic.wire.connection import RedisAway
from agentic.wire.messages import Command, RoomOrder

log = logging.getLogger(__name__)


class RoomCalls:
    """The calls of one agent."""

    def __init__(self, agent: str, services: AgentServices) -> None:
        self._agent, self._services = agent, services

    async def room_of(self, channel_id: int, parent_id: int | None) -> Room | None:
        """The room of a thread, whatever its status; None for any other channel, and if Redis is unavailable."""
        if parent_id is None:
            return None
        try:
            return await self._services.ledger.rooms.read(channel_id)
        except RedisAway as away:
            log.info("%s: thread %d counts as no room for now: %s", self._agent, channel_id, away)
            return None

    async def take_turn(self, room: Room, asked: Entry) -> bool:
        """Ask for the next turn in the room to answer a message; False if the agent has to answer it by itself."""
        if room.status != "active" or room.member(self._agent) is None:
            return False
        order = RoomOrder(message_id=asked.id)
        command = Command(command="room-next", channel_id=room.thread_id, agent_name=self._agent, room=order)
        try:
            outcome = await self._services.orders.give(command)
        except RedisAway as away:
            outcome = str(away)
        if outcome != "requested":
            log.info("%s: message %d in room %d gets no turn: %s", self._agent, asked.id, room.thread_id, outcome)
        return outcome == "requested"
