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
import textwrap
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

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
    users = {ids[name]: (spec.display_name, f"#{spec.colour:06x}") for name, spec in AGENTS.items()}
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
    """Draw the messages as a channel in a chat program: pictures, names, texts."""
    names = {
        author["id"]: author.get("global_name") or author["username"] for author in (m["author"] for m in messages)
    }
    colors = {spec.display_name: f"#{spec.colour:06x}" for spec in AGENTS.values()} | {PERSON: "#f0b232"}
    parts = []
    top = 66
    for number, message in enumerate(messages):
        name = names[message["author"]["id"]]
        text = re.sub(r"<@!?(\d+)>", lambda found: f"@{names[found[1]]}", message["content"]).partition("\n-# ")[0]
        lines = [line for part in text.splitlines() for line in textwrap.wrap(part, 88)]
        app = "" if name == PERSON else '<tspan dx="8" class="app">APP</tspan>'
        parts.append(
            f'<circle cx="36" cy="{top + 18}" r="19" fill="{colors[name]}"/>'
            f'<text x="36" y="{top + 24}" class="letter">{name[0]}</text>'
            f'<text x="72" y="{top + 11}"><tspan class="name" fill="{colors[name]}">{name}</tspan>{app}'
            f'<tspan dx="8" class="small">8:{40 + number} PM</tspan></text>'
        )
        for index, line in enumerate(lines):
            marked = re.sub(r"@(\w+)", r'<tspan fill="#c9cdfb">@\1</tspan>', escape(line))
            parts.append(f'<text x="72" y="{top + 33 + 21 * index}" class="text">{marked}</text>')
        top += 38 + 21 * len(lines)
    style = (
        "text{font-family:'gg sans','Noto Sans','Helvetica Neue',Helvetica,Arial,sans-serif;font-size:15px}"
        ".name{font-weight:600}.small{fill:#949ba4;font-size:12px}.app{fill:#a5adff;font-size:10px;font-weight:700}"
        ".text{fill:#dbdee1}.letter{fill:#fff;font-weight:700;font-size:17px;text-anchor:middle}"
        ".head{fill:#f2f3f5;font-weight:700;font-size:16px}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {top + 6}"><style>{style}</style>'
        f'<rect width="780" height="{top + 6}" rx="8" fill="#313338"/><path d="M0 48H780" stroke="#26282c"/>'
        f'<text x="20" y="30" class="head"># {CHANNEL}</text>{"".join(parts)}</svg>\n'
    )


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
