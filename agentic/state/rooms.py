"""Rooms: conversations in threads, with agents of their own, which people open, pause, resume, and close.

A Room is everything that is known of one, its present status included. Only the coordinator that leads writes it
(ConversationStore.keep), together with the conversation that runs in it. What a person wants of a room reaches the
coordinator as a RoomOrder. A room is a JSON text of its own key, and an index has the threads of all rooms by their
last change; both end 90 days after it. A room that another version wrote is read as far as this version knows it.

Beside them: the marks of what was done in a room's thread, written by the process that acts for the personas alone
(agentic/rooms/threads.py); openings, rooms whose thread is being made, which survive a crash at each step
(agentic/rooms/opening.py); and arenas, questions with two hidden answers and a vote (agentic/rooms/arena.py), each
written before every step and dropped when its end was said.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError

from agentic.policies import PolicyName
from agentic.wire import keys
from agentic.wire.connection import Store, or_default, when_back
from agentic.wire.entries import StoredValue
from agentic.wire.messages import RoomNotice
from agentic.wire.reasons import PAUSES, EndReason

RoomStatus = Literal["active", "paused", "closed"]
ARCHIVE_MINUTES = (60, 1440, 4320, 10080)  # Discord takes no others
DEFAULT_ARCHIVE_MINUTES = 1440
DEFAULT_POLICY: PolicyName = "round-robin"
DEFAULT_THEME = "debate"
DEFAULT_TURNS = 20
MAX_TURNS = 200
MAX_MEMBERS = 8
MAX_RULES = 1_000  # characters
MIN_MEMBERS = 2
MAX_FAILURES = 3  # of a member's turns in a row; then it leaves
CHANGES = frozenset({"left", "unclear"})  # kinds of lines that a person's change may add
MAX_LINES = 8  # that are kept for the thread; older lines were posted long before

ROOM_SECONDS = 90 * 86400  # after the last change
MARK_SECONDS = 90 * 86400
ARENA_SECONDS = 2 * 86400  # after the last change of any arena
DRAFT_SECONDS = 15 * 60  # as long as Discord takes answers to a command
OPENING_SECONDS = 3600  # of what is being made; it is given up long before
MAX_ROOMS = 10_000
LISTED = 100
PAGE = 200  # rooms read at once
FORGIVEN = frozenset({"policy", "archive_minutes", "audience_seconds", "left", "moderator", "slot_until"})
"""Fields that count as missing if another version wrote a value that this version does not know."""

# write_room(at): KEYS[at] is the room, KEYS[at + 1] the index. The arguments are those of `room_args`. A room that is
# as it was is written too, in case Redis lost it, but is no change.
WRITE_ROOM = """
local function write_room(at, first)
  local text, thread, changed = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local changes = redis.call('GET', KEYS[at]) ~= text
  redis.call('SET', KEYS[at], text, 'EX', ARGV[first + 3])
  redis.call('ZADD', KEYS[at + 1], changed, thread)
  redis.call('ZREMRANGEBYSCORE', KEYS[at + 1], '-inf', '(' .. (changed - ARGV[first + 3]))
  redis.call('ZREMRANGEBYRANK', KEYS[at + 1], 0, -1 - ARGV[first + 4])
  redis.call('EXPIRE', KEYS[at + 1], ARGV[first + 3])
  if changes then redis.call('PUBLISH', ARGV[first + 5], ARGV[first + 6]) end
end
"""

log = logging.getLogger(__name__)


class RoomMember(StoredValue):
    """An agent in a room: a bot with an account of its own, or a persona that speaks through a webhook.
    `failures`: of its turns, in a row; `failure_noted`: people have read about one since the room was opened or
    resumed, and `turns_taken` counts its turns since then, with or without a post, except failures. `interests` and
    `talkativeness` (0 to 1) are its persona's."""

    name: str  # the agent's key
    shown: str
    talkativeness: float | None = None
    interests: tuple[str, ...] = ()
    failures: int = 0
    failure_noted: bool = False
    turns_taken: int = 0


class RoomLine(StoredValue):
    """Something to tell the people in the thread, in one line. `kind`: failed, left, waits, unclear; an open set.
    `number` counts the room's lines from 1. `why` is a reason of results, or of leaving."""

    number: int
    kind: str
    members: tuple[str, ...] = ()  # shown names
    why: str = ""
    turn: int = 0  # the room's last turn by then


