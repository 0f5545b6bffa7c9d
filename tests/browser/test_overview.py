"""The first page of a server's console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Program, unnamed

pytest.importorskip("playwright")
from tests.browser.server import TOPIC
from tests.browser.test_every_page import act


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("server")
    program = Program(folder, str(folder), command=("-m", "tests.browser.server"))
    yield program
    program.end()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_server_opens_with_its_health_and_what_runs(
    server: Program, open_page: OpenPage, size: tuple[int, int]
) -> None:
    page = open_page(server.url, size)
    act(page, "mute", agent="grok", minutes=60)
    health = page.get_by_role("status", name="Health")
    health.get_by_text("Grok: Muted until").wait_for()
    assert health.get_by_text("Worth a look").is_visible()
    assert page.title().startswith("Overview")
    running = page.get_by_role("region", name="Running now")
    running.get_by_text(TOPIC).or_(running.get_by_text("Nothing is running.")).first.wait_for()
    assert page.get_by_role("region", name="Spent today").get_by_text("By midnight").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert unnamed(page) == []


def test_a_bar_of_a_strip_leads_to_its_turn_by_keys(server: Program, open_page: OpenPage) -> None:
    page = open_page(server.url)
    strip = page.get_by_role("group", name="The last 90 turns").first
    strip.get_by_role("link").last.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    chosen = page.evaluate("document.activeElement.getAttribute('href')")
    assert chosen == strip.get_by_role("link").nth(87).get_attribute("href")
    page.keyboard.press("Enter")
    page.locator(".turn-page").wait_for()
    assert page.evaluate("location.hash") == chosen


def test_a_mute_that_ends_elsewhere_leaves_the_page_well(server: Program, open_page: OpenPage) -> None:
    page = open_page(server.url)
    act(page, "mute", agent="grok", minutes=60)
    page.get_by_text("Grok: Muted until").wait_for()
    other = open_page(f"{server.url}/#/agents")
    other.get_by_role("button", name="Unmute").click()
    page.get_by_text("Everything is well").wait_for()
