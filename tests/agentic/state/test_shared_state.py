from __future__ import annotations

import asyncio
import json

import pytest

from agentic.chat.directory import Directory
from agentic.runtime.services import recall_agents
from agentic.state.limits import LimitRequest
from agentic.state.schedule import Slot
from agentic.state.shared_state import SharedState
from agentic.state.turns import Claim
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.redis_server import PATIENT, RedisServer, until

DAY = "2027-01-15"
RULES = {"cooldown": 0.0, "daily_max": 3, "date": DAY}


@pytest.fixture
def state(link, clock) -> SharedState:
    return SharedState(link, clock, holder="here")


async def back(link: RedisConnection, server: RedisServer) -> None:
    server.start()
    await asyncio.wait_for(link.present.wait(), 10)


async def take_away(link: RedisConnection, server: RedisServer) -> None:
    server.kill()
    with pytest.raises(StateUnavailable):
        await link.call(lambda redis: redis.ping())


# Turns


async def test_a_turn_is_new_for_one_of_many_and_begun_for_the_rest(link, clock):
    processes = [SharedState(link, clock, holder=f"p{n}") for n in range(8)]
    claims = await asyncio.gather(*(p.turns.claim("claude", "t1", clock() + 90) for p in processes))
    assert sorted(claim.state for claim in claims) == ["left"] * 7 + ["new"]


async def test_a_finished_turn_answers_with_its_result_in_every_process(link, state, clock):
    await state.turns.claim("claude", "t1", clock() + 90)
    await state.turns.settle("claude", "t1", '{"text": "hi"}', clock() + 90)
    for process in (state, SharedState(link, clock)):
        assert await process.turns.claim("claude", "t1", clock() + 90) == Claim("done", '{"text": "hi"}')


@pytest.mark.parametrize(("deadline", "seconds"), [(90.0, 990), (-1e6, 900), (1e300, 87_300)])
async def test_a_turn_is_kept_until_15_minutes_after_its_deadline_but_no_nonsense(
    link, state, clock, deadline, seconds
):
    await state.turns.claim("claude", "t1", clock() + deadline)
    assert seconds - 5 <= await link.call(lambda redis: redis.ttl(keys.turn("claude", "t1"))) <= seconds
    await state.turns.settle("claude", "t1", "{}", clock() + deadline)
    assert seconds - 5 <= await link.call(lambda redis: redis.ttl(keys.turn("claude", "t1"))) <= seconds


@pytest.mark.promise(90)
async def test_a_turn_done_is_not_new_again_when_redis_came_back_empty(link, state, clock):
    await state.turns.claim("claude", "open", clock() + 90)
    await state.turns.claim("claude", "done", clock() + 90)
    await state.turns.settle("claude", "done", "{}", clock() + 90)
    await link.call(lambda redis: redis.flushall())
    assert (await state.turns.claim("claude", "open", clock() + 90)).state == "open"
    assert (await state.turns.claim("claude", "done", clock() + 90)).result == "{}"
    assert (await SharedState(link, clock).turns.claim("claude", "done", clock() + 90)).result == "{}"


async def test_turns_go_on_in_memory_while_redis_is_away(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock)
        await take_away(link, server)
        assert (await state.turns.claim("claude", "t1", clock() + 90)).state == "new"
        assert (await state.turns.claim("claude", "t1", clock() + 90)).state == "open"
        await state.turns.settle("claude", "t1", "{}", clock() + 90)
        assert (await state.turns.claim("claude", "t1", clock() + 90)).result == "{}"
        await back(link, server)
        assert (await state.turns.claim("claude", "t1", clock() + 90)).result == "{}"
        assert (await SharedState(link, clock).turns.claim("claude", "t1", clock() + 90)).state == "done"


async def test_what_is_remembered_of_turns_stays_small(link, clock):
    turns = SharedState(link, clock).turns
    for n in range(100):
        await turns.claim("claude", f"t{n}", clock() + 90)
        clock.now += 100
    assert len(turns._ours) < 15


# The beginning of a turn


