"""Background tasks: their state, and the unprompted messages that they posted.

The hash `coordinator:idle` has a field `person` (when a person last wrote), a field for each task of an agent
(`follow_up:claude`), and `asking` during a turn, so that the next leader can record what that turn posted. Only the
leading coordinator writes it: the script refuses the writes of an earlier leader.

The record has unprompted messages and people's refusals, too, and for longer. But it learns of them a moment later, and
may be on another machine. A person's no must take effect immediately, so the agent looks here right before it posts.
While Redis is unavailable, a no takes effect in the process that received it, and is written when Redis is back.
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
# fields of a RunningTask that its note doesn't need
NOT_STORED = {"material", "topics", "origins", "avoid", "guild_id", "at"}

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
    """The possible subject of a background task: a reply chain, a person, a conversation that was left hanging.

    `message_id`: its newest message; `upto`: the newest message of the material. `material`: a line per message, "Name:
    text", the newest last, MAX_MATERIAL characters at most. `message_ids` and `people`: its messages and their authors,
    as in a SummaryNote. `topics`: of the person's profile; `origins`: the channels in which they may have come up, ()
    if nobody else reads them. `at`: the newest message's time in unix seconds.
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
    """An agent's unprompted message. `answered`: the person (without a person: anyone) has written there since. `text`
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
    """An agent's task. `due`: the earliest next run, if nobody writes (unix seconds). `failures`: in a row. `seen`: the
    newest message when there was nothing left to do. `did`: subject of the last run. `why`: why it didn't run when it
    was last due, "" if it did."""

    due: float = 0.0
    last: float = 0.0
    failures: int = 0
    seen: int = 0
    did: str = ""
    why: str = ""


class RunningTask(Candidate):
    """A task's turn about a Candidate, with all that its instruction and its note in the record need. `avoid`: texts of
    earlier unprompted messages. `read_at`: when the material was read from the record (unix seconds); since then
    messages may have been deleted or edited."""

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
        """Return the state; None if Redis has none, because it is new or was emptied."""
        kept = await self._link.redis.hgetall(keys.COORDINATOR_IDLE)
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
        """Replace the state. Returns False if another process has led since `epoch` (0: no lease)."""
        places = [keys.COORDINATOR_IDLE, keys.epoch(keys.COORDINATOR_OWNER)]
        fields = {PERSON: repr(state.person_at)}
        fields |= {key: task.model_dump_json(exclude_defaults=True) for key, task in state.tasks.items()}
        if state.asking is not None:
            fields[ASKING] = state.asking.model_dump_json(exclude_defaults=True, exclude=NOT_STORED)
        pairs = [part for pair in fields.items() for part in pair]
        return bool(await self._link.script(WRITE, places, [epoch, KEEP_SECONDS, *pairs]))

    async def result(self, agent: str, instruction_id: str) -> Result | None:
        """Return the result of a turn that ended; None if none is stored."""
        state, text = await self._link.redis.hmget(keys.turn(agent, instruction_id), ["state", "result"])
        found = read_result(str(text)) if state == "done" and text else None
        return found if isinstance(found, Result) else None


@dataclass(frozen=True, slots=True)
class ProactiveMessage:
    """A message that `agent` posted unprompted for a person. `task`: follow_up or discover."""

    person_id: int
    agent: str
    task: str


class ProactiveMessages(Store):
    """Unprompted messages, and who refused them. No method raises StateUnavailable."""

    def __init__(self, link: RedisConnection) -> None:
        super().__init__(link)
        self._own = LRUCache[int, ProactiveMessage](REMEMBERED)
        self._unwritten: dict[int, bool] = {}  # person → whether they refused, until that is written

    async def note(self, message_ids: Iterable[int], message: ProactiveMessage) -> None:
        ids = tuple(message_ids)
        self._own.update(dict.fromkeys(ids, message))
        await self._write_messages(ids, f"{message.person_id} {message.agent} {message.task}")

    @when_back("unprompted messages")
    async def _write_messages(self, ids: Sequence[int], text: str) -> None:
        await self._link.batch(lambda pipe: [pipe.set(keys.unasked(each), text, ex=KEEP_SECONDS) for each in ids])

    async def read(self, message_id: int) -> ProactiveMessage | None:
        """Return an unprompted message; None for other messages, and if it is too old."""
        kept = await self._stored(message_id)
        if not kept:
            return self._own.get(message_id)
        match kept.split():
            case [person_id, agent, task] if person_id.isdecimal():
                return ProactiveMessage(int(person_id), agent, task)
        log.warning("ignoring an unprompted message that can't be read: %.80r", kept)
        return None

    @or_default(None, "only this process's unprompted messages are known")
    async def _stored(self, message_id: int) -> str | None:
        return await self._text(keys.unasked(message_id))

    async def refuse(self, user_id: int) -> bool:
        """Note that the person wants no more of them. Returns False if any process knew that already."""
        known, first = self._unwritten.get(user_id), await self._refuse_first(user_id)
        if first is None:
            await self._write_later(user_id, refused=True)
            return known is not True
        self._unwritten.pop(user_id, None)
        return first

    @or_default(None, "a person's no to unprompted messages takes effect in this process only")
    async def _refuse_first(self, user_id: int) -> bool | None:
        return bool(await self._link.redis.set(keys.unwanted(user_id), "1", nx=True, ex=KEEP_SECONDS))

    async def allow(self, user_id: int) -> None:
        await self._write_later(user_id, refused=False)

    @or_default(True, "unprompted messages are not sent")
    async def is_unwanted(self, user_id: int) -> bool:
        """Whether the person has refused them lately, or Redis is unavailable."""
        if (refused := self._unwritten.get(user_id)) is not None:
            return refused
        return bool(await self._link.redis.exists(keys.unwanted(user_id)))

    async def _write_later(self, user_id: int, *, refused: bool) -> None:
        self._unwritten[user_id] = refused
        await self._write_last_word(user_id)

    @when_back("people's wishes about unprompted messages")
    async def _write_last_word(self, user_id: int) -> None:
        refused, key = self._unwritten.get(user_id), keys.unwanted(user_id)
        if refused is None:  # written meanwhile
            return
        if refused:
            await self._link.redis.set(key, "1", ex=KEEP_SECONDS)
        else:
            await self._link.redis.delete(key)
        if self._unwritten.get(user_id) is refused:
            del self._unwritten[user_id]
