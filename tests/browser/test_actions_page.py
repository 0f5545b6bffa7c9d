"""An owner's hand on the switch: every button does what it says, by keyboard too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import OpenPage, Program

if TYPE_CHECKING:
    from playwright.sync_api import Page


SOON = 1_000  # milliseconds


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
    confirm(page, "Choose")
    toast(page, "Gemini")
    page.get_by_role("button", name="Stop", exact=True).click()
    confirm(page, "Stop")
    toast(page, "The bots are stopped in #story for")
    foot = page.locator(".live-foot")
    foot.get_by_text(re.compile(r"Stopped until (tomorrow )?\d\d:\d\d\.")).wait_for()
    assert begin.is_disabled()
    assert page.get_by_role("button", name="Next speaker").is_disabled()
    foot.get_by_role("button", name="Resume").click()
    toast(page, "The bots can speak in #story again.")
    page.locator(".silence:empty").wait_for(state="attached")


def test_a_pause_of_all_is_asked_for_first_and_seen_on_every_page(local: Program, open_page: OpenPage) -> None:
    page, phone = open_page(f"{local.url}/#/agents"), open_page(f"{local.url}/#/live", size=(390, 844))
    others = [open_page(f"{local.url}/#/{name}") for name in ("cost", "schedule", "rooms")]
    tab = page.context.new_page()
    tab.goto(f"{local.url}/#/turns")
    for other in (tab, phone, *others):
        other.get_by_role("button", name="Pause all").wait_for()
    for other in others:
        other.wait_for_load_state("networkidle")  # the stream is open
    pause = page.get_by_role("group", name="All bots").get_by_role("button", name="Pause all")
    pause.click()
    page.keyboard.press("Escape")
    assert pause.evaluate("button => button === document.activeElement"), "the focus is back where it was"
    assert not page.get_by_text("All bots are paused.").count()
    pause.click()
    confirm(page, "Pause all")
    page.get_by_text("All bots are paused.").wait_for()
    for other in (tab, phone, *others):  # another tab; pages of other browsers
        other.locator(".pause-bar").get_by_text("All bots are paused.").wait_for(timeout=SOON)
    phone.locator(".live-foot").get_by_text("All bots are paused.").wait_for()
    phone.locator(".live-foot").get_by_role("button", name="Resume all").click()
    phone.get_by_role("button", name="Pause all").wait_for()
    pause.wait_for()  # no other page needs to be loaded again


@pytest.mark.promise(598)
def test_a_dialog_waits_for_the_answer_and_keeps_what_was_typed_if_it_is_refused(
    local: Program, open_page: OpenPage
) -> None:
    page = open_page(f"{local.url}/#/schedule", allowed=("409", "ERR_FAILED"))
    page.get_by_role("button", name="Add a time").click()
    dialog = page.get_by_role("dialog")
    time = dialog.get_by_label(re.compile("Time"))
    time.fill("23:58")
    page.route("**/api/actions/add", lambda route: route.abort())
    confirm(page, "Add")
    dialog.get_by_role("alert").filter(has_text="The console isn't responding").wait_for()
    assert time.input_value() == "23:58"
    assert time.evaluate("field => field === document.activeElement && field.ariaInvalid === 'true'")
    page.unroute("**/api/actions/add")
    confirm(page, "Add")
    dialog.wait_for(state="detached")
    toast(page, "A conversation will start at 23:58.")
    page.get_by_role("listitem").filter(has_text="23:58").get_by_role("button", name="Skip").click()


def test_only_bots_that_can_speak_are_offered_as_the_next_speaker(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/agents")
    page.locator(".agent-card", has_text="Grok").get_by_role("button", name="Mute", exact=True).click()
    confirm(page, "Mute")
    undo = page.get_by_role("button", name=re.compile("Undo: Grok is muted"))
    undo.wait_for()
    live = open_page(f"{local.url}/#/live")
    live.get_by_role("button", name="Next speaker").click()
    offered = live.get_by_role("dialog").locator("option").all_inner_texts()
    assert offered == ["ChatGPT", "Claude", "Gemini"]
    undo.click()
    undo.wait_for(state="detached")


def test_a_time_of_today_is_added_and_skipped_and_the_actions_are_listed(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/schedule")
    page.get_by_role("button", name="Add a time").click()
    page.get_by_label(re.compile("Time")).fill("23:59")
    confirm(page, "Add")
    toast(page, "A conversation will start at 23:59.")
    page.get_by_role("listitem").filter(has_text="23:59").get_by_role("button", name="Skip").click()
    toast(page, "No conversation will start at 23:59.")
    page.get_by_role("listitem").filter(has_text="23:59").get_by_text("Skipped by an owner").wait_for()


def test_what_silences_bots_is_listed_with_its_server_and_undone(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/agents")
    page.get_by_role("button", name="Mute", exact=True).first.click()
    confirm(page, "Mute")
    undo = page.get_by_role("button", name=re.compile("Undo: .* is muted everywhere"))
    undo.click()
    toast(page, "Undone.")
    undo.wait_for(state="detached")