class Room(StoredValue):
    """A room. Times in unix seconds, ids are Discord's.

    `turn_number` counts the posts of its members from 1; a turn that posts nothing has no number. `why` is the cause of
    its present status. `slot_until` is set while the thread is open to its audience; `slot_turn` is the
    turn after which it was last. `rounds`, `skips` and `cost_usd` (US dollars) are those of its whole life.
    """

    thread_id: int
    channel_id: int  # of the text channel above the thread
    guild_id: int | None = None
    conversation_id: str
    topic: str
    members: tuple[RoomMember, ...]  # in speaking order
    left: tuple[RoomMember, ...] = ()
    policy: PolicyName = DEFAULT_POLICY
    rules: str = Field("", max_length=MAX_RULES)
    archive_minutes: int = DEFAULT_ARCHIVE_MINUTES
    turns: int = DEFAULT_TURNS  # the limit
    audience_seconds: float = 0.0  # 0: the thread is open all the time
    goodbye_ends: bool = False  # a post that is a mere goodbye ends the room
    moderator: str | None = None  # of the policy `moderated`: the member that names the next; None: people do
    status: RoomStatus = "active"
    why: str | None = None
    turn_number: int = 0  # of the last turn that posted
    starter: str | None = None  # whose post is the first
    last_speaker: str | None = None
    theme: str = DEFAULT_THEME
    lines: tuple[RoomLine, ...] = ()  # the newest
    wait_noted: bool = False  # people have read that the room waits for them to name the next speaker
    rounds: int = 0
    skips: int = 0
    cost_usd: float = 0.0
    slot_until: float | None = None
    slot_turn: int = 0
    opened_by: int | None = None  # a person
    opened_at: float = 0.0
    changed_at: float = 0.0

    @property
    def has_slots(self) -> bool:
        """Whether its thread is open to the audience only in slots: between them we lock it."""
        return self.audience_seconds > 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    def member(self, name: str) -> RoomMember | None:
        return next((member for member in self.members if member.name == name), None)

    def with_line(self, kind: str, *shown: str, why: str = "") -> Room:
        """The room with one more line for the people in its thread. A line of CHANGES that was just added isn't
        repeated: a change by a person may be made twice, before and after the turn that is under way."""
        just = (line for line in self.lines if kind in CHANGES and line.turn >= self.turn_number - 1)
        if any((line.kind, line.members, line.why) == (kind, shown, why) for line in just):
            return self
        number = self.lines[-1].number + 1 if self.lines else 1
        line = RoomLine(number=number, kind=kind, members=shown, why=why, turn=self.turn_number)
        return self.model_copy(update={"lines": (*self.lines, line)[-MAX_LINES:]})

    def ended(self, because: EndReason) -> Room:
        """The room once its conversation has ended: paused or closed, by the reason."""
        status = "paused" if because in PAUSES else "closed"
        return self.model_copy(update={"status": status, "why": because, "slot_until": None})


def room_keys(room: Room) -> list[str]:
    return [keys.room(room.thread_id), keys.COORDINATOR_ROOMS]


def room_args(room: Room) -> list[str | int | float]:
    notice = RoomNotice(thread_id=room.thread_id).to_wire()
    bounds = (ROOM_SECONDS, MAX_ROOMS)
    return [room.model_dump_json(), room.thread_id, room.changed_at, *bounds, keys.ROOM_NOTICES, notice]


class RoomStore(Store):
    """Only for reading; all methods but `may_exist` raise StateUnavailable."""

    async def read(self, thread_id: int) -> Room | None:
        """The thread's room; None if there is none or it can't be read."""
        text = await self._text(keys.room(thread_id))
        return None if text is None else _read_room(thread_id, text)

    @or_default(True, "threads count as rooms")
    async def may_exist(self, thread_id: int) -> bool:
        """Whether the thread has a room, or nobody knows."""
        return await self.read(thread_id) is not None

    async def list(self, status: RoomStatus | None = None, limit: int | None = LISTED) -> list[Room]:
        """The rooms of that status, the last changed first; at most `limit`, None for all."""
        rooms: dict[int, Room] = {}  # a room that moves up meanwhile is not listed twice
        start = 0
        while page := await self._threads(start):  # page by page, since no command may take long
            texts = await self._link.call(lambda redis, ids=page: redis.mget([keys.room(each) for each in ids]))  # type: ignore[misc]
            for thread_id, text in zip(page, texts, strict=True):
                if text is None or thread_id in rooms or (room := _read_room(thread_id, str(text))) is None:
                    continue
                if status in (None, room.status):
                    rooms[thread_id] = room
                if len(rooms) == limit:
                    return [*rooms.values()]
            start += len(page)
        return [*rooms.values()]

    async def _threads(self, start: int) -> Sequence[int]:
        page = await self._link.call(lambda redis: redis.zrevrange(keys.COORDINATOR_ROOMS, start, start + PAGE - 1))
        return [int(str(thread)) for thread in page]


def _read_room(thread_id: int, text: str) -> Room | None:
    try:
        return Room.model_validate_json(text)
    except ValidationError as error:
        wrong = {str(each["loc"][0]) if each["loc"] else "JSON" for each in error.errors()}
        if wrong <= FORGIVEN:
            return Room.model_validate({name: value for name, value in json.loads(text).items() if name not in wrong})
        log.warning("the room in thread %d cannot be read, its wrong fields: %s", thread_id, ", ".join(sorted(wrong)))
        return None


class ArenaAnswer(StoredValue):
    """A contender with its answer. `model` is provider/model."""

    agent: str
    shown: str
    model: str
    text: str


