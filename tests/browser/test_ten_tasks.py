"""What an owner does first on a server's console, at a desk and on a phone: each task takes at most three clicks or
taps from the first page.

A task is a list of clicks, each a button or a link by its role and name; what is typed or chosen in a list is no click.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Program

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytest.importorskip("playwright")
from tests.browser.server import TOPIC

MOST = 3
Server = tuple[Program, tuple[int, int]]
"""A server, and the size of the window that shows it."""


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desk", "phone"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for each size, since a task changes it."""
    folder = tmp_path_factory.mktemp("tasks")
    program = Program(folder, str(folder), command=("-m", "tests.browser.server"))
    yield program, request.param
    program.end()


class Hand:
    """Clicks in a page, or taps if it's touched, and counts."""

    def __init__(self, page: Page, *, taps: bool) -> None:
        self.page, self.clicks, self.taps = page, 0, taps

    def click(self, role: str, name: str | re.Pattern[str], within: str = "body") -> None:
        self.press(self.page.locator(within).get_by_role(role, name=name, exact=isinstance(name, str)))  # type: ignore[arg-type]

    def press(self, place: Locator) -> None:
        place.first.tap() if self.taps else place.first.click()
        self.clicks += 1

    def menu(self, name: str) -> None:
        self.click("link", name, ".nav")

    def confirm(self, name: str) -> None:
        self.click("button", name, "dialog")

    def part(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name)

    def toast(self, text: str) -> None:
        self.page.locator("#toasts").get_by_text(text).last.wait_for()


def see_who_spoke_and_why(hand: Hand) -> None:
    hand.menu("Conversations")
    hand.press(hand.page.locator("main a.talk-link"))
    hand.press(hand.page.locator("main a.why"))
    hand.page.locator(".turn-page").wait_for()


def stop_a_channel(hand: Hand) -> None:
    hand.menu("Live")
    hand.click("button", "Stop")
    hand.confirm("Stop")
    hand.toast("The bots are stopped in #")


def raise_todays_budget(hand: Hand) -> None:
    hand.press(hand.part("Spent today").get_by_role("button", name="Raise today"))
    hand.confirm("Raise the limit")
    hand.page.get_by_role("dialog").wait_for(state="detached")
    hand.page.locator("#toasts .good").wait_for()


def start_a_debate(hand: Hand) -> None:
    hand.menu("Rooms")
    hand.click("button", "Open a room")
    dialog = hand.page.get_by_role("dialog")
    dialog.get_by_label("Topic", exact=True).fill(TOPIC)
    assert dialog.get_by_role("group", name=re.compile("Who takes part")).get_by_role("checkbox", checked=True).count()
    hand.clicks += 1  # "Open": the members are chosen already


def change_a_soul(hand: Hand) -> None:
    hand.press(hand.part("Bots").get_by_role("link", name="Claude", exact=True))
    hand.click("button", "Edit soul.md")
    box = hand.page.get_by_role("textbox", name="Text of soul.md")
    box.fill(box.input_value() + "\nYou like lighthouses.\n")
    hand.click("button", "Save")
    hand.toast("Saved Claude's soul.md.")
    hand.page.locator("pre.persona-file", has_text="You like lighthouses.").wait_for()


def find_yesterdays_failure(hand: Hand) -> None:
    hand.press(hand.part("Failed in the last 24 hours").get_by_role("link", name="Turns"))
    hand.press(hand.page.locator("main a.turn-link"))
    hand.page.locator(".turn-page").get_by_text("failed", exact=False).first.wait_for()


def see_the_weeks_cost(hand: Hand) -> None:
    hand.menu("Cost")
    hand.click("link", "7 days", "main")
    hand.page.get_by_text(re.compile("in 7 days")).wait_for()


def mute_a_bot(hand: Hand) -> None:
    hand.menu("Agents")
    hand.click("button", "Mute")
    hand.confirm("Mute")
    hand.toast("is muted")


def export_a_conversation(hand: Hand) -> None:
    hand.menu("Conversations")
    hand.press(hand.page.locator("main a.talk-link"))
    with hand.page.expect_download() as saved:
        hand.click("link", "Web page")
    assert saved.value.suggested_filename.endswith(".html")


def find_what_a_person_asked(hand: Hand) -> None:
    hand.menu("Turns")
    people = hand.page.get_by_role("combobox", name="Person who asked")
    people.select_option(index=1)
    hand.press(hand.page.locator("main a.turn-link"))
    hand.page.locator(".turn-page .prompt").first.wait_for()


TASKS = (
    (see_who_spoke_and_why, 3),
    (stop_a_channel, 3),
    (raise_todays_budget, 2),
    (start_a_debate, 3),
    (change_a_soul, 3),
    (find_yesterdays_failure, 2),
    (see_the_weeks_cost, 2),
    (mute_a_bot, 3),
    (export_a_conversation, 3),
    (find_what_a_person_asked, 2),
)


@pytest.mark.parametrize(("task", "clicks"), TASKS, ids=[task.__name__ for task, _ in TASKS])
@pytest.mark.promise(612)
def test_a_task_takes_at_most_three_clicks_from_the_first_page(
    server: Server, open_page: OpenPage, task: Callable[[Hand], None], clicks: int
) -> None:
    program, size = server
    hand = Hand(open_page(program.url, size=size), taps=size == PHONE)
    task(hand)
    assert hand.clicks == clicks <= MOST
