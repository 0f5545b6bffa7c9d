"""The page of costs over a record of some weeks: its chart by pointer and by keys, and limits only if they are used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import PHONE, OpenPage, Program, unnamed
from tests.support import records

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("spent")
    (folder / "local").mkdir()  # where local mode keeps its data
    records.fill(folder / "local" / "record.db", 600, days=30, now=time.time())
    program = Program(folder, "--scripted", BUDGET_DAILY_USD="0.3")
    yield program
    program.end()


def bars(page: Page) -> list[str]:
    page.locator(".plot-bar").first.wait_for()
    return list(page.locator(".plot-bar").evaluate_all("bars => bars.map(bar => bar.getAttribute('aria-label'))"))


def test_each_bar_has_all_values_in_its_name_and_shows_them_by_keys(spent: Program, open_page: OpenPage) -> None:
    page = open_page(f"{spent.url}/#/cost")
    names = bars(page)
    assert len(names) == 30
    assert names[-1].startswith("Today: $")
    assert any("Claude $" in name and "turns" in name for name in names)
    page.locator(".plot-bar").last.focus()
    page.keyboard.press("ArrowLeft")
    tip = page.locator(".plot-tip")
    tip.get_by_text("Yesterday").wait_for()
    assert all(part.split(" $")[0] in tip.inner_text() for part in names[-2].split(", ")[1:] if " $" in part)
    page.keyboard.press("Enter")
    page.locator("nav a[aria-current]", has_text="Yesterday").wait_for()
    page.get_by_role("group", name="Cost by hour").wait_for()


def test_a_touch_shows_the_values_and_a_second_one_opens_the_day(spent: Program, open_page: OpenPage) -> None:
    page = open_page(f"{spent.url}/#/cost?days=7", PHONE)
    bars(page)
    bar = page.locator(".plot-bar").nth(5)
    bar.tap()
    page.locator(".plot-tip").get_by_text("Yesterday").wait_for()
    assert page.url.endswith("#/cost?days=7")
    bar.tap()
    page.get_by_role("group", name="Cost by hour").wait_for()


def test_the_total_the_budget_and_both_forecasts_come_before_the_limits(spent: Program, open_page: OpenPage) -> None:
    page = open_page(f"{spent.url}/#/cost")
    bars(page)
    figures = page.locator(".figure").all_inner_texts()
    assert [text.split("\n")[0][:1] for text in figures] == ["$", "$", "≈", "≈"]
    assert "the 14-day average" in figures[3]
    page.locator(".plot-line", has_text="Daily budget $0.30").wait_for()
    headings = page.get_by_role("heading").all_inner_texts()
    assert headings[:3] == ["Cost", "Today’s limits", "The most expensive turns"]
    assert page.get_by_role("meter").count() == 1  # nobody spent anything of a limit of their own
    assert unnamed(page) == []


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1440, 2560])
def test_costs_fit_every_window(spent: Program, open_page: OpenPage, width: int) -> None:
    page = open_page(f"{spent.url}/#/cost", (width, 900))
    bars(page)
    assert page.evaluate("document.querySelector('main').scrollWidth") <= width
