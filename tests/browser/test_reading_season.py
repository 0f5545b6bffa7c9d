"""The season: a table that can be read, with verdicts and changes of mind if there are any, and a bot's part of it."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import OpenPage, Program, unnamed
from tests.support import records

if TYPE_CHECKING:
    from playwright.sync_api import Page

CONTESTS = [  # question, votes
    ("Is a hot dog a sandwich?", {"claude": 3, "grok": 1}),
    ("Should cities ban cars?", {"claude": 2, "grok": 2}),
    ("Who won?", {"claude": 0, "gemini": 4}),
    ("Is water wet?", {"claude": 5, "gemini": 1}),
]


@pytest.fixture(scope="module")
def voted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("voted")
    (folder / "local").mkdir()
    path = folder / "local" / "record.db"
    records.fill(path, 60, days=3, now=time.time())
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, (question, votes) in enumerate(CONTESTS):
            contest = (f"c{number}", "arena", time.time() - number * 3600, next(iter(records.CHANNELS)), question)
            connection.execute(
                "INSERT INTO contests (id, kind, at, channel_id, question) VALUES (?, ?, ?, ?, ?)", contest
            )
            rows = [(f"c{number}", agent, f"x/{agent}-1", count) for agent, count in votes.items()]
            connection.executemany("INSERT INTO contenders (contest_id, agent, model, votes) VALUES (?, ?, ?, ?)", rows)
    program = Program(folder, "--scripted")
    yield program
    program.end()


def row(page: Page, name: str) -> str:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name)).inner_text()


def test_each_bot_has_a_row_and_leads_to_its_results_against_the_others(voted: Program, open_page: OpenPage) -> None:
    page = open_page(f"{voted.url}/#/arena")
    page.get_by_role("table", name="Season").wait_for()
    assert re.search(r"50%\s+2 of 4", row(page, "Claude"))
    assert re.search(r"56%\s+10 of 18", row(page, "Claude"))
    assert page.get_by_role("columnheader").all_inner_texts() == [
        "Bot and model",
        "Won alone",
        "Votes",
        "Tied",
        "Contests",
    ]
    assert unnamed(page) == []
    page.get_by_role("table").get_by_role("link", name="Claude").click()
    card = page.locator(".agent-page .card", has=page.get_by_role("heading", name="Season"))
    rivals = card.locator(".rivals li")
    rivals.first.wait_for()
    assert [re.sub(r"\s+", " ", text) for text in rivals.all_inner_texts()] == [
        "Grok 1 won 1 tied",
        "Gemini 1 won 1 lost",
    ]
    contests = [text.split("\n")[0] for text in card.locator(".contests li").all_inner_texts()]
    assert contests == ["won", "tied", "lost", "won"]


def test_verdicts_and_changes_of_mind_have_columns_if_there_are_any(voted: Program, open_page: OpenPage) -> None:
    def with_polls(route: object) -> None:
        response = route.fetch()  # type: ignore[attr-defined]
        found = response.json()
        for number, each in enumerate(found["items"]):
            share = {"count": 1, "of": 2, "value": 0.5, "low": 0.1, "high": 0.9}
            each |= {"verdicts": share, "score": 7.25, "moves": share, "moved": 3 - number}
        route.fulfill(response=response, body=json.dumps(found))  # type: ignore[attr-defined]

    page = open_page("about:blank")
    page.route("**/api/arena*", with_polls)
    page.goto(f"{voted.url}/#/arena")
    page.get_by_role("columnheader", name="Changed most minds").wait_for()
    rows = page.get_by_role("row").all_inner_texts()
    assert "+3 people came over" in rows[1]
    assert "7.3 of 10 points on average" in rows[1]


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1440, 2560])
def test_the_season_fits_every_window(voted: Program, open_page: OpenPage, width: int) -> None:
    page = open_page(f"{voted.url}/#/arena", (width, 900))
    for address, place in (("#/arena", ".season"), ("#/agent/claude", ".rivals"), ("#/schedule", ".day-track")):
        page.goto(f"{voted.url}/{address}")
        page.locator(place).first.wait_for()
        assert page.evaluate("document.querySelector('main').scrollWidth") <= width
