"""The frame of the page: its parts, keys, sizes and colours, and signing in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESKTOP, PATIENCE, PHONE, OpenPage, Program, unnamed

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

PAGES = ("overview", "live", "turns", "conversations", "cost", "agents")
TOKEN = "a-token-of-24-characters"
QUIET = 300  # milliseconds without a new request
CONNECTIONS = 6  # of a browser to one server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Local mode behind a token."""
    program = Program(tmp_path_factory.mktemp("guarded"), "--scripted", CONSOLE_TOKEN=TOKEN)
    yield program
    program.end()


def ready(page: Page) -> None:
    page.wait_for_selector("main .page")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_everything_in_it_has_a_name(
    local: Program, open_page: OpenPage, name: str, size: tuple[int, int]
) -> None:
    page = open_page(f"{local.url}/#/{name}", size)
    ready(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert unnamed(page) == []
    assert page.locator(".nav a[aria-current=page]").inner_text().lower() == name


def test_the_pages_are_reached_by_keys_alone(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/agents")
    ready(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(page.locator(".nav a").count()):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Turns":
            break
    page.keyboard.press("Enter")
    page.locator(".turns-page").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"


def test_going_back_leads_to_the_same_place_in_a_list(busy: Program, open_page: OpenPage) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{busy.url}/#/turns")
    page.get_by_role("button", name="Older").click()
    link = page.locator("a.turn-link").nth(70)  # not among the first
    link.click()
    page.locator(".turn-page").wait_for()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(link).to_be_in_viewport(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("page_address", "text", "way_back"),
    [
        ("#/room/123", "This room doesn't exist", "Go to Rooms"),
        ("#/room/abc", "There's nothing at this address", "Go to Rooms"),
        ("#/turn/claude/none", "This turn isn't in the history", "Go to Turns"),
        ("#/turn/claude", "This page doesn't exist", "Go to Turns"),
        ("#/conversation/none", "This conversation isn't in the history", "Go to Conversations"),
        ("#/agent/nobody", "This bot doesn't exist", "Go to Agents"),
    ],
)
@pytest.mark.promise(610)
def test_what_does_not_exist_is_said_in_words_with_a_way_back(
    busy: Program, open_page: OpenPage, page_address: str, text: str, way_back: str
) -> None:
    page = open_page(f"{busy.url}/{page_address}", allowed=("404", "400"))
    page.get_by_text(text).wait_for()
    page.get_by_role("link", name=way_back).click()
    page.locator(".page h1").wait_for()
    assert page.evaluate("location.hash") == f"#/{way_back.split()[-1].lower()}"


def test_dark_and_light_follow_the_system(local: Program, open_page: OpenPage) -> None:
    lightness = {}
    for scheme in ("dark", "light"):
        page = open_page(local.url, scheme=scheme)
        ready(page)
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        lightness[scheme] = sum(map(int, re.findall(r"\d+", colour)[:3]))
    assert lightness["dark"] < 100 < 600 < lightness["light"]


def test_an_address_that_nobody_knows_leads_to_the_live_page(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/constructor/%E0%A4%A")
    ready(page)
    assert page.title().startswith("Live")


def test_a_person_signs_in_stays_so_after_a_reload_and_signs_out(guarded: Program, open_page: OpenPage) -> None:
    page = open_page(f"{guarded.url}/#/turns", allowed=("401",))
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="Wrong token").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    ready(page)
    assert page.title().startswith("Turns")
    page.reload()
    ready(page)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    page.reload()
    page.get_by_label("Token").wait_for()


@pytest.mark.parametrize(
    ("page_address", "shown"),
    [
        ("", ".log-inner :is(.begin, .welcome)"),
        ("#/live", ".log-inner :is(.begin, .welcome)"),
        ("#/overview", ".bot-rows li"),
        ("#/turns", ".turns-page :is(.turns, .empty)"),
        ("#/cost", ".cost-page :is(.figures, .empty)"),
        ("#/agents", ".agent-card"),
        ("#/agent/claude", ".agent-card"),
        ("#/schedule", ".schedule-page .day-track"),
    ],
)
@pytest.mark.promise(608)
def test_a_page_has_all_its_data_after_two_rounds_of_requests(
    local: Program, open_page: OpenPage, page_address: str, shown: str
) -> None:
    """On a slow line, each round takes the line's latency. A browser has six connections."""
    page = open_page("about:blank", allowed=("about:blank",))
    held: list[Route] = []
    page.route("**/*", lambda route: held.append(route))
    page.evaluate("url => { location.href = url }", f"{local.url}/{page_address}")
    for _ in range(2):
        known = 0
        while len(held) != known or not held:  # the browser's requests of this round
            known = len(held)
            page.wait_for_timeout(QUIET)
        for route in held[:CONNECTIONS]:
            route.continue_()
        del held[:CONNECTIONS]
    page.locator(shown).first.wait_for()


def test_what_is_asked_for_ahead_is_what_the_page_then_uses(busy: Program, open_page: OpenPage) -> None:
    page, asked = open_page("about:blank", allowed=("about:blank",)), list[str]()
    page.on("request", lambda request: asked.append(request.url.removeprefix(busy.url)))
    page.goto(f"{busy.url}/#/conversations")
    conversation = page.locator("a.talk-link").first
    conversation.wait_for()
    turn = page.evaluate("fetch('/api/turns').then((answer) => answer.json())")["items"][0]
    more = [conversation.get_attribute("href"), f"#/turn/{turn['agent']}/{turn['id']}", "#/agent/claude"]
    for address in (*(f"#/{name}" for name in (*PAGES, "rooms", "arena", "schedule")), *more):
        page.goto("about:blank")
        asked.clear()
        page.goto(f"{busy.url}/{address}")
        page.locator("main .page").wait_for()
        ahead = page.locator("head link[as=fetch]").evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )
        assert len(ahead) > 1
        # The list of channels is asked for again if it changes, as it does soon after the program's start.
        again = [each for each in ahead if asked.count(f"/{each}") > (2 if each == "api/live/channels" else 1)]
        assert again == [], address


def test_a_module_runs_once_even_if_the_files_of_several_pages_have_it(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/turns")
    ready(page)
    found = page.evaluate("""async () => {
      const { $load, $modules } = await import("/js/main.js");
      const before = $modules.posts;
      await $load("turn");
      const first = $modules.posts;
      await $load("conversation");
      return [before === undefined, first === $modules.posts, $modules.conversation.render.name];
    }""")
    assert found == [True, True, "render"]


@pytest.mark.promise(609)
def test_a_page_of_an_updated_program_is_loaded_anew(local: Program, open_page: OpenPage) -> None:
    page = open_page(f"{local.url}/#/agents")
    ready(page)

    def update(route: Route) -> None:
        old = route.fetch().text()
        route.fulfill(content_type="text/javascript", body=re.sub(r'(\$version !== ")\w+', r"\1another", old))

    page.route("**/js/cost.js", update, times=1)
    page.evaluate("window.isOld = true")
    page.get_by_role("link", name="Cost", exact=True).click()
    page.locator(".cost-page").wait_for()
    assert page.evaluate("window.isOld") is None


@pytest.mark.promise(629)
def test_a_tab_that_nobody_has_seen_takes_no_connection_for_the_stream(local: Program, open_page: OpenPage) -> None:
    """A browser opens only six connections to a server, for all its tabs."""
    page, asked = open_page("about:blank", allowed=("about:blank",)), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.add_init_script(
        "let seen = false; Object.defineProperty(document, 'hidden', { get: () => !seen });"
        "window.look = () => { seen = true; document.dispatchEvent(new Event('visibilitychange')); };"
    )
    page.goto(f"{local.url}/#/cost")
    ready(page)
    page.wait_for_load_state("networkidle")
    assert not [url for url in asked if "/live/" in url]
    with page.expect_request("**/api/live/events*"):
        page.evaluate("look()")
