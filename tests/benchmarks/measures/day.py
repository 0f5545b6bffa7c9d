"""A day of a server within minutes: bots that converse, people who ask, react, delete and have themselves forgotten.

The record and the console are on and a page follows the live events. The clocks of the program and of Discord are moved
on an hour at a time; so is every key of Redis that expires later than leases do. Real time, which the rest follows
(retries, rate limits of Discord, connections), passes as well, but there is little of it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from agent_config import AGENTS
from agentic.console.app import free_port
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.server import locate_redis
from tests.benchmarks.processes import MEGABYTE, Broken, Child
from tests.benchmarks.stage import Bench, NotHere, Stage
from tests.benchmarks.table import Row

HOURS = 24
HOUR = 3600.0
SETTLED = 8  # hours until caches and windows are as full as they get
CHANNELS, PEOPLE = 6, 10
HISTORY = 400  # messages a channel: as many as a transcript keeps
MENTIONS, REACTIONS, DELETIONS = 8, 4, 1  # an hour
CONVERSING = 4  # channels an hour
FORGETTING_HOUR = 12
SHORT_LIVED = 120  # seconds: keys that are renewed or expire while we measure
WITHIN = 120.0  # seconds for what must happen in an hour of the day
PROMPT_BYTES = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%words%' OR name LIKE 'quotes%'"  # and indexes
MOST_GROWTH = 10.0  # MB in the hours after SETTLED: a day does not fill all caches that have a bound
SHOWN_TYPES = 4
# KEYS none; ARGV: milliseconds by which the keys expire sooner, the least remaining time of those that do
MOVE_ON = """
local cursor, moved = '0', 0
repeat
  local found = redis.call('SCAN', cursor, 'COUNT', 500)
  cursor = found[1]
  for _, key in ipairs(found[2]) do
    local left = redis.call('PTTL', key)
    if left > tonumber(ARGV[2]) and not string.find(key, 'owner', 1, true) then
      redis.call('PEXPIRE', key, math.max(1, left - tonumber(ARGV[1])))
      moved = moved + 1
    end
  end
until cursor == '0'
return moved
"""


@dataclass(frozen=True)
class Hour:
    """The state at the end of an hour. Sizes in bytes; `turns` in the record so far."""

    memory: float
    redis: int
    file: int
    turns: int
    tasks: int
    open_files: int
    types: Mapping[str, int]


@dataclass
class Page:
    """An open page of the console: reads the live events and counts them."""

    port: int
    events: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self.port}") as session:
            timeout = aiohttp.ClientTimeout(total=None)
            async with session.get("/api/live/events", timeout=timeout) as answer:
                answer.raise_for_status()
                reading = asyncio.create_task(self._read(answer))
                try:
                    yield
                    if reading.done():
                        raise Broken("the page's event stream ended")
                finally:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        async for line in answer.content:
            if line.startswith(b"event: "):
                self.events[line[7:].decode().strip()] += 1


@dataclass
class Day:
    """Drives the processes through the hours."""

    stage: Stage
    program: Child
    redis: RedisConnection
    conversing: int  # channels an hour
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def record(self) -> Path:
        return self.stage.data_dir / "record.db"

    async def hour(self, number: int) -> Hour:
        for each in (self.program, self.stage.discord):
            await each.ask("move_on", seconds=HOUR)
        await self.redis.call(lambda redis: redis.eval(MOVE_ON, 0, int(HOUR * 1000), SHORT_LIVED * 1000))
        places = self.rng.sample(list(self.stage.channels.values()), self.conversing)
        talk = self.program.ask("converse_all", channels=places, patience=WITHIN)
        posted, _ = await asyncio.gather(talk, self._people(number))
        if not posted:
            raise Broken("no conversation took place")
        await self.stage.requests()  # else the stand-in keeps them
        return await self._measured()

    async def _people(self, number: int) -> None:
        places = list(itertools.product(AGENTS, self.stage.channels))
        asked = self.rng.sample(places, MENTIONS)  # two mentions in one place may get one answer
        lines = [(f"person-{self.rng.randrange(PEOPLE)}", agent, channel) for agent, channel in asked]
        answered = await self.stage.mention(lines, within=WITHIN)
        if missing := sum(not each.answers for each in answered):
            raise Broken(f"{missing} of {len(lines)} mentions of hour {number} went unanswered")
        for person, _, channel in lines[:REACTIONS]:
            await self.stage.discord.ask("react", person=person, channel=channel, emoji="🔥")
        for person, _, channel in lines[:DELETIONS]:
            await self.stage.discord.ask("take_back", person=person, channel=channel)
        if number == FORGETTING_HOUR:
            person, _, channel = lines[0]
            await self.stage.discord.ask("use", person=person, channel=channel, command="forget me")

    async def _measured(self) -> Hour:
        turns = await self._recorded()
        held: dict[str, Any] = await self.program.ask("held")
        info = await self.redis.call(lambda redis: redis.info("memory"))
        return Hour(
            memory=self.program.megabytes(),
            redis=int(info["used_memory"]),
            file=sum(each.stat().st_size for each in self.record.parent.glob("record.db*")),
            turns=turns,
            tasks=held["tasks"],
            open_files=self.program.open_files(),
            types=held["types"],
        )

    async def _recorded(self) -> int:
        """Wait until the recorder has read all that was added to the streams; return the recorded turns."""
        async with asyncio.timeout(WITHIN):
            while _read_positions(self.record) != await self._added():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        return _one_number(self.record, "SELECT count(*) FROM turns")

    async def _added(self) -> int:
        streams = [stream(agent) for agent in AGENTS for stream in (keys.turns, keys.words)]
        counts = [keys.entries_counted(stream) for stream in streams]
        found = await self.redis.call(lambda redis: redis.mget(counts))
        return sum(int(each or 0) for each in found)


async def day(bench: Bench) -> list[Row]:
    """Live through the hours; `--quick` has fewer conversations in each."""
    page = Page(free_port("127.0.0.1", 8988))
    async with AsyncExitStack() as stack:
        surroundings = bench.stage("day", channels=CHANNELS, people=PEOPLE, history=HISTORY, varied=True)
        stage = await stack.enter_async_context(surroundings)
        program = await stack.enter_async_context(stage.settled_program(**_settings(page.port)))
        redis = await stack.enter_async_context(_redis(stage.data_dir))
        await stack.enter_async_context(page.open())
        lived = Day(stage, program, redis, conversing=bench.size(CONVERSING, 1))
        hours = [await lived.hour(number) for number in range(1, HOURS + 1)]
        return _rows(hours, lived.record, page.events)


def _settings(port: int) -> dict[str, str]:
    return {
        "CONSOLE": "true",
        "CONSOLE_PORT": str(port),
        "COORDINATOR_TURN_DELAY_MIN": "0",
        "COORDINATOR_TURN_DELAY_MAX": "0",
        "AGENT_MAX_DAILY_UNASKED": "none",
    }


@asynccontextmanager
async def _redis(data_dir: Path) -> AsyncIterator[RedisConnection]:
    """The program's Redis. Raises NotHere without one that can be shared."""
    async with locate_redis(None, data_dir, use_default_port=False) as place:
        if not isinstance(place.address, str):
            raise NotHere("no redis-server was found")
        async with RedisConnection(place.address) as link:
            yield link


