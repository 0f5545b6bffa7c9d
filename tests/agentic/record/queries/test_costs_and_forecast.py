"""Sums of costs, whatever they are made of, and what they let one expect of the day."""

from contextlib import closing
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from support.records import NOW, Rows, insert, make

from agentic.record.database import connect_blocking, migrate
from agentic.record.queries.statistics import forecast, forecast_month, read_costs, read_forecast

BERLIN = ZoneInfo("Europe/Berlin")


def record(path, *turns, imported=()):
    """A record with these turns: (day, at, agent, cost) each."""
    rows, (sample,) = Rows(), make(1, days=1, now=NOW, words=0, seed=1).turns[:1]
    for number, (day, at, agent, cost) in enumerate(turns):
        rows.turns.append(sample | {"id": f"t{number}", "day": day, "at": at, "agent": agent, "cost_usd": cost})
    migrate(path)
    with closing(connect_blocking(path, writable=True)) as connection:
        insert(connection, rows)
        connection.executemany("INSERT INTO imported_costs (day, agent, field, amount) VALUES (?, ?, ?, ?)", imported)
    return path


async def test_every_split_of_the_costs_has_the_same_total(db):
    costs = await read_costs(db, "2026-01-01", "2026-12-31")
    for split in (costs.days, costs.agents, costs.channels, costs.people, costs.models):
        assert sum(spent.cost_usd for spent in split.values()) == pytest.approx(costs.total.cost_usd)
    assert costs.total.turns == 3000
    assert set(costs.agents) == {"chatgpt", "claude", "gemini", "grok"}
    assert None in costs.people
    assert "google/gemini-3.1-flash-image" in costs.models
    assert 0.3 < costs.total.cached_share < 0.9
    assert list(costs.days) == sorted(costs.days)


@pytest.mark.promise(129)
async def test_an_imported_day_counts_only_where_the_record_has_no_turn_of_that_agent(tmp_path, opened):
    imported = [
        ("2026-11-01", "claude", "total_cost", 2.0),
        ("2026-11-01", "claude", "input_tokens", 300),
        ("2026-11-01", "claude", "web_search_calls", 9),
        ("2026-11-02", "claude", "total_cost", 5.0),
        ("2026-11-02", "grok", "total_cost", 1.0),
    ]
    db = await opened(record(tmp_path / "record.db", ("2026-11-02", NOW, "claude", 0.5), imported=imported))
    costs = await read_costs(db, "2026-11-01", "2026-11-02")
    assert costs.total.cost_usd == 3.5
    assert costs.imported.cost_usd == 3.0
    assert costs.imported.input_tokens == 300
    assert {key: spent.cost_usd for key, spent in costs.days.items()} == {
        ("2026-11-01", "claude"): 2.0,
        ("2026-11-02", "claude"): 0.5,
        ("2026-11-02", "grok"): 1.0,
    }
    assert (await read_costs(db, "2026-11-03", "2026-11-30")).total.cost_usd == 0


@pytest.mark.parametrize(
    ("spent", "usual", "hours", "usd", "by"),
    [
        (1.0, [(4.0, 2.0)] * 3, 12, 2.0, "usual"),  # half as fast as usual, at half of a usual day
        (2.0, [(4.0, 2.0)] * 14, 12, 4.0, "usual"),
        (0.0, [(4.0, 2.0)] * 3, 12, 0.5, "usual"),  # a quiet morning does not mean a quiet evening
        (50.0, [(4.0, 1.0)] * 3, 12, 62.0, "usual"),  # a burst does not go on for ever
        (0.5, [(4.0, 0.1)] * 3, 1, 4.4, "usual"),  # too early to compare
        (3.0, [(4.0, 4.0)] * 5, 23, 3.0, "usual"),
        (1.0, [(4.0, 2.0)] * 2, 6, 4.0, "pace"),
        (1.0, [], 1.5, None, "nothing"),
        (0.0, [], 12, None, "nothing"),
    ],
)
def test_the_forecast_is_what_was_spent_and_the_usual_rest_at_the_pace_of_the_day(spent, usual, hours, usd, by):
    found = forecast(spent, usual, hours=hours)
    assert (found.usd, found.by) == (pytest.approx(usd) if usd is not None else None, by)
    assert found.spent_usd == spent
    assert found.days == len(usual)


async def test_the_forecast_compares_with_the_same_time_of_the_fourteen_days_before(tmp_path, opened):
    noon = datetime(2026, 11, 22, 12, tzinfo=BERLIN).timestamp()
    turns = [("2026-11-22", noon - 60, "claude", 1.0)]
    for back in range(1, 20):
        at, day = noon - back * 86400, datetime.fromtimestamp(noon - back * 86400, BERLIN).date().isoformat()
        cost = 2.0 if back <= 14 else 100.0
        turns += [(day, at - 3600, "claude", cost), (day, at + 3600, "grok", 3 * cost)]
    db = await opened(record(tmp_path / "record.db", *turns))
    found = await read_forecast(db, noon, BERLIN)
    assert (found.usd, found.spent_usd, found.by, found.days) == (4.0, 1.0, "usual", 14)


@pytest.mark.parametrize(
    ("costs", "usd", "daily", "days"),
    [
        ({}, None, 0.0, 0),
        ({"2026-11-20": 1.0, "2026-11-21": 2.0}, None, 1.5, 2),  # too few days
        ({"2026-11-18": 4.0, "2026-11-21": 2.0}, 6 + 3 + 8 * 1.5, 1.5, 4),  # days without costs count
        ({"2026-10-01": 99.0, "2026-11-10": 14.0}, 14 + 3 + 8 * 1.0, 1.0, 14),  # neither last month nor its days
    ],
)
async def test_the_month_costs_as_much_a_day_as_the_last_days_did(tmp_path, opened, costs, usd, daily, days):
    db = await opened(record(tmp_path / "record.db", *((day, NOW, "claude", cost) for day, cost in costs.items())))
    month = await forecast_month(db, date(2026, 11, 22), 2.0, 3.0)
    assert (month.usd, month.daily_usd, month.days, month.last) == (usd, daily, days, "2026-11-30")
    assert month.spent_usd == 2.0 + sum(cost for day, cost in costs.items() if day >= "2026-11")