async def test_of_many_turns_at_once_the_newest_are_remembered(link, clock, monkeypatch):
    monkeypatch.setattr("agentic.state.turns.REMEMBERED", 10)
    state = SharedState(link, clock, holder="here")
    for number in range(40):
        await state.turns.claim("claude", f"t{number}", clock() + 90)
    assert [number for number in range(40) if state.turns.knows("claude", f"t{number}")] == list(range(30, 40))


def ask(**changes):
    return LimitRequest(**{"agent": "claude", "channel_id": 1, **RULES, **changes})


async def test_a_new_turn_takes_what_it_asks_for_in_the_step_that_claims_it(state, link, clock):
    claim, verdict = await state.turns.begin("claude", "t1", clock() + 90, "event", ask())
    assert (claim.state, verdict) == ("new", "ok")
    assert await state.limits.count("claude", DAY) == 1
    assert await state.turns.left("claude", "t1") == "event"
    claim, verdict = await SharedState(link, clock, holder="another").turns.begin(
        "claude", "t1", clock() + 90, "", ask()
    )
    assert (claim.state, claim.event, verdict) == ("left", "event", None)
    assert await state.limits.count("claude", DAY) == 1


async def test_one_that_this_process_is_at_or_has_done_takes_nothing(state, clock):
    await state.turns.begin("claude", "t1", clock() + 90, "", ask())
    again, verdict = await state.turns.begin("claude", "t1", clock() + 90, "", ask())
    assert (again.state, verdict) == ("open", None)
    await state.turns.settle("claude", "t1", "{}", clock() + 90)
    done, verdict = await state.turns.begin("claude", "t1", clock() + 90, "", ask())
    assert (done.state, done.result, verdict) == ("done", "{}", None)
    assert await state.limits.count("claude", DAY) == 1


async def test_a_turn_that_a_limit_stands_against_is_claimed_all_the_same(state, link, clock):
    claim, verdict = await state.turns.begin("claude", "t1", clock() + 90, "", ask(daily_max=0))
    assert (claim.state, verdict) == ("new", "daily_limit")
    assert await state.limits.count("claude", DAY) == 0
    assert await state.turns.open_ids("claude") == ["t1"]


async def test_who_asks_nothing_is_told_nothing(state, clock):
    claim, verdict = await state.turns.begin("claude", "t1", clock() + 90, "")
    assert (claim.state, verdict) == ("new", None)
    assert await state.limits.count("claude", DAY) == 0


async def test_a_turn_begins_without_redis_by_the_rules_in_memory_and_counts_afterwards(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock)
        await take_away(link, server)
        begun = [await state.turns.begin("claude", f"t{n}", clock() + 90, "", ask()) for n in range(4)]
        assert [(claim.state, verdict) for claim, verdict in begun] == [("new", "ok")] * 3 + [("new", "daily_limit")]
        await back(link, server)
        another = SharedState(link, clock, holder="another")
        await another.turns.claim("claude", "theirs", clock() + 90)
        assert (await state.turns.begin("claude", "theirs", clock() + 90, "", ask()))[1] is None
        assert await state.limits.count("claude", DAY) == 3, "what was taken meanwhile is not lost by that"
        assert (await state.turns.begin("claude", "t5", clock() + 90, "", ask()))[1] == "daily_limit"
        assert await another.limits.count("claude", DAY) == 3


async def test_who_watches_hears_once_of_a_turn_that_may_begin_and_of_its_end(state, link, clock):
    async def begin(turn, **changes):
        return await state.turns.begin("claude", turn, clock() + 90, "", ask(notice=f"{turn} began", **changes))

    async def end(turn):
        await state.turns.settle("claude", turn, "{}", clock() + 90, notice=f"{turn} ended")

    async with link.commands.pubsub() as watching:
        await watching.subscribe(keys.COORDINATOR_TURNS)
        await begin("t1")
        await begin("t2", daily_max=0)
        for turn in ("t1", "t1", "t2"):
            await end(turn)
        await state.limits.take(ask(notice="t3 began"))
        heard = [message["data"] async for message in heard_on(watching, 4)]
    assert heard == ["t1 began", "t1 ended", "t2 ended", "t3 began"]


