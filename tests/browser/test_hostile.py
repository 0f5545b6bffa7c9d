"""Markup in every text that people, bots, models and files bring is shown as text, on every page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.browser.conftest import PATIENCE, OpenPage, Program
from tests.browser.hostile import PAYLOAD, TAG

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = ("overview", "live", "turns", "conversations", "cost", "agents")
MOST_OF_A_KIND = 6  # pages
# What is not there, a Redis that is slow on a busy machine, or the markup as a filter: it is longer than any id.
UNREACHED = ("status of 404", "status of 503", "status of 400")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("hostile")
    program = Program(folder, str(folder), command=("-m", "tests.browser.hostile"))
    yield program
    program.end()


def settled(page: Page) -> None:
    """Wait until the page of the address is shown, with what it loads."""
    from playwright.sync_api import expect

    expect(page.locator("#main")).to_have_attribute("data-address", page.evaluate("location.hash"), timeout=PATIENCE)
    page.wait_for_load_state("networkidle")


def opened_up(page: Page) -> None:
    """Show what a page hides until it is asked for."""
    page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true })")


def links(page: Page) -> list[str]:
    found = page.locator("a[href]").evaluate_all("nodes => nodes.map(node => node.getAttribute('href'))")
    odd = [link for link in found if not link.startswith(("#", "http://", "https://", "api/"))]
    assert odd == []
    return [link for link in found if link.startswith("#/")]


@pytest.mark.promise(141)
def test_markup_stays_text_on_every_page_and_loads_nothing(hostile: Program, open_page: OpenPage) -> None:
    page = open_page(hostile.url, allowed=UNREACHED)
    settled(page)
    waiting = [
        *(f"#/{name}" for name in PAGES),
        f"#/turn/claude/{quote(PAYLOAD, safe='')}2",
        f"#/live/{quote(PAYLOAD, safe='')}",
    ]
    visited: set[str] = set()
    shown: Counter[str] = Counter()
    of_a_kind: Counter[str] = Counter()
    while waiting:
        link = waiting.pop(0)
        kind = link.split("/")[1].split("?")[0]
        if link in visited or of_a_kind[kind] == MOST_OF_A_KIND:
            continue
        visited.add(link)
        of_a_kind[kind] += 1
        page.evaluate("link => { location.hash = link }", link)
        settled(page)
        opened_up(page)
        assert page.locator("main img[src='x'], main script, main svg[onload]").count() == 0, link
        if TAG in page.locator("main").inner_text():
            shown[kind] += 1
        waiting += [each for each in links(page) if each not in visited]
    assert shown.keys() >= {"live", "turns", "turn", "conversations", "conversation", "cost", "agents", "agent", "room"}
