"""Lists of the record: each page follows the one before, and none reads a whole table."""

from contextlib import closing

import pytest
from support.records import CHANNELS, NOW, PEOPLE

from agentic.record.database import connect_blocking, migrate
from agentic.record.queries import turns as turns_module
from agentic.record.queries.posts import (
    actions_page,
    conversation_of,
    conversations_page,
    last_conversation,
    picture_of,
    posts_of_conversation,
)
from agentic.record.queries.statistics import (
    FAILURES,
    file_state,
    model_speeds,
    outcomes_by_agent,
    reactions_received,
    read_costs,
    read_forecast,
)
from agentic.record.queries.turns import (
    TurnFilter,
    neighbors,
    turns_of_conversation,
    turns_over_time,
    turns_page,
    whole_turn,
)

CHANNEL = next(iter(CHANNELS))
FILTERS = [
    TurnFilter(),
    TurnFilter(agent="grok"),
    TurnFilter(channel_id=CHANNEL),
    TurnFilter(conversation_id="showcase"),
    TurnFilter(outcome="failed"),
    TurnFilter(asked_by=PEOPLE[0]),
    TurnFilter(model="xai/grok-4.7"),
    TurnFilter(since=NOW - 5 * 86400, until=NOW - 2 * 86400),
    TurnFilter(agent="claude", outcome="skipped", channel_id=CHANNEL),
    TurnFilter(text="Monday"),
]


async def every_page(read):
    """The items of all pages, in order."""
    items, after = [], None
    while True:
        page = await read(after)
        items += page.items
        if page.next is None:
            return items
        after = page.next


def matches(wanted):
    """The same filter, as a person would check it."""
    return lambda turn: (
        wanted.agent in (None, turn["agent"])
        and wanted.channel_id in (None, turn["channel_id"])
        and wanted.conversation_id in (None, turn["conversation_id"])
        and wanted.outcome in (None, turn["outcome"])
        and wanted.asked_by in (None, turn["asked_by"])
        and wanted.model in (None, turn["model"])
        and (wanted.since is None or turn["at"] >= wanted.since)
        and (wanted.until is None or turn["at"] < wanted.until)
        and wanted.text in (turn["posted"] or "")
    )


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
async def test_the_pages_of_a_filter_have_each_of_its_turns_once_the_newest_first(record_file, db, wanted):
    with closing(connect_blocking(record_file)) as connection:
        everything = connection.execute(
            "SELECT turns.*, posts.text AS posted FROM turns LEFT JOIN posts ON posts.agent = turns.agent"
            " AND posts.turn_id = turns.id ORDER BY turns.at DESC, turns.seq DESC"
        ).fetchall()
    expected = [turn["seq"] for turn in everything if matches(wanted)(turn)]
    found = await every_page(lambda after: turns_page(db, wanted, after=after, count=70))
    assert [turn.seq for turn in found] == expected
    assert expected


async def test_a_search_goes_on_where_a_page_has_searched_enough(db, monkeypatch):
    monkeypatch.setattr(turns_module, "SEARCHED", {"posts": 100})
    page = await turns_page(db, TurnFilter(text="nobody ever wrote this"))
    assert page.items == ()
    assert page.next is not None
    found = await every_page(lambda after: turns_page(db, TurnFilter(text="MARSHMALLOWS"), after=after))
    assert [turn.id for turn in found] == ["showcase-4"]


async def test_a_search_in_posts_shows_the_place_that_it_found(db):
    text = "the trouble begins when somebody uses the answer to the first to win the SECOND"
    (found,) = (await turns_page(db, TurnFilter(text=text, agent="claude"))).items
    assert text.lower() in found.text.lower()
    assert not found.text.startswith("I think two questions")


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("you say what you think", True),  # of the system prompt
        ("MESSAGE 7: i keep", True),  # of the history
        ("nobody has defined it yet", True),  # of the answer
        ("history", False),  # the name of a field
    ],
)
async def test_a_search_in_prompts_finds_what_the_model_read_and_wrote(db, text, is_found):
    found = (await turns_page(db, TurnFilter(text=text, within="prompts"))).items
    assert bool(found) is is_found
    assert all(turn.at > NOW - 10 * 86400 for turn in found)