async def test_who_watches_hears_of_a_turn_that_another_process_resumes(state, link, clock):
    await state.turns.begin("claude", "t1", clock() + 90, "event", ask())
    other = SharedState(link, clock, holder="other")
    async with link.commands.pubsub() as watching:
        await watching.subscribe(keys.COORDINATOR_TURNS)
        await other.turns.begin("claude", "t1", clock() + 90, "", ask(notice="goes on"))
        await state.turns.settle("claude", "t1", "{}", clock() + 90, notice="ended too early")
        await other.turns.settle("claude", "t1", "{}", clock() + 90, notice="ended")
        heard = [message["data"] async for message in heard_on(watching, 2)]
    assert heard == ["goes on", "ended"]


async def heard_on(watching, count):
    async with asyncio.timeout(10):
        while count:
            if (message := await watching.get_message(ignore_subscribe_messages=True, timeout=None)) is not None:
                count -= 1
                yield message


# Limits


@pytest.mark.promise(46)
async def test_eight_takes_at_once_with_a_limit_of_three_give_three(link, clock):
    processes = [SharedState(link, clock) for _ in range(8)]
    verdicts = await asyncio.gather(
        *(p.limits.take(LimitRequest(agent="claude", channel_id=n, **RULES)) for n, p in enumerate(processes))
    )
    assert sorted(verdicts) == ["daily_limit"] * 5 + ["ok"] * 3
    assert await processes[0].limits.count("claude", DAY) == 3


async def test_a_cooldown_holds_its_channel_only_and_a_refused_take_counts_nothing(state):
    rules = {**RULES, "cooldown": 30.0}
    verdicts = await asyncio.gather(
        *(state.limits.take(LimitRequest(agent="claude", channel_id=1, **rules)) for _ in range(8))
    )
    assert sorted(verdicts) == ["cooldown"] * 7 + ["ok"]
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=2, **rules)) == "ok"
    assert await state.limits.take(LimitRequest(agent="grok", channel_id=1, **rules)) == "ok"
    assert await state.limits.count("claude", DAY) == 2


async def test_a_take_without_cooldown_neither_heeds_nor_starts_one(state):
    rules = {**RULES, "cooldown": 30.0}
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **{**rules, "cooldown": 0.0})) == "ok"
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **rules)) == "ok"
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **{**rules, "cooldown": 0.0})) == "ok"


async def test_a_cooldown_ends_by_the_time_of_who_asks(state, clock):
    asked = LimitRequest(agent="claude", channel_id=1, **{**RULES, "cooldown": 30.0})
    assert await state.limits.take(asked) == "ok"
    clock.now += 20
    assert (await state.limits.take(asked), await state.limits.cooldown_left("claude", 1)) == ("cooldown", 10.0)
    clock.now += 11
    assert await state.limits.cooldown_left("claude", 1) == 0.0
    assert await state.limits.take(asked) == "ok"


async def test_a_cooldown_that_an_earlier_version_stored_holds_until_its_key_expires(state, link):
    asked = LimitRequest(agent="claude", channel_id=1, **{**RULES, "cooldown": 30.0})
    await link.call(lambda redis: redis.set(keys.cooldown("claude", 1), "1", px=30_000))
    assert await state.limits.take(asked) == "cooldown"
    await link.call(lambda redis: redis.delete(keys.cooldown("claude", 1)))
    assert await state.limits.take(asked) == "ok"


async def test_a_released_cooldown_is_over(state):
    rules = {**RULES, "cooldown": 30.0}
    await state.limits.take(LimitRequest(agent="claude", channel_id=1, **rules))
    await state.limits.release_cooldown("claude", 1)
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **rules)) == "ok"


