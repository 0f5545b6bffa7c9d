"""Make docs/pictures/: .venv/bin/python -m tests.pictures.console

Runs the program on the Discord stand-in, with scripted voices and a record of some weeks that is made up, and lets a
person use its console in a Chromium. Needs what `make test-browser` needs.
"""

from __future__ import annotations

import asyncio
import io
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from PIL import Image
from playwright.async_api import Browser, Page, async_playwright

from agent_config import AGENTS, AgentSettings, load_settings
from agent_coordinator.coordinator import Coordinator
from agentic.console.app import free_port
from agentic.local.discord.channels import small_world
from agentic.local.discord.server import DiscordStandIn, routed_to
from agentic.local.discord.world import World
from agentic.local.person import BrowserPerson
from agentic.local.voices.scenes import Heard
from agentic.local.voices.voice import ScriptedVoice
from agentic.process.root import ROOT
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import ModelMakers, ProcessConfig
from tests.support import records

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PERSON = "Sam"
PLACE = "debate"
QUESTION = "which is better, four long days or five short ones?"
TURNS, DAYS = 2_000, 30
DESKTOP, PHONE = (1280, 800), (390, 844)
TALL = (1280, 1400)
FILM = (1320, 800)  # wide enough for the third column
FILM_SHOWN = (990, 600)
FRAME_MS = 250
SETTINGS = {
    "COORDINATOR_SCHEDULE_MIN": "6",
    "COORDINATOR_SCHEDULE_MAX": "6",
    "COORDINATOR_REACTIVE_PROBABILITY": "0",
    "COORDINATOR_TURN_DELAY_MIN": "0.5",
    "COORDINATOR_TURN_DELAY_MAX": "0.8",
    "AGENT_COOLDOWN_SECONDS": "0",
    "CONSOLE": "true",
    "TIMEZONE": "UTC",
}


def new_world() -> World:
    """A world whose channels are those of the record that is made up."""
    bots = {name: (spec.display_name, f"token-{name}") for name, spec in AGENTS.items()}
    ids = {f"channel:{name}": channel_id for channel_id, name in records.CHANNELS.items()}
    return small_world(
        bots, (PLACE, *(name for name in records.CHANNELS.values() if name != PLACE)), (PERSON,), ids=ids
    )


def setup_for(world: World, discord: DiscordStandIn, folder: Path) -> ProcessConfig:
    shutil.copytree(ROOT / "personas", folder / "personas", dirs_exist_ok=True)  # the console can edit them
    environ = {
        "PERSONAS_DIR": str(folder / "personas"),
        **{spec.token_setting: world.app(name).token for name, spec in AGENTS.items()},
        "CHANNEL_THEME_MAP": ",".join(f"{channel_id}:{theme}" for channel_id, theme in records.CHANNELS.items()),
        "DATA_DIR": str(folder),
        "CONSOLE_PORT": str(free_port("127.0.0.1", 8950)),
        **SETTINGS,
    }
    ids = {name: world.app(name).user.id for name in AGENTS}
    words = {**{AGENTS[name].display_name: user_id for name, user_id in ids.items()}, **ids}
    shown = [spec.display_name for spec in AGENTS.values()]
    heard = Heard()

    def voice(agent: AgentSettings) -> ScriptedVoice:
        return ScriptedVoice(agent.name, rng=random.Random(), delay=lambda: random.uniform(1.2, 2.2), heard=heard)

    return ProcessConfig(
        settings=load_settings(environ, env_file=None),
        agents=tuple(AGENTS),
        models=ModelMakers(make=voice, lacks=lambda _: None),
        use_default_redis=False,
        people=BrowserPerson(discord, PERSON, shown, words, {}),
    )


@asynccontextmanager
async def program(folder: Path, *, is_local: bool = True) -> AsyncIterator[Runtime]:
    """The program, with a record of some weeks; `is_local`: a person can write in the console."""
    world = new_world()
    async with DiscordStandIn(world) as discord:
        with routed_to(discord):
            setup = setup_for(world, discord, folder)
            setup = setup if is_local else replace(setup, people=None)
            records.fill(setup.settings.record_file, TURNS, days=DAYS, now=time.time())
            async with running(setup) as runtime:
                await runtime.wait_online()
                yield runtime


