"""The end of a turn over Redis that is away, or that did what it was asked and whose reply was lost."""

from __future__ import annotations

import asyncio

import pytest

from agentic.state.budgets import Caps
from agentic.state.limits import LimitRequest
from agentic.state.shared_state import SharedState
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.chaos.slow_redis import SlowRedis
from tests.support.redis_server import PATIENT, RedisServer, until

DAY = "2027-01-15"
# Words by which a script is known on its way to Redis.
SETTLE, BEGIN, ANSWER, TAKE = "'settled:'", "local is_admitted", "return 'kept'", "return take(0, 0)"


def ask(turn: str, clock, dollars=1.0, daily_max=100) -> LimitRequest:
    money = {"turn_id": turn, "estimate": dollars, "until": clock() + 90, "person_id": 11, "under_way": "{}"}
    return LimitRequest(agent="claude", channel_id=1, daily_max=daily_max, date=DAY, **money)


def record(turn: str, **more) -> TurnRecord:
    return TurnRecord(id=turn, agent="claude", kind="mention", trigger="mention", channel_id=1, **more)


async def end(state: SharedState, clock, turn: str, dollars=0.5, **more) -> bool:
    spent = {"total_cost": dollars, "ai_calls": 1}
    result = f'"{turn}"'
    return await state.turns.settle(
        "claude", turn, result, clock() + 90, date=DAY, spent=spent, record=record(turn), **more
    )


async def back(link: RedisConnection, server: RedisServer) -> None:
    server.start()
    await asyncio.wait_for(link.present.wait(), 10)


async def take_away(link: RedisConnection, server: RedisServer) -> None:
    server.kill()
    with pytest.raises(StateUnavailable):
        await link.call(lambda redis: redis.ping())


async def books(link: RedisConnection) -> tuple[int, float, float, int, int]:
    """Calls and dollars booked, dollars of the budget, records, turns counted."""
    kept = await link.call(lambda redis: redis.hgetall(keys.cost("claude", DAY)))
    budget = await link.call(lambda redis: redis.hget(keys.budget(DAY), "all"))
    records = await link.call(lambda redis: redis.xlen(keys.turns("claude")))
    counted = await link.call(lambda redis: redis.get(keys.daily_count("claude", DAY)))
    calls, dollars = int(kept.get("ai_calls", 0)), float(kept.get("total_cost", 0))
    return calls, dollars, int(budget or 0) / 1e6, records, int(counted or 0)


@pytest.fixture
async def way(server: RedisServer):
    async with SlowRedis(server.socket) as opened:
        yield opened


@pytest.mark.promise(79)
async def test_a_turn_that_ended_while_redis_was_away_is_written_as_soon_as_it_is_back(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, holder="here", caps=Caps(all=9.0))
        assert (await state.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock)))[1] == "ok"
        await take_away(link, server)
        assert (await state.turns.begin("claude", "m2", clock() + 90, "event", ask("m2", clock)))[1] == "ok"
        assert [await end(state, clock, turn) for turn in ("m1", "m2")] == [False, False]
        await back(link, server)
        await until(lambda: not state.turns.unwritten)
        restarted = SharedState(link, clock, holder="restarted")
        for turn in ("m1", "m2"):
            assert (await restarted.turns.claim("claude", turn, clock() + 90)).result == f'"{turn}"'
        assert await restarted.turns.open_ids("claude") == []
        assert await link.call(lambda redis: redis.hlen(keys.budget_holds(DAY))) == 0
        assert await books(link) == (2, 1.0, 1.0, 2, 2)


@pytest.mark.promise(79)
async def test_what_ended_meanwhile_is_written_before_the_next_turn_begins(server: RedisServer, clock, monkeypatch):
    monkeypatch.setattr(RedisConnection, "_note_back", lambda link: None)  # the next turn is quicker
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, holder="here")
        await take_away(link, server)
        await end(state, clock, "m1")
        await back(link, server)
        assert state.turns.unwritten
        await state.turns.begin("claude", "m2", clock() + 90, "event", ask("m2", clock))
        assert (await SharedState(link, clock).turns.claim("claude", "m1", clock() + 90)).state == "done"


@pytest.mark.promise(80)
@pytest.mark.parametrize("words", [SETTLE, BEGIN, ANSWER])
async def test_a_turn_one_of_whose_replies_was_cut_off_is_booked_once(server: RedisServer, way, clock, words):
    async with RedisConnection(way.url) as link, RedisConnection(server.url, command_timeout=PATIENT) as sure:
        state = SharedState(link, clock, holder="here", caps=Caps(all=9.0))
        way.cuts.append(words)
        claim, verdict = await state.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
        assert (claim.state, verdict) == ("new", "ok")
        assert await state.turns.checkpoint("claude", "m1", "answer", "42")
        await end(state, clock, "m1")
        assert way.cut == [words]
        await until(lambda: not state.turns.unwritten)
        await state.link.write_queued()
        assert await books(sure) == (1, 0.5, 0.5, 1, 1)
        assert await sure.call(lambda redis: redis.hlen(keys.budget_holds(DAY))) == 0
        assert (await SharedState(sure, clock).turns.claim("claude", "m1", clock() + 90)).result == '"m1"'


