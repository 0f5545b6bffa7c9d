"""Idle tasks and proactive messages.

The tasks that agents have while nobody writes, and values that the coordinator reads of the record to decide on
them.

The state of what agents do while nobody writes: when each of their tasks is due, and what runs now.

The hash `coordinator:idle` has a field `person` (when a person last wrote), one for each task of an agent
(`follow_up:claude`), and `asking` while a turn is under way, so that the next leader notes what that turn has posted.
Only the coordinator that leads writes it; a Redis that knows a newer leader refuses.

Messages that nobody asked for: for whom each was, and who wants no more of them.

The record knows both too, and for longer, but learns of them a moment later, and may be on another machine. A person's
no must count at once: the agent looks here right before it posts. While Redis is away a no counts in the process that
heard it, and is written when Redis is back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from redis.asyncio import Redis

from agentic.state.leases import FENCE
from agentic.wire import keys
from agentic.wire.connection import RedisAway, RedisLink
from agentic.wire.messages import Result, read_result

log = logging.getLogger(__name__)


TASKS: tuple[str, ...] = ("summarise", "profile", "follow_up", "discover")  # by priority
WRITTEN = frozenset({"summarise", "profile"})  # their text goes to the coordinator
UNASKED = frozenset({"follow_up", "discover"})  # they may post


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something that an idle task may be about: a reply chain, a person, a conversation that was left hanging.

    `message_id` is its newest message, `upto` the newest one of the material. `material` has a line a message,
    "Name: text", the newest last, of MOST_MATERIAL characters at most. `message_ids` are those that it is made of, and
    `people` their authors, as a SummaryNote has them. `topics` are those of the person's profile, `origins` the
    channels where they may have spoken of them, () where nobody else reads. `at` is the time of the newest message,
    unix seconds.
    """

    channel_id: int
    guild_id: int | None = None
    message_id: int
    person_id: int | None = None
    person_name: str = ""
    upto: int
    material: str = ""
    topics: tuple[str, ...] = ()
    origins: tuple[int, ...] = ()
    message_ids: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that an agent posted unasked. `answered`: the person, or without one anybody, wrote there since. `text`
    is "" where the message was deleted, or the person asked to be forgotten."""

    message_id: int
    agent: str
    task: str  # follow_up, discover
    channel_id: int
    person_id: int | None = None
    text: str = ""
    at: float
    answered: bool = False


MOST_MATERIAL = 8_000  # characters of a Candidate's material


KEEP_SECONDS = 30 * 86400
PERSON, ASKING = "person", "asking"

# KEYS: the hash, the coordinator's epoch. ARGV: the writer's epoch, seconds to keep, then pairs of field and text.
WRITE = f"""{FENCE}
if overtaken(KEYS[2], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""


class _Kept(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


M = TypeVar("M", bound=_Kept)


class TaskState(_Kept):
    """A task of an agent. `due`: not before then, while nobody writes (unix seconds). `failures` in a row. `seen`: the
    newest message when there was nothing left to do. `did`: what its last run was about. `why`: why it did not run when
    it was due last, "" where it did."""

    due: float = 0.0
    last: float = 0.0
    failures: int = 0
    seen: int = 0
    did: str = ""
    why: str = ""


class Asking(_Kept):
    """A turn of a task that an agent was asked for, with what its note in the record needs. `read_at`: when the record
    was read for its material, unix seconds; words of it may have been deleted or edited since."""

    instruction_id: str
    agent: str
    task: str
    deadline: float
    read_at: float = 0.0
    channel_id: int
    message_id: int
    upto: int = 0
    person_id: int | None = None
    person_name: str = ""
    message_ids: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    cause: str = ""


class IdleState(_Kept):
    """`person_at`: when a person last wrote, in unix seconds. `tasks` by `task_key`."""

    person_at: float = 0.0
    tasks: dict[str, TaskState] = Field(default_factory=dict)
    asking: Asking | None = None


def task_key(task: str, agent: str) -> str:
    return f"{task}:{agent}"


class IdleStates:
    """Every method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def read(self) -> IdleState | None:
        """None where Redis has none: it is new, or came back empty."""
        kept = await self._link.call(lambda redis: redis.hgetall(keys.COORDINATOR_IDLE))
        fields = {str(field): str(text) for field, text in kept.items()}
        return _state_of(fields) if fields else None

    async def write(self, state: IdleState, epoch: int) -> bool:
        """Replace the state; False where another process has led since `epoch` (0: no lease)."""
        places = [keys.COORDINATOR_IDLE, keys.epoch(keys.COORDINATOR_OWNER)]
        pairs = [part for pair in _fields_of(state).items() for part in pair]
        return bool(await self._link.script(WRITE, places, [epoch, KEEP_SECONDS, *pairs]))

    async def result(self, agent: str, instruction_id: str) -> Result | None:
        """The result of a turn that ended; None where none is kept."""
        key = keys.turn(agent, instruction_id)
        state, text = await self._link.call(lambda redis: redis.hmget(key, ["state", "result"]))
        found = read_result(str(text)) if state == "done" and text else None
        return found if isinstance(found, Result) else None


def _fields_of(state: IdleState) -> dict[str, str]:
    fields = {PERSON: repr(state.person_at)}
    fields |= {key: task.model_dump_json(exclude_defaults=True) for key, task in state.tasks.items()}
    if state.asking is not None:
        fields[ASKING] = state.asking.model_dump_json(exclude_defaults=True)
    return fields


def _state_of(fields: dict[str, str]) -> IdleState:
    tasks = {key: _read(TaskState, text) for key, text in fields.items() if key.partition(":")[0] in TASKS}
    asking = fields.get(ASKING)
    return IdleState(
        person_at=_time(fields.get(PERSON, "")),
        tasks={key: task for key, task in tasks.items() if task is not None},
        asking=_read(Asking, asking) if asking else None,
    )


def _read(model: type[M], text: str) -> M | None:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        log.warning("a part of %s cannot be read and is ignored: %d errors", keys.COORDINATOR_IDLE, error.error_count())
        return None


def _time(text: str) -> float:
    try:
        time = float(text)
    except ValueError:
        return 0.0
    return time if abs(time) < float("inf") else 0.0


REMEMBERED = 1000  # messages of this process


@dataclass(frozen=True, slots=True)
class UnaskedMessage:
    """A message that `agent` posted unasked for a person. `task`: follow_up or discover."""

    person_id: int
    agent: str
    task: str


class UnaskedMessages:
    """`is_unwanted` raises RedisAway, the other methods do not."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._own = LRUCache[int, UnaskedMessage](REMEMBERED)
        self._unwritten: dict[int, bool] = {}  # person → whether they refused, while Redis is away
        link.when_back(self._write)

    async def note(self, message_ids: Iterable[int], message: UnaskedMessage) -> None:
        """These messages of one post were unasked."""
        ids = tuple(message_ids)
        self._own.update(dict.fromkeys(ids, message))
        text = f"{message.person_id} {message.agent} {message.task}"

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            for message_id in ids:
                pipe.set(keys.unasked(message_id), text, ex=KEEP_SECONDS)
            await pipe.execute()

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("an unasked message is known in this process alone: %s", away)

    async def read(self, message_id: int) -> UnaskedMessage | None:
        """None for a message that somebody asked for, and for one that is too old."""
        try:
            kept = await self._link.call(lambda redis: redis.get(keys.unasked(message_id)))
        except RedisAway as away:
            log.debug("only this process's unasked messages are known: %s", away)
            kept = None
        return _unasked_read(str(kept)) if kept else self._own.get(message_id)

    async def refuse(self, user_id: int) -> bool:
        """The person wants no more of them. False where that was known, in any process."""
        known = self._unwritten.get(user_id)
        try:
            first = await self._link.call(
                lambda redis: redis.set(keys.unwanted(user_id), "1", nx=True, ex=KEEP_SECONDS)
            )
        except RedisAway as away:
            log.debug("a person wants no unasked messages, which is written when Redis is back: %s", away)
            self._unwritten[user_id] = True
            return known is not True
        self._unwritten.pop(user_id, None)
        return bool(first)

    async def allow(self, user_id: int) -> None:
        """The person wants them again."""
        self._unwritten[user_id] = False
        await self._write()

    async def is_unwanted(self, user_id: int) -> bool:
        """Whether the person has said lately that they want no more. Raises RedisAway where nobody knows."""
        if (refused := self._unwritten.get(user_id)) is not None:
            return refused
        return bool(await self._link.call(lambda redis: redis.exists(keys.unwanted(user_id))))

    async def _write(self) -> None:
        """Write what people said while Redis was away."""
        waiting = dict(self._unwritten)
        if not waiting:
            return

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            for user_id, refused in waiting.items():
                if refused:
                    pipe.set(keys.unwanted(user_id), "1", ex=KEEP_SECONDS)
                else:
                    pipe.delete(keys.unwanted(user_id))
            await pipe.execute()

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("what people said of unasked messages is written when Redis is back: %s", away)
            return
        for user_id, refused in waiting.items():
            if self._unwritten.get(user_id) is refused:
                del self._unwritten[user_id]


def _unasked_read(text: str) -> UnaskedMessage | None:
    match text.split():
        case [person_id, agent, task] if person_id.isdecimal():
            return UnaskedMessage(int(person_id), agent, task)
    log.warning("an unasked message cannot be read and is ignored: %.80r", text)
    return None
