"""The live page while one watches it: how texts are shown, what is new elsewhere, and a program that comes back."""

from __future__ import annotations

import re
import time
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.asking import ask
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Program, unnamed
from tests.browser.test_every_page import act
from tests.support.code_blocks import CODE_BLOCKS
from tests.support.ports import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHOW = """async (text) => {
  const { formatted } = (await import("/js/main.js")).$modules.markup;
  const box = document.createElement("div");
  box.append(...formatted(text, new Map([["Claude", "claude"], ["Sam", null]])));
  return box.innerHTML.replace(/ (dir|target|rel|title|style)="[^"]*"/g, "");
}"""

POLL = """async (over) => {
  const { $load, $modules } = await import("/js/main.js");
  await $load("live");
  const { messageNode } = $modules.live_message;
  const answers = [{ text: "For", votes: 2, mine: true }, { text: "<b>Against</b>", votes: 1, mine: false }];
  const author = { id: "1", name: "Claude", kind: "agent", agent: "claude" };
  const poll = { question: "Is P equal to NP?", answers, is_over: over };
  const given = [], page = { names: new Map(), person: "Sam", vote: (_, answer, is) => given.push([answer, is]) };
  const said = { id: "5", channel: "11", author, at: 1790000000, text: "", files: [], reactions: [], poll };
  const node = messageNode(said, null, page);
  for (const answer of node.querySelectorAll(".vote")) answer.click();
  return [node.querySelector(".poll").innerText, given];
}"""


def say(page: Page, place: str, text: str) -> None:
    """Post as the person of local mode."""
    page.evaluate(
        """async ([place, text]) => {
          const me = await (await fetch("/api/me")).json();
          const channel = me.channels.find((one) => one.name === place).id;
          const headers = { "Content-Type": "application/json", "X-CSRF-Token": me.csrf };
          const body = JSON.stringify({ text });
          await fetch(`/api/live/channels/${channel}/messages`, { method: "POST", headers, body });
        }""",
        [place, text],
    )


def test_a_text_is_shown_as_discord_shows_it_and_never_becomes_markup_of_the_page(
    local: Program, open_page: OpenPage
) -> None:
    page = open_page(local.url)
    link = '<a href="https://a.example/x">'
    for text, shown in {
        "a **b *c* d** __e__ ~~f~~": "<p>a <strong>b <em>c</em> d</strong> <u>e</u> <s>f</s></p>",
        "2 * 3 * 4, snake_case_name, \\*no\\*": "<p>2 * 3 * 4, snake_case_name, *no*</p>",
        "<b>&amp;</b>": "<p>&lt;b&gt;&amp;amp;&lt;/b&gt;</p>",
        "`**x**` ``a`b``": "<p><code>**x**</code> <code>a`b</code></p>",
        "x\n```js\n<i>\n```\ny": "<p>x</p><pre><code>&lt;i&gt;</code></pre><p>y</p>",
        "see https://a.example/x.": f"<p>see {link}https://a.example/x</a>.</p>",
        "[here](https://a.example/x)": f"<p>{link}here</a></p>",
        "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>",
        "> a\n> b\nc": "<blockquote>a\nb</blockquote><p>c</p>",
        "see https://discord.com/channels/1/22/333": '<p>see <a href="#/live/22?message=333">the message</a></p>',
        "## T\n-# s\n- i": '<p class="heading h2">T</p><p class="small">s</p><p class="item">i</p>',
        "@Claude, @Claudette": '<p><span class="mention">@Claude</span>, @Claudette</p>',
    }.items():
        assert page.evaluate(SHOW, text) == shown
    for text, blocks in CODE_BLOCKS.items():
        shown = unescape(page.evaluate(SHOW, text))
        assert re.findall("<pre><code>(.*?)</code></pre>", shown, re.DOTALL) == blocks
    assert page.evaluate(SHOW, "||x||").startswith('<p><span class="spoiler" role="button"')
    for nasty in (
        "**" * 1000,
        "||" * 1000,
        "[" * 4000,
        "*a" * 2000,
        "_" * 4000,
        "`" * 3999,
        "~~~a\n" * 800,
        "https://" * 500,
    ):
        assert (
            page.evaluate(
                f"async (text) => {{ const began = performance.now(); await ({SHOW})(text); "
                "return performance.now() - began; }",
                nasty,
            )
            < 500
        )


