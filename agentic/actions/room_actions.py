"""Rooms from the console: an owner opens and steers them by the same orders to the coordinator as those of `/room`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentic.actions.base import Act, Done, Request
from agentic.actions.console_rooms import NO_BOT, NewRoom
from agentic.actions.outcomes import ROOM_DONE, ROOM_REFUSALS
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused, snowflake
from agentic.state.rooms import ARCHIVE_MINUTES, FEWEST_MEMBERS, MOST_MEMBERS, MOST_RULES, MOST_TURNS, POLICIES, Room
from agentic.themes import THEMES
from agentic.wire.bus import NOBODY
from agentic.wire.messages import MAX_TOPIC, Command, RoomOrder

MOST_AUDIENCE = 3600  # seconds
NOBODY_ANSWERS = "no coordinator answers: it is not running, or busy; nothing was done as far as the console knows"


class RoomActions:
    """`known` maps the name of an action to what carries it out. The room is the request's `channel`: its thread."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self.known: Mapping[str, Act] = {
            "open_room": self._open,
            "pause_room": self._pause,
            "resume_room": self._resume,
            "next_in_room": self._next,
            "close_room": self._close,
            "add_to_room": self._add,
            "remove_from_room": self._remove,
        }

    async def _open(self, asked: Request) -> Done:
        if not self._parts.rooms.can_open():
            raise Refused(409, NO_BOT)
        wanted = self._wanted(asked)
        opened = await self._parts.rooms.open(wanted)
        if opened.thread_id is None:
            raise Refused(409, opened.text)
        return Done("opened", opened.text, wanted.topic)

    def _wanted(self, asked: Request) -> NewRoom:
        topic = " ".join((asked.topic or "").split())
        if not 0 < len(topic) <= MAX_TOPIC:
            raise Refused(400, f"topic: expected a text of at most {MAX_TOPIC} characters")
        personas = tuple(dict.fromkeys(asked.personas or ()))
        if not FEWEST_MEMBERS <= len(personas) <= MOST_MEMBERS:
            raise Refused(400, f"choose {FEWEST_MEMBERS} to {MOST_MEMBERS} who take part")
        channel = snowflake(asked.channel or "", "channel")
        if channel not in self._parts.settings.channels:
            raise Refused(404, "that is not one of the bots' channels")
        wanted = NewRoom(channel_id=channel, topic=topic, personas=personas)
        return replace(
            wanted,
            policy=_one_of("policy", asked.policy or wanted.policy, POLICIES),
            turns=_within("turns", wanted.turns if asked.turns is None else asked.turns, 2, MOST_TURNS),
            archive_minutes=_archive(asked.archive or wanted.archive_minutes),
            audience_seconds=_within("audience", asked.audience or 0, 0, MOST_AUDIENCE),
            goodbye_ends=bool(asked.goodbye_ends),
            theme=_one_of("theme", asked.theme or wanted.theme, tuple(THEMES)),
            rules=(asked.rules or "").strip()[:MOST_RULES],
        )

    async def _pause(self, asked: Request) -> Done:
        return await self._order(asked, "room-pause", RoomOrder(reason="asked"))

    async def _resume(self, asked: Request) -> Done:
        more = None if asked.turns is None else _within("turns", asked.turns, 1, MOST_TURNS)
        room = await self._parts.ledger.rooms.read(snowflake(asked.channel or "", "channel"))
        gone = self._parts.rooms.gone(room.names) if room is not None else ()
        order = RoomOrder(turns=more, gone=gone)
        return await self._order(asked, "room-resume", order, f"+{more} turns" if more else "")

    async def _close(self, asked: Request) -> Done:
        return await self._order(asked, "room-close", RoomOrder())

    async def _next(self, asked: Request) -> Done:
        return await self._order(asked, "room-next", RoomOrder())

    async def _remove(self, asked: Request) -> Done:
        return await self._order(asked, "room-remove", RoomOrder())

    async def _add(self, asked: Request) -> Done:
        seat = next((seat for seat in self._parts.rooms.seats() if seat.key == asked.agent), None)
        if seat is None:
            raise Refused(404, "nobody of that name can take part")
        if seat.why_not is not None:
            raise Refused(409, f"{seat.member.shown} cannot take part: {seat.why_not}")
        return await self._order(asked, "room-add", RoomOrder(member=seat.member.model_dump_json()))

    async def _order(self, asked: Request, name: str, order: RoomOrder, detail: str = "") -> Done:
        thread = snowflake(asked.channel or "", "channel")
        room = await self._parts.ledger.rooms.read(thread)
        if room is None:
            raise Refused(404, "there is no such room")
        command = Command(command=name, channel_id=thread, agent_name=asked.agent, room=order)
        outcome = await self._parts.orders.give(command)
        fields = {"room": f"“{room.topic}”", "agent": self._shown(room, asked.agent)}
        if (text := ROOM_DONE.get(outcome)) is not None:
            return Done(outcome, text.format(**fields), detail)
        if outcome == NOBODY:
            raise Refused(503, NOBODY_ANSWERS)
        raise Refused(409, ROOM_REFUSALS.get(outcome, f"The coordinator refused: {outcome}.").format(**fields))

    def _shown(self, room: Room, agent: str | None) -> str:
        member = room.member(agent) if agent is not None else None
        if member is not None:
            return member.shown
        return self._parts.names.get(agent, agent) if agent is not None else "The next one"


def _within(name: str, number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise Refused(400, f"{name}: expected a whole number from {low} to {high}")
    return number


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise Refused(400, f"{name}: expected one of {', '.join(known)}")
    return value


def _archive(minutes: int) -> int:
    if minutes not in ARCHIVE_MINUTES:
        raise Refused(400, f"archive: expected one of {', '.join(map(str, ARCHIVE_MINUTES))} minutes")
    return minutes
