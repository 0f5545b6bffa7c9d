"""Rooms: conversations in threads, with members of their own, which people open, pause, resume, and close.

A Room has everything that is known about a room, including its status. Only the leading coordinator writes it
(ConversationStore.keep), together with the room's conversation. People's requests reach the coordinator as a RoomOrder.
Each room is JSON under a key of its own, and an index has all rooms' threads by their last change; both expire 90 days
after it. Fields with values that only another version knows are treated as missing.

Also here: marks of what was done in a room's thread, written only by the process that acts for the personas
(agentic/rooms/threads.py); openings, rooms whose thread is being made, which survive a crash at each step
(agentic/rooms/opening.py); and arenas, questions with two hidden answers and a vote (agentic/rooms/arena.py), which are
stored before every step and dropped once their result was posted.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from agentic.context.window import WINDOW_KINDS
from agentic.formats import DEFAULT_FORMAT, FORMATS, GUEST, SIDES, FormatName, Phase, Role
from agentic.pace import LIVE, parse_pace
from agentic.policies import PolicyName
from agentic.state.budgets import MEMBERS
from agentic.state.silence import ChannelRef
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
MAX_DETAILS = 4_000  # characters
MAX_ARGUMENTS = 10  # of the ledger
MIN_MEMBERS = 2
MAX_FAILURES = 3  # of a member in a row; then it leaves
CHANGES = frozenset({"left", "unclear"})  # kinds of lines that a person's change may add
VOTE = "👍"  # of any skin tone
NOT_ASKED = -1
MAX_LINES = 8  # kept for the thread; older lines were posted long ago

ROOM_SECONDS = 90 * 86400  # after the last change
MARK_SECONDS = 90 * 86400
ARENA_SECONDS = 2 * 86400  # after the last change of any arena
DRAFT_SECONDS = 15 * 60  # as long as Discord takes answers to a command
OPENING_SECONDS = 3600  # of a room being opened; opening it is given up long before
SHARE_BYTES = 32  # of a link's token
MAX_ROOMS = 10_000
LISTED = 100
PAGE = 200  # rooms read at once
FORGIVEN = frozenset(
    {
        *("policy", "archive_minutes", "audience_seconds", "format", "left", "moderator", "slot_until"),
        *("closing_because", "next_turn_at", "pace"),
    }
)
"""Fields that are treated as missing if another version wrote an unknown value."""

# write_room(at): KEYS[at] is the room, KEYS[at + 1] the index; arguments as in `room_args`. An unchanged room is
# written, too, in case Redis lost it, but without a notice.
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
    """An agent in a room: a bot with an account of its own, or a persona that speaks through a webhook. `failures`: in
    a row. Since the room was opened or resumed: `failure_noted`, whether people were told about a failure, and
    `turns_taken`, its turns without failures, and `thinking_noted`, the seconds of a turn that people were told (0 for
    none). `interests` and `talkativeness` (0 to 1) are its persona's."""

    name: str  # the agent's key
    shown: str
    side: str = ""  # one of SIDES, or GUEST; "" for none
    talkativeness: float | None = None
    interests: tuple[str, ...] = ()
    failures: int = 0
    failure_noted: bool = False
    turns_taken: int = 0
    thinking_noted: int = 0


PERSONA_FIELDS = ("shown", "talkativeness", "interests")
"""A member's fields that its persona sets."""


class RoomLine(StoredValue):
    """One line for the people in the thread. `kind`: failed, left, waits, unclear, thinking, phase (with the member
    that speaks first), slot, next, or others. The room's lines are numbered from 1. `why`: a reason of results, or of
    leaving, the seconds of thinking, the phase, how many messages of a slot are answered, or when the next member
    speaks (unix seconds)."""

    number: int
    kind: str
    members: tuple[str, ...] = ()  # shown names
    why: str = ""
    turn: int = 0  # the room's last turn at that time


