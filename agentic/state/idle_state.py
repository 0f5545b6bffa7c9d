"""The state of what agents do while nobody writes: when each of their tasks is due, and what runs now.

The hash `coordinator:idle` has a field `person` (when a person last wrote), one for each task of an agent
(`follow_up:claude`), and `asking` while a turn is under way, so that the next leader notes what that turn has posted.
Only the coordinator that leads writes it; a Redis that knows a newer leader refuses.
"""

from __future__ import annotations

import logging
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentic.state.idle import TASKS
from agentic.state.leases import FENCE
from agentic.wire import keys
from agentic.wire.link import RedisLink
from agentic.wire.messages import Result
from agentic.wire.reading import read_result

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

log = logging.getLogger(__name__)


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
