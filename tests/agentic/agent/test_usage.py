from types import SimpleNamespace

import pytest

from agentic.agent.limits import AgentLimits
from agentic.llm.types import Usage
from agentic.state.budgets import cost_fields
from agentic.wire.messages import Result, TurnUsage
from tests.support.doubles import MemoryCosts

TALK = Usage(model="m", calls=1, input_tokens=100, cached_tokens=80, output_tokens=10, searches=2, text_cost_usd=0.25)
DAY = "2026-06-10"


def limits(costs):
    return AgentLimits("claude", SimpleNamespace(limits=SimpleNamespace(costs=costs)), lambda: 0.0)


def result(**more):
    return Result(instruction_id="i1", agent_name="claude", **more)


def test_talk_and_pictures_are_booked_apart_and_calls_counted_once():
    usage = TurnUsage(
        calls=3,
        input_tokens=200,
        cached_tokens=160,
        output_tokens=25,
        searches=4,
        pictures=1,
        cost_usd=1.0,
        picture_cost_usd=0.5,
    )
    assert cost_fields(usage, reactions=1) == {
        "total_cost": 1.0,
        "ai_cost": 0.5,
        "image_cost": 0.5,
        "input_tokens": 200,
        "cached_tokens": 160,
        "output_tokens": 25,
        "reasoning_tokens": 0,
        "ai_calls": 2,
        "image_calls": 1,
        "web_search_calls": 4,
        "emoji_reactions": 1,
    }


def test_a_turn_that_cost_nothing_adds_nothing():
    assert not any(cost_fields(TurnUsage()).values())


async def test_the_days_total_holds_the_turn_that_runs():
    costs = MemoryCosts()
    costs.days["claude", DAY]["total_cost"] = 1.0
    costs.days["grok", DAY]["total_cost"] = 9.0
    assert await limits(costs).day_total(DAY, TALK) == pytest.approx(1.25)


async def test_while_redis_is_away_the_total_is_that_of_the_turn():
    costs = MemoryCosts()
    costs.away = True
    assert await limits(costs).day_total(DAY, TALK) == pytest.approx(0.25)
