"""The schedule as a day's line: a time is moved along it by keys and by dragging, and says why it was chosen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.conftest import OpenPage, Program, unnamed
from tests.browser.test_actions_page import confirm, toast

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def slot(page: Page, time: str) -> Locator:
    return page.get_by_role("slider", name=f"Conversation at {time}")


def test_a_time_is_moved_by_keys_and_by_dragging_and_says_so(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/schedule")
    page.get_by_role("button", name="Add a time").click()
    page.get_by_label(re.compile("Time")).fill("23:00")
    confirm(page, "Add")
    slot(page, "23:00").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    assert (slot(page, "23:00").get_attribute("aria-valuetext") or "").startswith("23:15: Enter moves it there")
    page.keyboard.press("Escape")
    assert slot(page, "23:00").get_attribute("aria-valuetext") == "23:00"
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    toast(page, "The conversation planned for 23:00 now starts at 23:10.")
    row = page.get_by_role("listitem").filter(has=page.get_by_text("23:10", exact=True))
    row.get_by_text("Moved from 23:00. Added by an owner.").wait_for()
    box, track = slot(page, "23:10").bounding_box(), page.locator(".day-track").bounding_box()
    assert box
    assert track
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + track["width"] / 48, y + 30, steps=4)  # half an hour
    page.mouse.up()
    toast(page, "The conversation planned for 23:10 now starts at 23:40.")
    slot(page, "23:40").wait_for()
    assert unnamed(page) == []
    page.get_by_role("group", name="The conversation at 23:40").get_by_role("button", name="Skip").click()
    slot(page, "23:40").wait_for(state="detached")


def test_a_time_cannot_be_moved_into_the_past(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/schedule")
    page.get_by_role("button", name="Add a time").click()
    page.get_by_label(re.compile("Time")).fill("23:50")
    confirm(page, "Add")
    slot(page, "23:50").focus()
    for _ in range(30):
        page.keyboard.press("PageDown")
    now = page.evaluate("Date.now() / 1000")
    assert now <= float(slot(page, "23:50").get_attribute("aria-valuenow") or 0) < now + 400
    page.keyboard.press("Escape")
    page.get_by_role("group", name="The conversation at 23:50").get_by_role("button", name="Skip").click()