@pytest.mark.promise(89)
async def test_limits_hold_while_redis_is_away_and_what_was_taken_counts_afterwards(server: RedisServer, clock, caplog):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        limits = SharedState(link, clock).limits
        rules = {**RULES, "cooldown": 30.0}
        assert await limits.take(LimitRequest(agent="claude", channel_id=1, **rules)) == "ok"
        await take_away(link, server)
        assert await limits.take(LimitRequest(agent="claude", channel_id=1, **rules)) == "cooldown"
        assert await limits.take(LimitRequest(agent="claude", channel_id=2, **rules)) == "ok"
        clock.now += 31
        assert await limits.take(LimitRequest(agent="claude", channel_id=2, **rules)) == "ok"
        assert await limits.take(LimitRequest(agent="claude", channel_id=3, **rules)) == "daily_limit"
        assert await limits.count("claude", DAY) == 3
        await back(link, server)
        await until(lambda: not link.has_queued)
        assert await limits.count("claude", DAY) == 3
        assert await limits.take(LimitRequest(agent="claude", channel_id=4, **rules)) == "daily_limit"
        assert await SharedState(link, clock).limits.count("claude", DAY) == 3
        assert sum("limits are kept in memory" in record.getMessage() for record in caplog.records) == 1


async def test_turns_that_cost_nothing_are_counted_apart_and_without_end(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        limits = SharedState(link, clock).limits

        async def take(**free: bool) -> str:
            return await limits.take(LimitRequest(agent="claude", channel_id=1, **RULES, **free))

        assert [await take(is_free=True) for _ in range(5)] == ["ok"] * 5
        assert (await limits.count("claude", DAY), await limits.all("claude", DAY)) == (0, 5)
        assert [await take() for _ in range(4)] == ["ok"] * 3 + ["daily_limit"]
        await take_away(link, server)
        assert [await take(is_free=True), await take()] == ["ok", "daily_limit"]
        await back(link, server)
        await take(is_free=True)
        assert (await limits.count("claude", DAY), await limits.all("claude", DAY)) == (3, 10)


# Costs and presence


async def settle(state, turn, spent, agent="claude"):
    return await state.turns.settle(agent, turn, "{}", 1e10, date=DAY, spent=spent)


async def test_costs_add_up_per_agent_and_day(state, link):
    spent = {"total_cost": 0.25, "ai_calls": 1, "input_tokens": 10, "image_calls": 0}
    await asyncio.gather(*(settle(state, f"t{n}", spent) for n in range(4)))
    await settle(state, "t1", {"total_cost": 9.0}, agent="grok")
    assert await state.limits.costs.read("claude", DAY) == {"total_cost": 1.0, "ai_calls": 4.0, "input_tokens": 40.0}
    assert await state.limits.costs.read("claude", "2027-01-16") == {}
    with pytest.raises(ValueError, match="finite"):
        await settle(state, "t5", {"total_cost": float("nan")})
    assert await link.call(lambda redis: redis.hget(keys.cost("claude", DAY), "ai_calls")) == "4"


async def test_what_a_turn_says_goes_out_when_it_is_settled(state, link):
    async with link.commands.pubsub() as listener:
        await listener.subscribe(keys.results("claude"))
        assert (await listener.get_message(timeout=5))["type"] == "subscribe"
        await state.turns.settle("claude", "t1", "{}", 1e10, say="done")
        assert (await listener.get_message(timeout=5))["data"] == "done"


@pytest.mark.promise(78)
async def test_costs_of_a_time_without_redis_are_written_afterwards_and_once(server: RedisServer):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link)
        await take_away(link, server)
        assert not await settle(state, "t1", {"total_cost": 0.5, "ai_calls": 1})
        assert not await settle(state, "t2", {"total_cost": 0.5, "ai_calls": 1})
        await back(link, server)
        assert await settle(state, "t3", {"ai_calls": 1}, agent="grok")
        assert await settle(state, "t4", {"ai_calls": 1}, agent="grok")
        assert await state.limits.costs.read("claude", DAY) == {"total_cost": 1.0, "ai_calls": 2.0}
        assert await state.limits.costs.read("grok", DAY) == {"ai_calls": 2.0}


