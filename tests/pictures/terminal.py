"""Make docs/conversation.svg and docs/channel.svg: .venv/bin/python -m tests.pictures.terminal

Runs the program as in local mode, with the Discord stand-in and scripted voices, and lets a person join. Each run is a
different conversation; it repeats until one is short, about the four-day week, which the person asks about, and has all
bots in it before the person and two messages after the answer. One picture shows it in the terminal, one as a channel.
"""

from __future__ import annotations

import asyncio
import io
import random
import re
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from rich.console import Console

from agent_config import AGENTS, load_settings
from agentic.local.discord.channels import small_world
from agentic.local.discord.server import DiscordStandIn, routed_to
from agentic.local.discord.world import World
from agentic.local.terminal.terminal import LocalConversations, Screen, Terminal
from agentic.local.terminal.view import Header, Names
from agentic.local.voices.scenes import Heard
from agentic.local.voices.voice import ScriptedVoice
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import ModelMakers, ProcessConfig
from tests.pictures.channel import Drawn, draw

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = 88
CHANNEL = "debate"
PERSON, LINE = "Sam", "@gemini which is better, four long days or five short ones?"
TOPIC = "four-day week"
JOINS_AFTER = 4  # messages
AFTERWARDS = 2  # messages after the answer, at least
LINES = 34
TRIES = 30
QUICK = {
    "COORDINATOR_SCHEDULE_MAX": "0",
    "COORDINATOR_REACTIVE_PROBABILITY": "0",
    "COORDINATOR_TURN_DELAY_MIN": "0.5",
    "COORDINATOR_TURN_DELAY_MAX": "0.5",
    "COORDINATOR_MAX_ROUNDS": "2",
}


def new_world() -> World:
    bots = {name: (spec.display_name, f"token-{name}") for name, spec in AGENTS.items()}
    return small_world(bots, (CHANNEL,), (PERSON,))


def setup_for(world: World, folder: str) -> ProcessConfig:
    tokens = {spec.token_setting: world.app(name).token for name, spec in AGENTS.items()}
    place = {"CHANNEL_THEME_MAP": f"{world.channel(CHANNEL).id}:{CHANNEL}", "DATA_DIR": folder}
    heard = Heard()
    voices = {name: ScriptedVoice(name, rng=random.Random(), delay=lambda: 0.2, heard=heard) for name in AGENTS}
    return ProcessConfig(
        settings=load_settings({**tokens, **place, **QUICK}, env_file=None),
        agents=tuple(AGENTS),
        models=ModelMakers(make=lambda agent: voices[agent.name]),
        use_default_redis=False,
    )


def terminal_on(server: DiscordStandIn, runtime: Runtime, console: Console) -> Terminal:
    world = server.world
    ids = {name: world.app(name).user.id for name in AGENTS}
    person, channel = world.user(PERSON), world.channel(CHANNEL)
    users = {ids[name]: (spec.display_name, f"#{spec.color:06x}") for name, spec in AGENTS.items()}
    assert runtime.coordinator is not None
    return Terminal(
        Screen(console=console, header=Header(dict.fromkeys(spec.display_name for spec in AGENTS.values()))),
        server,
        names=Names({channel.id: CHANNEL}, {**users, person.id: (PERSON, "bold white")}, {}, mention_ids=ids),
        me=person.id,
        conversations=LocalConversations(runtime, world),
        lines=typed(server),
    )


async def typed(server: DiscordStandIn) -> AsyncGenerator[str]:
    """What the person types, once there is something to join in with."""
    ready = asyncio.Event()

    def on_event(event: str, data: object) -> None:
        if len(server.messages(CHANNEL)) >= JOINS_AFTER:
            ready.set()

    unsubscribe = server.subscribe(on_event)
    await ready.wait()
    unsubscribe()
    yield LINE


async def hold_one(runtime: Runtime, terminal: Terminal) -> None:
    """One conversation, shown, with the person at the terminal."""
    assert runtime.coordinator is not None
    async with terminal.watching():
        person = asyncio.create_task(terminal.run())
        await runtime.coordinator.start_conversation()
        if not person.done():
            person.cancel()
        await asyncio.gather(person, return_exceptions=True)


async def make() -> tuple[Console, list[dict[str, Any]]]:
    """Hold one conversation; return the console that recorded it, and its messages."""
    world = new_world()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        async with DiscordStandIn(world) as server:
            with routed_to(server):
                async with running(setup_for(world, folder)) as runtime:
                    await runtime.wait_online()
                    terminal = terminal_on(server, runtime, console)
                    await hold_one(runtime, terminal)
                    return console, server.messages(CHANNEL)


def channel_svg(messages: list[dict[str, Any]]) -> str:
    names = {
        author["id"]: author.get("global_name") or author["username"] for author in (m["author"] for m in messages)
    }
    colors = {spec.display_name: f"#{spec.color:06x}" for spec in AGENTS.values()}
    drawn = []
    for number, message in enumerate(messages):
        name = names[message["author"]["id"]]
        text = re.sub(r"<@!?(\d+)>", lambda found: f"@{names[found[1]]}", message["content"]).partition("\n-# ")[0]
        color, time = colors.get(name, "#f0b232"), f"8:{40 + number} PM"
        drawn.append(Drawn(name=name, text=text, color=color, is_app=name in colors, time=time))
    return draw(f"# {CHANNEL}", drawn)


def is_good(text: str) -> bool:
    """Whether the text of a picture shows what the program does, on one screen."""
    before, asked, after = text.partition(f" {PERSON} ")
    speakers = re.compile(rf"#{CHANNEL} (\w+)")
    everybody = {spec.display_name for spec in AGENTS.values()} <= set(speakers.findall(before))
    answered = len(speakers.findall(after)) > AFTERWARDS
    return bool(asked) and TOPIC in before and everybody and answered and len(text.splitlines()) <= LINES


def main() -> int:
    for _ in range(TRIES):
        console, messages = asyncio.run(make())
        text = console.export_text(clear=False)
        if is_good(text):
            svg = console.export_svg(title="make local")
            svg = re.sub(r"@font-face \{[^{}]*\}\s*", "", svg)  # it loads nothing
            (DOCS / "conversation.svg").write_text(svg, encoding="utf-8")
            (DOCS / "channel.svg").write_text(channel_svg(messages), encoding="utf-8")
            print(text)
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