@pytest.mark.promise(80)
async def test_limits_taken_in_a_step_whose_reply_was_cut_off_count_once(server: RedisServer, way, clock):
    async with RedisConnection(way.url) as link, RedisConnection(server.url, command_timeout=PATIENT) as sure:
        state = SharedState(link, clock)
        way.cuts += [TAKE]
        assert await state.limits.take(ask("m1", clock, daily_max=2)) == "ok"
        await asyncio.wait_for(link.present.wait(), 10)
        assert await state.limits.take(ask("m2", clock, daily_max=2)) == "ok", "the first one counts once"
        assert await state.limits.take(ask("m3", clock, daily_max=2)) == "daily_limit"
        await state.link.write_queued()
        assert (await books(sure))[-1] == 2


@pytest.mark.promise(79)
async def test_turns_taken_while_redis_was_away_count_when_it_is_back_without_another_turn(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        limits = SharedState(link, clock).limits
        await take_away(link, server)
        for turn in ("m1", "m2"):
            await limits.take(ask(turn, clock))
        await back(link, server)
        await until(lambda: not link.has_queued)
        assert await SharedState(link, clock).limits.count("claude", DAY) == 2


@pytest.mark.promise(80)
async def test_an_end_that_timed_out_and_was_not_carried_out_is_written_once(server: RedisServer, clock):
    async with RedisConnection(server.url) as link:
        state = SharedState(link, clock, holder="here")
        await state.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
        server.pause()
        assert not await end(state, clock, "m1")
        server.resume()
        await asyncio.wait_for(link.present.wait(), 10)
        await state.link.write_queued()
        assert await books(link) == (1, 0.5, 0.5, 1, 1)


@pytest.mark.promise(80)
async def test_an_end_that_is_told_twice_is_booked_once(link, clock):
    state = SharedState(link, clock, holder="here")
    await state.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
    for _ in range(2):
        assert await end(state, clock, "m1")
    assert await books(link) == (1, 0.5, 0.5, 1, 1)


async def test_a_turn_that_is_asked_for_again_while_its_end_is_being_written_is_recorded_all_the_same(link, clock):
    state = SharedState(link, clock, holder="here")
    await state.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
    run = link.script

    async def run_late(script, *arguments):
        if "local ours" in script:
            assert (await state.turns.claim("claude", "m1", clock() + 90)).result == '"m1"'
        return await run(script, *arguments)

    link.script = run_late
    assert await end(state, clock, "m1")
    assert await books(link) == (1, 0.5, 0.5, 1, 1)


async def test_what_is_spent_while_redis_is_away_counts_against_the_budget_once_before_and_after(
    server: RedisServer, clock
):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, holder="here", caps=Caps(all=4.0))
        await state.turns.begin("claude", "m1", clock() + 90, "", ask("m1", clock))
        await take_away(link, server)
        await end(state, clock, "m1", 3.5)
        assert await state.limits.take(ask("m2", clock)) == "budget"
        await back(link, server)
        await until(lambda: not state.turns.unwritten)
        assert await state.limits.take(ask("m3", clock)) == "budget"
        assert await state.limits.take(ask("m4", clock, 0.5)) == "ok", "3.5 of 4 are spent, not 7"


async def test_what_nobody_waits_for_any_more_is_not_said(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, holder="here")
        await take_away(link, server)
        await end(state, clock, "late", say="late")
        clock.now += 60
        await end(state, clock, "soon", say="soon")
        clock.now += 60
        server.start()
        async with link.commands.pubsub() as listener:
            await listener.subscribe(keys.results("claude"))
            assert (await listener.get_message(timeout=5))["type"] == "subscribe"
            await asyncio.wait_for(link.present.wait(), 10)
            assert (await listener.get_message(timeout=5))["data"] == "soon"
        await until(lambda: not state.turns.unwritten)
        assert (await books(link))[0] == 2


@pytest.mark.promise(79)
async def test_ends_that_are_kept_have_a_bound_and_what_falls_out_is_named(
    server: RedisServer, clock, monkeypatch, caplog
):
    monkeypatch.setattr("agentic.state.turns.MAX_KEPT", 2)
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, holder="here")
        await take_away(link, server)
        for number in range(3):
            await end(state, clock, f"m{number}")
        await back(link, server)
        await until(lambda: not state.turns.unwritten)
        assert (await books(link))[0] == 2
    assert "the cost of turn m0 (0.5000 USD) will not be recorded" in caplog.text


