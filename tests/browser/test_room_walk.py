"""Rooms in the console: opened by a form, watched as they come, steered, and found below their channel."""

from __future__ import annotations

from tests.browser.conftest import OpenPage, Program
from tests.browser.test_actions_page import confirm, toast


def test_an_owner_opens_a_room_watches_it_and_closes_it(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/rooms")
    page.get_by_role("button", name="Open a room").click()
    page.get_by_label("Topic").fill("Should cities ban cars?")
    for persona in ("Historian", "Sceptic"):
        page.get_by_role("checkbox", name=persona).check()
    page.get_by_label("Channel").select_option(label="#casual")
    confirm(page, "Open")
    toast(page, "“Should cities ban cars?”")
    page.get_by_role("link", name="Should cities ban cars?").click()
    page.locator(".chat-card .message").nth(1).wait_for()
    assert page.locator(".chat-card .message b").first.inner_text() == "Historian"
    page.get_by_role("button", name="Pause", exact=True).click()
    toast(page, "is paused")
    page.get_by_role("button", name="Resume").click()
    confirm(page, "Resume")
    toast(page, "has resumed")
    page.get_by_role("button", name="Close", exact=True).click()
    confirm(page, "Close it")
    toast(page, "is closed")
    page.get_by_text("a person closed it").first.wait_for()


def test_rooms_and_the_season_fit_a_phone(local: Program, open_page: OpenPage) -> None:
    for address in ("#/rooms", "#/arena"):
        page = open_page(f"{local.url}/{address}", size=(400, 800))
        page.get_by_role("heading", level=1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
