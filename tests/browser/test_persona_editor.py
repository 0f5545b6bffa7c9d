"""An owner edits a bot's soul on its page: tries it first, saves it, and undoes it. No edit overwrites another."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentic.process.root import ROOT
from tests.browser.asking import ask
from tests.browser.conftest import OpenPage, Program, unnamed

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Local mode with persona files that may be changed."""
    folder: Path = tmp_path_factory.mktemp("own")
    shutil.copytree(ROOT / "personas", folder / "personas")
    program = Program(folder, "--scripted", PERSONAS_DIR=str(folder / "personas"))
    yield program
    program.end()


def editor(page: Page, text: str) -> Locator:
    page.get_by_role("button", name="Edit soul.md").click()
    box = page.get_by_role("textbox", name="Text of soul.md")
    box.fill(text)
    return box


def test_a_text_is_tried_on_recorded_questions_saved_and_undone(own: Program, open_page: OpenPage) -> None:
    page = open_page(own.url, allowed=("409",))
    ask(page, "what is 6 times 7?", bot="Claude")
    page.goto(f"{own.url}/#/agent/claude?file=soul.md")
    shown = page.get_by_role("region", name="soul.md")
    shown.wait_for()
    before = shown.inner_text()
    editor(page, "You love lighthouses.")
    estimate = page.get_by_text("It costs nothing.")
    while not estimate.count():  # the turn is on its way into the record
        page.get_by_role("button", name="Try it first").click()
        estimate.or_(page.get_by_text("There's no recorded question")).first.wait_for()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("heading", name="Then").first.wait_for()
    page.get_by_role("heading", name="Now").first.wait_for()
    assert unnamed(page) == []
    assert page.get_by_role("textbox", name="Text of soul.md").input_value() == "You love lighthouses."
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("pre.persona-file", has_text="You love lighthouses.").wait_for()
    page.get_by_role("button", name="Undo this change").first.click()
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("pre.persona-file", has_text=before.splitlines()[0]).wait_for()
    assert shown.inner_text() == before


def test_an_edit_of_somebody_else_is_kept_and_so_is_the_typed_text(own: Program, open_page: OpenPage) -> None:
    first, second = (open_page(f"{own.url}/#/agent/grok?file=soul.md", allowed=("409",)) for _ in range(2))
    boxes = [editor(page, f"You are {name}.") for page, name in ((first, "one"), (second, "two"))]
    first.get_by_role("button", name="Save", exact=True).click()
    first.locator("pre.persona-file", has_text="You are one.").wait_for()
    second.get_by_role("button", name="Save", exact=True).click()
    second.get_by_role("alert").get_by_text(re.compile("changed the file in the meantime")).wait_for()
    assert boxes[1].input_value() == "You are two."