def until(page: Page, expression: str) -> None:
    """Page.wait_for_function evaluates inside the page, whose Content-Security-Policy forbids it."""
    end = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def test_a_conversation_is_read_while_it_goes_on(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/conversations")
    page.get_by_role("heading", name="Conversations").wait_for()
    place = page.evaluate("fetch('/api/me').then((answer) => answer.json())")["channels"][1]["id"]
    act(page, "start", channel=place, topic="which way is up")
    link = page.get_by_role("link", name="which way is up")
    while link.count() == 0:  # it is on its way into the record
        page.goto("about:blank")
        page.goto(f"{local.url}/#/conversations")
        page.locator(".conversations-page").wait_for()
    link.click()
    page.locator(".chat-card .message").nth(1).wait_for()
    act(page, "end", channel=place)
    page.get_by_label("Facts").get_by_text("ended: a person stopped it").wait_for()


def test_a_link_to_a_message_leads_to_it(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    answer = ask(page, "remember this one", place="story")
    place = page.url.split("/")[-1]
    message = answer.get_attribute("data-id")
    for number in range(8):
        say(page, "story", f"later **{number}**" + "\nline" * 8)
    page.get_by_text("later 7").wait_for()
    page.goto(f"{local.url}/#/rooms")
    page.get_by_role("heading", name="Rooms").wait_for()
    page.evaluate("address => { location.hash = address }", f"#/live/{place}?message={message}")
    page.locator(f'article.picked[data-id="{message}"]').wait_for()
    until(
        page,
        f"""(() => {{ const box = document.querySelector('[data-id="{message}"]').getBoundingClientRect();
      return box.top > 0 && box.bottom < innerHeight; }})()""",
    )


def test_a_poll_is_answered_with_a_click_until_it_is_over(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    text, given = page.evaluate(POLL, False)
    assert all(part in text for part in ("Is P equal to NP?", "For", "67% · 2 votes", "<b>Against</b>", "33% · 1 vote"))
    assert given == [["For", False], ["<b>Against</b>", True]]
    text, given = page.evaluate(POLL, True)
    assert "This poll is over." in text
    assert given == []


def test_a_channel_with_something_new_has_a_dot_until_it_is_opened(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    page.locator("[role=log] article.message").first.wait_for()
    say(page, "memes", "nobody is named here")
    link = page.locator("nav.channels a.unread", has_text="memes")
    link.wait_for()
    link.click()
    page.get_by_text("nobody is named here").wait_for()
    assert page.locator("nav.channels a.unread", has_text="memes").count() == 0


def test_who_reads_above_stays_there_and_is_offered_what_is_new(local: Program, open_page: OpenPage) -> None:
    page = open_page(local.url)
    page.locator("nav.channels a", has_text="story").click()
    page.get_by_role("textbox", name="Message to #story").wait_for()
    for number in range(12):
        say(page, "story", f"**{number}**" + "\nline" * 6)
    page.locator("article.message").nth(11).wait_for()
    page.locator("[role=log]").evaluate("log => log.scrollTop = 0")
    until(page, "document.querySelector('[role=log]').scrollTop === 0")
    say(page, "story", "@gemini hello there")  # one's own message leads to the end; the answer comes later
    page.get_by_text("hello there").first.wait_for()
    page.locator("[role=log]").evaluate("log => log.scrollTop = 0")
    page.get_by_role("button", name="new message").click()
    log = "document.querySelector('[role=log]')"  # which may grow with further answers
    until(page, f"{log}.scrollHeight - {log}.scrollTop - {log}.clientHeight < 5")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.mark.promise(599)
def test_a_page_says_that_the_program_is_gone_and_goes_on_when_it_is_back(
    tmp_path: Path, port: int, open_page: OpenPage
) -> None:
    settings = {"CONSOLE_PORT": str(port)}
    first = Program(tmp_path, "--scripted", **settings)
    page = open_page(first.url, allowed=("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_EMPTY", "ERR_CONNECTION"))
    page.locator("[role=log] article.message").first.wait_for()
    other = page.context.new_page()  # shows a page whose parts are not loaded yet
    other.goto(f"{first.url}/#/rooms")
    other.get_by_role("heading", name="Rooms").wait_for()
    first.end()
    page.get_by_text("The program isn't responding").wait_for()
    other.get_by_role("link", name="Cost").click()
    other.get_by_text("This page loads as soon as it does").wait_for()
    box, problem = (
        page.get_by_role("textbox", name="Message to #debate"),
        page.get_by_text("Is the program still running?"),
    )
    box.fill("@claude are you there?")
    box.press("Enter")
    problem.wait_for()
    second = Program(tmp_path, "--scripted", **settings)
    try:
        page.get_by_text("The program isn't responding").wait_for(state="hidden")
        other.get_by_role("heading", name="Cost").wait_for()
        problem.wait_for(state="detached")
        assert box.input_value() == "@claude are you there?"
        box.press("Enter")  # with the new program's token for it
        page.get_by_text("are you there?").wait_for()
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    finally:
        second.end()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_members_are_listed_with_what_they_do_and_a_name_opens_a_card(
    local: Program, open_page: OpenPage, size: tuple[int, int]
) -> None:
    page = open_page(local.url, size)
    ask(page, f"who is here at {size[0]} pixels?", place="story", bot="Claude")
    if size == PHONE:
        page.get_by_role("button", name="Members").click()
        page.get_by_role("dialog").get_by_role("button", name="Grok").click()
    else:
        page.set_viewport_size({"width": 1600, "height": 900})
        page.get_by_role("complementary", name="In this channel").get_by_role("button", name="Grok").click()
    card = page.get_by_role("dialog", name="Grok", exact=True)
    card.get_by_text("scripted/grok").wait_for()
    assert unnamed(page) == []
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    page.locator("[role=log] .message-head button", has_text="Claude").first.click()
    page.get_by_role("dialog", name="Claude", exact=True).get_by_role("button", name="Mute").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0] or size == DESKTOP
