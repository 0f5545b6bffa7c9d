from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from agentic.state.budgets import MEMBERS, Caps, millionths
from agentic.state.limits import LimitRequest
from agentic.state.shared_state import SharedState
from agentic.state.turn_records import UNKNOWN, TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.redis_server import RedisServer

DAY, NEXT_DAY = "2027-01-15", "2027-01-16"
RULES = {"cooldown": 0.0, "daily_max": 1000}


class Desk:
    """Turns that ask one state for money; Alice (11) calls where nothing else is said."""

    def __init__(self, state, clock) -> None:
        self.state, self.clock = state, clock

    async def take(
        self, turn, dollars=1.0, *, agent="claude", channel=1, person=11, kind="mention", date=DAY, idle=False, **rules
    ):
        ask = LimitRequest(
            agent=agent,
            channel_id=channel,
            date=date,
            turn_id=turn,
            estimate=dollars,
            until=self.clock() + 90,
            kind="idle" if idle else kind,
            person_id=person,
            message_id=int(turn[1:]) if person else None,
            **{**RULES, **rules},
        )
        return await self.state.limits.take(ask)

    async def settle(self, turn, dollars, *, agent="claude", date=DAY):
        spent = {"total_cost": dollars}
        return await self.state.turns.settle(agent, turn, "{}", self.clock() + 90, date=date, spent=spent)


@pytest.fixture
def desk(link, clock):
    """`desk(**caps)`: one more process with these caps."""
    return lambda **caps: Desk(SharedState(link, clock, caps=Caps(**caps)), clock)


async def spent(link, scope="all", date=DAY):
    return int(await link.call(lambda redis: redis.hget(keys.budget(date), scope)) or 0) / 1e6


@pytest.mark.promise(46)
async def test_of_eight_parallel_calls_against_money_for_three_three_are_made(desk):
    desks = [desk(all=3.0) for _ in range(8)]
    verdicts = await asyncio.gather(*(d.take(f"m{n}", person=None, channel=n) for n, d in enumerate(desks)))
    assert sorted(verdicts) == ["budget"] * 5 + ["ok"] * 3


@pytest.mark.promise(42)
@pytest.mark.parametrize(
    ("cap", "verdict"),
    [("all", "budget"), ("channel", "budget"), ("agent", "agent_budget"), ("person", "person_budget")],
)
async def test_each_kind_of_budget_holds_its_own_and_nobody_elses(desk, cap, verdict):
    one = desk(**{cap: 1.5})
    assert await one.take("m1") == "ok"
    assert await one.take("m2") == verdict
    others = await one.take("m3", agent="grok", channel=2, person=12)
    assert others == (verdict if cap == "all" else "ok")


@pytest.mark.promise(444)
async def test_what_is_done_while_nobody_writes_has_a_share_that_it_cannot_pass(desk, link):
    one, other = desk(all=10.0, idle=2.0), desk(all=10.0, idle=2.0)
    assert await one.take("m1", 1.5, person=None, kind="opening", idle=True) == "ok"
    assert await other.take("m2", 1.0, agent="grok", channel=2, kind="opening", idle=True) == "idle_budget"
    assert await other.take("m3", 1.0) == "ok", "people have the rest"
    assert await one.state.limits.budgets.used_up("claude", 1, DAY, idle=True) == []
    await one.settle("m1", 1.95)
    assert (await spent(link, "idle"), await spent(link)) == (1.95, 1.95)
    assert await one.state.limits.budgets.used_up("claude", 1, DAY, idle=True) == ["idle"]
    assert await one.state.limits.budgets.used_up("claude", 1, DAY) == []
    await other.settle("m3", 0.5)
    assert (await spent(link, "idle"), await spent(link)) == (1.95, 2.45)
    use = (await one.state.limits.budgets.uses(DAY, []))["idle"]
    assert (use.spent, use.cap) == (1.95, 2.0)