class Arena(StoredValue):
    """`id` is that of the command. `begun`: the contenders were asked; `answers` are theirs once both have answered,
    `until` (unix seconds) is set once people can vote on the message."""

    id: int
    channel_id: int
    guild_id: int | None = None
    parent_id: int | None = None  # of a thread: its channel
    question: str
    asked_by: int
    minutes: int
    at: float  # unix seconds
    begun: bool = False
    answers: tuple[ArenaAnswer, ...] = ()
    message_id: int | None = None
    until: float | None = None


class Arenas(Store):
    async def open(self, arena: Arena) -> bool:
        """Store a new one; False if the channel has one already."""
        key, field, text = keys.COORDINATOR_ARENAS, str(arena.channel_id), arena.model_dump_json()
        done = await self._link.batch(
            lambda pipe: (pipe.hsetnx(key, field, text), pipe.expire(key, ARENA_SECONDS)), transaction=True
        )
        return bool(done[0])

    async def keep(self, arena: Arena) -> None:
        text = arena.model_dump_json()
        await self._link.call(lambda redis: redis.hset(keys.COORDINATOR_ARENAS, str(arena.channel_id), text))

    async def drop(self, channel_id: int) -> None:
        await self._link.call(lambda redis: redis.hdel(keys.COORDINATOR_ARENAS, str(channel_id)))

    async def all(self) -> list[Arena]:
        texts = await self._link.call(lambda redis: redis.hvals(keys.COORDINATOR_ARENAS))
        return [arena for text in texts if (arena := Arena.parse(text)) is not None]

    async def has_host(self) -> bool:
        """Whether a process acts for arenas: the one that acts for the personas."""
        return bool(await self._link.call(lambda redis: redis.exists(keys.PERSONAS_OWNER)))


class Marks(StoredValue):
    """`standing`: the room's standing that was said, such as "paused stopped". `slot`: the audience's slot that was
    announced, by its end (unix seconds). `locked`: the thread's lock is ours; `lock_done`: the thread is locked, not
    only about to be. `unlockable`: it was said that we may not lock it. `archived`: we have archived it.
    `line`: the newest of the room's lines that was posted."""

    standing: str = ""
    slot: float = 0.0
    locked: bool = False
    lock_done: bool = False
    unlockable: bool = False
    archived: bool = False
    line: int = 0


class RoomMarks(Store):
    async def read(self, thread_id: int) -> Marks:
        found: dict[Any, Any] = await self._link.call(lambda redis: redis.hgetall(keys.room_marks(thread_id)))
        try:
            return Marks.model_validate(found)
        except ValidationError:
            log.warning("the marks of room %d cannot be read, perhaps written by another version", thread_id)
            return Marks()

    async def set(self, thread_id: int, **marks: str | float | bool) -> None:
        values: dict[Any, Any] = {
            name: int(value) if isinstance(value, bool) else value for name, value in marks.items()
        }
        key = keys.room_marks(thread_id)
        await self._link.batch(
            lambda pipe: (pipe.hset(key, mapping=values), pipe.expire(key, MARK_SECONDS)), transaction=True
        )


class RoomOpening(StoredValue):
    """A room whose thread is being made, by the bot of `agent`. `request` is the id of the command, which is older
    than all that is made for it. The room's thread is 0 until there is one."""

    request: int
    agent: str
    at: float  # unix seconds
    room: Room
    name: str  # of the thread
    text: str  # of the message above it


class RoomOpenings(Store):
    async def keep(self, opening: RoomOpening) -> None:
        key, field, text = keys.ROOM_OPENINGS, str(opening.request), opening.model_dump_json()
        await self._link.batch(
            lambda pipe: (pipe.hset(key, field, text), pipe.expire(key, OPENING_SECONDS)), transaction=True
        )

    @when_back("the ends of openings of rooms")
    async def drop(self, request: int) -> None:
        await self._link.call(lambda redis: redis.hdel(keys.ROOM_OPENINGS, str(request)))

    async def of(self, agent: str) -> Sequence[RoomOpening]:
        """Those that the bot of this agent began."""
        texts = await self._link.call(lambda redis: redis.hvals(keys.ROOM_OPENINGS))
        openings = (RoomOpening.parse(text) for text in texts)
        return [opening for opening in openings if opening is not None and opening.agent == agent]

    async def keep_draft(self, request: int, draft: str) -> None:
        """Store what a person asked for until they have chosen the members."""
        await self._link.call(lambda redis: redis.set(keys.room_opening(str(request)), draft, ex=DRAFT_SECONDS))

    async def draft(self, request: int) -> str | None:
        """None for one that has expired, or was taken."""
        return await self._text(keys.room_opening(str(request)))

    async def take_draft(self, request: int) -> bool:
        """Remove it; false if it is gone already, so that one choice makes one room."""
        return bool(await self._link.call(lambda redis: redis.delete(keys.room_opening(str(request)))))
