"""Pause, resume, close, steer, show, export rooms.

Finds the room that a command means, and offers rooms and agents while a name is being typed.

`/room` besides `create`: pause, resume, close and steer a room, change its members, show it, export it.

A room is named by its thread's link or id, or by its topic; by default it is the one of the thread in which the command
is used. The coordinator carries out what changes a room; what shows one reads Redis, or the record.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agentic.actions.base import (
    CHOICE_CHARACTERS,
    MAX_CHOICES,
    PAUSED,
    POLICY_TEXTS,
    ActionRequest,
    Choice,
    CommandReply,
    Completion,
    Handle,
    Response,
)
from agentic.actions.config import option_choices
from agentic.actions.outcomes import ROOM_DONE, ROOM_REFUSALS
from agentic.agent.roster import Called, Named, Roster, RosterEntry, find, without_mentions
from agentic.agent.services import AgentServices
from agentic.personas.memory import MaySee
from agentic.record.database import RecordError
from agentic.record.export.render import room_page
from agentic.record.export.story import Look
from agentic.rooms.opening import escaped
from agentic.rooms.threads import Rooms
from agentic.state.conversations import Running
from agentic.state.rooms import MOST_TURNS, Room
from agentic.text import counted, dollars, listed
from agentic.wire.bus import NOBODY
from agentic.wire.messages import Command, RoomOrder
from agentic.wire.reasons import ENDINGS

SEEN = 200  # rooms among which a topic is looked for

_THREAD = re.compile(r"(?:<#|.*/)?(\d{15,20})>?/?", re.DOTALL)


def may_be_named(room: Room, command: ActionRequest, may_see: Callable[[int], MaySee]) -> bool:
    """Whether the room is in this server and, unless for a manager, in a channel that all readers of this one read."""
    if room.guild_id != command.guild_id:
        return False
    here = command.channel_id
    return command.who.manages_guild or here == room.thread_id or may_see(here)(room.channel_id)


async def room_in(command: ActionRequest, rooms: Rooms, may_see: Callable[[int], MaySee]) -> Room | None:
    """The room that the option names, or that of the thread; None for none that may be named here."""
    wanted = str(command.values.get("room", "")).strip()
    by_id = _THREAD.fullmatch(wanted)
    if wanted and by_id is None:
        named = [room for room in await rooms.list(limit=SEEN) if may_be_named(room, command, may_see)]
        return _by_topic(wanted, named)
    room = await rooms.read(int(by_id[1]) if by_id is not None else command.channel_id)
    return room if room is not None and may_be_named(room, command, may_see) else None


def _by_topic(wanted: str, rooms: Sequence[Room]) -> Room | None:
    """The newest room of that topic, or whose topic alone has these words."""
    topic = wanted.casefold()
    same = [room for room in rooms if room.topic.casefold() == topic]
    having = [room for room in rooms if topic in room.topic.casefold()]
    return same[0] if same else having[0] if len(having) == 1 else None


class Completions:
    """Choices for options that are being typed. Raises RedisAway where rooms cannot be read."""

    def __init__(self, roster: Roster, rooms: Rooms, may_see: Callable[[int], MaySee]) -> None:
        self._roster, self._rooms, self._may_see = roster, rooms, may_see

    async def complete(self, typed: Completion) -> Sequence[Choice]:
        if typed.option == "option":
            return option_choices(typed)
        if typed.option == "room":
            every = await self._rooms.list(limit=SEEN)
            rooms = [room for room in every if may_be_named(room, typed.command, self._may_see)]
            return _fitting(typed.typed, (Choice(str(room.thread_id), _line(room)) for room in rooms))
        able = [entry for entry in self._roster if entry.why_not is None]
        if typed.option == "personas":
            return _names(typed.typed, able)
        if typed.option != "name":
            return _agents(typed.typed, able)
        bots = typed.command.name == "agent show"
        return _agents(typed.typed, (entry for entry in self._roster if bots or not entry.is_bot))


def _agents(typed: str, entries: Iterable[RosterEntry]) -> Sequence[Choice]:
    return _fitting(typed, (Choice(entry.key, entry.shown) for entry in entries))


def _names(typed: str, able: Sequence[RosterEntry]) -> Sequence[Choice]:
    """The list so far with each agent that may complete its last name."""
    before, comma, last = typed.rpartition(",")
    taken = {name.strip().casefold() for name in before.split(",")}
    fitting = _agents(last.strip(), (entry for entry in able if entry.shown.casefold() not in taken))
    lists = (f"{before}{comma}{' ' if comma else ''}{choice.label}" for choice in fitting)
    return [Choice(names, names) for names in lists if len(names) <= CHOICE_CHARACTERS]


def _line(room: Room) -> str:
    return f"{room.topic[: CHOICE_CHARACTERS - 12]} ({room.status})"


def _fitting(typed: str, choices: Iterable[Choice]) -> Sequence[Choice]:
    """Those that have the letters typed so far; what begins with them first."""
    letters = typed.casefold()
    found = [choice for choice in choices if letters in choice.label.casefold()]
    return sorted(found, key=lambda choice: not choice.label.casefold().startswith(letters))[:MAX_CHOICES]


MOST_LISTED = 15
MOST_BYTES = 8_000_000  # of a file, below Discord's limit for a server without boosts
NO_ROOM = "This thread isn't a room. Use the command in a room's thread, or name a room by its link or topic."
OUTCOMES: Mapping[str, str] = {
    **ROOM_DONE,
    **ROOM_REFUSALS,
    # those after which another command helps
    "room_paused": f"{ROOM_DONE['room_paused']} Use /room resume to continue.",
    "room_closed": f"{ROOM_DONE['room_closed']} Use /room resume to reopen it with more turns.",
    "not_active": f"{ROOM_REFUSALS['not_active']} Use /room resume first.",
    "already_paused": f"{ROOM_REFUSALS['already_paused']} Use /room resume to continue.",
    "already_closed": f"{ROOM_REFUSALS['already_closed']} Use /room resume to reopen it with more turns.",
    "too_few_members": "{room} has fewer than two members. Use /room add first.",
    "paused": PAUSED,
    "stopped": "The bots are stopped in {room}. Use /resume there first.",
    NOBODY: "The coordinator didn't answer: it isn't running, or it's busy. As far as I know, nothing was changed.",
}


class RoomCommands:
    """`everyone` and `managers` are the handlers for those who may use them, by command. `may_see`: of a channel, which
    others all of its readers may read."""

    def __init__(self, services: AgentServices, may_see: Callable[[int], MaySee]) -> None:
        self._services, self._may_see = services, may_see
        self.everyone: Mapping[str, Handle] = {"room status": self.status, "room list": self.list}
        self.managers: Mapping[str, Handle] = {
            "room stop": self.stop,
            "room resume": self.resume,
            "room next": self.next,
            "room close": self.close,
            "room add": self.add,
            "room remove": self.remove,
            "room export": self.export,
        }

    # -- the server's managers ------------------------------------------------------------------------------------

    async def stop(self, command: ActionRequest) -> str:
        return await self._order(command, "room-pause", RoomOrder(reason="asked"))

    async def resume(self, command: ActionRequest) -> str:
        turns = command.values.get("turns")
        more = None if turns is None else min(max(int(turns), 1), MOST_TURNS)
        room = await self._room_in(command)
        gone = self._services.roster.gone(room.names) if room is not None else ()
        return await self._order(command, "room-resume", RoomOrder(turns=more, gone=gone))

    async def close(self, command: ActionRequest) -> str:
        return await self._order(command, "room-close", RoomOrder())

    async def next(self, command: ActionRequest) -> str:
        return await self._of_member(command, "room-next")

    async def remove(self, command: ActionRequest) -> str:
        return await self._of_member(command, "room-remove")

    async def add(self, command: ActionRequest) -> str:
        entry = find(tuple(self._services.roster), self._agent_in(command))
        if isinstance(entry, str):
            return entry
        if entry.why_not is not None:
            return f"{entry.shown} cannot take part: {entry.why_not}."
        return await self._order(command, "room-add", RoomOrder(member=entry.member.model_dump_json()), entry)

    async def export(self, command: ActionRequest) -> Response:
        """The room's page, from the record on this machine."""
        settings = self._services.settings
        if not settings.records:
            return "The record is off (RECORD_DAYS=0), so there is nothing to export."
        room = await self._room_in(command)
        if room is None:
            return NO_ROOM
        try:
            page = await room_page(settings.record_file, room.thread_id, look=self._look())
        except (RecordError, sqlite3.Error):
            return "The record cannot be read here. It is on the machine that runs the coordinator."
        if page is None:
            return f"Nothing of <#{room.thread_id}> is recorded yet. What is said is in the record a few seconds later."
        if len(page.text.encode()) > MOST_BYTES:
            return "The page is too large for Discord. `python -m agentic.record export --room` writes it to a file."
        return CommandReply(f"The room “{escaped(room.topic)}” as a page:", file=(page.name, page.text))

    def _look(self) -> Look:
        entries = tuple(self._services.roster)
        return Look(
            names={entry.key: entry.shown for entry in entries},
            colours={entry.key: entry.settings.spec.colour for entry in entries if entry.settings is not None},
            zone=self._services.settings.timezone,
        )

    async def _of_member(self, command: ActionRequest, name: str) -> str:
        """An order about one who takes part, also one whose persona was deleted since."""
        room = await self._room_in(command)
        if room is None:
            return NO_ROOM
        members = [Called(one.name, one.shown) for one in room.members]
        member = find(members, self._agent_in(command))
        if isinstance(member, str):
            return f"{member} Members of <#{room.thread_id}>: {listed([one.shown for one in members])}."
        return await self._order(command, name, RoomOrder(), member)

    def _agent_in(self, command: ActionRequest) -> str:
        return without_mentions(str(command.values.get("agent", "")), self._services.directory.agent_of)

    async def _order(self, command: ActionRequest, name: str, order: RoomOrder, agent: Named | None = None) -> str:
        room = await self._room_in(command)
        if room is None:
            return NO_ROOM
        key, shown = (agent.key, agent.shown) if agent is not None else (None, "")
        outcome = await self._services.orders.give(
            Command(command=name, channel_id=room.thread_id, agent_name=key, room=order)
        )
        text = OUTCOMES.get(outcome, "The coordinator refused: {outcome}.")
        return text.format(room=f"<#{room.thread_id}>", agent=shown, outcome=outcome)

    async def _room_in(self, command: ActionRequest) -> Room | None:
        return await room_in(command, self._services.ledger.rooms, self._may_see)

    # -- everyone -------------------------------------------------------------------------------------------------

    async def status(self, command: ActionRequest) -> str:
        ledger = self._services.ledger
        room = await self._room_in(command)
        if room is None:
            return NO_ROOM
        running = await ledger.conversations.running(room.thread_id) if room.status == "active" else None
        return "\n".join(_status(room, running, self._services.roster.names))

    async def list(self, command: ActionRequest) -> str:
        found = await self._services.ledger.rooms.list(limit=None)
        here = [room for room in found if may_be_named(room, command, self._may_see)]
        here.sort(key=lambda room: ("active", "paused", "closed").index(room.status))  # newest first in each
        lines = [f"- <#{room.thread_id}> {escaped(room.topic)}: {standing(room)}" for room in here[:MOST_LISTED]]
        if len(here) > MOST_LISTED:
            lines.append(f"and {len(here) - MOST_LISTED} more")
        return "\n".join(lines) or "There is no room in this server yet. /room create opens one."


