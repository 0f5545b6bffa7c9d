"""Rooms in the console: opened by a form, watched as they come, steered, and found below their channel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.asking import channel
from tests.browser.conftest import OpenPage, Program
from tests.browser.test_actions_page import confirm, toast
from tests.browser.test_every_page import TOPIC, act, open_room

if TYPE_CHECKING:
    from playwright.sync_api import Route


def test_an_owner_opens_a_room_watches_it_and_closes_it(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/rooms")
    page.get_by_role("button", name="Open a room").click()
    page.get_by_role("textbox", name="Topic", exact=True).fill("Should cities ban cars?")
    for chosen in reversed(page.get_by_role("checkbox", checked=True).all()):  # the first three bots
        chosen.evaluate("box => box.checked = false")
    for persona in ("Historian", "Sceptic"):
        page.get_by_role("checkbox", name=persona).check()
    page.get_by_label("Channel").select_option(label="#casual")
    confirm(page, "Open")
    toast(page, "The room is open: “Should cities ban cars?”")
    page.locator("[role=log] article.message").first.wait_for()  # it opens on the live page
    page.get_by_role("link", name="Manage the room").click()
    page.locator(".chat-card .message").nth(1).wait_for()
    assert page.locator(".chat-card .message b").first.inner_text() == "Historian"
    page.get_by_label("Facts").get_by_text(
        re.compile("next: (Historian|Sceptic)|speaks, then (Historian|Sceptic)")
    ).wait_for()
    page.get_by_role("button", name="Pause", exact=True).click()
    toast(page, "is paused")
    page.get_by_role("button", name="Resume").click()
    confirm(page, "Resume")
    toast(page, "has resumed")
    page.get_by_role("button", name="Close", exact=True).click()
    confirm(page, "Close it")
    toast(page, "is closed")
    page.get_by_text("a person closed it").first.wait_for()


def test_a_debate_asks_for_sides_and_says_why_its_first_speaker_wrote(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/rooms", size=(320, 800))
    page.get_by_role("button", name="Open a room").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Topic", exact=True).fill("Should tea be free?")
    dialog.get_by_label("Format", exact=True).select_option(label="Debate")
    dialog.get_by_text("two sides:").wait_for()
    dialog.get_by_text("More").click()
    dialog.get_by_label("ask people for their side").check()
    confirm(page, "Open")
    log = page.locator("[role=log]")
    log.locator(".poll").get_by_role("button", name="Undecided").click()
    log.get_by_text("100% · 1 vote").wait_for()
    first = log.locator("article.message", has_text="“Should tea be free?”: I'm for it")
    first.get_by_role("button", name="why?").wait_for()
    act(page, "close_room", room=page.url.split("/")[-1])


def test_the_live_page_says_that_a_room_is_open_to_its_audience(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/rooms")
    page.get_by_role("button", name="Open a room").click()
    page.get_by_role("textbox", name="Topic", exact=True).fill("Who may ask?")
    for bot in ("Gemini", "Grok"):
        page.get_by_role("checkbox", name=bot).uncheck()
    page.get_by_role("dialog").get_by_text("More").click()
    page.get_by_label("Seconds for the audience").fill("600")
    confirm(page, "Open")
    page.locator(".live-line").get_by_text("Room").wait_for()
    room = page.url
    channel(page, "debate")
    page.locator("[role=log] article.message", has_text="Who may ask?").get_by_role(
        "link", name="Open the thread"
    ).click()
    page.get_by_role("heading", name="Who may ask?").wait_for()
    assert page.url == room
    page.locator(".live-line").get_by_text(re.compile(r"open to its audience until \d\d:\d\d")).wait_for()
    act(page, "close_room", room=page.url.split("/")[-1])


def test_a_shared_room_is_read_at_its_link(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/rooms")
    page.locator("main .page").wait_for()
    open_room(page)
    page.get_by_role("link", name=TOPIC).first.click()
    page.get_by_role("button", name="Share", exact=True).click()
    confirm(page, "Share")
    with page.expect_popup() as opened:
        page.get_by_label("Facts").get_by_role("link", name="shared").click()
    opened.value.get_by_role("heading", name=TOPIC).wait_for()


def test_rooms_and_the_season_fit_a_phone(local: Program, open_page: OpenPage) -> None:
    for address in ("#/rooms", "#/arena"):
        page = open_page(f"{local.url}/{address}", size=(400, 800))
        page.get_by_role("heading", level=1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_channels_have_names_even_if_the_page_was_opened_before_the_bots_were_there(
    local: Program, open_page: OpenPage
) -> None:
    def without_names(route: Route) -> None:
        response = route.fetch()
        found = response.json()
        for each in found["channels"]:
            each["name"] = each["id"]
        route.fulfill(response=response, json=found)

    page = open_page("about:blank")
    page.route("**/api/me", without_names)
    page.goto(f"{local.url}/#/rooms")
    page.get_by_role("heading", name="Rooms").wait_for()
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Open a room").click()
    page.get_by_role("dialog").get_by_label("Channel").select_option(label="#casual")