class Room(StoredValue):
    """A room. Times in unix seconds, ids are Discord's.

    `turn_number` counts its members' posts from 1; turns without a post have no number. `why`: the cause of its status.
    `slot_until` is set while the audience has the thread; `slot_turn`: the turn after which it last had. A room with
    `closing_because` closes for that reason after a last slot, for votes (`slot_turn` is -1 until then). `rounds`,
    `skips`, and `cost_usd` (US dollars) are sums over the room's whole life. `pace`: see agentic.pace; unless it is
    live, the turn after a post comes at `next_turn_at`.

    `topic` is one short line. `details`: the topic in full, if it is longer. `moderator`: with the policy `moderated`,
    the member that names the next speaker (None: people do); in a room with a format, the member that asks and sums up.
    `phase`: name of the phase that has begun. `phase_turns`: the members that had a turn of it, in order (None: not
    known, as without a format). `phase_noted`: the thread was told of it. `ledger`: the arguments made before it, one a
    line. `extra_turns`: posts of members that people called after their turn; `turns` grows with each, so that nobody
    else loses a turn.
    """

    thread_id: int
    channel_id: int  # the text channel above the thread
    guild_id: int | None = None
    conversation_id: str
    topic: str
    details: str = Field(default="", max_length=MAX_DETAILS)
    members: tuple[RoomMember, ...]  # in speaking order
    left: tuple[RoomMember, ...] = ()
    policy: PolicyName = DEFAULT_POLICY
    rules: str = Field(default="", max_length=MAX_RULES)
    archive_minutes: int = DEFAULT_ARCHIVE_MINUTES
    turns: int = DEFAULT_TURNS  # the limit
    audience_seconds: float = 0.0  # length of a slot; 0: the thread is always open
    pace: Annotated[str, AfterValidator(parse_pace)] = LIVE
    goodbye_ends: bool = False  # a post that is just a goodbye ends the room
    moderator: str | None = None
    format: FormatName = DEFAULT_FORMAT
    judge: str = ""  # an agent's key, or provider/model; "" for none
    poll: bool = False  # people are asked before and after where they stand
    phase: str = ""
    phase_turns: tuple[str, ...] | None = None
    phase_noted: bool = False
    extra_turns: int = 0
    ledger: tuple[str, ...] = ()
    status: RoomStatus = "active"
    why: str | None = None
    turn_number: int = 0  # of the last post
    starter: str | None = None  # author of the first post
    last_speaker: str | None = None
    theme: str = DEFAULT_THEME
    lines: tuple[RoomLine, ...] = ()  # the newest
    wait_noted: bool = False  # people were told that the room waits for them to name the next speaker
    rounds: int = 0
    skips: int = 0
    cost_usd: float = 0.0
    next_turn_at: float | None = None  # with a pace other than live
    slot_until: float | None = None
    slot_turn: int = 0
    closing_because: EndReason | None = None
    opened_by: int | None = None  # a person's id
    proposed: bool = False  # a member proposed it, so the budget for such debates pays
    opened_at: float = 0.0
    changed_at: float = 0.0

    @property
    def place(self) -> ChannelRef:
        return ChannelRef(self.thread_id, self.channel_id, self.guild_id)

    @property
    def has_slots(self) -> bool:
        """Whether the audience has the thread only in slots. Between them, it is locked."""
        return self.audience_seconds > 0

    @property
    def payer(self) -> int | None:
        """Return whose daily budget pays for its turns and calls: a person's, or that of the MEMBERS."""
        return MEMBERS if self.proposed else self.opened_by

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    def member(self, name: str) -> RoomMember | None:
        return next((member for member in self.members if member.name == name), None)

    @property
    def everyone(self) -> tuple[RoomMember, ...]:
        """Return present and former members, each once."""
        present = set(self.names)
        return (*self.members, *(member for member in self.left if member.name not in present))

    @property
    def guest(self) -> RoomMember | None:
        """Return the member that the others ask, in a format that has a guest."""
        seats = self.members if FORMATS[self.format].has_guest else ()
        return next((member for member in seats if member.side == GUEST), None)

    def role_of(self, name: str) -> Role:
        """Return the member's role in the room's format."""
        if self.format == DEFAULT_FORMAT or self.member(name) is None:
            return "member"
        is_guest = self.guest is not None and self.guest.name == name
        return "moderator" if name == self.moderator else "guest" if is_guest else "member"

    @property
    def people_choose(self) -> bool:
        """Whether people name the next speaker."""
        return self.policy == "moderated" and self.moderator is None

    @property
    def is_guided(self) -> bool:
        """Whether a member names the next speaker."""
        return self.policy == "moderated" and self.member(self.moderator or "") is not None

    @property
    def round_size(self) -> int:
        """Return the number of turns in which each member speaks. A guest speaks after each other member, and a
        moderator that names the next speaker before each."""
        is_paired = FORMATS[self.format].has_guest or self.is_guided
        return 2 * (len(self.members) - 1) if is_paired and len(self.members) > 1 else max(1, len(self.members))

    def schedule(self) -> tuple[tuple[Phase, int], ...]:
        """Return the phases, each with its last turn."""
        phases = FORMATS[self.format].schedule(self.turns - self.extra_turns, self.round_size)
        return tuple((phase, last + self.extra_turns) for phase, last in phases)

    def next_phase(self) -> Phase | None:
        """Return the phase of the next turn; None without a format. A phase in which each member has its turn lasts
        until each had it. If members join or leave, the phases get other lengths, but a phase that has begun is never
        followed by an earlier one."""
        phases, schedule = FORMATS[self.format].phases, self.schedule()
        order = [phase.name for phase in phases]
        begun = order.index(self.phase) if self.phase in order else 0
        if self.turns_for_each:
            if self.due:
                return phases[begun]
            begun += 1
        coming = (phase for phase, last in schedule if last > self.turn_number and order.index(phase.name) >= begun)
        return next(coming, schedule[-1][0] if schedule else None)

    @property
    def turns_for_each(self) -> int:
        """Return how many turns each member has in the phase that has begun; 0 if they aren't divided, or not known."""
        if self.phase_turns is None or self.people_choose:
            return 0
        return next((phase.turns for phase in FORMATS[self.format].phases if phase.name == self.phase), 0)

    @property
    def due(self) -> tuple[str, ...]:
        """Return the members that may take the phase's next turn, in speaking order. If each has its turns in it, these
        are the members that have one left; in the last phase, a moderator sums up at the end. A guest speaks after each
        other member."""
        each, had = self.turns_for_each, self.phase_turns or ()
        if self.phase_turns is None or self.people_choose or (self.is_guided and not each):
            return self.names
        left = tuple(name for name in self.names if not each or had.count(name) < each)
        guest = None if self.guest is None or self.is_guided else self.guest.name
        others = tuple(name for name in left if name != (guest or self.moderator))
        if guest is not None:
            if had and had[-1] != guest:
                return (guest,)
            fewest = min(map(had.count, others), default=0)
            return tuple(name for name in others if had.count(name) == fewest)
        if self.is_guided:  # the moderator speaks before each of the others
            return (self.moderator or "", *others) if others and had[-1:] != (self.moderator,) else others
        if not each or self.moderator not in left or not self.is_in_last_phase:
            return left
        return others if others and self.turn_number + 1 < self.turns else (self.moderator,)

    @property
    def is_in_last_phase(self) -> bool:
        """Whether the last phase has begun."""
        schedule = self.schedule()
        return bool(schedule) and self.phase == schedule[-1][0].name

    @property
    def has_used_its_turns(self) -> bool:
        return self.turn_number >= self.turns or (self.turns_for_each > 0 and self.is_in_last_phase and not self.due)

    def with_sides(self) -> Room:
        """Give a side to each member without one, if the format has sides, in speaking order; and the guest's seat to
        the first, if nobody has it."""
        kind, members = FORMATS[self.format], list(self.members)
        for at, member in enumerate(members):
            side, taken = member.side, [each.side for each in members]
            if member.name == self.moderator:
                side = ""
            elif kind.has_guest and GUEST not in taken:
                side = GUEST
            elif kind.has_sides and side not in SIDES:
                side = min(SIDES[:2], key=taken.count)
            members[at] = member.model_copy(update={"side": side})
        return self.model_copy(update={"members": tuple(members)})

    def with_line(self, kind: str, *shown: str, why: str = "") -> Room:
        """Add a line for the people in the thread. A line of CHANGES that was just added isn't repeated, since a
        person's change may be applied twice, before and after the current turn."""
        just = (line for line in self.lines if kind in CHANGES and line.turn >= self.turn_number - 1)
        if any((line.kind, line.members, line.why) == (kind, shown, why) for line in just):
            return self
        number = self.lines[-1].number + 1 if self.lines else 1
        line = RoomLine(number=number, kind=kind, members=shown, why=why, turn=self.turn_number)
        return self.model_copy(update={"lines": (*self.lines, line)[-MAX_LINES:]})

    def ended(self, because: EndReason) -> Room:
        """Return the room after its conversation ended: paused or closed, depending on the reason."""
        status = "paused" if because in PAUSES else "closed"
        return self.model_copy(update={"status": status, "why": because, "slot_until": None, "closing_because": None})