async def test_without_a_days_budget_the_share_has_no_cap_and_a_days_budget_holds_it_too(desk):
    assert await desk().take("m1", 99.0, idle=True) == "ok"
    assert await desk(all=1.0, idle=2.0).take("m2", 1.5, channel=2, idle=True) == "budget"


@pytest.mark.promise(46)
async def test_a_refused_wish_takes_nothing(desk, link):
    one = desk(all=1.0, mentions=6)
    assert await one.take("m1", 2.0, cooldown=30.0) == "budget"
    assert await one.state.limits.count("claude", DAY) == 0
    assert await link.call(lambda redis: redis.keys("*")) == []


@pytest.mark.promise(46)
async def test_settling_puts_the_real_cost_in_the_place_of_the_estimate(desk, link):
    one = desk(all=3.0)
    assert await one.take("m1", 2.0) == "ok"
    assert await one.take("m2", 2.0) == "budget"
    await one.settle("m1", 0.25)
    for scope in ("all", "agent:claude", "channel:1", "person:11"):
        assert await spent(link, scope) == 0.25
    assert await one.take("m3", 2.0) == "ok"
    await one.settle("m3", 2.75)
    assert await one.take("m4", 0.01) == "budget"


@pytest.mark.promise(47)
async def test_the_money_outlives_a_restart_and_a_kill_of_redis(server: RedisServer, clock):
    async with RedisConnection(server.url) as link:
        one = Desk(SharedState(link, clock, caps=Caps(all=3.0)), clock)
        await one.take("m1")
        await one.take("m2")
        await one.settle("m1", 1.5)
    server.restart()
    async with RedisConnection(server.url) as link:
        again = Desk(SharedState(link, clock, caps=Caps(all=3.0)), clock)
        assert await again.take("m3") == "budget", "1.5 spent, 1 put aside by a process that is gone"
        assert await again.take("m4", 0.5) == "ok"
        await again.settle("m2", 0.5)  # a turn that another process had begun
        assert (await spent(link), await spent(link, "person:11")) == (2.0, 2.0)


@pytest.mark.promise(47)
async def test_what_a_killed_process_put_aside_is_spent_when_its_time_is_over_and_once(desk, clock, link):
    assert await desk(all=4.0).take("m1") == "ok"
    clock.now += 89
    assert await desk(all=4.0).take("m2", person=None) == "ok"
    assert await spent(link) == 0.0
    clock.now += 2
    for turn in ("m3", "m4"):
        assert await desk(all=4.0).take(turn, 0.5) == "ok"
        assert (await spent(link), await spent(link, "person:11")) == (1.0, 1.0)
    assert await desk(all=4.0).take("m5", 1.5) == "budget"
    booked = await desk().state.limits.costs.read("claude", DAY)
    assert booked == {"total_cost": 1.0, "ai_cost": 1.0, "ai_calls": 1.0}


@pytest.mark.promise(47)
async def test_an_end_that_comes_after_all_takes_the_place_of_what_was_booked_for_it(desk, clock, link):
    one, other = desk(all=9.0), desk(all=9.0)
    await one.take("m1")
    clock.now += 100
    await other.take("m2")
    assert await spent(link) == 1.0
    await one.settle("m1", 0.25)
    assert (await spent(link), await spent(link, "person:11")) == (0.25, 0.25)
    assert (await one.state.limits.costs.read("claude", DAY))["total_cost"] == pytest.approx(0.25)


