from __future__ import annotations

import csv
import io

import pytest
from support.records import NOW, PEOPLE

from agentic.console.parts import ConsoleContext
from agentic.state.limits import LimitRequest
from tests.agentic.console.conftest import FORMULA, Pages


async def test_every_day_of_a_range_is_there_and_all_tables_have_the_same_sum(pages: Pages) -> None:
    costs = await pages.get("/api/costs", days="30")
    assert (len(costs["days"]), costs["days"][-1]["day"]) == (30, "2026-11-22")
    total = costs["total"]["cost_usd"]
    for table in ("days", "agents", "channels", "people"):
        assert sum(row["cost_usd"] for row in costs[table]) == pytest.approx(total)
    assert costs["models"][0]["cost_usd"] == max(row["cost_usd"] for row in costs["models"])
    assert 0 < costs["total"]["cached_share"] < 1
    assert {row["person"] for row in costs["people"]} > {None, str(PEOPLE[0])}


async def test_a_range_can_be_chosen_and_shows_its_most_expensive_turns(pages: Pages) -> None:
    costs = await pages.get("/api/costs", **{"from": "2026-11-20", "to": "2026-11-21"})
    assert [day["day"] for day in costs["days"]] == ["2026-11-20", "2026-11-21"]
    dollars = [turn["cost_usd"] for turn in costs["costliest"]]
    assert dollars == sorted(dollars, reverse=True)
    assert len(dollars) == 10
    assert dollars[0] * costs["total"]["turns"] > costs["total"]["cost_usd"]
    assert {turn["at"] // 86400 for turn in costs["costliest"]} <= {20777, 20778}


@pytest.mark.parametrize(
    "query",
    [
        {"days": "0"},
        {"days": "99999"},
        {"days": "ten"},
        {"from": "yesterday"},
        {"to": "2026-11-20"},
        {"from": "2026-11-22", "to": "2026-11-01"},
        {"from": "0001-01-01", "to": "9999-12-31"},
        {"from": "2026-13-40"},
    ],
)
async def test_an_odd_range_is_refused(pages: Pages, query: dict[str, str]) -> None:
    await pages.get("/api/costs", status=400, **query)
    await pages.get("/api/costs/csv", status=400, table="days", **query)


@pytest.mark.promise(138)
async def test_a_table_comes_as_csv_and_no_cell_of_it_is_a_formula(pages: Pages) -> None:
    response = await pages.client.get("/api/costs/csv", params={"table": "models", "days": "30"})
    assert response.content_type == "text/csv"
    assert response.headers["Content-Disposition"] == 'attachment; filename="cost-models-2026-10-24-2026-11-22.csv"'
    rows = list(csv.reader(io.StringIO(await response.text())))
    assert rows[0] == ["model", "cost_usd", "turns", "input_tokens", "cached_tokens", "output_tokens"]
    assert f"'{FORMULA}" in [row[0] for row in rows]
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@")]
    await pages.get("/api/costs/csv", status=400, table="../secrets")


@pytest.mark.parametrize("table", ["days", "agents", "channels", "people"])
async def test_each_table_of_the_page_has_its_csv(pages: Pages, table: str) -> None:
    response = await pages.client.get("/api/costs/csv", params={"table": table, "days": "7"})
    rows = list(csv.reader(io.StringIO(await response.text())))
    total = (await pages.get("/api/costs", days="7"))["total"]["cost_usd"]
    assert sum(float(row[rows[0].index("cost_usd")]) for row in rows[1:]) == pytest.approx(total, abs=1e-4)


async def test_budgets_show_what_is_spent_and_reserved_and_what_the_day_comes_to(
    pages: Pages, parts: ConsoleContext
) -> None:
    for turn, spent in (("m1", 0.25), ("m2", None)):
        ask = LimitRequest(
            agent="claude",
            channel_id=7,
            date="2026-11-22",
            turn_id=turn,
            estimate=0.5,
            until=NOW + 90,
            person_id=PEOPLE[0],
            message_id=1,
        )
        assert await parts.state.limits.take(ask) == "ok"
        if spent:
            await parts.state.turns.settle("claude", turn, "{}", NOW, date="2026-11-22", spent={"total_cost": spent})
    budgets = await pages.get("/api/budgets")
    assert (budgets["all"]["spent"], budgets["all"]["reserved"], budgets["all"]["cap"]) == (0.25, 0.5, 5.0)
    assert [use["name"] for use in budgets["agents"]] == ["ChatGPT", "Claude", "Gemini", "Grok"]
    assert [use["name"] for use in budgets["channels"]] == ["#7"]
    assert [(use["id"], use["cap"]) for use in budgets["people"]] == [(str(PEOPLE[0]), 1.0)]
    assert (budgets["forecast"]["by"], budgets["day"]) == ("usual", "2026-11-22")
    assert budgets["forecast"]["usd"] > 0
    month = budgets["month"]
    assert (month["last"], month["days"]) == ("2026-11-30", 14)
    spent = (await pages.get("/api/costs", **{"from": "2026-11-01", "to": "2026-11-21"}))["total"]["cost_usd"] + 0.25
    assert month["spent_usd"] == pytest.approx(spent)
    usual = (await pages.get("/api/costs", **{"from": "2026-11-08", "to": "2026-11-21"}))["total"]["cost_usd"] / 14
    rest = budgets["forecast"]["usd"] - 0.25 + 8 * usual
    assert (month["daily_usd"], month["usd"] - spent) == (pytest.approx(usual), pytest.approx(rest))