def room_keys(room: Room) -> list[str]:
    return [keys.room(room.thread_id), keys.COORDINATOR_ROOMS]


def room_args(room: Room) -> list[str | int | float]:
    notice = RoomNotice(thread_id=room.thread_id).to_wire()
    bounds = (ROOM_SECONDS, MAX_ROOMS)
    return [room.model_dump_json(), room.thread_id, room.changed_at, *bounds, keys.ROOM_NOTICES, notice]


class RoomStore(Store):
    """Read rooms. All methods but `may_exist` raise StateUnavailable."""

    async def read(self, thread_id: int) -> Room | None:
        """Return the thread's room; None if there is none or it can't be read."""
        text = await self._text(keys.room(thread_id))
        return None if text is None else parse_room(thread_id, text)

    @or_default(True, "any thread may be a room")
    async def may_exist(self, thread_id: int) -> bool:
        """Whether the thread has a room, or may have one, since Redis is unavailable."""
        return await self.read(thread_id) is not None

    async def list(self, status: RoomStatus | None = None, limit: int | None = LISTED) -> list[Room]:
        """Return the rooms of that status (None: any), the last changed first; at most `limit` (None: all)."""
        rooms: dict[int, Room] = {}  # by thread, as a room may move up meanwhile
        start = 0
        while page := await self._threads(start):  # in pages, so that no command takes long
            texts = await self._link.redis.mget([keys.room(each) for each in page])
            for thread_id, text in zip(page, texts, strict=True):
                if text is None or thread_id in rooms or (room := parse_room(thread_id, str(text))) is None:
                    continue
                if status in (None, room.status):
                    rooms[thread_id] = room
                if len(rooms) == limit:
                    return [*rooms.values()]
            start += len(page)
        return [*rooms.values()]

    async def delete(self, thread_id: int, agents: Iterable[str]) -> None:
        """Delete a room that doesn't run, with everything about its conversation, such as the windows of agents."""
        of_room = (keys.room, keys.room_marks, keys.conversation_state, keys.summary, keys.pulls, keys.past_pulls)
        names = [name(thread_id) for name in of_room]
        for agent in agents:
            names += [keys.session(agent, thread_id), *(keys.window(agent, thread_id, kind) for kind in WINDOW_KINDS)]
        notice = RoomNotice(thread_id=thread_id).to_wire()
        await self._link.batch(
            lambda pipe: (
                pipe.delete(*names),
                pipe.zrem(keys.COORDINATOR_ROOMS, str(thread_id)),
                pipe.publish(keys.ROOM_NOTICES, notice),
            ),
            transaction=True,
        )

    async def _threads(self, start: int) -> Sequence[int]:
        page = await self._link.redis.zrevrange(keys.COORDINATOR_ROOMS, start, start + PAGE - 1)
        return [int(str(thread)) for thread in page]


