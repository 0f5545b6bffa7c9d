"""The program and its console, with markup in every text that a person, a bot, a model or a file can bring.

    python -m tests.browser.hostile FOLDER      prints the console's address; ends with its standard input

The record has it too, in every column of every table that holds a text, and in the words of a call.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import sys
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agent_config import AGENTS, Settings, load_settings
from agentic.console.app import free_port
from agentic.llm.types import Message, Prompt, Reply, Usage
from agentic.local.discord.channels import small_world
from agentic.local.discord.messages import add_reaction
from agentic.local.discord.server import DiscordStandIn, routed_to
from agentic.local.discord.world import World
from agentic.local.voices.voice import ScriptedVoice
from agentic.personas.files import PERSONA_FILES
from agentic.record.database import connect_blocking, migrate
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import ModelMakers, ProcessConfig
from agentic.wire.entries import CallWords, HistoryMessage

PAYLOAD = (
    "\"'><img src=x onerror=alert(1)><script>alert(2)</script><svg/onload=alert(3)>"
    "<a href=javascript:alert(4)>click</a> [click](javascript:alert(5)) ![x](http://evil.example/x.png)"
    " <http://evil.example/> {{alert(6)}} ${alert(7)} &lt;b&gt;"
)
SHORT = "<img src=x onerror=alert(8)>"
TAG = "onerror=alert"  # is in every page that shows a payload, as text
PERSON = f"Eve {PAYLOAD}"
CHANNEL = f"den {PAYLOAD}"
AWAY = "claude"  # the agent whose persona the files carry


class HostileVoice(ScriptedVoice):
    """A model that answers with markup in each field of its decision."""

    async def complete(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        decision = {"text": PAYLOAD, "topic": PAYLOAD, "generate_image": True, "image_prompt": PAYLOAD}
        labels = Prompt.of(prompt).labels or {}
        if message := labels.get("last_message_id"):
            decision |= {"react_emoji": "🔥", "react_to_message_id": message}
        text = json.dumps(decision)
        usage = Usage(model=self.name, calls=1, input_tokens=1000, output_tokens=50)
        return Reply(text=text, usage=usage, model=self.name)


def new_world() -> World:
    bots = {name: (f"{spec.display_name} {PAYLOAD}", f"token-{name}") for name, spec in AGENTS.items()}
    world = small_world(bots, (CHANNEL, "casual"), (PERSON,), guild_name=PAYLOAD)
    world.channel(CHANNEL).topic = PAYLOAD
    return world


def settings_of(world: World, folder: Path) -> Settings:
    personas = folder / "personas"
    for name in AGENTS:
        for file in PERSONA_FILES[:5]:
            place = personas / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            front = f"---\ndisplay_name: {json.dumps(SHORT)}\n---\n" if file == "identity.md" else ""
            place.write_text(f"{front}- 2026-11-01 {PAYLOAD}\n", encoding="utf-8")
    channels = ",".join(f"{world.channel(name).id}:casual" for name in (CHANNEL, "casual"))
    return load_settings(
        {
            **{spec.token_setting: world.app(name).token for name, spec in AGENTS.items()},
            "CHANNEL_THEME_MAP": channels,
            "DATA_DIR": str(folder / "data"),
            "PERSONAS_DIR": str(personas),
            "CONSOLE": "true",
            "CONSOLE_PORT": str(free_port("127.0.0.1", 8899)),
            "COORDINATOR_TURN_DELAY_MIN": "0",
            "COORDINATOR_TURN_DELAY_MAX": "0",
            "COORDINATOR_MAX_ROUNDS": "1",
            "AGENT_COOLDOWN_SECONDS": "0",
            "TIMEZONE": "UTC",
        },
        None,
    )


def fill_record(path: Path) -> None:
    """Two rows in each table: all texts hostile; and the same of an agent that there is, so that pages lead to it."""
    migrate(path)
    now = time.time()
    with closing(connect_blocking(path, writable=True)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table.startswith("sqlite_") or table in ("migrations", "positions"):
                continue
            for number, agent in enumerate((PAYLOAD, AWAY), 1):
                _insert(connection, table, number, agent, now - number)


def _insert(connection: sqlite3.Connection, table: str, number: int, agent: str, now: float) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    ids = dict.fromkeys(("id", "turn_id", "conversation_id"), f"{PAYLOAD}{number}")
    texts = dict.fromkeys(("members", "left_members", "ledger", "agreed", "unsettled"), json.dumps([PAYLOAD]))
    lists = {
        **texts,
        "sides": json.dumps({PAYLOAD: PAYLOAD}),
        **dict.fromkeys(("arguments", "message_ids", "people"), "[]"),
    }
    by_name = {**ids, **lists, "agent": agent, "day": day, "data": _words(agent), "removed": None}
    by_kind = {"TEXT": PAYLOAD, "REAL": now, "INTEGER": number}
    columns = connection.execute(f"PRAGMA table_info({table})")  # a name of ours
    kinds = {name: kind for _, name, kind, *_ in columns}
    row = {
        name: number if (name, kind) == ("id", "INTEGER") else by_name.get(name, by_kind.get(kind))
        for name, kind in kinds.items()
    }
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))  # noqa: S608


def _words(agent: str) -> bytes:
    words = CallWords(
        agent=agent,
        turn_id=PAYLOAD,
        n=1,
        channel_id=1,
        at=1.0,
        model=PAYLOAD,
        system=PAYLOAD,
        stable=20,
        persona=PAYLOAD,
        history=(HistoryMessage(role=PAYLOAD, text=PAYLOAD, cache=True), HistoryMessage(role="user", text=PAYLOAD)),
        text=PAYLOAD,
        prefill=PAYLOAD,
        options={PAYLOAD: PAYLOAD, "tools": [{"name": PAYLOAD}]},
        completion=PAYLOAD,
        reasoning=PAYLOAD,
        stop=PAYLOAD,
        tool_calls=({"name": PAYLOAD, "arguments": {PAYLOAD: PAYLOAD}},),
        decision={"text": PAYLOAD, PAYLOAD: PAYLOAD},
        error=PAYLOAD,
    )
    return zlib.compress(words.model_dump_json().encode())


async def misbehave(discord: DiscordStandIn, runtime: Runtime) -> None:
    """A person who writes, attaches and reacts; then a conversation of the bots."""
    world = discord.world
    channel = world.channel(CHANNEL)
    name = PAYLOAD.replace("/", "")
    files = [(f"{name}.png", b"no picture", "image/png"), (f"{name}.txt", PAYLOAD.encode(), "text/plain")]
    said = await discord.say(PERSON, channel.id, f"<@{world.app(AWAY).user.id}> {PAYLOAD}", attachments=files)
    message = channel.messages[int(said["id"])]
    add_reaction(discord.world, channel, message, world.user(PERSON).id, (4711, PAYLOAD))
    assert runtime.coordinator is not None
    await runtime.coordinator.start_conversation(channel.id, topic=PAYLOAD)


async def main(folder: Path) -> None:
    world = new_world()
    settings = settings_of(world, folder)
    fill_record(settings.record_file)
    async with DiscordStandIn(world) as discord:
        with routed_to(discord):
            setup = ProcessConfig(
                settings=settings,
                agents=tuple(AGENTS),
                models=ModelMakers(make=lambda agent: HostileVoice(agent.name, rng=random.Random(1))),
                use_default_redis=False,
            )
            async with running(setup) as runtime:
                runtime.stopping.on_signals()
                await runtime.wait_online()
                await misbehave(discord, runtime)
                print(runtime.console, flush=True)
                await runtime.stop.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
