"""Finds the room that a command means, and offers rooms and agents while a name is being typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from agent_cogs.slash import CommandInvocation, Completion
from agentic.actions.config_commands import option_choices
from agentic.actions.responses import CHOICE_CHARACTERS, MOST_CHOICES, Choice
from agentic.agent.roster import Roster, RosterEntry
from agentic.personas.memory import MaySee
from agentic.rooms.thread_watch import Rooms
from agentic.state.rooms import Room

SEEN = 200  # rooms among which a topic is looked for

_THREAD = re.compile(r"(?:<#|.*/)?(\d{15,20})>?/?", re.DOTALL)


def may_be_named(room: Room, command: CommandInvocation, may_see: Callable[[int], MaySee]) -> bool:
    """Whether the room is in this server and, unless for a manager, in a channel that all readers of this one read."""
    if room.guild_id != command.guild_id:
        return False
    here = command.channel_id
    return command.who.manages_guild or here == room.thread_id or may_see(here)(room.channel_id)


async def room_in(command: CommandInvocation, rooms: Rooms, may_see: Callable[[int], MaySee]) -> Room | None:
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
    return sorted(found, key=lambda choice: not choice.label.casefold().startswith(letters))[:MOST_CHOICES]