async def test_an_agent_is_online_until_it_says_otherwise(state):
    await state.coordination.presence.renew("claude", "since noon")
    await state.coordination.presence.renew("grok", "since noon")
    await state.coordination.presence.clear("grok")
    assert await state.coordination.presence.online(["claude", "grok", "gemini"]) == {"claude"}
    assert await state.coordination.presence.online([]) == set()


# Agenda


async def test_a_schedule_outlives_its_writer(link, state):
    assert await state.coordination.schedule.load_schedule(DAY) is None
    await state.coordination.schedule.save_schedule(DAY, [Slot(1_800_000_000.123456), Slot(1_800_000_100.0)])
    await state.coordination.schedule.claim_slot(DAY, 1, 1_800_000_100.0)
    slots = [Slot(1_800_000_000.123456), Slot(1_800_000_100.0, done=True)]
    assert await SharedState(link).coordination.schedule.load_schedule(DAY) == slots
    kept = json.loads(await link.call(lambda redis: redis.get(keys.schedule(DAY))))
    assert kept[1] == {"at": 1_800_000_100.0, "done": True}


async def test_a_schedule_says_how_its_times_came_about(state):
    slots = [Slot(5.0, part=(1.0, 9.0)), Slot(7.0, part=(9.0, 17.0), planned=12.0), Slot(8.0, added=True)]
    await state.coordination.schedule.save_schedule(DAY, slots)
    assert await state.coordination.schedule.load_schedule(DAY) == slots


async def test_a_slot_is_claimed_by_exactly_one(link):
    coordinators = [SharedState(link).coordination.schedule for _ in range(4)]
    await coordinators[0].save_schedule(DAY, [Slot(1.0), Slot(2.0)])
    claims = [(one, index) for one in coordinators for index in (0, 1)]
    won = await asyncio.gather(*(one.claim_slot(DAY, index, index + 1.0) for one, index in claims))
    assert sum(won) == 2
    assert {index for (_, index), mine in zip(claims, won, strict=True) if mine} == {0, 1}


@pytest.mark.parametrize("index", [-1, 1])
async def test_a_slot_that_is_not_there_cannot_be_claimed(state, index):
    await state.coordination.schedule.save_schedule(DAY, [Slot(1.0)])
    assert not await state.coordination.schedule.claim_slot(DAY, index, 1.0)
    assert not await state.coordination.schedule.claim_slot("2027-01-16", 0, 1.0)


@pytest.mark.parametrize(
    "text", ['[{"when": 1}]', "[1]", "null", "x", '[{"at": NaN}]', '[{"at": 1e400}]', '[{"at": 1, "part": [1]}]']
)
async def test_a_schedule_that_cannot_be_read_is_none(text, link, state):
    await link.call(lambda redis: redis.set(keys.schedule(DAY), text))
    assert await state.coordination.schedule.load_schedule(DAY) is None


async def test_each_channel_comes_once_a_day_and_removed_ones_do_not(state):
    agenda = state.coordination.schedule
    assert await agenda.next_channel(DAY, []) is None
    assert await agenda.next_channel(DAY, [3, 1, 2]) == 3
    assert await agenda.next_channel(DAY, [3, 2]) == 2
    assert await agenda.next_channel(DAY, [3, 1, 2]) is None
    assert await agenda.next_channel("2027-01-16", [1]) == 1


async def test_starters_take_fair_turns_across_restarts(link):
    names = ["chatgpt", "claude", "gemini", "grok"]
    started = [await SharedState(link).coordination.schedule.next_starter(7, names) for _ in range(8)]
    assert started == names * 2
    assert await SharedState(link).coordination.schedule.next_starter(8, ["grok"]) == "grok"


async def test_a_starter_that_left_is_passed_over(state):
    agenda = state.coordination.schedule
    assert await agenda.next_starter(7, ["claude", "grok", "gemini"]) == "claude"
    assert await agenda.next_starter(7, ["claude", "gemini"]) == "gemini"
    assert await agenda.next_starter(7, ["chatgpt"]) == "chatgpt"
    with pytest.raises(ValueError, match="no agent"):
        await agenda.next_starter(7, [])