@pytest.mark.promise(47)
async def test_the_history_gets_a_turn_for_what_was_charged_without_an_end(desk, clock, link):
    thread = 1_200_000_000_000_000_123
    await desk(all=9.0).take("m1", 0.25, channel=thread, person=11)
    await desk(all=9.0).take("m2", 0.5, person=None)
    await desk(all=9.0).take("m3", 0.5, channel=thread, person=MEMBERS)
    clock.now += 100
    await desk(all=9.0).take("m4")
    await desk(all=9.0).take("m5")
    found = {record.id: record for record in await desk().state.turns.records.last("claude", count=9)}
    assert found["m1"] == TurnRecord(
        id="m1",
        agent="claude",
        at=clock.now,
        day=DAY,
        kind=UNKNOWN,
        trigger=UNKNOWN,
        channel_id=thread,
        asked_by=11,
        cost_usd=0.25,
        reason="interrupted",
    )
    assert [(turn, record.asked_by, record.cost_usd) for turn, record in sorted(found.items())] == [
        ("m1", 11, 0.25),
        ("m2", None, 0.5),
        ("m3", None, 0.5),
    ]


async def test_a_turn_that_is_gone_on_with_after_its_time_has_one_sum_put_aside(desk, clock, link):
    one, other = desk(all=9.0), desk(all=9.0)
    await one.take("m1")
    clock.now += 100
    await other.take("m2")
    assert await one.state.limits.reserve_more("claude", "m1", 1.5)
    assert await spent(link) == 0.0
    await one.settle("m1", 1.25)
    assert await spent(link) == 1.25


@pytest.mark.promise(47)
async def test_a_turn_that_was_charged_at_its_end_and_is_refused_more_costs_what_it_has_cost(desk, clock, link):
    one, other = desk(all=3.0), desk(all=3.0)
    await one.take("m1")
    clock.now += 100
    await other.take("m2")
    assert not await one.state.limits.reserve_more("claude", "m1", 2.5)
    assert await spent(link) == 1.0
    await one.settle("m1", 0.75)
    await other.settle("m2", 0.0)
    assert await spent(link) == 0.75


async def test_another_call_of_a_turn_is_paid_from_what_is_left(desk):
    one = desk(all=3.0)
    await one.take("m1")
    await one.take("m2")
    assert await one.state.limits.reserve_more("claude", "m1", 0.5), "less than it has"
    assert not await one.state.limits.reserve_more("claude", "m1", 2.5)
    assert await one.state.limits.reserve_more("claude", "m1", 2.0)
    assert not await one.state.limits.reserve_more("claude", "m2", 1.1)
    assert await one.take("m3", 0.1) == "budget"


async def test_what_costs_nothing_is_never_refused(desk):
    one = desk(all=0.0)
    assert await one.take("m1", 0.0) == "ok"
    assert await one.take("m2", 0.000001) == "budget"


@pytest.mark.promise(102)
async def test_a_new_day_has_new_money_and_a_turn_over_midnight_is_the_old_days(desk, link):
    one = desk(all=1.0)
    assert await one.take("m1") == "ok"
    assert await one.take("m2", date=NEXT_DAY) == "ok"
    await one.settle("m1", 0.75, date=NEXT_DAY)
    assert (await spent(link, date=DAY), await spent(link, date=NEXT_DAY)) == (0.75, 0.0)


@pytest.mark.parametrize(("kind", "verdict"), [("opening", "budget"), ("joining", "budget"), ("round", "closing")])
async def test_scheduled_work_stops_before_people_do_and_a_conversation_closes(desk, kind, verdict):
    one = desk(all=2.5)
    assert await one.take("m1") == "ok"
    assert await one.take("i2", person=None, kind=kind) == verdict
    if kind == "round":
        assert await one.take("i3", person=None, kind=kind) == "budget"
    else:
        assert await one.take("m4") == "ok"


@pytest.mark.promise(44)
async def test_the_seventh_mention_in_a_minute_is_too_often(desk, clock):
    one, other = desk(mentions=6), desk(mentions=6)
    for n in range(6):
        assert await (one if n % 2 else other).take(f"m{n}") == "ok"
        clock.now += 5
    assert await other.take("m6") == "too_often"
    assert await one.take("m0", agent="grok") == "ok", "the same message may call all bots"
    assert await one.take("m7", person=12) == "ok"
    clock.now += 31
    assert await other.take("m8") == "ok"