async def test_an_end_that_redis_does_not_understand_keeps_no_other_one_from_being_written(
    server: RedisServer, clock, caplog
):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, holder="here")
        await link.call(lambda redis: redis.set(keys.turn("claude", "m1"), "of another kind"))
        await take_away(link, server)
        for turn in ("m1", "m2"):
            await end(state, clock, turn)
        await back(link, server)
        await until(lambda: not state.turns.unwritten)
        assert (await SharedState(link, clock).turns.claim("claude", "m2", clock() + 90)).state == "done"
    assert "the end of turn m1 is lost" in caplog.text


@pytest.mark.promise(48)
async def test_who_takes_a_turn_over_pays_for_the_call_that_was_under_way_and_nobody_else(link, clock):
    paused, next_one = (SharedState(link, clock, holder=name) for name in ("paused", "next"))
    await paused.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
    left = await next_one.turns.claim("claude", "m1", clock() + 90)
    assert (left.state, left.under_way) == ("left", "{}")
    await end(paused, clock, "m1")  # it was not dead
    assert (await books(link))[0] == 0
    await end(next_one, clock, "m1", 1.0)
    assert (await books(link))[:3] == (1, 1.0, 1.0)


async def test_a_process_that_takes_its_own_turn_up_again_pays_for_what_it_spends_then(link, clock):
    first, second = (SharedState(link, clock, holder=name) for name in ("first", "second"))
    await first.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
    await second.turns.claim("claude", "m1", clock() + 90)
    await end(first, clock, "m1")
    first.turns.forget("claude", "m1")
    assert (await first.turns.claim("claude", "m1", clock() + 90)).state == "left"
    await end(first, clock, "m1", 0.25)
    assert (await books(link))[:2] == (1, 0.25)


@pytest.mark.promise(79)
async def test_at_the_end_of_the_process_what_is_kept_waits_a_moment_for_redis(server: RedisServer, clock, caplog):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, holder="here")
        await state.turns.finish()
        await take_away(link, server)
        await end(state, clock, "m1")
        await state.turns.finish(0.01)
        assert "the ends of 1 turns are lost with this process" in caplog.text
        ending = asyncio.create_task(state.turns.finish(10.0))
        await back(link, server)
        await ending
        assert (await books(link))[0] == 1


async def test_an_end_that_is_kept_counts_as_spent_and_once(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = SharedState(link, clock, caps=Caps(all=10.0))
        await state.turns.begin("claude", "m1", clock() + 90, "", ask("m1", clock))
        await take_away(link, server)
        for _ in range(2):
            assert not await end(state, clock, "m1", dollars=0.5)
        assert await state.limits.take(ask("m2", clock, 1.76)) == "budget", "a quarter of 9, less 0.5"
        assert await state.limits.take(ask("m3", clock, 1.75)) == "ok"


async def test_a_call_that_was_heard_of_is_under_way_no_longer(link, clock):
    first, second = (SharedState(link, clock, holder=name) for name in ("first", "second"))
    await first.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
    await first.turns.checkpoint("claude", "m1", "answer", "42")
    left = await second.turns.claim("claude", "m1", clock() + 90)
    assert (left.answer, left.under_way) == ("42", None), "the answer says what it cost"


async def test_a_turn_that_is_gone_on_with_asks_the_budgets_for_all_that_it_costs(link, clock):
    caps = Caps(all=3.0, person=1.75)
    first, second = (SharedState(link, clock, holder=name, caps=caps) for name in ("first", "second"))
    await first.turns.begin("claude", "m1", clock() + 90, "event", ask("m1", clock))
    second.limits.resume(ask("m1", clock), 1.0)
    assert not await second.limits.reserve_more("claude", "m1", 2.0), "its person has no more than 1.75"
    assert await second.limits.reserve_more("claude", "m1", 1.5)
    await end(second, clock, "m1", 1.5)
    spent = await link.call(lambda redis: redis.hgetall(keys.budget(DAY)))
    assert {spent["all"], spent["person:11"]} == {"1500000"}


async def test_a_turn_over_midnight_is_on_all_books_of_the_day_on_which_it_began(link, clock):
    state = SharedState(link, clock)
    await state.turns.begin("claude", "m1", clock() + 90, "{}", ask("m1", clock))
    spent = {"total_cost": 0.5, "ai_calls": 1}
    over = {"date": "2027-01-16", "spent": spent, "record": record("m1")}
    await state.turns.settle("claude", "m1", "{}", clock() + 90, **over)
    assert await books(link) == (1, 0.5, 0.5, 1, 1)
    assert [each.day for each in await state.turns.records.last("claude")] == [DAY]
