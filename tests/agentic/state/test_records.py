from __future__ import annotations

import asyncio
import time

import pytest

from agentic.ids import id_at
from agentic.state.shared_state import SharedState
from agentic.state.turn_records import KEEP_SECONDS, MAX_RECORDS, Reacted, TurnRecord
from agentic.state.turns import SETTLE
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.redis_server import PATIENT, RedisServer

AGENTS = ("claude", "grok")


@pytest.fixture
def state(link, clock) -> SharedState:
    return SharedState(link, clock, holder="here")


def snowflake(at: float, number: int = 1) -> int:
    return id_at(at) + number


def record(turn_id: str = "i1", agent: str = "claude", **more) -> TurnRecord:
    return TurnRecord(
        **{"id": turn_id, "agent": agent, "kind": "instruction", "trigger": "round", "channel_id": 1, **more}
    )


async def end(state: SharedState, turn: TurnRecord, deadline: float = 1e10) -> bool:
    await state.turns.claim(turn.agent, turn.id, deadline)
    return await state.turns.settle(turn.agent, turn.id, "{}", deadline, record=turn)


async def length(link: RedisConnection, agent: str = "claude") -> int:
    return await link.call(lambda redis: redis.xlen(keys.turns(agent)))


async def test_the_end_of_a_turn_leaves_one_record_as_it_was_given_with_the_time(state, clock):
    full = record(
        conversation_id="c",
        round_number=3,
        guild_id=7,
        asked_by=11,
        asked_message_id=12,
        model="openai/one",
        entries=14,
        seconds=1.5,
        input_tokens=100,
        cached_tokens=50,
        output_tokens=10,
        cost_usd=0.01,
        posted=(5, 6),
        reacted=Reacted(emoji="🔥", message_id=4),
        image=True,
    )
    await end(state, full)
    assert await state.turns.records.last("claude") == [full.model_copy(update={"at": clock()})]


async def test_a_settling_that_is_repeated_adds_no_second_record(link, state, clock):
    await end(state, record())
    for process in (state, SharedState(link, clock, holder="here")):
        await process.turns.settle("claude", "i1", "{}", 1e10, record=record())
    assert await length(link) == 1


async def test_who_lost_its_turn_to_another_process_leaves_the_record_to_that_one(link, state, clock):
    other = SharedState(link, clock, holder="other")
    await state.turns.claim("claude", "i1", 1e10)
    await other.turns.claim("claude", "i1", 1e10)
    await state.turns.settle("claude", "i1", "{}", 1e10, record=record(reason="not_ours"))
    assert await length(link) == 0
    await other.turns.settle("claude", "i1", "{}", 1e10, record=record())
    assert [turn.reason for turn in await state.turns.records.last("claude")] == [None]


async def test_a_record_costs_no_round_trip_of_its_own(link, state, monkeypatch):
    calls, call = [], link.call

    async def counted(command):
        calls.append(command)
        return await call(command)

    await state.turns.claim("claude", "i1", 1e10)
    monkeypatch.setattr(link, "call", counted)
    await state.turns.settle("claude", "i1", "{}", 1e10, record=record())
    assert len(calls) == 1


async def test_a_message_leads_to_its_turn_whichever_agent_posted_it(state, clock):
    clock.now = time.time()
    first, second = snowflake(clock(), 1), snowflake(clock(), 2)
    await end(state, record("i1", "claude"))
    await end(state, record("i2", "grok", posted=(first, second)))
    found = [await state.turns.records.of_message(message, AGENTS) for message in (first, second)]
    assert [turn and turn.id for turn in found] == ["i2", "i2"]
    assert await state.turns.records.of_message(second + 1, AGENTS) is None
    assert await state.turns.records.of_message(first, ["claude"]) is None


async def test_a_question_leads_to_the_turn_that_answered_it(state, clock):
    clock.now = time.time()
    question, answer, reply = (snowflake(clock(), number) for number in (1, 2, 3))
    await end(state, record("i1", "claude", asked_message_id=answer, posted=(reply,)))
    await end(state, record("m1", "grok", asked_message_id=question, posted=(answer,)))
    found = [await state.turns.records.of_message(message, AGENTS) for message in (question, answer, reply)]
    assert [turn and turn.id for turn in found] == ["m1", "m1", "i1"]


@pytest.mark.parametrize("nonsense", [-1, 0, 2**63, 2**200])
async def test_an_id_that_no_message_has_leads_nowhere(state, nonsense):
    await end(state, record(posted=(nonsense,)))
    assert await state.turns.records.of_message(nonsense, AGENTS) is None


async def test_only_the_time_around_a_message_is_read(state, clock):
    clock.now = time.time()
    early, late = snowflake(clock() - 3600), snowflake(clock() + 3600)
    await end(state, record("i1", posted=(early, late)))  # no turn lasts that long: it is not even looked at
    assert [await state.turns.records.of_message(message, AGENTS) for message in (early, late)] == [None, None]