def parse_room(thread_id: int, text: str) -> Room | None:
    """Read a room's JSON. Return None if it can't be read; unknown values of FORGIVEN fields are ignored."""
    try:
        return Room.model_validate_json(text)
    except ValidationError as error:
        wrong = {str(each["loc"][0]) if each["loc"] else "JSON" for each in error.errors()}
        if wrong <= FORGIVEN:
            return Room.model_validate({name: value for name, value in json.loads(text).items() if name not in wrong})
        log.warning("the room in thread %d can't be read: invalid %s", thread_id, ", ".join(sorted(wrong)))
        return None


class ArenaAnswer(StoredValue):
    """A contender's answer. `model` is provider/model."""

    agent: str
    shown: str
    model: str
    text: str


class Arena(StoredValue):
    """A question with two hidden answers. `id`: of the command. `begun`: the contenders were asked. `answers` is set
    once both have answered, `until` (unix seconds) once people can vote on the message."""

    id: int
    channel_id: int
    guild_id: int | None = None
    parent_id: int | None = None  # of a thread: its channel
    question: str
    asked_by: int  # 0: the owner, in the console
    minutes: int
    at: float  # unix seconds
    begun: bool = False
    answers: tuple[ArenaAnswer, ...] = ()
    message_id: int | None = None
    until: float | None = None


class Arenas(Store):
    async def open(self, arena: Arena) -> bool:
        """Store a new arena. Returns False if the channel has one already."""
        key, field, text = keys.COORDINATOR_ARENAS, str(arena.channel_id), arena.model_dump_json()
        done = await self._link.batch(
            lambda pipe: (pipe.hsetnx(key, field, text), pipe.expire(key, ARENA_SECONDS)), transaction=True
        )
        return bool(done[0])

    async def keep(self, arena: Arena) -> None:
        await self._link.redis.hset(keys.COORDINATOR_ARENAS, str(arena.channel_id), arena.model_dump_json())

    async def drop(self, channel_id: int) -> None:
        await self._link.redis.hdel(keys.COORDINATOR_ARENAS, str(channel_id))

    async def all(self) -> list[Arena]:
        texts = await self._link.redis.hvals(keys.COORDINATOR_ARENAS)
        return [arena for text in texts if (arena := Arena.parse(text)) is not None]

    async def has_host(self) -> bool:
        """Whether a process runs arenas, which is the one that acts for personas."""
        return bool(await self._link.redis.exists(keys.PERSONAS_OWNER))


