from __future__ import annotations

import pytest

from agentic.state.idle import IdleState, IdleStates, RunningTask, TaskState
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Result

STATE = IdleState(
    person_at=1234.5,
    tasks={"follow_up:claude": TaskState(due=99.0, failures=2, seen=7, why="ünsaid"), "profile:grok": TaskState()},
    asking=RunningTask(
        instruction_id="i1", agent="claude", task="follow_up", deadline=5.0, channel_id=1, message_id=2, people=(3,)
    ),
)


async def test_what_is_written_is_read_by_the_next_leader_and_ends(link: RedisConnection) -> None:
    states = IdleStates(link)
    assert await states.read() is None
    assert await states.write(STATE, 0)
    assert await states.read() == STATE
    assert 0 < await link.call(lambda redis: redis.ttl(keys.COORDINATOR_IDLE)) <= 30 * 86400
    assert await states.write(IdleState(person_at=2.0), 0)
    assert await states.read() == IdleState(person_at=2.0), "what is not there any more is gone"


async def test_what_people_said_is_not_kept_with_the_turn_that_is_about_it(link: RedisConnection) -> None:
    asking = STATE.asking
    assert asking is not None
    told = {"material": "Ada: a secret", "topics": ("a secret",), "avoid": ("a secret",)}
    await IdleStates(link).write(STATE.model_copy(update={"asking": asking.model_copy(update=told)}), 0)
    assert "a secret" not in str(await link.call(lambda redis: redis.hgetall(keys.COORDINATOR_IDLE)))
    assert await IdleStates(link).read() == STATE


@pytest.mark.promise(442)
async def test_a_leader_that_was_overtaken_writes_nothing(link: RedisConnection) -> None:
    states = IdleStates(link)
    await link.call(lambda redis: redis.set(keys.epoch(keys.COORDINATOR_OWNER), 5))
    assert not await states.write(STATE, 4)
    assert await states.read() is None
    assert await states.write(STATE, 5)


@pytest.mark.parametrize("text", ["nonsense", '{"due": "soon"}', "[]"])
async def test_a_part_that_cannot_be_read_is_ignored(link: RedisConnection, text: str) -> None:
    states = IdleStates(link)
    await states.write(STATE, 0)
    fields = {"profile:grok": text, "asking": text, "person": "nan" if text == "[]" else text, "other": "x"}
    await link.call(lambda redis: redis.hset(keys.COORDINATOR_IDLE, mapping=fields))
    assert await states.read() == IdleState(tasks={"follow_up:claude": STATE.tasks["follow_up:claude"]})


async def test_the_result_of_a_turn_that_ended_is_found(link: RedisConnection) -> None:
    states, result = IdleStates(link), Result(instruction_id="i1", agent_name="claude", text="Hm.")
    assert await states.result("claude", "i1") is None
    await link.call(lambda redis: redis.hset(keys.turn("claude", "i1"), mapping={"state": "open"}))
    assert await states.result("claude", "i1") is None
    fields = {"state": "done", "result": result.to_wire()}
    await link.call(lambda redis: redis.hset(keys.turn("claude", "i1"), mapping=fields))
    assert await states.result("claude", "i1") == result
