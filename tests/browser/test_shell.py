"""The frame of the page: its parts, keys, sizes and colours, and signing in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Program, unnamed

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = ("live", "turns", "conversations", "cost", "agents")
TOKEN = "a-token-of-24-characters"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Local mode behind a token."""
    program = Program(tmp_path_factory.mktemp("guarded"), "--scripted", CONSOLE_TOKEN=TOKEN)
    yield program
    program.end()


def ready(page: Page) -> None:
    page.wait_for_selector("main .page")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_everything_in_it_has_a_name(
    local: Program, open_page: OpenPage, name: str, size: tuple[int, int]
) -> None:
    page = open_page(f"{local.url}/#/{name}", size)
    ready(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert unnamed(page) == []
    assert page.locator(".nav a[aria-current=page]").inner_text().lower() == name


def test_the_pages_are_reached_by_keys_alone(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/agents")
    ready(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(page.locator(".nav a").count()):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Turns":
            break
    page.keyboard.press("Enter")
    page.locator(".turns-page").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"


def test_dark_and_light_follow_the_system(local: Program, open_page: OpenPage) -> None:
    lightness = {}
    for scheme in ("dark", "light"):
        page = open_page(local.url, scheme=scheme)
        ready(page)
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        lightness[scheme] = sum(map(int, re.findall(r"\d+", colour)[:3]))
    assert lightness["dark"] < 100 < 600 < lightness["light"]


def test_an_address_that_nobody_knows_leads_to_the_live_page(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/constructor/%E0%A4%A")
    ready(page)
    assert page.title().startswith("Live")


def test_a_person_signs_in_stays_so_after_a_reload_and_signs_out(guarded: Program, open_page: OpenPage) -> None:
    page = open_page(f"{guarded.url}/#/turns", allowed=("401",))
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="Wrong token").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    ready(page)
    assert page.title().startswith("Turns")
    page.reload()
    ready(page)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    page.reload()
    page.get_by_label("Token").wait_for()
