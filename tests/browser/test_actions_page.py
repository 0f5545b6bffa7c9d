"""An owner's hand on the switch: every button does what it says, by keyboard too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.conftest import OpenPage, Program

if TYPE_CHECKING:
    from playwright.sync_api import Page


def toast(page: Page, text: str) -> None:
    page.locator("#toasts").get_by_text(text).last.wait_for()


def confirm(page: Page, name: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


def test_an_owner_begins_a_conversation_chooses_who_goes_on_and_stops_it(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/live")
    page.get_by_role("link", name=re.compile("story")).first.click()
    begin = page.get_by_role("button", name="Start", exact=True)
    begin.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Topic").fill("a lighthouse")
    page.get_by_label("Who begins").select_option("grok")
    confirm(page, "Start")
    toast(page, "A conversation is starting in #story.")
    page.get_by_text("a lighthouse").first.wait_for()
    page.get_by_role("button", name="Next speaker").click()
    page.get_by_role("dialog").get_by_role("combobox").select_option("gemini")
    confirm(page, "Let it speak")
    toast(page, "Gemini")
    page.get_by_role("button", name="Stop", exact=True).click()
    confirm(page, "Stop")
    toast(page, "The bots are stopped in #story for")
    page.get_by_role("button", name="Resume").click()
    toast(page, "The bots can speak in #story again.")


def test_a_pause_of_all_is_asked_for_first_and_seen_on_every_page(local: Program, open_page: OpenPage) -> None:
    page, phone = open_page(f"{local.url}/#/agents"), open_page(f"{local.url}/#/live", size=(390, 844))
    pause = page.get_by_role("group", name="All bots").get_by_role("button", name="Pause all")
    pause.click()
    page.keyboard.press("Escape")
    assert pause.evaluate("button => button === document.activeElement"), "the focus is back where it was"
    assert not page.get_by_text("All bots are paused.").count()
    pause.click()
    confirm(page, "Pause all")
    page.get_by_text("All bots are paused.").wait_for()
    phone.reload()
    phone.get_by_text("All bots are paused.").wait_for()
    phone.get_by_role("button", name="Resume all bots").click()
    phone.get_by_role("button", name="Pause all").wait_for()
    page.reload()
    pause.wait_for()


def test_a_time_of_today_is_added_and_skipped_and_the_actions_are_listed(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/schedule")
    page.get_by_role("button", name="Add a time").click()
    page.get_by_label(re.compile("Time")).fill("23:59")
    confirm(page, "Add")
    toast(page, "A conversation will start at 23:59.")
    page.get_by_role("listitem").filter(has_text="23:59").get_by_role("button", name="Skip").click()
    toast(page, "No conversation will start at 23:59.")
    page.get_by_role("listitem").filter(has_text="23:59").wait_for(state="detached")


def test_what_silences_bots_is_listed_with_its_server_and_undone(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/agents")
    page.get_by_role("button", name="Mute", exact=True).first.click()
    confirm(page, "Mute")
    undo = page.get_by_role("button", name=re.compile("Undo: .* is muted everywhere"))
    undo.click()
    toast(page, "Undone.")
    undo.wait_for(state="detached")
