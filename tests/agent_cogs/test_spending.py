import pytest

from agent_cogs.spending import Spending
from agent_llm.types import Usage
from tests.doubles import MemoryCosts

TALK = Usage(model="m", calls=1, input_tokens=100, cached_tokens=80, output_tokens=10, searches=2, text_cost_usd=0.25)
PAINT = Usage(model="p", calls=1, pictures=1, output_tokens=5, picture_cost_usd=0.5)
DAY = "2026-06-10"


def spending(costs):
    return Spending(costs, "claude", DAY)


async def test_talk_and_pictures_are_booked_apart_and_calls_counted_once():
    costs = MemoryCosts()
    turn = spending(costs)
    for usage in (TALK, TALK, PAINT):
        turn.add(usage)
    turn.emoji_reactions = 1
    await turn.book()
    assert costs.days["claude", DAY] == {
        "total_cost": 1.0,
        "ai_cost": 0.5,
        "image_cost": 0.5,
        "input_tokens": 200,
        "cached_tokens": 160,
        "output_tokens": 25,
        "ai_calls": 2,
        "image_calls": 1,
        "web_search_calls": 4,
        "emoji_reactions": 1,
    }
    assert turn.total.model == "m"


async def test_a_turn_that_cost_nothing_is_not_booked():
    costs = MemoryCosts()
    await spending(costs).book()
    assert costs.days == {}


async def test_the_days_total_holds_the_turn_that_runs():
    costs = MemoryCosts()
    await costs.add("claude", DAY, {"total_cost": 1.0})
    await costs.add("grok", DAY, {"total_cost": 9.0})
    turn = spending(costs)
    turn.add(TALK)
    assert await turn.day_total() == pytest.approx(1.25)


async def test_while_redis_is_away_the_turn_goes_on_and_its_cost_is_in_the_log(caplog):
    costs = MemoryCosts()
    costs.away = True
    turn = spending(costs)
    turn.add(TALK)
    assert await turn.day_total() == pytest.approx(0.25)
    await turn.book()
    assert "$0.2500 could not be booked" in caplog.text
