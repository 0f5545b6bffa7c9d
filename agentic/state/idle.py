"""What agents do while nobody writes: the state of their tasks, and the unprompted messages that these posted.

The hash `coordinator:idle` has a field `person` (when a person last wrote), one for each task of an agent
(`follow_up:claude`), and `asking` while a turn is under way, so that the next leader notes what that turn has posted.
Only the coordinator that leads writes it; a Redis that knows a newer leader refuses.

Who an unprompted message was for, and who wants no more of them, is in the record too, and for longer. But the record
learns of it a moment later, and may be on another machine, while a person's no must count at once: the agent looks here
right before it posts. While Redis is unavailable a no counts in the process that heard it, and is written when Redis is
back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cachetools import LRUCache
from pydantic import Field

from agentic.background_tasks import TASKS
from agentic.state.leases import FENCE
from agentic.text import finite_number
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, Store, or_default, when_back
from agentic.wire.entries import StoredValue
from agentic.wire.messages import Result, read_result

MAX_MATERIAL = 8_000  # characters of a Candidate's material
KEEP_SECONDS = 30 * 86400
REMEMBERED = 1000  # messages of this process
PERSON, ASKING = "person", "asking"
NOT_STORED = {"material", "topics", "origins", "avoid", "guild_id", "at"}  # of a RunningTask: its note has none of it

# KEYS: the hash, the coordinator's epoch. ARGV: the writer's epoch, seconds to keep, then pairs of field and text.
WRITE = f"""{FENCE}
if overtaken(KEYS[2], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""

log = logging.getLogger(__name__)


class Candidate(StoredValue):
    """Something that an idle task may be about: a reply chain, a person, a conversation that was left hanging.

    `message_id` is its newest message, `upto` the newest one of the material. `material` has a line a message,
    "Name: text", the newest last, of MAX_MATERIAL characters at most. `message_ids` are those that it is made of, and
    `people` their authors, as a SummaryNote has them. `topics` are those of the person's profile, `origins` the
    channels where they may have spoken of them, () if nobody else reads. `at` is the time of the newest message,
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
    """An unprompted post of an agent. `answered`: the person, or without one anybody, wrote there since. `text`
    is "" if the message was deleted, or the person asked to be forgotten."""

    message_id: int
    agent: str
    task: str  # follow_up, discover
    channel_id: int
    person_id: int | None = None
    text: str = ""
    at: float
    answered: bool = False


class TaskState(StoredValue):
    """A task of an agent. `due`: not before then, while nobody writes (unix seconds). `failures` in a row. `seen`: the
    newest message when there was nothing left to do. `did`: what its last run was about. `why`: why it did not run when
    it was due last, "" if it did."""

    due: float = 0.0
    last: float = 0.0
    failures: int = 0
    seen: int = 0
    did: str = ""
    why: str = ""


class RunningTask(Candidate):
    """A turn of a task, about a Candidate: what its agent is asked for, and what its note in the record needs. `avoid`:
    what was sent before. `read_at`: when the record was read for its material, unix seconds; words of it may have been
    deleted or edited since."""

    instruction_id: str = ""
    agent: str
    task: str
    deadline: float = 0.0
    read_at: float = 0.0
    upto: int = 0
    avoid: tuple[str, ...] = ()
    cause: str = ""
    at: float = 0.0


class IdleState(StoredValue):
    """`person_at`: when a person last wrote, in unix seconds. `tasks` by `task_key`."""

    person_at: float = 0.0
    tasks: dict[str, TaskState] = Field(default_factory=dict)
    asking: RunningTask | None = None


def task_key(task: str, agent: str) -> str:
    return f"{task}:{agent}"


class IdleStates(Store):
    async def read(self) -> IdleState | None:
        """None if Redis has none: it is new, or came back empty."""
        kept = await self._link.call(lambda redis: redis.hgetall(keys.COORDINATOR_IDLE))
        fields = {str(field): str(text) for field, text in kept.items()}
        if not fields:
            return None
        tasks = {key: TaskState.parse(text) for key, text in fields.items() if key.partition(":")[0] in TASKS}
        return IdleState(
            person_at=finite_number(fields.get(PERSON, "")) or 0.0,
            tasks={key: task for key, task in tasks.items() if task is not None},
            asking=RunningTask.parse(fields.get(ASKING)),
        )

    async def write(self, state: IdleState, epoch: int) -> bool:
        """Replace the state; False if another process has led since `epoch` (0: no lease)."""
        places = [keys.COORDINATOR_IDLE, keys.epoch(keys.COORDINATOR_OWNER)]
        fields = {PERSON: repr(state.person_at)}
        fields |= {key: task.model_dump_json(exclude_defaults=True) for key, task in state.tasks.items()}
        if state.asking is not None:
            fields[ASKING] = state.asking.model_dump_json(exclude_defaults=True, exclude=NOT_STORED)
        pairs = [part for pair in fields.items() for part in pair]
        return bool(await self._link.script(WRITE, places, [epoch, KEEP_SECONDS, *pairs]))

    async def result(self, agent: str, instruction_id: str) -> Result | None:
        """The result of a turn that ended; None if none is kept."""
        key = keys.turn(agent, instruction_id)
        state, text = await self._link.call(lambda redis: redis.hmget(key, ["state", "result"]))
        found = read_result(str(text)) if state == "done" and text else None
        return found if isinstance(found, Result) else None


@dataclass(frozen=True, slots=True)
class ProactiveMessage:
    """A message that `agent` posted unprompted for a person. `task`: follow_up or discover."""

    person_id: int
    agent: str
    task: str


class ProactiveMessages(Store):
    """Only `refuse` and `allow` change what a person wants. No method raises StateUnavailable."""

    def __init__(self, link: RedisConnection) -> None:
        super().__init__(link)
        self._own = LRUCache[int, ProactiveMessage](REMEMBERED)
        self._unwritten: dict[int, bool] = {}  # person → whether they refused, while Redis is unavailable

    async def note(self, message_ids: Iterable[int], message: ProactiveMessage) -> None:
        ids = tuple(message_ids)
        self._own.update(dict.fromkeys(ids, message))
        await self._write_messages(ids, f"{message.person_id} {message.agent} {message.task}")

    @when_back("unprompted messages")
    async def _write_messages(self, ids: Sequence[int], text: str) -> None:
        await self._link.batch(lambda pipe: [pipe.set(keys.unasked(each), text, ex=KEEP_SECONDS) for each in ids])

    async def read(self, message_id: int) -> ProactiveMessage | None:
        """None for a message that somebody asked for, and for one that is too old."""
        kept = await self._stored(message_id)
        if not kept:
            return self._own.get(message_id)
        match kept.split():
            case [person_id, agent, task] if person_id.isdecimal():
                return ProactiveMessage(int(person_id), agent, task)
        log.warning("an unprompted message cannot be read and is ignored: %.80r", kept)
        return None

    @or_default(None, "only this process's unprompted messages are known")
    async def _stored(self, message_id: int) -> str | None:
        return await self._text(keys.unasked(message_id))

    async def refuse(self, user_id: int) -> bool:
        """The person wants no more of them. False if that was known, in any process."""
        known, first = self._unwritten.get(user_id), await self._refuse_first(user_id)
        if first is None:
            await self._write_later(user_id, refused=True)
            return known is not True
        self._unwritten.pop(user_id, None)
        return first

    @or_default(None, "a person's no to unprompted messages takes effect in this process only")
    async def _refuse_first(self, user_id: int) -> bool | None:
        key = keys.unwanted(user_id)
        return bool(await self._link.call(lambda redis: redis.set(key, "1", nx=True, ex=KEEP_SECONDS)))

    async def allow(self, user_id: int) -> None:
        await self._write_later(user_id, refused=False)

    @or_default(True, "unprompted messages are not sent")
    async def is_unwanted(self, user_id: int) -> bool:
        """Whether the person has said lately that they want no more, or nobody knows."""
        if (refused := self._unwritten.get(user_id)) is not None:
            return refused
        return bool(await self._link.call(lambda redis: redis.exists(keys.unwanted(user_id))))

    async def _write_later(self, user_id: int, *, refused: bool) -> None:
        self._unwritten[user_id] = refused
        await self._write_last_word(user_id)

    @when_back("what people said of unprompted messages")
    async def _write_last_word(self, user_id: int) -> None:
        refused, key = self._unwritten.get(user_id), keys.unwanted(user_id)
        if refused is None:  # written meanwhile
            return
        if refused:
            await self._link.call(lambda redis: redis.set(key, "1", ex=KEEP_SECONDS))
        else:
            await self._link.call(lambda redis: redis.delete(key))
        if self._unwritten.get(user_id) is refused:
            del self._unwritten[user_id]
