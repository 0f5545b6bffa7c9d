"""The situation besides the messages, as one JSON object: turns, conversations, rooms, the next times, stops, mutes.

It is read from Redis while a page is open, and soon after each turn.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from agentic.console.api.thinking import Thinking
from agentic.console.parts import ConsoleParts
from agentic.state.conversations import Running
from agentic.state.rooms import Room

NEXT_TIMES = 5
PLAN_SECONDS = 15.0  # between two reads of the day's plan


class Situation:
    """The situation as far as it is known. Only `read` asks Redis; it raises RedisAway."""

    def __init__(self, parts: ConsoleParts, thinking: Thinking) -> None:
        self._parts, self._thinking = parts, thinking
        self._running: dict[int, Running] = {}
        self._rooms: dict[int, Room] = {}
        self._mutes: dict[str, float] = {}
        self._times: list[float] = []
        self._plan_until = 0.0

    async def read(self) -> None:
        ledger, now = self._parts.ledger, self._parts.clock()
        channels = [channel.id for channel in self._parts.live.channels()]
        self._running, self._mutes, rooms = await asyncio.gather(
            ledger.conversations.running_in(channels), ledger.mutes.read(self._parts.names), ledger.rooms.list()
        )
        self._rooms = {room.thread_id: room for room in rooms if room.thread_id in channels}
        if not now < self._plan_until <= now + PLAN_SECONDS:
            self._times = await self._planned(now)
            self._plan_until = now + PLAN_SECONDS

    def forget(self) -> None:
        """Drop what was read long ago."""
        self._running, self._rooms, self._mutes, self._times, self._plan_until = {}, {}, {}, [], 0.0

    async def _planned(self, now: float) -> list[float]:
        """The day's plan is stored under a local date; its window may pass midnight."""
        today = datetime.fromtimestamp(now, self._parts.settings.timezone).date()
        dates = [(today + timedelta(days=days)).isoformat() for days in (-1, 0, 1)]
        plans = [await self._parts.ledger.schedule.load_schedule(date) for date in dates]
        return sorted(slot.at for plan in plans for slot in plan or () if not slot.done)

    def to_json(self) -> dict[str, Any]:
        now = self._parts.clock()
        return {
            "thinking": [thought.to_json() for thought in self._thinking.now()],
            "conversations": {str(channel): _conversation(one) for channel, one in self._running.items()},
            "rooms": {str(thread): _room(self._parts, room) for thread, room in self._rooms.items()},
            "times": [at for at in self._times if at > now][:NEXT_TIMES],
            "stops": {str(channel): until for channel, until in self._parts.stops.held().items()},
            "mutes": self._mutes,
        }


def _room(parts: ConsoleParts, room: Room) -> dict[str, Any]:
    return {
        "topic": room.topic,
        "status": room.status,
        "why": parts.endings.get(room.why, room.why) if room.why else None,
        "turn": room.turn_number,
        "turns": room.turns,
        "slot_until": room.slot_until,
    }


def _conversation(running: Running) -> dict[str, Any]:
    return {
        "id": running.conversation_id,
        "round": running.round_number,
        "speaker": running.speaker,
        "coming": list(running.coming),
        "theme": running.theme,
        "topic": running.topic,
        "since": running.started_at,
        "joins": running.joins,
        "single": running.single,
    }