async def test_a_reactive_round_has_its_cooldown_per_channel(state):
    taken = await asyncio.gather(*(state.coordination.schedule.take_reactive(7, 300.0) for _ in range(5)))
    assert sum(taken) == 1
    assert await state.coordination.schedule.take_reactive(8, 300.0)
    assert await state.coordination.schedule.take_reactive(8, 0.0)


async def test_a_channel_is_held_by_one_conversation_at_a_time(state):
    agenda = state.coordination.schedule
    assert await agenda.hold_channel(7, "first", 60.0)
    assert await agenda.hold_channel(7, "first", 60.0)
    assert not await agenda.hold_channel(7, "second", 60.0)
    await agenda.release_channel(7, "second")
    assert not await agenda.hold_channel(7, "second", 60.0)
    await agenda.release_channel(7, "first")
    assert await agenda.hold_channel(7, "second", 60.0)


async def test_all_holds_can_be_ended_and_nothing_else(link, state):
    agenda = state.coordination.schedule
    for channel in range(50):
        await agenda.hold_channel(channel, "killed", 60.0)
    await link.call(lambda redis: redis.mset({f"another:{number}": "1" for number in range(3000)}))
    await agenda.release_all_channels()
    assert all([await agenda.hold_channel(channel, "next", 60.0) for channel in range(50)])
    assert await link.call(lambda redis: redis.dbsize()) == 3050


async def test_another_makers_values_under_our_names_are_made_anew(link, state):
    agenda = state.coordination.schedule
    for key in (keys.starter_queue(7), keys.channel_queue(DAY)):
        await link.call(lambda redis, key=key: redis.set(key, '["grok"]'))
    for key in (keys.conversation(7), keys.schedule(DAY)):
        await link.call(lambda redis, key=key: redis.rpush(key, "x"))
    assert await agenda.next_starter(7, ["claude", "grok"]) == "claude"
    assert await agenda.next_channel(DAY, [7, 8]) == 7
    assert await agenda.hold_channel(7, "c", 60.0)
    assert not await agenda.claim_slot(DAY, 0, 1.0)
    assert await agenda.load_schedule(DAY) is None
    await agenda.save_schedule(DAY, [Slot(1.0)])
    assert await agenda.claim_slot(DAY, 0, 1.0)


async def test_everything_outlives_a_kill_of_redis(server: RedisServer):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link)
        await state.limits.take(LimitRequest(agent="claude", channel_id=1, **RULES))
        await state.coordination.schedule.next_starter(7, ["claude", "grok"])
        await take_away(link, server)
        await back(link, server)
        assert await SharedState(link).limits.count("claude", DAY) == 1
        assert await state.coordination.schedule.next_starter(7, ["claude", "grok"]) == "grok"


@pytest.mark.promise(92)
async def test_every_key_has_an_end(link, state, clock):
    await state.turns.claim("claude", "t1", clock() + 90)
    await state.turns.settle("claude", "t1", "{}", clock() + 90)
    await state.turns.claim("claude", "t3", clock() + 90)
    await state.turns.settle("claude", "t2", "{}", clock() + 90, date=DAY, spent={"ai_calls": 1})
    await state.limits.take(LimitRequest(agent="claude", channel_id=1, **{**RULES, "cooldown": 5.0}))
    await state.coordination.presence.renew("claude", "yes")
    await state.coordination.schedule.save_schedule(DAY, [Slot(1.0)])
    await state.coordination.schedule.claim_slot(DAY, 0, 1.0)
    await state.coordination.schedule.next_channel(DAY, [1, 2])
    await state.coordination.schedule.next_starter(7, ["claude", "grok"])
    await state.coordination.schedule.next_starter(8, ["claude", "grok"])
    await state.coordination.schedule.take_reactive(7, 5.0)
    await state.coordination.schedule.hold_channel(7, "first", 5.0)
    found = await link.call(lambda redis: redis.keys("*"))
    endless = [key for key in found if await link.call(lambda redis, key=key: redis.ttl(key)) < 0]
    assert len(found) == 16
    assert endless == []
    assert all(key.startswith(("agent:claude:", "coordinator:")) for key in found)