async def test_a_cap_of_nothing_allows_free_turns_and_a_minute_of_none_no_mention(server: RedisServer, clock):
    async with RedisConnection(server.url) as link:
        one, quiet = (Desk(SharedState(link, clock, caps=caps), clock) for caps in (Caps(all=0.0), Caps(mentions=0)))
        for n in (1, 5):  # with Redis, and without
            assert (await one.take(f"m{n}"), await one.take(f"m{n + 1}", 0.0)) == ("budget", "ok")
            assert (await quiet.take(f"m{n + 2}"), await quiet.take(f"m{n + 3}", person=None)) == ("too_often", "ok")
            server.kill()
            with pytest.raises(StateUnavailable):
                await link.call(lambda redis: redis.ping())


async def test_the_owner_is_told_once_when_four_fifths_are_spent(desk):
    one, other = desk(all=1.0, agent=1.0, person=0.9), desk(all=1.0, agent=1.0)
    for n, process in enumerate((one, other, one, other)):
        await process.take(f"m{n}", 0.1)
        await process.settle(f"m{n}", 0.19)
        assert process.state.limits.budgets.notices() == []
    await one.take("m4", 0.1)
    await one.settle("m4", 0.05)
    assert one.state.limits.budgets.notices() == [
        "80% of today's budget ($1.00) is spent",
        "80% of today's budget for claude ($1.00) is spent",
    ]
    await other.take("m5", 0.1, agent="grok")
    await other.settle("m5", 0.05, agent="grok")
    assert (one.state.limits.budgets.notices(), other.state.limits.budgets.notices()) == ([], [])


@pytest.mark.promise(89)
async def test_while_redis_is_away_a_quarter_of_what_was_left_may_be_spent_and_counts_afterwards(
    server: RedisServer, clock
):
    async with RedisConnection(server.url) as link:
        one = Desk(SharedState(link, clock, caps=Caps(all=9.0, mentions=6)), clock)
        await one.take("m1")
        await one.settle("m1", 1.0)
        server.kill()
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.ping())
        assert await one.take("m2") == "ok"
        assert await one.state.limits.reserve_more("claude", "m2", 1.5)
        assert not await one.settle("m2", 1.5)
        assert await one.take("m3", 0.6) == "budget", "8 were left"
        assert await one.take("m4", 0.5) == "ok"
        assert [await one.take(f"m{n}", 0.0) for n in (5, 6, 7, 8)] == ["ok", "ok", "ok", "too_often"]
        server.start()
        await asyncio.wait_for(link.present.wait(), 10)
        await one.state.link.write_queued()
        assert await one.take("m9", 6.6, person=12) == "budget", "what was spent meanwhile counts"
        await one.settle("m4", 0.5)
        assert await spent(link) == 3.0
        assert await one.take("m10", 6.0, person=12) == "ok"


@pytest.mark.promise(89)
async def test_while_redis_is_away_budgets_without_a_limit_before_others_change_nothing(server: RedisServer, clock):
    async with RedisConnection(server.url) as link:
        one = Desk(SharedState(link, clock, caps=Caps(agent=8.0, person=100.0)), clock)
        assert await one.take("m1") == "ok"
        server.kill()
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.ping())
        assert await one.take("m2", 1.76) == "agent_budget", "7 were left"
        assert await one.take("m3", 1.75) == "ok"


@pytest.mark.promise(92)
async def test_every_key_of_money_has_an_end(desk, link):
    one = desk(all=9.0, mentions=6)
    await one.take("m1")
    await one.settle("m1", 1.0)
    await one.take("m2")
    ends = {
        key: await link.call(lambda redis, key=key: redis.ttl(key))
        for key in (keys.budget(DAY), keys.budget_holds(DAY), keys.budget_held(DAY), keys.mentions(11))
    }
    assert 0 < ends[keys.mentions(11)] <= 60
    assert all(0 < end <= 48 * 3600 for end in ends.values())


