"""A real Chromium on the real program: `make test-browser`. Other runs skip these tests, with the reason.

Each page is watched: a dialog, an error in a script, a violation of the Content-Security-Policy or a request to another
place fails the test, whatever it looks at.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentic.process.root import ROOT
from tests.support.ports import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROME_OF_MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
START_SECONDS = 60.0
ROLES = "button|link|textbox|combobox|checkbox|searchbox|tab|dialog|img|meter|table"
PATIENCE = 15_000  # milliseconds for what a page waits for
DESKTOP, PHONE = (1280, 800), (390, 844)


def chromium() -> str | None:
    """The path of an installed browser."""
    return next(filter(None, map(shutil.which, (*CHROMIUMS, CHROME_OF_MACOS))), None)


def reason_to_skip(marked: str) -> str | None:
    if "browser" not in marked:
        return "browser tests run by `make test-browser`"
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed: `make test-browser` installs it"
    return None if chromium() else "no Chromium is installed (Debian: apt install chromium)"


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.browser)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if reason := reason_to_skip(item.config.getoption("markexpr")):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium's does not run as root
        with playwright.chromium.launch(executable_path=chromium(), args=sandbox) as started:
            yield started


class Watch:
    """Collects what must not happen in any page of a context."""

    def __init__(self, context: BrowserContext) -> None:
        self.seen: list[str] = []
        self.allowed: tuple[str, ...] = ()
        context.on("page", self._follow)

    def _follow(self, page: Page) -> None:
        def dialog(shown: object) -> None:
            self.seen.append(f"a dialog: {getattr(shown, 'message', '')}")
            shown.dismiss()  # type: ignore[attr-defined]

        page.on("dialog", dialog)
        page.on("pageerror", lambda error: self.seen.append(f"an error: {error}"))
        page.on("console", lambda line: line.type == "error" and self.seen.append(_shown(line)))
        page.on("request", lambda request: self._note_request(page, request.url))

    def _note_request(self, page: Page, url: str) -> None:
        if not re.match(r"http://(127\.0\.0\.1|localhost):\d+/|data:image/|blob:", url):
            self.seen.append(f"a request: {url}")

    def problems(self) -> list[str]:
        return [line for line in self.seen if not any(part in line for part in self.allowed)]


def _shown(line: ConsoleMessage) -> str:
    return f"console: {line.text} ({line.location.get('url', '')})"


OpenPage = Callable[..., "Page"]


@pytest.fixture
def watch() -> list[Watch]:
    return []


@pytest.fixture
def open_page(browser: Browser, watch: list[Watch]) -> Iterator[OpenPage]:
    """`open_page(url, size=DESKTOP, scheme="light", allowed=())`: a watched page; `allowed` are parts of expected
    lines in the browser's console."""
    contexts: list[BrowserContext] = []

    def opened(url: str, size: tuple[int, int] = DESKTOP, scheme: str = "light", allowed: tuple[str, ...] = ()) -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,  # type: ignore[arg-type]
            has_touch=size == PHONE,
            reduced_motion="reduce",
        )
        contexts.append(context)
        watch.append(Watch(context))
        watch[-1].allowed = allowed
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [line for one in watch for line in one.problems()] == []


def unnamed(page: Page) -> list[str]:
    """What a screen reader would call a button, a link or a field without a name."""
    snapshot = page.locator("body").aria_snapshot()
    return re.findall(
        r"^\s*- (?:button|link|textbox|combobox|checkbox|searchbox|tab|dialog|img)(?::|$)", snapshot, re.MULTILINE
    )


class Program:
    """`python run_all.py --local --scripted` in a folder of its own; `url` is the address that its header shows."""

    def __init__(
        self, folder: Path, *arguments: str, command: tuple[str, ...] = ("run_all.py", "--local"), **more: str
    ) -> None:
        own = {"DATA_DIR": str(folder), "CONSOLE_PORT": str(free_port()), "TIMEZONE": "UTC", "COLUMNS": "120"}
        own["AGENT_COOLDOWN_SECONDS"] = "0"  # tests ask faster than people do
        environment = {"PATH": os.environ["PATH"], **own, **more}
        self.folder = folder
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *command, *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            self.url = self._read_url()
        except BaseException:
            self.end()
            raise

    def _read_url(self) -> str:
        assert self.process.stdout is not None
        shown, give_up = "", time.monotonic() + START_SECONDS
        for line in self.process.stdout:
            shown += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                return found.group(0)
            assert time.monotonic() < give_up, shown
        raise AssertionError(f"it ended without an address:\n{shown}")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.terminate()
        self.process.communicate(timeout=30)


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Local mode with scripted voices, as somebody starts it who has just cloned it."""
    program = Program(tmp_path_factory.mktemp("local"), "--scripted")
    yield program
    program.end()


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Weeks of history, and texts that are hard to place."""
    folder = tmp_path_factory.mktemp("busy")
    program = Program(folder, str(folder), command=("-m", "tests.browser.busy"))
    yield program
    program.end()