async def test_the_last_turns_come_newest_first_and_of_one_channel_where_it_is_given(state, monkeypatch):
    monkeypatch.setattr("agentic.state.turn_records.PAGE", 2)
    for number in range(5):
        await end(state, record(f"i{number}", channel_id=number % 2))
    assert [turn.id for turn in await state.turns.records.last("claude", count=3)] == ["i4", "i3", "i2"]
    assert [turn.id for turn in await state.turns.records.last("claude", 0, count=9)] == ["i4", "i2", "i0"]
    assert [turn.id for turn in await state.turns.records.last("claude", 1)] == ["i3"]
    assert await state.turns.records.last("grok", count=9) == []


async def test_what_a_person_asked_for_is_forgotten_and_nothing_else(link, state, monkeypatch):
    monkeypatch.setattr("agentic.state.turn_records.PAGE", 2)
    for number in range(6):
        await end(state, record(f"m{number}", AGENTS[number % 2], asked_by=11 + number // 4))
    await end(state, record("i1"))
    assert await state.turns.records.forget_person(11, AGENTS) == 4
    assert await state.turns.records.forget_person(11, AGENTS) == 0
    left = [turn.id for agent in AGENTS for turn in await state.turns.records.last(agent, count=9)]
    assert left == ["i1", "m4", "m5"]


async def test_records_are_older_than_seven_days_neither_in_redis_nor_for_readers(link, state, clock):
    stale = record("old").to_json()
    week_ago = round((time.time() - KEEP_SECONDS - 60) * 1000)
    await link.call(lambda redis: redis.xadd(keys.turns("claude"), {"record": stale}, id=f"{week_ago}-0"))
    await end(state, record("new"))
    assert await length(link) == 1
    assert 0 < await link.call(lambda redis: redis.ttl(keys.turns("claude"))) <= KEEP_SECONDS
    clock.now += KEEP_SECONDS + 1
    assert await state.turns.records.last("claude") == []


async def test_a_stream_has_a_bound(server: RedisServer, clock, monkeypatch):
    lower = SETTLE.replace(f" {MAX_RECORDS},", " 100,")
    assert lower != SETTLE
    monkeypatch.setattr("agentic.state.turns.SETTLE", lower)
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock)
        for number in range(400):
            await state.turns.settle("claude", f"i{number}", "{}", 1e10, record=record(f"i{number}"))
        assert 100 <= await length(link) <= 200


async def test_a_value_of_another_type_and_records_of_another_maker_fail_nothing(link, state):
    await link.call(lambda redis: redis.set(keys.turns("claude"), "something else"))
    await end(state, record("i1"))
    for text in ("{", "[]", '{"v": 2}'):
        await link.call(lambda redis, text=text: redis.xadd(keys.turns("claude"), {"record": text}))
    await link.call(lambda redis: redis.xadd(keys.turns("claude"), {"other": "field"}))
    assert [turn.id for turn in await state.turns.records.last("claude", count=9)] == ["i1"]


async def test_what_ended_while_redis_was_away_is_recorded_when_it_is_back(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock)
        server.kill()
        for number, person in enumerate((11, 12)):
            assert not await state.turns.settle(
                "claude", f"m{number}", "{}", 1e10, record=record(f"m{number}", asked_by=person)
            )
        with pytest.raises(StateUnavailable):
            await state.turns.records.last("claude")
        with pytest.raises(StateUnavailable):
            await state.turns.records.of_message(snowflake(clock()), AGENTS)
        with pytest.raises(StateUnavailable):
            await state.turns.records.forget_person(12, AGENTS)
        state.turns.anonymize(12)
        server.start()
        await asyncio.wait_for(link.present.wait(), 10)
        await state.turns.settle("claude", "m2", "{}", 1e10, record=record("m2"))
        await state.link.write_queued()
        assert {turn.id for turn in await state.turns.records.last("claude", count=9)} == {"m0", "m2"}


async def test_a_record_of_an_hour_ago_stays_when_another_one_comes(link, state):
    made = f"{round((time.time() - 3600) * 1000)}-0"
    await link.call(lambda redis: redis.xadd(keys.turns("claude"), {"record": "{}"}, id=made))
    await end(state, record())
    assert await length(link) == 2


async def test_a_message_is_found_though_discords_clock_is_ahead(link):
    state = SharedState(link, time.time, holder="here")
    posted = snowflake(time.time() + 30)
    await end(state, record(posted=(posted,)))
    assert (await state.turns.records.of_message(posted, AGENTS)).posted == (posted,)


async def test_a_turn_that_is_ended_twice_has_one_record(link, state):
    for _ in range(2):
        await end(state, record())
    assert await length(link) == 1


async def test_a_record_that_is_older_than_a_week_is_not_shown(link, state, clock):
    posted = snowflake(time.time())
    await end(state, record(posted=(posted,)))
    assert await state.turns.records.of_message(posted, AGENTS) is not None
    clock.now += KEEP_SECONDS + 1
    assert await state.turns.records.of_message(posted, AGENTS) is None
