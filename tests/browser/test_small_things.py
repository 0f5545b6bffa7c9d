"""What one notices only if it's missing: where messages of the page stand, marks that stack, dates, and paper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Program
from tests.browser.test_every_page import act, settle

pytest.importorskip("playwright")
from tests.browser.busy import STACKED

if TYPE_CHECKING:
    from playwright.sync_api import Page

SMALLEST = 10.5  # pixels of a letter's size
LINES = """nodes => nodes.map((node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size;
})"""
ROOM = """bar => {
  const range = document.createRange(), outer = bar.getBoundingClientRect();
  range.selectNode(bar.firstChild);
  const inner = range.getBoundingClientRect();
  return [inner.left - outer.left, inner.top - outer.top, outer.bottom - inner.bottom];
}"""
WEEK_MINUTES = 7 * 24 * 60
NOT_PRINTED = ".top, .nav, .channels, .members, .live-foot, button"
CUT = """nodes => nodes.filter((node) => getComputedStyle(node).overflowY !== "visible"
  && node.scrollHeight > node.clientHeight + 1).length"""


def open_place(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}/#/live")
    page.locator(".channels a", has_text=name).first.wait_for(state="attached")
    link = page.locator(".channels a", has_text=name).first.get_attribute("href")
    page.goto(f"{url}/{link}")
    page.locator(".log .message").first.wait_for()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_message_of_the_page_stands_above_the_box_and_an_error_leaves_with_its_page(
    local: Program, open_page: OpenPage, size: tuple[int, int]
) -> None:
    page = open_page(f"{local.url}/#/live", size=size, allowed=("api/actions", "ERR_FAILED"))
    page.route("**/api/actions/end", lambda route: route.abort())
    page.locator(".live-foot textarea").fill("/end now")
    page.keyboard.press("Enter")
    toast = page.locator("#toasts .bad")
    toast.wait_for()
    box, shown = page.locator(".live-foot").bounding_box(), toast.bounding_box()
    assert box is not None
    assert shown is not None
    assert shown["y"] + shown["height"] <= box["y"]
    page.locator(".nav").get_by_role("link", name="Cost").click()
    settle(page)
    assert toast.count() == 0


def test_marks_that_stack_stay_with_their_message(busy: Program, open_page: OpenPage) -> None:
    page = open_page(busy.url, allowed=("/live/events",))
    open_place(page, busy.url, "debate")
    message = page.locator(".log .message", has_text=STACKED[:4]).last
    message.scroll_into_view_if_needed()
    neighbors = [message.locator(f"xpath={side}-sibling::*[1]") for side in ("preceding", "following")]
    pictures = [[each.screenshot() for each in neighbors]]
    message.locator(".message-text").evaluate("node => node.style.visibility = 'hidden'")
    pictures.append([each.screenshot() for each in neighbors])
    assert pictures[0] == pictures[1]


def test_a_time_in_a_week_has_its_date(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/agents")
    act(page, "mute", agent="grok", minutes=WEEK_MINUTES)
    page.reload()
    undo = page.get_by_role("button", name=re.compile("Undo: Grok is muted"))
    item = page.get_by_role("listitem").filter(has=undo)
    item.get_by_text(re.compile(r"until [A-Z][a-z]{2} \d+, \d\d:\d\d")).wait_for()
    undo.click()
    undo.wait_for(state="detached")


@pytest.mark.parametrize("address", ["#/live", "#/turns", "#/cost", "#/agent/claude"])
def test_paper_has_all_of_a_page_and_nothing_to_press(busy: Program, open_page: OpenPage, address: str) -> None:
    page = open_page(busy.url, scheme="dark", allowed=("/live/events",))
    page.goto(f"{busy.url}/{address}")
    settle(page)
    page.emulate_media(media="print")
    assert page.locator(NOT_PRINTED).filter(visible=True).count() == 0
    assert page.locator("main, .log, .scroll, pre").evaluate_all(CUT) == 0
    colors = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert min(map(int, re.findall(r"\d+", colors)[:3])) > 200, "paper is white, whatever the screen is"


def test_the_narrowest_phone_has_a_menu_and_a_pause_bar_that_can_be_read(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/cost", size=(320, 640))
    settle(page)
    words = page.locator(".nav a span")
    assert min(words.evaluate_all("all => all.map((each) => parseFloat(getComputedStyle(each).fontSize))")) >= SMALLEST
    last = words.last.bounding_box()
    assert last is not None
    assert last["x"] + last["width"] <= 320
    page.get_by_role("button", name="Pause all").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause all").click()
    resume = page.locator(".pause-bar").get_by_role("button", name="Resume all bots")
    resume.wait_for()
    assert resume.evaluate_all(LINES) == [1]
    bar, button = page.locator(".pause-bar").bounding_box(), resume.bounding_box()
    assert bar is not None
    assert button is not None
    assert bar["y"] <= button["y"]
    assert button["y"] + button["height"] <= bar["y"] + bar["height"]
    left, above, below = page.locator(".pause-bar").evaluate(ROOM)
    assert left >= 8
    assert min(above, below) >= 2
    resume.click()
    resume.wait_for(state="detached")