async def reserved_by_scope(link, date=DAY):
    """What the reservations that wait say, added up."""
    sums = Counter()
    for text in (await link.call(lambda redis: redis.hgetall(keys.budget_holds(date)))).values():
        ends, amount, *scopes = text.split()
        sums.update(dict.fromkeys(scopes, int(amount)) if ends != "booked" else {})
    return {scope: amount for scope, amount in sums.items() if amount}


async def sums_kept(link, date=DAY):
    kept = await link.call(lambda redis: redis.hgetall(keys.budget_held(date)))
    return {scope: int(amount) for scope, amount in kept.items() if scope not in ("#", "@", "!") and int(amount)}


@pytest.mark.promise(46)
async def test_the_sums_of_what_is_reserved_are_those_of_the_reservations(desk, clock, link):
    one, rng = desk(all=50.0, person=30.0), random.Random(7)
    for step in range(150):
        turn, person = f"m{rng.randrange(12)}", rng.choice([11, 12, None])
        match rng.randrange(4):
            case 0:
                await one.settle(turn, rng.choice([0.0, 0.5]), agent="claude")
            case 1:
                await one.state.limits.reserve_more("claude", turn, rng.choice([0.5, 2.0]))
            case _:
                await one.take(turn, rng.choice([0.0, 0.25, 1.0]), person=person, channel=rng.randrange(3))
        clock.now += rng.choice([0.0, 1.0, 30.0])
        if await link.call(lambda redis: redis.exists(keys.budget_held(DAY))):
            assert await sums_kept(link) == await reserved_by_scope(link), step


@pytest.mark.promise(46)
async def test_reservations_of_an_earlier_version_count_too(desk, clock, link):
    """It keeps no sums of them."""
    one = desk(all=3.0)
    assert await one.take("m1") == "ok"
    holds, until = keys.budget_holds(DAY), clock() + 90
    await link.call(lambda redis: redis.hset(holds, "grok:m2", f"{until} {millionths(1.5)} all agent:grok channel:2"))
    assert await one.take("m3") == "budget"
    await link.call(lambda redis: redis.hdel(holds, "grok:m2"))
    assert await one.take("m4") == "ok"


async def test_a_turn_among_hundreds_does_not_read_their_reservations(desk, link):
    one = desk(all=1000.0)
    for number in range(20):
        await one.take(f"m{number}", channel=number)
    before = await link.call(lambda redis: redis.info("commandstats"))
    await one.take("m100")
    after = await link.call(lambda redis: redis.info("commandstats"))
    assert after["cmdstat_hgetall"]["calls"] == before["cmdstat_hgetall"]["calls"]


def test_a_sum_that_is_not_zero_never_counts_as_nothing():
    assert [millionths(dollars) for dollars in (0.0, 1e-6, 1.5e-6, 0.000262)] == [0, 1, 2, 262]


async def test_what_is_used_up_but_for_the_last_share_counts_as_used_up(desk):
    here = desk(all=1.0)
    for turn, spent, found in (("m1", 0.94, []), ("m2", 0.02, ["all"])):
        await here.take(turn, spent)
        await here.settle(turn, spent)
        assert await here.state.limits.budgets.used_up("claude", 1, DAY) == found


async def test_people_read_what_is_spent_and_what_running_turns_have_reserved(desk, clock):
    here = desk(all=5.0, person=1.0)
    await here.take("m1", 0.5)
    await here.settle("m1", 0.25)
    await here.take("m2", 0.5, person=None, kind="round")
    await here.take("m3", 0.125, agent="grok", channel=2)
    clock.now += 100
    await here.take("m4", 0.5)  # the two before it were never settled, so that they are booked
    uses = await here.state.limits.budgets.uses(DAY, ["channel:3"])
    assert (uses["all"].spent, uses["all"].reserved, uses["all"].cap) == pytest.approx((0.875, 0.5, 5.0))
    assert (uses["person:11"].spent, uses["person:11"].cap) == (0.375, 1.0)
    assert (uses["channel:2"].spent, uses["channel:2"].cap) == (0.125, None)
    assert (uses["channel:3"].spent, uses["channel:3"].reserved) == (0.0, 0.0)
    assert uses.keys() == {*("all", "agent:claude", "agent:grok", "channel:1", "channel:2", "channel:3", "person:11")}