def _read_positions(file: Path) -> int:
    return _one_number(file, "SELECT coalesce(sum(last_n), 0) FROM positions WHERE stream LIKE 'agent:%'")


def _one_number(file: Path, query: str) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return int(db.execute(query).fetchone()[0])


def _rows(hours: Sequence[Hour], file: Path, events: Mapping[str, int]) -> list[Row]:
    early, late = hours[SETTLED - 1], hours[-1]
    turns, since = late.turns, late.turns - early.turns
    prompts = _one_number(file, PROMPT_BYTES)
    rest = _one_number(file, "SELECT sum(pgsize) FROM dbstat") - prompts
    grown = Counter(late.types)
    grown.subtract(early.types)
    most = ", ".join(f"{name} {count:+}" for name, count in grown.most_common(SHOWN_TYPES))
    course = ", ".join(f"{hour.memory:.0f}" for hour in hours[SETTLED - 1 :: 4])
    return [
        Row(
            metric=f"memory, hour {SETTLED} to {HOURS} of a day",
            value=_slope([hour.memory for hour in hours[SETTLED - 1 :]]) * (HOURS - SETTLED),
            unit="MB",
            target=MOST_GROWTH,
            note=f"{turns} turns, {since} of them in these hours; {course} MB every four hours",
        ),
        Row(metric="objects", value=sum(grown.values()), note=f"more than at hour {SETTLED}; most: {most}"),
        Row(metric="tasks", value=late.tasks - early.tasks, note=f"more, of {late.tasks}"),
        Row(
            metric="open files",
            value=late.open_files - early.open_files,
            note=f"more, of {late.open_files}; of HTTP, which outlive the few minutes",
        ),
        Row(
            metric="Redis, bytes a turn",
            value=(late.redis - early.redis) / since,
            note=f"{late.redis / MEGABYTE:.1f} MB at the end; turns of seven days are kept",
        ),
        Row(
            metric="record, bytes of a prompt",
            value=prompts / turns,
            note="compressed, with what it quotes and indexes",
        ),
        Row(
            metric="record, bytes of a turn without it",
            value=rest / turns,
            note=f"{late.file / MEGABYTE:.1f} MB all files; the page saw {sum(events.values())} events",
        ),
    ]


def _slope(values: Sequence[float]) -> float:
    """By least squares, a step."""
    return statistics.linear_regression(range(len(values)), values).slope
