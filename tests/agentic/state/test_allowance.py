"""What a process may begin on its own while Redis is unavailable."""

import pytest

from agentic.state.budgets import Caps, Charge
from agentic.state.limits import Allowance, LimitRequest

DAY, NEXT_DAY = "2027-01-15", "2027-01-16"
NOW = 1_800_000_000.0
ALICE = 11


def request(turn, dollars=0.0, *, agent="claude", channel=1, person=ALICE, message=None, **more):
    plain = {"agent": agent, "channel_id": channel, "date": DAY, "person_id": person, "message_id": message}
    return LimitRequest(**{**plain, "turn_id": turn, "estimate": dollars, "until": NOW + 90, **more})


def charge(asked, millionths):
    return Charge(asked.reservation_name, asked.date, millionths, asked.reservation.scopes)


@pytest.mark.promise(89, 444)
@pytest.mark.parametrize(
    ("caps", "verdict"),
    [
        (Caps(all=4.0), "budget"),
        (Caps(agent=4.0), "agent_budget"),
        (Caps(channel=4.0), "budget"),
        (Caps(person=4.0), "person_budget"),
        (Caps(idle=4.0), "idle_budget"),
    ],
)
def test_a_quarter_of_each_budget_may_be_spent(caps, verdict):
    allowance = Allowance(caps)
    assert allowance.take(request("m1", 0.75, kind="idle"), NOW) == "ok"
    assert allowance.take(request("m2", 0.26, kind="idle"), NOW) == verdict
    assert allowance.take(request("m3", 0.25, kind="idle"), NOW) == "ok"


@pytest.mark.promise(89)
def test_it_is_a_quarter_of_what_the_last_answer_left_on_that_day():
    allowance = Allowance(Caps(all=8.0, agent=8.0))
    allowance.note_left(request("m0").reservation, [2_000_000, None, None, None])
    assert allowance.take(request("m1", 0.6), NOW) == "budget"
    assert allowance.take(request("m2", 0.5), NOW) == "ok"
    assert allowance.take(request("m3", 2.0, date=NEXT_DAY), NOW) == "ok"


@pytest.mark.promise(89)
def test_the_cost_of_a_turn_replaces_its_reservation_until_redis_knows_of_it():
    allowance = Allowance(Caps(all=4.0))
    first = request("m1", 1.0)
    assert allowance.take(first, NOW) == "ok"
    allowance.settle(charge(first, 250_000))
    assert allowance.take(request("m2", 0.8), NOW + 3600) == "budget"
    assert allowance.take(request("m3", 0.75), NOW + 3600) == "ok"
    allowance.forget(first.reservation_name)
    assert allowance.take(request("m4", 0.25), NOW + 3600) == "ok"


def test_a_larger_reservation_of_a_turn_replaces_its_first_one():
    allowance = Allowance(Caps(all=4.0))
    first, larger, too_large = (request("m1", dollars) for dollars in (0.5, 1.0, 1.1))
    assert allowance.take(first, NOW) == "ok"
    assert allowance.reserve(first.reservation_name, too_large.reservation, NOW) == "budget"
    assert allowance.take(request("m2", 0.5), NOW) == "ok"
    assert allowance.reserve(first.reservation_name, larger.reservation, NOW) == "budget"
    allowance.forget(request("m2").reservation_name)
    assert allowance.reserve(first.reservation_name, larger.reservation, NOW) == "ok"


def test_the_reservation_of_a_turn_that_never_ended_expires():
    allowance = Allowance(Caps(all=4.0))
    assert allowance.take(request("m1", 1.0), NOW) == "ok"
    assert allowance.take(request("m2", 1.0), NOW + 89) == "budget"
    assert allowance.take(request("m2", 1.0), NOW + 91) == "ok"


@pytest.mark.promise(89)
def test_turns_that_cost_nothing_are_not_limited_by_money():
    allowance = Allowance(Caps(all=0.0, person=0.0))
    assert [allowance.take(request(f"m{n}"), NOW) for n in range(9)] == ["ok"] * 9
    assert allowance.take(request("m9", 0.000001), NOW) == "budget"


def test_a_cooldown_continues_ends_with_time_and_can_be_released():
    allowance = Allowance(Caps())
    known = request("m0", cooldown=30.0)
    allowance.note(known, 1, NOW)  # by the script
    assert allowance.take(known, NOW + 29) == "cooldown"
    assert allowance.take(request("m1", cooldown=30.0, channel=2), NOW + 29) == "ok"
    assert allowance.take(known, NOW + 31) == "ok"
    allowance.release_cooldown("claude", 1)
    assert allowance.take(known, NOW + 32) == "ok"


@pytest.mark.promise(44)
def test_a_person_has_as_many_mentions_in_a_minute_as_with_redis():
    allowance = Allowance(Caps(mentions=2))
    allowance.note(request("m1", message=1), 1, NOW)  # by the script
    assert allowance.take(request("m2", message=2), NOW + 5) == "ok"
    assert allowance.take(request("m3", message=3), NOW + 5) == "too_often"
    assert allowance.take(request("m2", message=2, agent="grok"), NOW + 5) == "ok", "the same message may call all bots"
    assert allowance.take(request("m4", message=4, person=12), NOW + 5) == "ok"
    assert allowance.take(request("i5", person=None), NOW + 5) == "ok"
    assert allowance.take(request("m6", message=6), NOW + 61) == "ok"


def test_the_days_turns_are_counted_on_and_free_ones_apart():
    allowance = Allowance(Caps())
    allowance.note(request("m0"), 8, NOW)
    assert [allowance.take(request(f"m{n}", daily_max=9), NOW) for n in (1, 2)] == ["ok", "daily_limit"]
    assert allowance.take(request("m3", daily_max=9, is_free=True), NOW) == "ok"
    assert allowance.take(request("m4", daily_max=9, date=NEXT_DAY), NOW) == "ok"
    assert (allowance.count("claude", DAY), allowance.count("claude", NEXT_DAY)) == (0, 1), "the old day is forgotten"


def test_what_is_refused_takes_nothing():
    allowance = Allowance(Caps(all=4.0, mentions=1))
    assert allowance.take(request("m1", 1.1, message=1, cooldown=30.0), NOW) == "budget"
    assert allowance.take(request("m2", 1.0, message=2, cooldown=30.0), NOW) == "ok"
    assert allowance.count("claude", DAY) == 1


def test_what_is_remembered_stays_small():
    allowance = Allowance(Caps(all=1e6, mentions=6))
    for n in range(200):
        asked = request(f"m{n}", 1.0, person=n, message=n, channel=n, cooldown=30.0)
        assert allowance.take(asked, NOW + 30 * n) == "ok"
    assert len(allowance._cooldowns) + len(allowance._mentions) + len(allowance._holds) < 10
