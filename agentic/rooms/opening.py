"""Open a room: post a message in the channel, start a thread from it, and tell the coordinator.

    save the draft → message → thread → room-open → delete the draft

The message may exist, if a member proposed the room (agentic/rooms/proposals.py), and so may the thread.

Each step can be repeated: for some minutes Discord recognizes a repeated message by its nonce, and later the program
looks for it; a message has one thread, with the same id; and the coordinator knows a room by its thread. So the bot
that began an opening continues it for 15 minutes after a crash or an outage of Discord or Redis.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pydantic
from cachetools import TTLCache

from agentic.agent.services import Services
from agentic.chat.outlet import CannotPost
from agentic.context.entries import one_line
from agentic.formats import DEFAULT_FORMAT, FORMATS, FormatName
from agentic.pace import LIVE, archive_minutes, describe_pace
from agentic.policies import PolicyName
from agentic.rooms.room_bot import RoomBot
from agentic.state.leases import AnyLease
from agentic.state.rooms import (
    ARCHIVE_MINUTES,
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    MAX_RULES,
    MAX_TURNS,
    Room,
    RoomMember,
    RoomOpening,
)
from agentic.text import counted, listed
from agentic.wire.bus import NOBODY
from agentic.wire.connection import or_default
from agentic.wire.entries import StoredValue
from agentic.wire.messages import MAX_TOPIC, Command, RoomOrder

MAX_THREAD_NAME = 100  # characters
MAX_NAME = 80  # characters of a person's name
SHOWN_DETAILS = 500  # characters, in the message above the thread
SHOWN_RULES = 300  # characters, in the message above the thread
UNNAMED = "Room"
DISCUSS = " discuss this in the thread, in "
VOTES = "React with 👍 to a post to vote for its author."
GIVE_UP_SECONDS = 15 * 60
RETRY_SECONDS = 15.0
REPEATED_SECONDS = 20.0  # in which the same request is a double click or a second try
MAX_RECENT = 200
OPENED = "opened"
JUST_OPENED = "just_opened"  # an outcome: the same request has opened this room
AWAY = "away"  # an outcome: Redis is unavailable
NOT_OPENED = "(This room wasn't opened.)"
# Opening quotation marks, and what may close each of them.
QUOTES = {**dict(zip("\"'“”‘«»‹「『", "\"'””’»«›」』", strict=True)), "„": "“”"}

_MARKS = re.compile(r"(https?://[^\s\\*`|<>\[\]]++)|([\\*_~`|>#\[\]])")

log = logging.getLogger(__name__)


class RoomDraft(StoredValue):
    """A room as a person asked for it, without its members. `question`: the room begins with it."""

    asked_by: int  # 0: the owner, in the console
    channel_id: int
    guild_id: int | None = None
    topic: str = ""
    details: str = ""  # the topic in full, if it is longer
    turns: int = pydantic.Field(DEFAULT_TURNS, ge=2, le=MAX_TURNS)
    archive_minutes: int = DEFAULT_ARCHIVE_MINUTES
    policy: PolicyName = DEFAULT_POLICY
    format: FormatName = DEFAULT_FORMAT
    sides: dict[str, str] = pydantic.Field(default_factory=dict)  # by the member's key, as the person chose them
    moderator: str | None = None  # as the person wrote it
    audience_seconds: float = 0.0
    pace: str = LIVE
    goodbye_ends: bool = False
    theme: str = DEFAULT_THEME
    asked_by_name: str = ""  # as this server shows it
    rules: str = ""
    judge: str = ""  # an agent's key, or provider/model
    poll: bool = False
    question: str = ""
    thread_id: int = 0  # of the thread that becomes the room
    proposed: bool = False  # see Room

    @pydantic.field_validator("topic")
    @classmethod
    def _one_line(cls, topic: str) -> str:
        return topic_of(topic)[:MAX_TOPIC].rstrip()


def topic_of(text: str) -> str:
    """Return a topic as typed, on one line, without quotation marks around it."""
    topic = one_line(text, len(text))
    while len(topic) >= 2 and topic[-1] in QUOTES.get(topic[0], ""):
        within = topic[1:-1].strip()
        if topic[0] in within or topic[-1] in within:  # two quotations: "Tea" or "coffee"
            break
        topic = within
    return topic


def room_of(draft: RoomDraft, members: Sequence[RoomMember], moderator: str | None, now: float) -> Room:
    """Make the room, before it has a thread. `moderator`: a member's key; in a room with a format it speaks first."""
    same = {"channel_id", "guild_id", "topic", "policy", "turns", "goodbye_ends", "theme", "format", "pace"}
    members = [member.model_copy(update={"side": draft.sides.get(member.name, "")}) for member in members]
    if draft.format != DEFAULT_FORMAT:
        members.sort(key=lambda member: member.name != moderator)
    archive = archive_minutes(draft.pace, draft.archive_minutes, ARCHIVE_MINUTES)  # it stays open between two turns
    room = Room(
        **draft.model_dump(include={*same, "audience_seconds", "details", "thread_id", "proposed", "judge", "poll"}),
        archive_minutes=archive,
        conversation_id=str(uuid.uuid4()),
        members=tuple(members),
        moderator=moderator,
        rules=rules_of(draft),
        opened_by=draft.asked_by or None,
        opened_at=now,
        changed_at=now,
    )
    room, schedule = room.with_sides(), room.schedule()
    return room.model_copy(update={"turns": schedule[-1][1]}) if schedule and not room.people_choose else room