class Film:
    """Pictures of a page at equal times, for an animation."""

    def __init__(self, page: Page) -> None:
        self._page, self._frames = page, list[Image.Image]()

    async def run(self) -> None:
        """Take pictures until cancelled."""
        while True:
            began = time.monotonic()
            picture = await self._page.screenshot(animations="disabled", caret="initial")
            self._frames.append(Image.open(io.BytesIO(picture)).convert("RGB").resize(FILM_SHOWN))
            await asyncio.sleep(max(0.0, FRAME_MS / 1000 - (time.monotonic() - began)))

    def save(self, path: Path) -> None:
        """Equal pictures become one that lasts longer."""
        frames: list[Image.Image] = []
        lasts: list[int] = []
        for frame in self._frames:
            if frames and frame.tobytes() == frames[-1].tobytes():
                lasts[-1] += FRAME_MS
            else:
                frames.append(frame)
                lasts.append(FRAME_MS)
        lasts[-1] += 2_000
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=lasts, loop=0, quality=60, method=6)


async def walk(page: Page) -> None:
    """A person asks in the middle of a conversation, reads the answer, and looks why."""
    messages = page.locator("[role=log] article.message")
    await messages.nth(3).wait_for()
    box = page.get_by_role("textbox", name=f"Message to #{PLACE}")
    await box.press_sequentially("@gem", delay=120)
    await asyncio.sleep(0.7)
    await box.press("Enter")
    await box.press_sequentially(QUESTION, delay=45)
    await box.press("Enter")
    asked = page.locator("[role=log] article.message", has_text=QUESTION).first
    await asked.wait_for()
    answer = asked.locator("xpath=following-sibling::article[starts-with(@aria-label, 'Gemini')]").first
    await answer.wait_for()
    await asyncio.sleep(2.5)
    await answer.get_by_role("button", name="why?").first.click()
    await page.get_by_role("link", name="Open the turn").wait_for()
    await asyncio.sleep(2.5)
    await page.get_by_role("link", name="Open the turn").click()
    heading = page.get_by_role("heading", name="Prompt", exact=True).first
    await heading.wait_for()
    await asyncio.sleep(2.5)
    await heading.evaluate("heading => scrollTo(0, heading.offsetTop - 80)")
    await asyncio.sleep(1.5)


async def film(browser: Browser, url: str) -> None:
    page = await browser.new_page(viewport={"width": FILM[0], "height": FILM[1]}, color_scheme="dark")
    await page.goto(url)
    taken = Film(page)
    taking = asyncio.create_task(taken.run())
    try:
        await walk(page)
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    taken.save(FOLDER / "console.webp")


async def still(
    browser: Browser, url: str, name: str, *, scheme: str = "light", size: tuple[int, int] = DESKTOP
) -> None:
    page = await browser.new_page(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=2 if size == PHONE else 1,
    )
    await page.goto(url)
    await page.locator("main .page").wait_for()
    await page.wait_for_timeout(1_500)
    picture = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
    picture.save(FOLDER / f"{name}.webp", quality=80, method=6)
    await page.close()


async def turn_of(browser: Browser, console: str) -> str:
    """The address of a turn of the record that is made up, with its prompt."""
    page = await browser.new_page()
    await page.goto(f"{console}/#/turns?agent=claude&channel={next(iter(records.CHANNELS))}")
    link = await page.locator("a.turn-link").first.get_attribute("href")
    await page.close()
    return f"{console}/{link}"


async def converse(coordinator: Coordinator, channel: int) -> None:
    """One conversation after the other: one may end after a few messages."""
    while True:
        await coordinator.start_conversation(channel)


async def make() -> None:
    FOLDER.mkdir(exist_ok=True)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder:
        async with program(Path(folder)) as runtime, async_playwright() as playwright:
            assert runtime.coordinator is not None
            assert runtime.console is not None
            channel = next(channel_id for channel_id, name in records.CHANNELS.items() if name == PLACE)
            talk = asyncio.create_task(converse(runtime.coordinator, channel))
            browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            live = f"{runtime.console}/#/live/{channel}"
            await film(browser, live)
            await still(browser, await turn_of(browser, runtime.console), "turn", size=TALL)
            await still(browser, live, "phone", size=PHONE)
            for name in ("overview", "cost", "schedule"):
                await still(browser, f"{runtime.console}/#/{name}", name, scheme="dark" if name == "cost" else "light")
            await browser.close()
            talk.cancel()
            await asyncio.gather(talk, return_exceptions=True)


def main() -> int:
    asyncio.run(make())
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.stat().st_size // 1000:5} kB  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