@pytest.mark.parametrize(("order", "field"), [("cost", "cost_usd"), ("time", "seconds")])
async def test_the_costliest_and_the_slowest_turns_come_first_on_all_pages(db, order, field):
    def page(after):
        return turns_page(db, TurnFilter(agent="grok"), order=order, after=after, count=100)

    values = [getattr(turn, field) for turn in await every_page(page)]
    assert len(values) == len(await every_page(lambda after: turns_page(db, TurnFilter(agent="grok"), after=after)))
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("order", ["newest", "cost"])
async def test_the_neighbors_of_a_turn_are_those_of_its_list(db, order):
    wanted = TurnFilter(agent="claude", outcome="posted")
    before, turn, after = (await turns_page(db, wanted, order=order, count=3)).items
    found = await neighbors(db, wanted, turn, order)
    assert [one and one.id for one in found] == [before.id, after.id]
    assert (await neighbors(db, wanted, before, order))[0] is None


async def test_the_parts_of_a_time_range_have_all_its_turns(db):
    wanted = TurnFilter(since=NOW - 5 * 86400, until=NOW - 2 * 86400)
    turns = await every_page(lambda after: turns_page(db, wanted, after=after))
    parts = await turns_over_time(db, wanted, NOW, 60)
    assert (len(parts), parts[0].at) == (60, wanted.since)
    assert sum(part.turns for part in parts) == len(turns)
    assert sum(part.failures for part in parts) == sum(turn.outcome in FAILURES for turn in turns) > 0
    assert sum(part.cost_usd for part in parts) == pytest.approx(sum(turn.cost_usd for turn in turns))
    assert sum(part.turns for part in await turns_over_time(db, TurnFilter(), NOW, 60)) > len(turns)
    assert await turns_over_time(db, TurnFilter(agent="nobody"), NOW, 60) == ()


async def test_a_search_takes_percent_and_underscore_as_they_are(db):
    assert (await turns_page(db, TurnFilter(text="would_you"))).items[0].id == "showcase-3"
    assert (await turns_page(db, TurnFilter(text="would%you"))).items == ()


async def test_conversations_and_actions_come_in_pages_too(record_file, db):
    with closing(connect_blocking(record_file)) as connection:
        (conversations,) = connection.execute("SELECT COUNT(*) FROM conversations").fetchone()
        (actions,) = connection.execute("SELECT COUNT(*) FROM actions").fetchone()
    found = await every_page(lambda after: conversations_page(db, after=after, count=20))
    assert len({each.id for each in found}) == len(found) == conversations
    assert [each.started_at for each in found] == sorted((each.started_at for each in found), reverse=True)
    assert len(await every_page(lambda after: actions_page(db, after=after, count=7))) == actions


async def test_no_list_reads_a_whole_table(db):
    """SQLite's own plan of each statement says SEARCH for what an index finds, SCAN for what it reads through."""
    asked = []
    fetch = db.execute_fetchall

    async def noted(sql, values=()):
        asked.append((sql, values))
        return await fetch(sql, values)

    db.execute_fetchall = noted
    for wanted in FILTERS:
        await turns_page(db, wanted)
    await whole_turn(db, "grok", "showcase-4")
    await turns_of_conversation(db, "showcase")
    await posts_of_conversation(db, "showcase")
    await picture_of(db, 5)
    await conversations_page(db)
    await conversations_page(db, channel_id=CHANNEL)
    await conversation_of(db, "showcase")
    await read_costs(db, "2026-11-01", "2026-11-22")
    await read_forecast(db, NOW, None)
    await outcomes_by_agent(db, "2026-11-22", "2026-11-22")
    await model_speeds(db, "2026-11-22", "2026-11-22")
    await reactions_received(db, NOW - 86400)
    await actions_page(db)
    assert len(asked) > 20
    for sql, values in asked:
        plan = [step["detail"] for step in await fetch(f"EXPLAIN QUERY PLAN {sql}", values)]
        made = {step.split()[1] for step in plan if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
        small = made | {"json_each", "cuts", "CONSTANT"}
        assert [step for step in plan if step.startswith("SCAN") and step.split()[1] not in small] == [], sql


async def test_the_last_conversation_is_the_newest_in_which_something_was_posted(db):
    assert (await last_conversation(db)).id == "showcase"


async def test_an_empty_record_has_empty_lists(tmp_path, opened):
    migrate(tmp_path / "record.db")
    db = await opened(tmp_path / "record.db")
    assert (await turns_page(db, TurnFilter())).items == ()
    assert (await conversations_page(db)).items == ()
    assert await last_conversation(db) is None
    assert await whole_turn(db, "grok", "m1") is None
    assert (await read_costs(db, "2026-01-01", "2026-12-31")).total.cached_share == 0
    assert (await file_state(db)).oldest is None