def rules_of(draft: RoomDraft) -> str:
    """Return the rules and the first question, so that each member knows it."""
    question = f"Begin with this question: {draft.question.strip()}" if draft.question.strip() else ""
    return "\n".join(filter(None, (draft.rules.strip(), question)))[:MAX_RULES]


def thread_name(topic: str) -> str:
    name = one_line(topic, MAX_THREAD_NAME + 1)
    if len(name) > MAX_THREAD_NAME:
        name = f"{name[: MAX_THREAD_NAME - 2].rstrip()} …"
    return name or UNNAMED


def seated_names(room: Room) -> list[str]:
    """Return the members' names, each with its side or role in the room's format: Claude (for)."""
    found = []
    for member in room.members:
        role, side = room.role_of(member.name), member.side if FORMATS[room.format].has_sides else ""
        seat = side if role == "member" else role
        found.append(f"{escaped(member.shown)} ({seat})" if seat else escaped(member.shown))
    return found


def opening_text(room: Room, question: str = "", asked_by: str = "", rules: str = "", began: str = "") -> str:
    """Return the message above the thread: who discusses what, in which format, for how many turns, by which rules.
    `asked_by`: the name of the person who opened or proposed the room; it pings nobody. `began`: how a proposed room
    came to open."""
    who, turns = listed(seated_names(room)), counted(room.turns, "turn")
    first = f" The first question: {escaped(one_line(question, MAX_TOPIC))}" if question.strip() else ""
    name = escaped(one_line(asked_by, MAX_NAME))
    opener = f" {name} opened this room." if name else ""
    if room.proposed:
        opener = f" {name or 'A member'} proposed this debate{f', and {began}' if began else ''}."
    lines = [f"{_beginning(room)}{who}{DISCUSS}{turns}.{opener}{first} {VOTES}"]
    if room.details:
        lines.append(f"> {escaped(one_line(room.details, SHOWN_DETAILS))}")
    if phases := ", ".join(f"{phase.name} (until turn {last})" for phase, last in room.schedule()):
        lines.append(f"**Format**: {room.format}: {phases}")
    if room.pace != LIVE:
        lines.append(f"**Pace**: {describe_pace(room.pace)}")
    if room.policy == "moderated" and room.moderator is None:
        lines.append("**Who speaks next**: you decide. After each turn, the room waits until you name a member.")
    if rules.strip():
        lines.append(f"**Rules**: {escaped(one_line(rules, SHOWN_RULES))}")
    return "\n".join(lines)


def is_opening(room: Room, text: str) -> bool:
    """Whether the text is the room's opening message."""
    return text.startswith(_beginning(room)) and DISCUSS in text.partition("\n")[0]


def _beginning(room: Room) -> str:
    return f"**{escaped(room.topic)}**: "


def escaped(text: str) -> str:
    """Escape markdown in a person's text, but not in addresses, which would lead elsewhere."""
    return _MARKS.sub(lambda found: found[1] or f"\\{found[2]}", text)


@dataclass(frozen=True, slots=True)
class Opening:
    """`outcome`: the coordinator's, AWAY, JUST_OPENED, or CannotPost's reason."""

    outcome: str
    thread_id: int | None = None
    given_up: bool = False


