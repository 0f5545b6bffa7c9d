"""The season's numbers: each with its count and the interval in which the true one lies."""

import pytest

from agentic.record.queries.statistics import share, standings
from agentic.wire.entries import Contender


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 1, 0.2065, 1.0),
        (5, 10, 0.2366, 0.7634),
        (8, 10, 0.4902, 0.9433),
        (50, 100, 0.4038, 0.5962),
        (1, 1000, 0.0002, 0.0056),
    ],
)
def test_an_interval_is_wilson_s(count, of, low, high):
    found = share(count, of)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(("count", "of"), [(-1, 3), (4, 3)])
def test_no_share_is_less_than_none_or_more_than_all(count, of):
    with pytest.raises(ValueError, match="is not a share"):
        share(count, of)


def duel(*votes):
    return [
        Contender(agent=name, model=f"model of {name}", votes=count) for name, count in zip("abc", votes, strict=False)
    ]


def counts(contests):
    return {one.agent: (one.contests, one.wins.count, one.ties, one.votes.count, one.votes.of) for one in contests}


@pytest.mark.parametrize(
    ("contests", "expected"),
    [
        ([duel(3, 1)], {"a": (1, 1, 0, 3, 4), "b": (1, 0, 0, 1, 4)}),
        ([duel(2, 2)], {"a": (1, 0, 1, 2, 4), "b": (1, 0, 1, 2, 4)}),
        ([duel(0, 0)], {}),
        ([duel(3, 3, 1), duel(0, 1)], {"a": (2, 0, 1, 3, 8), "b": (2, 1, 1, 4, 8), "c": (1, 0, 0, 1, 7)}),
    ],
    ids=["a win", "a tie is no win", "no votes, no contest", "of several"],
)
def test_wins_ties_and_votes_are_counted(contests, expected):
    assert counts(standings(contests)) == expected


def test_the_fair_share_is_that_of_chance_weighed_by_votes():
    found = {one.agent: one.fair_share for one in standings([duel(3, 3, 3), duel(1, 0)])}
    assert found["a"] == pytest.approx((9 / 3 + 1 / 2) / 10)
    assert found["c"] == pytest.approx(1 / 3)


def test_one_lucky_win_is_not_above_many():
    lucky = [[Contender(agent="new", model="m", votes=1), Contender(agent="b", model="m", votes=0)]]
    steady = [[Contender(agent="old", model="m", votes=2), Contender(agent="b", model="m", votes=1)] for _ in range(9)]
    assert [one.agent for one in standings(lucky + steady)] == ["old", "new", "b"]


def test_verdicts_and_changes_of_mind_count_besides_votes_and_by_side():
    def side(name, side, score, moved, votes=0):
        return Contender(agent=name, model="m", side=side, score=score, moved=moved, votes=votes)

    debate = [side("a", "for", 8.0, 2), side("b", "for", 8.0, 2), side("c", "against", 6.5, -2)]
    tie = [side("a", "", 7.0, 0), side("c", "", 7.0, 0)]
    found = {one.agent: one for one in standings([debate, tie])}
    assert [(one.verdicts.count, one.verdicts.of, one.score) for one in (found["a"], found["b"], found["c"])] == [
        (1, 2, 7.5),
        (1, 1, 8.0),
        (0, 2, 6.75),
    ]
    assert [(found[name].moves.count, found[name].moves.of, found[name].moved) for name in "abc"] == [
        (1, 2, 2),
        (1, 1, 2),
        (0, 2, -2),
    ]
    assert (found["a"].contests, found["a"].fair_share) == (0, 0.0)


def test_the_same_agent_with_another_model_stands_by_itself():
    found = standings([[Contender(agent="a", model="one", votes=1), Contender(agent="a", model="two", votes=0)]])
    assert [(one.agent, one.model) for one in found] == [("a", "one"), ("a", "two")]
