"""Turns: found by what an owner knows, followed live, read one after the other, compared with the turn before."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.browser.asking import ask
from tests.browser.conftest import OpenPage, Program, unnamed

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


def rows(page: Page) -> list[str]:
    links = page.locator(".turns .turn-link").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    return list(links)


def test_a_new_turn_comes_on_top_while_the_list_is_read(local: Program, open_page: OpenPage) -> None:
    other = open_page(local.url)
    ask(other, "what did you make of it?", bot="Claude")
    page = open_page(f"{local.url}/#/turns?agent=claude")
    page.locator(".turns .turn-link").first.wait_for()
    page.get_by_role("status").get_by_text("Live", exact=True).wait_for()
    before = rows(page)
    ask(other, "what do you make of this?", bot="Claude")
    page.locator(".turn-row.new").first.wait_for()
    assert rows(page)[0] not in before
    assert rows(page)[-len(before) :] == before


def test_the_first_turn_of_an_empty_list_comes_as_a_new_one(local: Program, open_page: OpenPage) -> None:
    page, other = open_page(f"{local.url}/#/turns?words=narwhals&within=prompts"), open_page(local.url)
    page.get_by_text("No turns match these filters.").wait_for()
    page.get_by_role("status").get_by_text("Live", exact=True).wait_for()
    ask(other, "where do narwhals sleep?")
    page.locator(".turn-row.new").first.wait_for()


def test_what_a_person_asked_is_found_by_the_persons_name_and_in_the_prompt(
    local: Program, open_page: OpenPage
) -> None:
    page = open_page(local.url)
    ask(page, "where do marmots sleep?")
    page.goto(f"{local.url}/#/turns")
    person = page.get_by_label("Person who asked")
    person.select_option(label=person.get_by_role("option", name=re.compile("Sam")).first.inner_text())
    page.locator(".turn-called", has_text="was mentioned by Sam").first.wait_for()
    page.goto(f"{local.url}/#/turns?words=where+do+MARMOTS&within=prompts")
    page.locator(".turn-row", has_text="Gemini").first.wait_for()
    assert unnamed(page) == []


@pytest.mark.parametrize("answers_before", [1, 2])
@pytest.mark.promise(611)
def test_a_turn_that_is_not_in_the_history_yet_appears_as_soon_as_it_is(
    local: Program, open_page: OpenPage, answers_before: int
) -> None:
    """It is looked for again once the page hears of what is new, and then whenever something is."""
    other = open_page(local.url)
    ask(other, f"the turn before {answers_before}")
    page = open_page(f"{local.url}/#/turns?agent=gemini", allowed=("404",))
    page.locator(".turns .turn-link").first.wait_for()
    answers: list[int] = []

    def hide(route: Route) -> None:
        answers.append(len(answers))
        if len(answers) <= answers_before:
            route.fulfill(status=404, json={"error": "This turn isn't in the history."})
        else:
            route.continue_()

    page.route("**/api/turns/gemini/*", hide)
    page.locator(".turns .turn-link").first.click()
    page.get_by_text("appears here by itself").wait_for()
    if answers_before > 1:
        while len(answers) < answers_before:
            page.wait_for_timeout(20)
        ask(other, "a turn after it")
    page.locator(".turn-page .page-head").wait_for()


def test_a_turn_leads_to_its_neighbors_in_the_list_and_back_to_it(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    for text in ("what is the first?", "what is the second?", "what is the third?"):
        ask(page, text)
    address = f"{local.url}/#/turns?agent=gemini&outcome=posted"
    page.goto(address)
    page.locator(".turns .turn-link").nth(2).wait_for()
    second, third = rows(page)[1:3]
    page.locator(".turns .turn-link").first.click()
    for expected in (second, third):
        page.get_by_role("link", name="Older").click()
        page.wait_for_url(f"{local.url}/{expected}")
        page.locator(f"#main[data-address='{expected}']").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Older →"
    page.get_by_role("link", name="Newer").click()
    page.wait_for_url(f"{local.url}/{second}")
    page.get_by_role("link", name="All turns").click()
    page.wait_for_url(address)


def test_the_list_is_sorted_by_cost_and_by_time(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    ask(page, "anything")
    page.goto(f"{local.url}/#/turns")
    page.locator("a.turn-link").first.wait_for()
    page.get_by_role("columnheader", name="Took").get_by_role("link").click()
    page.locator("[aria-sort=descending]", has_text="Took").wait_for()
    took = page.locator(".turn-took:not([role=columnheader])").evaluate_all("cells => cells.map(c => +c.dataset.value)")
    assert took == sorted(took, reverse=True)
    assert took[0] > 0


def test_what_changed_in_the_prompt_since_the_last_turn_is_one_click_away(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    ask(page, "the first question")
    ask(page, "the second question")
    page.goto(f"{local.url}/#/turns?agent=gemini&words=the+second+question&within=prompts")
    link = page.locator(".turns .turn-link").first
    page.wait_for_load_state("networkidle")
    while link.count() == 0:  # it is on its way into the record
        page.reload(wait_until="networkidle")
    link.click()
    page.get_by_role("button", name="What changed").click()
    page.locator(".diff-added", has_text="the second question").first.wait_for()
    page.locator(".diff-removed", has_text="the first question").first.wait_for()  # the task that it was then
    ends = "bars => bars.map(bar => [bar.getBoundingClientRect().left, bar.getBoundingClientRect().right])"
    bars = page.locator(".waterfall .fall-bar").evaluate_all(ends)
    assert len(bars) >= 2
    for (_, end), (begin, _) in pairwise(bars[:3]):  # waiting, context, model
        assert begin >= end - 3.5, "each begins after the one before, whose bar may be a little wider than its time"


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1440, 2560])
def test_turns_fit_every_window(local: Program, open_page: OpenPage, width: int) -> None:
    page = open_page(f"{local.url}/#/turns", (width, 900))
    page.locator(".turns .turn-link").first.wait_for()
    assert page.evaluate("document.querySelector('main').scrollWidth") <= width
    page.locator(".turns .turn-link").first.click()
    page.locator(".turn-page").wait_for()
    assert page.evaluate("document.querySelector('main').scrollWidth") <= width


def test_reasoning_is_folded_above_the_answer(busy: Program, open_page: OpenPage) -> None:
    page = open_page(f"{busy.url}/#/turn/claude/showcase-6")
    reasoning = page.get_by_text("Nobody has said yet what counts as a vegetable.", exact=True)
    summary = page.get_by_text("Reasoning, never posted")
    summary.wait_for()
    assert not reasoning.is_visible()
    summary.click()
    assert reasoning.is_visible()
    assert unnamed(page) == []
