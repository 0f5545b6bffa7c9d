"""The Overview page's data: whether everything is well, and what the bots did last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.records import NOW

from agentic.console.api.overview import BEATS, COST_DAYS
from agentic.console.parts import ConsoleContext, RecordFile
from agentic.state.leases import Lease
from agentic.wire import keys
from tests.agentic.console.conftest import Pages, pages_of
from tests.support.console import console_client

BAD = ("failed", "timed_out", "refused")


async def all_turns(pages: Pages, agent: str) -> list[Any]:
    return (await pages.get("/api/turns", agent=agent, count="200"))["items"]  # type: ignore[no-any-return]


async def test_each_bot_has_a_strip_of_its_last_turns_oldest_first(pages: Pages) -> None:
    bots = {bot["agent"]: bot for bot in (await pages.get("/api/overview"))["bots"]}
    assert list(bots) == ["chatgpt", "claude", "gemini", "grok"]
    for agent, bot in bots.items():
        newest = (await all_turns(pages, agent))[:BEATS]
        assert [beat["id"] for beat in bot["beats"]] == [turn["id"] for turn in reversed(newest)]
        last, turn = bot["beats"][-1], newest[0]
        shown = ("at", "outcome", "reason_text", "seconds", "cost_usd")
        assert {name: last[name] for name in shown} == {name: turn[name] for name in shown}


async def test_the_failures_of_a_day_are_counted_and_the_newest_listed(pages: Pages) -> None:
    history = (await pages.get("/api/overview"))["history"]
    turns = [turn for agent in ("chatgpt", "claude", "gemini", "grok") for turn in await all_turns(pages, agent)]
    failed = [turn for turn in turns if turn["outcome"] in BAD and turn["at"] >= NOW - 86400]
    newest = sorted(failed, key=lambda turn: -turn["at"])
    assert failed
    assert history["failed"] == len(failed)
    assert [turn["id"] for turn in history["failures"]] == [turn["id"] for turn in newest][: len(history["failures"])]


async def test_the_costs_of_two_weeks_are_those_of_the_cost_page(pages: Pages) -> None:
    history, costs = (await pages.get("/api/overview"))["history"], await pages.get("/api/costs", days=str(COST_DAYS))
    assert history["days"] == [
        {"day": each["day"], "cost_usd": pytest.approx(each["cost_usd"])} for each in costs["days"]
    ]
    turns = sum(number for outcomes in history["today"].values() for number in outcomes.values())
    assert turns == costs["days"][-1]["turns"]
    newest = (await pages.get("/api/conversations", count="1"))["items"][0]
    assert history["last_talk"]["id"] == newest["id"]


async def test_it_says_whether_a_coordinator_and_a_recorder_run(pages: Pages, parts: ConsoleContext) -> None:
    overview = await pages.get("/api/overview")
    assert (overview["coordinator"], overview["recorder"]["recorder"]) == (False, False)
    for key in (keys.COORDINATOR_OWNER, keys.RECORDER_OWNER):
        assert await Lease(parts.state.link, key, holder="here").acquire()
    overview = await pages.get("/api/overview")
    assert (overview["coordinator"], overview["recorder"]["recorder"]) == (True, True)


async def test_without_a_history_the_bots_are_shown_anyway(parts: ConsoleContext) -> None:
    async with pages_of(replace(parts, store=RecordFile(None))) as pages:
        overview = await pages.get("/api/overview")
    assert (overview["history"], [bot["beats"] for bot in overview["bots"]]) == (None, [[], [], [], []])


async def test_without_redis_the_page_is_told_so() -> None:
    async with console_client() as client:
        answer = await client.get("/api/overview")
        assert (answer.status, "Redis is unavailable" in (await answer.json())["error"]) == (503, True)