class RoomOpener:
    """Opens rooms with the bot of `agent`. `lease`: whether this process acts for it."""

    def __init__(self, agent: str, services: Services, bot: RoomBot, *, lease: AnyLease) -> None:
        self.agent, self.bot, self._lease = agent, bot, lease
        self._openings = services.state.coordination.room_openings
        self._orders, self._clock = services.bus.orders, services.clock
        self._under_way: set[int] = set()
        self._recent = TTLCache[object, asyncio.Future[Opening | None]](MAX_RECENT, REPEATED_SECONDS, self._clock)

    async def open(self, request: int, room: Room, name: str, text: str) -> Opening:
        """Open the room in a thread `name` below a message `text`, or in its thread if it has one. A repeated request
        gets what became of the first one. Raises StateUnavailable if nothing was made."""
        wanted, done = (room.opened_by, room.channel_id, room.topic, room.names), asyncio.Future[Opening | None]()
        first, opening = self._recent.setdefault(wanted, done), None
        if first is not done and (opening := await asyncio.shield(first)) is not None and not opening.given_up:
            return replace(opening, outcome=JUST_OPENED) if opening.outcome == OPENED else opening
        self._recent[wanted] = done
        try:
            opening = await self._open(request, room, name, text)
            return opening
        finally:
            done.set_result(opening)

    async def _open(self, request: int, room: Room, name: str, text: str) -> Opening:
        opening = RoomOpening(
            request=request,
            agent=self.agent,
            at=self._clock(),
            room=room,
            name=name,
            text=text,
            at_first="thread" if room.thread_id else "message",
        )
        await self._openings.keep(opening)
        return await self.proceed(opening)

    async def run(self) -> None:
        while True:
            if self._lease.is_held:
                await self.continue_all()
            await asyncio.sleep(RETRY_SECONDS)

    @or_default(None, "openings of rooms wait")
    async def continue_all(self) -> None:
        """Continue this bot's interrupted openings, and give up old ones."""
        for opening in await self._openings.of(self.agent):
            if opening.request in self._under_way:
                continue
            if self._clock() - opening.at > GIVE_UP_SECONDS:
                log.warning("%s: gave up on opening a room in channel %d", self.agent, opening.room.channel_id)
                await self._give_up(opening)
            else:
                log.info("%s: continuing to open a room in channel %d", self.agent, opening.room.channel_id)
                await self.proceed(opening, again=True)

    async def proceed(self, opening: RoomOpening, *, again: bool = False) -> Opening:
        """Make a stored opening's thread and room. `again`: an earlier try may have begun."""
        self._under_way.add(opening.request)
        try:
            return await self._make(opening, again=again)
        finally:
            self._under_way.discard(opening.request)

    async def _make(self, opening: RoomOpening, *, again: bool) -> Opening:
        room, bot = opening.room, self.bot
        try:
            if opening.at_first == "thread":
                since = opening.at if again else None
                key = f"room {opening.request}"
                await bot.say(room.channel_id, room.thread_id, opening.text, key, since=since)
            elif opening.at_first == "proposal":
                await bot.edit_opening(room.channel_id, room.thread_id, opening.text)
            elif not room.thread_id:  # the message's id will be the thread's
                message_id = await bot.post_opening(room.channel_id, opening.text, opening.request, again=again)
                room = room.model_copy(update={"thread_id": message_id})
                opening = opening.model_copy(update={"room": room})
                await or_default(None, "a room's message is found in the channel")(self._openings.keep)(opening)
            if opening.at_first != "thread":
                await bot.start_thread(room.channel_id, room.thread_id, opening.name, room.archive_minutes)
        except CannotPost as error:
            log.warning("%s: could not start a thread in channel %d: %s", self.agent, room.channel_id, error.reason)
            if error.is_final:
                await self._give_up(opening)
            return Opening(error.reason, given_up=error.is_final)
        thread_id, order = room.thread_id, RoomOrder(room=room.model_dump_json())
        give = or_default(AWAY, "rooms are not open yet")(self._orders.give)
        outcome = await give(Command(command="room-open", channel_id=thread_id, room=order))
        if outcome == OPENED:
            await self._openings.drop(opening.request)
        elif outcome not in (NOBODY, AWAY):
            log.warning("%s: the coordinator did not open room %d: %s", self.agent, thread_id, outcome)
            await self._give_up(opening)
        return Opening(outcome, thread_id, given_up=outcome not in (OPENED, NOBODY, AWAY))

    async def _give_up(self, opening: RoomOpening) -> None:
        """Say in the channel that there is no room, and delete the draft."""
        await self._openings.drop(opening.request)
        if message_id := opening.room.thread_id:
            channel_id = opening.room.channel_id
            with suppress(CannotPost):  # logged there; the message may be gone
                if opening.at_first == "thread":
                    await self.bot.say(channel_id, message_id, NOT_OPENED, f"not {opening.request}")
                else:
                    await self.bot.edit_opening(channel_id, message_id, f"{opening.text}\n{NOT_OPENED}")