async def test_plans_wait_while_redis_is_away(server: RedisServer):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link)
        await take_away(link, server)
        for attempt in (
            state.coordination.schedule.load_schedule(DAY),
            state.coordination.schedule.next_starter(7, ["claude"]),
        ):
            with pytest.raises(StateUnavailable):
                await attempt
        await back(link, server)
        await until(lambda: not link.away)
        assert await state.coordination.schedule.next_starter(7, ["claude"]) == "claude"


# Checkpoints


async def test_what_a_turn_kept_goes_to_whoever_claims_it_next(link, clock):
    dead, next_one = (SharedState(link, clock, holder=name) for name in ("dead", "next"))
    await dead.turns.claim("claude", "t1", clock() + 90, "event")
    assert await dead.turns.checkpoint("claude", "t1", "answer", "42")
    assert await dead.turns.checkpoint("claude", "t1", "posted", "here")
    left = Claim("left", None, "event", "42", "here")
    assert await next_one.turns.claim("claude", "t1", clock() + 90, "another") == left
    assert (await next_one.turns.claim("claude", "t1", clock() + 90)).state == "open"


@pytest.mark.promise(78)
async def test_a_turn_that_was_taken_over_is_not_the_first_ones_to_end_and_its_answer_is_charged_once(link, clock):
    slow, quick = (SharedState(link, clock, holder=name) for name in ("slow", "quick"))
    spent = {"ai_calls": 1, "total_cost": 0.5}
    await slow.turns.claim("claude", "t1", clock() + 90)
    await slow.turns.checkpoint("claude", "t1", "answer", "42")
    await quick.turns.claim("claude", "t1", clock() + 90)
    assert not await slow.turns.checkpoint("claude", "t1", "posted", "here")
    await slow.turns.settle("claude", "t1", '"slow"', clock() + 90, date=DAY, spent=spent)
    await quick.turns.settle("claude", "t1", '"quick"', clock() + 90, date=DAY, spent=spent)
    await slow.turns.settle("claude", "t1", '"slow"', clock() + 90, date=DAY, spent=spent)
    third = SharedState(link, clock, holder="third")
    assert (await third.turns.claim("claude", "t1", clock() + 90)).result == '"quick"'
    assert (await third.limits.costs.read("claude", DAY))["ai_calls"] == 1


async def test_who_answered_first_stays_known_when_another_keeps_the_answer_again_with_a_picture(link, clock):
    slow, quick = (SharedState(link, clock, holder=name) for name in ("slow", "quick"))
    await slow.turns.claim("claude", "t1", clock() + 90)
    await slow.turns.checkpoint("claude", "t1", "answer", "42")
    await quick.turns.claim("claude", "t1", clock() + 90)
    await quick.turns.checkpoint("claude", "t1", "answer", "42 and a picture")
    await slow.turns.settle("claude", "t1", "{}", clock() + 90, date=DAY, spent={"ai_calls": 1})
    await quick.turns.settle("claude", "t1", "{}", clock() + 90, date=DAY, spent={"ai_calls": 1})
    assert (await quick.limits.costs.read("claude", DAY))["ai_calls"] == 1, "its cost went with its answer"


@pytest.mark.promise(78)
async def test_a_call_of_a_turn_that_was_lost_before_its_answer_was_kept_is_charged(link, clock):
    slow, quick = (SharedState(link, clock, holder=name) for name in ("slow", "quick"))
    await slow.turns.claim("claude", "t1", clock() + 90)
    await quick.turns.claim("claude", "t1", clock() + 90)
    assert not await slow.turns.checkpoint("claude", "t1", "answer", "42")
    await slow.turns.settle("claude", "t1", '"slow"', clock() + 90, date=DAY, spent={"ai_calls": 1})
    await quick.turns.settle("claude", "t1", '"quick"', clock() + 90, date=DAY, spent={"ai_calls": 1})
    assert (await quick.limits.costs.read("claude", DAY))["ai_calls"] == 2