def standing(room: Room) -> str:
    """ "running, turn 3 of 20"; "paused after turn 3 of 20: a person paused it" """
    turns = f"turn {room.turn_number} of {room.turns}"
    if room.status == "active":
        return f"running, {turns}"
    why = ENDINGS.get(room.why, room.why) if room.why else ""  # type: ignore[call-overload]
    return f"{room.status} after {turns}{f': {why}' if why else ''}"


def _status(room: Room, running: Running | None, names: Mapping[str, str]) -> Iterator[str]:
    yield f"**{escaped(room.topic)}** in <#{room.thread_id}>"
    yield f"**Members**: {listed([member.shown for member in room.members])}"
    if room.left:
        yield f"**Left**: {listed([member.shown for member in room.left])}"
    yield f"**Standing**: {standing(room)}"
    yield f"**Theme**: {room.theme}"
    yield f"**Who speaks next**: {_policy(room)}{_coming(room, running, names)}"
    if room.has_slots:
        now = f"; now until <t:{round(room.slot_until)}:t>" if room.slot_until is not None else ""
        yield f"**Audience**: {counted(round(room.audience_seconds), 'second')} after each round{now}"
    yield f"**Cost so far**: {dollars(room.cost_usd)}"
    if room.rules:
        yield f"**Rules**: {escaped(room.rules)}"
    if room.opened_by is not None:
        yield f"-# Opened by <@{room.opened_by}> <t:{round(room.opened_at)}:R>"


def _policy(room: Room) -> str:
    if room.policy != "moderated":
        return POLICY_TEXTS[room.policy]
    moderator = room.member(room.moderator) if room.moderator is not None else None
    return f"{moderator.shown} names the next member" if moderator is not None else "people name the next member"


def _coming(room: Room, running: Running | None, names: Mapping[str, str]) -> str:
    if running is None:
        return ""
    if running.waits_until is not None:
        return f"; the room waits until <t:{round(running.waits_until)}:t>, then pauses"
    coming: Sequence[str] = [*([running.speaker] if running.speaker else []), *running.coming]
    shown = {member.name: member.shown for member in room.members}
    return f"; now {shown.get(coming[0], names.get(coming[0], coming[0]))}" if coming else ""
