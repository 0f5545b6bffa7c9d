"""The walk of a newcomer: from `make local` to an answer in the page, to its turn and its prompt, to a stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.asking import answer_to, ask, channel
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Program, unnamed

if TYPE_CHECKING:
    from playwright.sync_api import Page


def tab_to(page: Page, name: str, *, backwards: bool = False) -> None:
    """Press Tab until what has this label or role has the focus."""
    focused = "[document.activeElement.getAttribute('aria-label'), document.activeElement.getAttribute('role')]"
    for _ in range(60):
        if name in page.evaluate(focused):
            return
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
    raise AssertionError(f"{name} is not reached by Tab")


def messages(page: Page) -> list[str]:
    return page.locator("[role=log] .message-text").all_inner_texts()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Program]:
    """A start whose first conversation nobody has ended."""
    program = Program(tmp_path, "--scripted")
    yield program
    program.end()


def test_the_page_shows_the_conversation_of_the_bots_as_it_comes(fresh: Program, open_page: OpenPage) -> None:
    page = open_page(fresh.url)
    page.locator("[role=log] article.message").nth(2).wait_for()
    speakers = page.locator("[role=log] article.message .message-head b").all_inner_texts()
    assert set(speakers) <= {"ChatGPT", "Claude", "Gemini", "Grok", "Sam"}


@pytest.mark.parametrize(("size", "place"), [(DESKTOP, "casual"), (PHONE, "story")], ids=["desktop", "phone"])
def test_a_person_calls_a_bot_by_a_name_that_is_completed_and_reads_its_answer(
    local: Program, open_page: OpenPage, size: tuple[int, int], place: str
) -> None:
    page = open_page(local.url, size)
    channel(page, place)
    box = page.get_by_role("textbox", name=f"Message to #{place}")
    box.press_sequentially("@cl")
    page.get_by_role("option", name="Claude").wait_for()
    box.press("Enter")
    box.press_sequentially("what is 6 times 7?")
    box.press("Enter")
    answer_to(page, "what is 6 times 7?", "Claude").wait_for()
    assert any("what is 6 times 7?" in text for text in messages(page))
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_by_keys_alone_a_person_asks_and_reacts(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    channel(page, "casual")
    tab_to(page, "Message to #casual")
    page.keyboard.type("@grok hello by keys")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    answer_to(page, "hello by keys", "Grok").wait_for()
    tab_to(page, "log", backwards=True)
    page.keyboard.press("ArrowUp")  # the newest message
    page.keyboard.press("Tab")
    tab_to(page, "React")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the first of the palette
    page.locator("[role=log] .reaction[aria-pressed=true]").first.wait_for()


def test_an_answer_leads_to_its_turn_with_the_prompt(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url, allowed=("404",))  # of a turn that is still on its way into the record
    answer = ask(page, "hello there, you")
    answer.get_by_role("button", name="why?").click()
    why = page.get_by_role("dialog", name="Why Gemini wrote this")
    why.get_by_text("was mentioned by Sam").wait_for()
    assert unnamed(page) == []
    why.get_by_role("link", name="Open the turn").click()
    page.locator(".turn-page").wait_for()
    page.locator(".prompt").get_by_text("hello there, you").first.wait_for()
    assert page.get_by_role("heading", name="Completion").is_visible()
    assert unnamed(page) == []
    page.get_by_role("link", name="Turns", exact=True).click()
    page.locator(".turns-page a.turn-link").first.wait_for()


def test_an_owner_starts_a_conversation_stops_it_and_lets_the_bots_speak_again(
    local: Program, open_page: OpenPage
) -> None:
    page = open_page(local.url)
    channel(page, "story")
    actions = page.get_by_role("group", name="Actions in #story")
    actions.get_by_role("button", name="Start").click()
    dialog = page.get_by_role("dialog", name="Start a conversation in #story")
    dialog.get_by_label("Topic").fill("a lighthouse that moved")
    assert unnamed(page) == []
    dialog.get_by_role("button", name="Start").click()
    page.get_by_text("a lighthouse that moved").first.wait_for()
    actions.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    actions.get_by_role("button", name="Resume").click()
    actions.get_by_role("button", name="Start").wait_for()
    page.goto(f"{local.url}/#/conversations")
    link = page.get_by_role("link", name="a lighthouse that moved").first
    page.wait_for_load_state("networkidle")
    while link.count() == 0:  # it is on its way into the record
        page.reload(wait_until="networkidle")
    link.click()
    page.locator(".conversation-page").get_by_text("a person stopped it").first.wait_for()