async def test_the_index_has_the_open_turns_and_what_they_began_with(link, state, clock):
    for name, deadline in (("late", 90), ("soon", 20), ("done", 50)):
        await state.turns.claim("claude", name, clock() + deadline, f"event {name}")
    await state.turns.settle("claude", "done", "{}", clock() + 50)
    assert await state.turns.open_ids("claude") == ["soon", "late"]
    assert await state.turns.left("claude", "soon") == "event soon"
    await link.call(lambda redis: redis.delete(keys.turn("claude", "late")))
    assert await state.turns.left("claude", "late") is None
    assert await state.turns.open_ids("claude") == ["soon"]


async def test_nobody_goes_on_with_a_turn_that_was_dropped(link, state, clock):
    await state.turns.claim("claude", "t1", clock() + 90, "event")
    await state.turns.drop("claude", "t1")
    assert await state.turns.open_ids("claude") == []
    other = SharedState(link, clock, holder="other")
    assert (await other.turns.claim("claude", "t1", clock() + 90)).state == "new"


@pytest.mark.promise(92)
async def test_the_index_of_open_turns_has_a_bound(link, state, clock, monkeypatch):
    monkeypatch.setattr("agentic.state.waiting_turns.MAX_OPEN", 3)
    for number in range(5):
        await state.turns.claim("claude", f"t{number}", clock() + 10 + number, "event")
    assert await state.turns.open_ids("claude") == ["t2", "t3", "t4"]


async def test_a_turn_that_has_ended_keeps_its_result_and_nothing_of_what_was_said(link, state, clock):
    await state.turns.claim("claude", "t1", clock() + 90, "event")
    await state.turns.checkpoint("claude", "t1", "answer", "42")
    await state.turns.settle("claude", "t1", "{}", clock() + 90)
    kept = await link.call(lambda redis: redis.hkeys(keys.turn("claude", "t1")))
    assert set(kept) == {"state", "result", "holder", "claimed_at", "answer_by", "settled:here"}


async def test_an_agent_is_known_since_it_was_first_online(link, state, clock):
    assert await state.coordination.presence.first_seen("claude") is None
    first = clock()
    await state.coordination.presence.renew("claude", "21")
    clock.now += 500
    await state.coordination.presence.renew("claude", "21")
    assert await state.coordination.presence.first_seen("claude") == first


async def test_bots_say_in_which_server_each_channel_is(link, state):
    assert await state.coordination.presence.servers(["claude", "grok"]) == {}
    await state.coordination.presence.renew("claude", "21", {5: 70})
    await state.coordination.presence.renew("grok", "22", {5: 70, 6: 71})
    await state.coordination.presence.renew("claude", "21")
    for unreadable in ("nonsense", "[5]", '{"5": null}'):
        await link.commands.hset(keys.seen("gemini"), "servers", unreadable)
        assert await state.coordination.presence.servers(["claude", "grok", "gemini", "nobody"]) == {5: 70, 6: 71}


async def test_who_was_online_is_known_by_its_last_name_also_when_it_is_gone(link, clock):
    presence = SharedState(link, clock).coordination.presence
    assert await presence.seen(["claude"]) == {}
    await presence.renew("claude", "21")
    await presence.clear("claude")
    assert await presence.seen(["claude", "grok"]) == {"claude": "21"}
    assert await presence.seen([]) == {}
    directory = Directory()
    await recall_agents(presence, directory, ["claude", "grok"])
    assert directory.agent_of(21) == "claude"


async def test_what_another_process_ended_is_done_for_who_began_it_too(link, state, clock):
    other = SharedState(link, clock, holder="there")
    await state.turns.claim("claude", "t1", clock() + 90)
    await other.turns.claim("claude", "t1", clock() + 90)
    await other.turns.settle("claude", "t1", '{"text": "hi"}', clock() + 90)
    assert (await state.turns.claim("claude", "t1", clock() + 90)).state == "done"


async def test_a_turn_whose_record_is_gone_is_still_ours(link, state, clock):
    await state.turns.claim("claude", "t1", clock() + 90)
    await link.call(lambda redis: redis.flushall())
    assert await state.turns.checkpoint("claude", "t1", "answer", "kept")
