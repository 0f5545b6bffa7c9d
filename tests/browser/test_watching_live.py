"""The live page while one watches it: how texts are shown, what is new elsewhere, and a program that comes back."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import OpenPage, Program

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHOW = """async (text) => {
  const { formatted } = await import("/js/markup.js");
  const box = document.createElement("div");
  box.append(...formatted(text, new Map([["Claude", "claude"], ["Sam", null]])));
  return box.innerHTML.replace(/ (dir|target|rel|title|style)="[^"]*"/g, "");
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
        "## T\n-# s\n- i": '<p class="heading h2">T</p><p class="small">s</p><p class="item">i</p>',
        "@Claude, @Claudette": '<p><span class="mention">@Claude</span>, @Claudette</p>',
    }.items():
        assert page.evaluate(SHOW, text) == shown
    assert page.evaluate(SHOW, "||x||").startswith('<p><span class="spoiler" role="button"')
    for nasty in ("**" * 1000, "||" * 1000, "[" * 4000, "*a" * 2000, "_" * 4000, "`" * 3999, "https://" * 500):
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
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_page_says_that_the_program_is_gone_and_goes_on_when_it_is_back(
    tmp_path: Path, port: int, open_page: OpenPage
) -> None:
    settings = {"CONSOLE_PORT": str(port)}
    first = Program(tmp_path, "--scripted", **settings)
    page = open_page(first.url, allowed=("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_EMPTY", "ERR_CONNECTION"))
    page.locator("[role=log] article.message").first.wait_for()
    first.end()
    page.get_by_text("The program isn't responding").wait_for()
    second = Program(tmp_path, "--scripted", **settings)
    try:
        page.get_by_text("The program isn't responding").wait_for(state="hidden")
        box = page.get_by_role("textbox", name="Message to #debate")
        box.fill("@claude are you there?")  # with the new program's token for it
        box.press("Enter")
        page.get_by_text("are you there?").wait_for()
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    finally:
        second.end()
