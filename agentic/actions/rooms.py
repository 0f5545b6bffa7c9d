"""Commands about rooms besides `/room create`: pause, resume, close and steer a room, show and export it.

A room is named by its thread's link or id, or by its topic; by default it is the one of the thread in which the command
is used. The coordinator carries out what changes a room; what shows one reads Redis, or the record. An owner steers
rooms from the console by the same orders.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from agentic.actions.base import (
    CHOICE_CHARACTERS,
    MAX_CHOICES,
    PAUSED,
    POLICY_TEXTS,
    Act,
    ActionRequest,
    Choice,
    CommandReply,
    Completion,
    Done,
    Handle,
    Request,
    Response,
)
from agentic.actions.config import option_choices
from agentic.actions.room_create import NO_BOT, OWNER
from agentic.agent.roster import Called, Named, Roster, RosterEntry, find, without_mentions
from agentic.agent.services import Services
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, snowflake
from agentic.personas.memory import MaySee
from agentic.record.database import RecordError
from agentic.record.export.render import room_page
from agentic.record.export.story import Look
from agentic.rooms.opening import RoomDraft, escaped
from agentic.state.conversations import Running
from agentic.state.rooms import (
    ARCHIVE_MINUTES,
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    MAX_MEMBERS,
    MAX_RULES,
    MAX_TURNS,
    MIN_MEMBERS,
    POLICIES,
    Room,
    RoomStore,
)
from agentic.text import counted, dollars, listed
from agentic.themes import THEMES
from agentic.wire.bus import NOBODY
from agentic.wire.messages import MAX_TOPIC, Command, RoomOrder
from agentic.wire.reasons import ENDINGS

SEEN = 200  # rooms among which a topic is looked for

_THREAD = re.compile(r"(?:<#|.*/)?(\d{15,20})>?/?", re.DOTALL)
MAX_LISTED = 15
MAX_BYTES = 8_000_000  # of a file, below Discord's limit for a server without boosts
NO_ROOM = "This thread isn't a room. Use the command in a room's thread, or name a room by its link or topic."
PLAIN_ORDER = RoomOrder()
MAX_AUDIENCE = 3600  # seconds
NOBODY_ANSWERS = "no coordinator answers: it is not running, or busy; nothing was done as far as the console knows"

# The outcomes of commands, for people. The fields are the room, as a link or by its topic, and the agent.
ROOM_DONE: Mapping[str, str] = {
    "opened": "{room} is open.",
    "room_paused": "{room} is paused. A message that is being posted may still appear.",
    "room_resumed": "{room} continues.",
    "room_closed": "{room} is closed. A message that is being posted may still appear.",
    "requested": "{agent} speaks next in {room}.",
    "added_member": "{agent} takes part in {room} from now on.",
    "removed_member": "{agent} no longer takes part in {room}.",
}
ROOM_REFUSALS: Mapping[str, str] = {
    "no_room": "{room} isn't a room, or its thread is gone.",
    "not_active": "{room} isn't running.",
    "already_paused": "{room} is paused already.",
    "already_closed": "{room} is closed already.",
    "already_member": "{agent} is already a member of {room}.",
    "no_member": "{agent} isn't a member of {room}.",
    "too_few_members": "{room} has fewer than two members. Add one first.",
    "full": f"{{room}} has {MAX_MEMBERS} members, which is the most.",
    "offline": "{agent} is offline.",
    "paused": "All bots are paused. Resume them first.",
    "stopped": "The bots are stopped in {room}. Lift that stop first.",
    "busy": "{room} is just finishing a turn. Try again in a moment.",
    "incomplete": "The coordinator couldn't read the room's options.",
}
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

    def __init__(self, services: Services, may_see: Callable[[int], MaySee]) -> None:
        self._services, self._may_see = services, may_see
        self.everyone: Mapping[str, Handle] = {"room status": self.status, "room list": self.list}
        self.managers: Mapping[str, Handle] = {
            "room stop": partial(self._order, name="room-pause", order=RoomOrder(reason="asked")),
            "room resume": self.resume,
            "room next": partial(self._order_member, name="room-next"),
            "room close": partial(self._order, name="room-close"),
            "room add": self.add,
            "room remove": partial(self._order_member, name="room-remove"),
            "room export": self.export,
        }

    async def resume(self, command: ActionRequest) -> str:
        turns = command.values.get("turns")
        more = None if turns is None else min(max(int(turns), 1), MAX_TURNS)
        room = await self._room_in(command)
        gone = self._services.roster.gone(room.names) if room is not None else ()
        return await self._order(command, "room-resume", RoomOrder(turns=more, gone=gone))

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
        entries = tuple(self._services.roster)
        look = Look(
            names={entry.key: entry.shown for entry in entries},
            colours={entry.key: entry.settings.spec.colour for entry in entries if entry.settings is not None},
            zone=settings.timezone,
        )
        try:
            page = await room_page(settings.record_file, room.thread_id, look=look)
        except (RecordError, sqlite3.Error):
            return "The record cannot be read here. It is on the machine that runs the coordinator."
        if page is None:
            return f"Nothing of <#{room.thread_id}> is recorded yet. What is said is in the record a few seconds later."
        if len(page.text.encode()) > MAX_BYTES:
            return "The page is too large for Discord. `python -m agentic.record export --room` writes it to a file."
        return CommandReply(f"The room “{escaped(room.topic)}” as a page:", file=(page.name, page.text))

    async def _order_member(self, command: ActionRequest, name: str) -> str:
        """An order about one who takes part, also one whose persona was deleted since."""
        room = await self._room_in(command)
        if room is None:
            return NO_ROOM
        members = [Called(one.name, one.shown) for one in room.members]
        member = find(members, self._agent_in(command))
        if isinstance(member, str):
            return f"{member} Members of <#{room.thread_id}>: {listed([one.shown for one in members])}."
        return await self._order(command, name, agent=member)

    def _agent_in(self, command: ActionRequest) -> str:
        return without_mentions(str(command.values.get("agent", "")), self._services.directory.agent_of)

    async def _order(
        self, command: ActionRequest, name: str, order: RoomOrder = PLAIN_ORDER, agent: Named | None = None
    ) -> str:
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
        """The room that the option names, or that of the thread; None for none that may be named here."""
        wanted, rooms = str(command.values.get("room", "")).strip(), self._services.state.coordination.rooms
        by_id = _THREAD.fullmatch(wanted)
        if by_id is None and wanted:
            named = [room for room in await rooms.list(limit=SEEN) if may_be_named(room, command, self._may_see)]
            topic = wanted.casefold()  # the newest room of that topic, or the only one whose topic has these words
            same = [room for room in named if room.topic.casefold() == topic]
            having = [room for room in named if topic in room.topic.casefold()]
            return same[0] if same else having[0] if len(having) == 1 else None
        room = await rooms.read(int(by_id[1]) if by_id is not None else command.channel_id)
        return room if room is not None and may_be_named(room, command, self._may_see) else None

    async def status(self, command: ActionRequest) -> str:
        state = self._services.state
        room = await self._room_in(command)
        if room is None:
            return NO_ROOM
        running = await state.coordination.conversations.running(room.thread_id) if room.status == "active" else None
        return "\n".join(_status_lines(room, running, self._services.roster.names))

    async def list(self, command: ActionRequest) -> str:
        found = await self._services.state.coordination.rooms.list(limit=None)
        here = [room for room in found if may_be_named(room, command, self._may_see)]
        here.sort(key=lambda room: ("active", "paused", "closed").index(room.status))  # newest first in each
        lines = [f"- <#{room.thread_id}> {escaped(room.topic)}: {describe(room)}" for room in here[:MAX_LISTED]]
        if len(here) > MAX_LISTED:
            lines.append(f"and {len(here) - MAX_LISTED} more")
        return "\n".join(lines) or "There is no room in this server yet. /room create opens one."


def describe(room: Room) -> str:
    """ "running, turn 3 of 20"; "paused after turn 3 of 20: a person paused it" """
    turns = f"turn {room.turn_number} of {room.turns}"
    if room.status == "active":
        return f"running, {turns}"
    why = ENDINGS.get(room.why, room.why) if room.why else ""  # type: ignore[call-overload]
    return f"{room.status} after {turns}{f': {why}' if why else ''}"


def _status_lines(room: Room, running: Running | None, names: Mapping[str, str]) -> Iterator[str]:
    yield f"**{escaped(room.topic)}** in <#{room.thread_id}>"
    yield f"**Members**: {listed([member.shown for member in room.members])}"
    if room.left:
        yield f"**Left**: {listed([member.shown for member in room.left])}"
    yield f"**Standing**: {describe(room)}"
    yield f"**Theme**: {room.theme}"
    policy, coming = POLICY_TEXTS[room.policy], ""
    if room.policy == "moderated":
        moderator = room.member(room.moderator) if room.moderator is not None else None
        policy = f"{moderator.shown} names the next member" if moderator is not None else "people name the next member"
    if running is not None and running.waits_until is not None:
        coming = f"; the room waits until <t:{round(running.waits_until)}:t>, then pauses"
    elif running is not None and (first := running.speaker or next(iter(running.coming), None)):
        member = room.member(first)
        coming = f"; now {member.shown if member is not None else names.get(first, first)}"
    yield f"**Who speaks next**: {policy}{coming}"
    if room.has_slots:
        now = f"; now until <t:{round(room.slot_until)}:t>" if room.slot_until is not None else ""
        yield f"**Audience**: {counted(round(room.audience_seconds), 'second')} after each round{now}"
    yield f"**Cost so far**: {dollars(room.cost_usd)}"
    if room.rules:
        yield f"**Rules**: {escaped(room.rules)}"
    if room.opened_by is not None:
        yield f"-# Opened by <@{room.opened_by}> <t:{round(room.opened_at)}:R>"


def may_be_named(room: Room, command: ActionRequest, may_see: Callable[[int], MaySee]) -> bool:
    """Whether the room is in this server and, unless for a manager, in a channel that all readers of this one read."""
    if room.guild_id != command.guild_id:
        return False
    here = command.channel_id
    return command.who.manages_guild or here == room.thread_id or may_see(here)(room.channel_id)


class Completions:
    """Choices for options that are being typed. Raises StateUnavailable if rooms cannot be read."""

    def __init__(self, roster: Roster, rooms: RoomStore, may_see: Callable[[int], MaySee]) -> None:
        self._roster, self._rooms, self._may_see = roster, rooms, may_see

    async def complete(self, typed: Completion) -> Sequence[Choice]:
        if typed.option == "option":
            return option_choices(typed)
        if typed.option == "room":
            every = await self._rooms.list(limit=SEEN)
            rooms = [room for room in every if may_be_named(room, typed.command, self._may_see)]
            lines = (f"{room.topic[: CHOICE_CHARACTERS - 12]} ({room.status})" for room in rooms)
            return _fitting(typed.typed, map(Choice, (str(room.thread_id) for room in rooms), lines))
        able = [entry for entry in self._roster if entry.why_not is None]
        if typed.option == "personas":  # the list so far, with each agent that may complete its last name
            before, comma, last = typed.typed.rpartition(",")
            taken = {name.strip().casefold() for name in before.split(",")}
            fitting = _agents(last.strip(), (entry for entry in able if entry.shown.casefold() not in taken))
            lists = (f"{before}{comma}{' ' if comma else ''}{choice.label}" for choice in fitting)
            return [Choice(names, names) for names in lists if len(names) <= CHOICE_CHARACTERS]
        if typed.option != "name":
            return _agents(typed.typed, able)
        bots = typed.command.name == "agent show"
        return _agents(typed.typed, (entry for entry in self._roster if bots or not entry.is_bot))


def _agents(typed: str, entries: Iterable[RosterEntry]) -> Sequence[Choice]:
    return _fitting(typed, (Choice(entry.key, entry.shown) for entry in entries))


def _fitting(typed: str, choices: Iterable[Choice]) -> Sequence[Choice]:
    """Those that have the letters typed so far; what begins with them first."""
    letters = typed.casefold()
    found = [choice for choice in choices if letters in choice.label.casefold()]
    return sorted(found, key=lambda choice: not choice.label.casefold().startswith(letters))[:MAX_CHOICES]


class RoomActions:
    """`known` maps the name of an action to what carries it out. The room is the request's `channel`: its thread."""

    def __init__(self, parts: ConsoleContext) -> None:
        self._parts = parts
        self.known: Mapping[str, Act] = {
            "open_room": self._open,
            "pause_room": partial(self._order, name="room-pause", order=RoomOrder(reason="asked")),
            "resume_room": self._resume,
            "next_in_room": partial(self._order, name="room-next"),
            "close_room": partial(self._order, name="room-close"),
            "add_to_room": self._add,
            "remove_from_room": partial(self._order, name="room-remove"),
        }

    async def _open(self, asked: Request) -> Done:
        if not self._parts.rooms.can_open():
            raise Refused(409, NO_BOT)
        topic = " ".join((asked.topic or "").split())
        if not 0 < len(topic) <= MAX_TOPIC:
            raise Refused(400, f"topic: expected a text of at most {MAX_TOPIC} characters")
        personas = tuple(dict.fromkeys(asked.personas or ()))
        if not MIN_MEMBERS <= len(personas) <= MAX_MEMBERS:
            raise Refused(400, f"choose {MIN_MEMBERS} to {MAX_MEMBERS} who take part")
        channel = snowflake(asked.channel or "", "channel")
        if channel not in self._parts.settings.channels:
            raise Refused(404, "that is not one of the bots' channels")
        policy = _one_of("policy", asked.policy or DEFAULT_POLICY, POLICIES)
        turns = _within("turns", DEFAULT_TURNS if asked.turns is None else asked.turns, 2, MAX_TURNS)
        archive = asked.archive or DEFAULT_ARCHIVE_MINUTES
        if archive not in ARCHIVE_MINUTES:
            raise Refused(400, f"archive: expected one of {', '.join(map(str, ARCHIVE_MINUTES))} minutes")
        draft = RoomDraft(
            asked_by=OWNER,
            channel_id=channel,
            topic=topic,
            policy=policy,  # type: ignore[arg-type]
            turns=turns,
            archive_minutes=archive,
            audience_seconds=_within("audience", asked.audience or 0, 0, MAX_AUDIENCE),
            goodbye_ends=bool(asked.goodbye_ends),
            theme=_one_of("theme", asked.theme or DEFAULT_THEME, tuple(THEMES)),
            rules=(asked.rules or "").strip()[:MAX_RULES],
        )
        opened = await self._parts.rooms.open(draft, personas)
        if opened.thread_id is None:
            raise Refused(409, opened.text)
        return Done("opened", opened.text, topic)

    async def _resume(self, asked: Request) -> Done:
        more = None if asked.turns is None else _within("turns", asked.turns, 1, MAX_TURNS)
        room = await self._parts.state.coordination.rooms.read(snowflake(asked.channel or "", "channel"))
        gone = self._parts.rooms.gone(room.names) if room is not None else ()
        order = RoomOrder(turns=more, gone=gone)
        return await self._order(asked, "room-resume", order, detail=f"+{more} turns" if more else "")

    async def _add(self, asked: Request) -> Done:
        seat = next((seat for seat in self._parts.rooms.seats() if seat.key == asked.agent), None)
        if seat is None:
            raise Refused(404, "nobody of that name can take part")
        if seat.why_not is not None:
            raise Refused(409, f"{seat.member.shown} cannot take part: {seat.why_not}")
        return await self._order(asked, "room-add", RoomOrder(member=seat.member.model_dump_json()))

    async def _order(self, asked: Request, name: str, order: RoomOrder = PLAIN_ORDER, detail: str = "") -> Done:
        thread = snowflake(asked.channel or "", "channel")
        room = await self._parts.state.coordination.rooms.read(thread)
        if room is None:
            raise Refused(404, "there is no such room")
        command = Command(command=name, channel_id=thread, agent_name=asked.agent, room=order)
        outcome = await self._parts.orders.give(command)
        member = room.member(asked.agent) if asked.agent is not None else None
        shown = self._parts.names.get(asked.agent, asked.agent) if asked.agent is not None else "The next one"
        fields = {"room": f"“{room.topic}”", "agent": member.shown if member is not None else shown}
        if (text := ROOM_DONE.get(outcome)) is not None:
            return Done(outcome, text.format(**fields), detail)
        if outcome == NOBODY:
            raise Refused(503, NOBODY_ANSWERS)
        raise Refused(409, ROOM_REFUSALS.get(outcome, f"The coordinator refused: {outcome}.").format(**fields))


def _within(name: str, number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise Refused(400, f"{name}: expected a whole number from {low} to {high}")
    return number


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise Refused(400, f"{name}: expected one of {', '.join(known)}")
    return value