class Marks(StoredValue):
    """What was done in a room's thread. `standing`: the announced status and cause, such as "paused stopped". `slot`:
    the announced audience slot, by its end (unix seconds). `locked`: we lock the thread; `lock_done`: it is locked.
    `unlockable`: people were told that we may not lock it. `archived`: we archived it. `line`: number of the newest
    posted line. `ledger`: the phase before which the arguments were listed. `poll_before`, `poll_after`: the polls'
    messages; 0 if it wasn't posted yet, and NOT_ASKED if it can't be."""

    standing: str = ""
    slot: float = 0.0
    locked: bool = False
    lock_done: bool = False
    unlockable: bool = False
    archived: bool = False
    line: int = 0
    ledger: str = ""
    poll_before: int = 0
    poll_after: int = 0


def has_card(room: Room, marks: Marks) -> bool:
    """Whether the room is closed and its closing card was posted."""
    return room.status == "closed" and marks.standing.startswith("closed")


class RoomMarks(Store):
    async def read(self, thread_id: int) -> Marks:
        found: dict[Any, Any] = await self._link.redis.hgetall(keys.room_marks(thread_id))
        try:
            return Marks.model_validate(found)
        except ValidationError:
            log.warning("the marks of room %d can't be read; another version may have written them", thread_id)
            return Marks()

    async def set(self, thread_id: int, **marks: str | float | bool) -> None:
        values = {name: int(value) if isinstance(value, bool) else value for name, value in marks.items()}
        await self._put(keys.room_marks(thread_id), MARK_SECONDS, values)


class RoomShares(Store):
    """The links by which anyone can read a room's page. A link has a token that can't be guessed. All methods raise
    StateUnavailable."""

    async def share(self, thread_id: int) -> str:
        """Return the token of the room's link, made if there is none."""
        token = await self.token_of(thread_id) or secrets.token_urlsafe(SHARE_BYTES)
        await self._put(keys.ROOM_SHARES, ROOM_SECONDS, {token: thread_id})
        return token

    async def revoke(self, thread_id: int) -> bool:
        """Return whether there was a link."""
        tokens = [token for token, thread in (await self._all()).items() if thread == thread_id]
        return bool(tokens) and bool(await self._link.redis.hdel(keys.ROOM_SHARES, *tokens))

    async def token_of(self, thread_id: int) -> str | None:
        return next((token for token, thread in (await self._all()).items() if thread == thread_id), None)

    async def thread_of(self, token: str) -> int | None:
        found = await self._link.redis.hget(keys.ROOM_SHARES, token)
        return int(str(found)) if found is not None else None

    async def _all(self) -> dict[str, int]:
        found = await self._link.redis.hgetall(keys.ROOM_SHARES)
        return {str(token): int(str(thread)) for token, thread in found.items()}


class RoomOpening(StoredValue):
    """A room whose thread `agent`'s bot is making. `request`: id of the command, which is older than everything made
    for it. The room's thread is 0 until there is one.

    A thread starts at the bot's `message` with the `text`, or at the message of its `proposal`, which gets the text. In
    a `thread` that exists, the text is posted.
    """

    request: int
    agent: str
    at: float  # unix seconds
    room: Room
    name: str  # of the thread
    text: str  # of the message above it
    at_first: Literal["message", "proposal", "thread"] = "message"


class RoomOpenings(Store):
    async def keep(self, opening: RoomOpening) -> None:
        await self._put(keys.ROOM_OPENINGS, OPENING_SECONDS, {str(opening.request): opening.model_dump_json()})

    @when_back("the ends of openings of rooms")
    async def drop(self, request: int) -> None:
        await self._link.redis.hdel(keys.ROOM_OPENINGS, str(request))

    async def of(self, agent: str) -> Sequence[RoomOpening]:
        """Return the openings that this agent's bot began."""
        texts = await self._link.redis.hvals(keys.ROOM_OPENINGS)
        openings = (RoomOpening.parse(text) for text in texts)
        return [opening for opening in openings if opening is not None and opening.agent == agent]

    async def keep_draft(self, request: int, draft: str) -> None:
        """Store a person's request until they have chosen the members."""
        await self._link.redis.set(keys.room_opening(str(request)), draft, ex=DRAFT_SECONDS)

    async def draft(self, request: int) -> str | None:
        """Return a draft; None if it has expired or was taken."""
        return await self._text(keys.room_opening(str(request)))

    async def take_draft(self, request: int) -> bool:
        """Remove a draft. Returns False if it is gone already, so that one choice makes one room."""
        return bool(await self._link.redis.delete(keys.room_opening(str(request))))
