"""What is fun on the live page: a message in another version, votes as bars, commands in the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.asking import ask, channel
from tests.browser.conftest import OpenPage, Program, unnamed

if TYPE_CHECKING:
    pass


def test_a_message_that_no_bot_may_answer_gets_a_hint_below_the_box(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    channel(page, "memes")
    box = page.get_by_role("textbox", name="Message to #memes")
    hint = page.locator(".live-foot").get_by_text("bots might not answer. Mention one")
    box.fill("nobody in particular")
    box.press("Enter")
    hint.wait_for()
    box.fill("@grok but you")
    box.press("Enter")
    hint.wait_for(state="detached")


def test_a_message_is_said_by_another_persona_in_its_place_and_nothing_is_posted(
    local: Program, open_page: OpenPage
) -> None:
    page = open_page(local.url, allowed=("404", "409"))  # the turn is still on its way into the record
    answer = ask(page, "what do you make of it?")
    posts = page.locator("[role=log] article.message").count()
    answer.hover()
    answer.get_by_role("button", name="Say it differently").click()
    panel = page.get_by_role("dialog", name="Another version")
    panel.get_by_label("Persona").select_option("claude")
    assert unnamed(page) == []
    panel.get_by_role("button", name="Ask", exact=True).click()
    bar = answer.get_by_role("group", name="Versions")
    bar.get_by_text("2 of 2").wait_for()
    bar.get_by_text("Claude, with").wait_for()
    assert "not posted" in bar.inner_text()
    bar.get_by_role("button", name="Earlier version").click()
    bar.get_by_text("as it was posted").wait_for()
    assert page.locator("[role=log] article.message").count() == posts


def test_a_command_starts_an_arena_whose_votes_are_bars(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    channel(page, "story")
    box = page.get_by_role("textbox", name="Message to #story")
    box.press_sequentially("/ar")
    page.get_by_role("option", name="/arena").wait_for()
    box.fill("/arena Is a hot dog a sandwich?")
    box.press("Enter")
    dialog = page.get_by_role("dialog", name="Start an arena in #story")
    assert dialog.get_by_label("Question").input_value() == "Is a hot dog a sandwich?"
    dialog.get_by_role("button", name="Start").click()
    votes = page.get_by_role("group", name="Votes")
    votes.wait_for()
    votes.get_by_role("button").first.click()
    votes.get_by_text("100% · 1 vote").wait_for()
    notice = page.locator("[role=log] article.message", has=votes)
    assert notice.get_by_role("button", name="why?").count() == 0  # no turn led to it
    page.locator("[role=log] .message-head", has_text="notice").filter(
        visible=True
    ).first.wait_for()  # it isn't the bot's own
    page.goto(f"{local.url}/#/turns")
    page.get_by_text("answered in an arena").first.wait_for()
    assert unnamed(page) == []


def test_what_the_terminal_takes_is_taken_by_the_box(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url, allowed=("400",))  # of the command that doesn't exist
    channel(page, "casual")
    box, answer = page.get_by_role("textbox", name="Message to #casual"), page.locator(".answer")

    def type_in(line: str) -> None:
        box.fill(line)
        box.press("Enter")

    type_in("/help")
    answer.get_by_text("@bots asks all of them").wait_for()
    assert unnamed(page) == []
    box.fill("/bots sta")
    page.get_by_role("option", name="/bots status").click()
    assert box.input_value() == "/bots status "
    box.press("Enter")
    answer.get_by_text("Grok").first.wait_for()
    assert "<@" not in answer.inner_text()
    answer.get_by_role("button", name="Close the answer").click()
    answer.wait_for(state="hidden")
    type_in("/bot status")
    page.get_by_text("There's no command /bot; did you mean /bots?").wait_for()
    assert box.input_value() == "/bot status", "what was typed can be corrected"
    type_in("/room create Tea or coffee?")
    dialog = page.get_by_role("dialog", name="Open a room")
    assert dialog.get_by_label("Topic", exact=True).input_value() == "Tea or coffee?"
    dialog.get_by_role("button", name="Cancel").click()
    type_in("/room create Tea or coffee? turns: 2")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("checkbox", name="Claude").check()
    dialog.get_by_role("checkbox", name="Grok").check()
    dialog.get_by_role("button", name="Send").click()
    answer.get_by_text("The room is open").wait_for()
    assert page.get_by_role("dialog").count() == 0
    type_in("/fire memes")
    page.get_by_role("textbox", name="Message to #memes").wait_for()
    page.locator("[role=log] article.message").first.wait_for()
    page.get_by_role("button", name="End", exact=True).click()
    page.get_by_text("has ended").first.wait_for()


def test_a_room_is_opened_from_the_column_for_this_channel(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url, size=(1600, 900))
    channel(page, "casual")
    page.get_by_role("complementary").get_by_role("button", name="Open a room").click()
    dialog = page.get_by_role("dialog", name="Open a room")
    assert dialog.get_by_label("Channel").evaluate("field => field.selectedOptions[0].textContent") == "#casual"
    assert unnamed(page) == []
