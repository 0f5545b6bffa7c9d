"""Every page at every size, dark and light: nothing beyond the window, nothing over something else, no fault for axe.

`PICTURES=folder make test-browser` writes a picture of each, to be looked at.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentic.console.static_files import FOLDER
from tests.browser.conftest import OpenPage, Program

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTHS = (320, 390, 768, 1024, 1440, 2560)
HEIGHT = 800
SCHEMES = ("light", "dark")
TOPIC = "Should a city of Donaudampfschifffahrtsgesellschaftskapitäne ban cars from its old town, and who decides it?"
PAGES = re.findall(r"^  (\w+): \{ title:", (FOLDER / "js/main.js").read_text(encoding="utf-8"), re.MULTILINE)
INSIDE = {"room": "rooms", "turn": "turns", "conversation": "conversations", "agent": "agents"}
"""Pages of one thing, with the page that lists them."""
FITS = (Path(__file__).parent / "fits.js").read_text(encoding="utf-8")
WORST = ("serious", "critical")
SETTLED = (
    "!document.querySelector('main .loading') && document.getElementById('main').dataset.address === location.hash"
)


def act(page: Page, name: str, **fields: Any) -> None:
    page.evaluate(
        """async ([name, fields]) => {
          const me = await (await fetch("/api/me")).json();
          const headers = { "Content-Type": "application/json", "X-CSRF-Token": me.csrf };
          const body = JSON.stringify({ id: crypto.randomUUID(), ...fields });
          const answer = await fetch(`/api/actions/${name}`, { method: "POST", headers, body });
          if (!answer.ok) throw new Error(await answer.text());
        }""",
        [name, fields],
    )


def open_room(page: Page) -> None:
    channel = page.evaluate("fetch('/api/me').then((answer) => answer.json()).then((me) => me.channels[0].id)")
    seats = page.evaluate("fetch('/api/new-room').then((answer) => answer.json())")["seats"]
    chosen = [seat["key"] for seat in seats if not seat["why_not"]][:3]
    act(
        page,
        "open_room",
        channel=channel,
        topic=TOPIC,
        personas=", ".join(chosen),
        policy="pull",
        turns=4,
        archive="60",
    )


def addresses(page: Page, url: str) -> dict[str, str]:
    """Return the address of each page, of the first thing in its list if it shows one thing."""
    found = {name: f"#/{name}" for name in PAGES if name not in INSIDE}
    for name, parent in INSIDE.items():
        page.goto(f"{url}/#/{parent}")
        link = page.locator(f"main a[href^='#/{name}/']").first
        link.wait_for()
        found[name] = link.get_attribute("href") or ""
    return found


def settle(page: Page) -> None:
    while not page.evaluate(SETTLED):
        page.wait_for_timeout(20)


def faults_of_axe(page: Page) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    page.evaluate("document.querySelectorAll('.toast').forEach((one) => one.remove())")
    found = Axe().run(
        page, options={"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]}
    )
    return [
        f"axe, {each['id']}: {node['target']}"
        for each in found.response["violations"]
        if each["impact"] in WORST
        for node in each["nodes"]
    ]


@pytest.mark.timeout(600)  # some hundred views
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_fits_every_window_and_has_no_fault_for_axe(busy: Program, open_page: OpenPage, scheme: str) -> None:
    page = open_page(busy.url, size=(1440, HEIGHT), scheme=scheme, allowed=("/live/events",))
    if not page.evaluate("fetch('/api/rooms').then((answer) => answer.json())")["items"]:
        open_room(page)
    faults: list[str] = []
    for name, address in addresses(page, busy.url).items():
        page.goto(f"{busy.url}/{address}")
        settle(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            if folder := os.environ.get("PICTURES"):
                page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)
            found = page.evaluate(FITS)
            if found:  # perhaps only until the browser has drawn the page in its new size
                page.wait_for_timeout(500)
                found = page.evaluate(FITS)
            if width in (320, 768, 1440):
                found += faults_of_axe(page)
            faults += [f"{name}, {width} pixels, {scheme}: {fault}" for fault in found]
    assert not faults, "\n".join(faults)