@pytest.mark.promise(125)
@pytest.mark.parametrize(
    ("scope", "caps"),
    [("all", {"all": 1.0}), ("agent:claude", {"agent": 1.0}), ("channel:1", {"channel": 1.0})],
)
async def test_a_raise_lets_a_refused_turn_happen_in_every_process_on_that_day_alone(desk, scope, caps):
    one, other = desk(**caps), desk(**caps)
    await one.take("m1")
    assert await one.take("m2", 0.5) != "ok"
    assert await other.state.limits.budgets.raise_cap(scope, 0.5, DAY, "click-1") == 1.5
    assert await one.take("m2", 0.5) == "ok"
    assert await one.take("m3", 0.01) != "ok"
    assert await one.take("m4", 1.5, date=NEXT_DAY) != "ok"
    assert [(await one.state.limits.budgets.uses(day, [scope]))[scope].cap for day in (DAY, NEXT_DAY)] == [1.5, 1.0]


@pytest.mark.promise(125)
async def test_the_same_click_raises_once_and_parallel_clicks_add_up(desk):
    consoles = [desk(all=1.0) for _ in range(4)]
    clicks = zip(consoles, ("a", "a", "b", "c"), strict=True)
    caps = await asyncio.gather(*(one.state.limits.budgets.raise_cap("all", 0.5, DAY, click) for one, click in clicks))
    assert max(caps) == 2.5
    assert await consoles[0].state.limits.budgets.raise_cap("all", 0.5, DAY, "a") == 2.5


@pytest.mark.parametrize("dollars", [0.0, -1.0, 25.01, float("nan"), float("inf")])
async def test_a_sum_that_is_no_raise_is_refused(desk, dollars):
    with pytest.raises(ValueError, match="between"):
        await desk(all=1.0).state.limits.budgets.raise_cap("all", dollars, DAY, "x")
    with pytest.raises(ValueError, match="no limit"):
        await desk(all=1.0).state.limits.budgets.raise_cap("agent:claude", 1.0, DAY, "x")


async def test_after_a_raise_the_notice_is_about_the_new_cap_and_what_is_used_up_is_judged_by_it(desk):
    one = desk(all=1.0)
    for turn in ("m1", "m2"):
        await one.take(turn, 0.5)
        await one.settle(turn, 0.48)
    assert one.state.limits.budgets.notices() == ["80% of today's budget ($1.00) is spent"]
    assert await one.state.limits.budgets.used_up("claude", 1, DAY) == ["all"]
    await one.state.limits.budgets.raise_cap("all", 1.0, DAY, "x")
    assert await one.state.limits.budgets.used_up("claude", 1, DAY) == []
    for turn, sum_, notices in (("m3", 0.5, []), ("m4", 0.2, ["80% of today's budget ($2.00) is spent"])):
        await one.take(turn, 0.5)
        await one.settle(turn, sum_)
        assert one.state.limits.budgets.notices() == notices


async def test_a_raise_that_a_process_has_seen_counts_while_redis_is_away(server: RedisServer, clock):
    async with RedisConnection(server.url) as link:
        one = Desk(SharedState(link, clock, caps=Caps(all=1.0)), clock)
        await one.state.limits.budgets.raise_cap("all", 7.0, DAY, "x")
        await one.take("m1", 0.0)
        server.kill()
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.ping())
        assert await one.take("m2", 1.9) == "ok", "a quarter of eight"
        assert await one.take("m3", 0.2) == "budget"
        assert await one.take("m4", 1.0, date=NEXT_DAY) == "budget"
