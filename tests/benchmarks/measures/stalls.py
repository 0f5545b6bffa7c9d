"""Stalls of the program's event loop during ordinary traffic: talk, mentions, two conversations of the bots."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

from agent_config import AGENTS
from tests.benchmarks.stage import Bench, Mention, Stage
from tests.benchmarks.table import Row, milliseconds

THRESHOLD = 0.02  # seconds
CHANNELS = 6  # the bots converse in two of them
MODEL_SECONDS = 0.8
REST_SECONDS = 0.1
LINES_A_SECOND = 3.0
MENTIONS = 1 / 3  # of the lines
CONVERSING = {"COORDINATOR_TURN_DELAY_MIN": "0.5", "COORDINATOR_TURN_DELAY_MAX": "1.5"}


async def stalls(bench: Bench) -> list[Row]:
    """Watch the loop while people write three lines a second, one of them to a bot."""
    seconds = min(bench.seconds, 10.0) if bench.quick else bench.seconds
    async with bench.stage("stalls", channels=CHANNELS, people=10, history=60, delay=MODEL_SECONDS) as stage:
        await stage.discord.ask("rest_delay", seconds=REST_SECONDS)
        async with stage.settled_program(**CONVERSING) as program:
            await stage.mention([("person-0", agent, "channel-0") for agent in AGENTS])
            await program.ask("watch_stalls", threshold=THRESHOLD)
            for channel in list(stage.channels.values())[:2]:
                await program.ask("converse", channel=channel)
            cpu, posts = program.cpu_seconds(), await stage.discord.ask("posts")
            asked, unanswered = await _traffic(stage, seconds)
            busy = (program.cpu_seconds() - cpu) / seconds
            found: list[dict[str, Any]] = await program.ask("stalls")
            posts = await stage.discord.ask("posts") - posts
    traffic = f"{asked} mentions, {unanswered} unanswered, {posts} posts of bots, {busy:.0%} of one processor"
    return _rows(found, seconds, traffic)


def _rows(found: list[dict[str, Any]], seconds: float, traffic: str) -> list[Row]:
    ours = [stall for stall in found if stall["cpu"] >= THRESHOLD / 2]
    longest = max((stall["late"] for stall in found), default=0.0)
    name = f"stalls over {milliseconds(THRESHOLD):.0f} ms in {seconds:.0f} s of traffic"
    places = Counter(_place(stall) for stall in ours)
    worst = "; ".join(f"{count} × {place}" for place, count in places.most_common(3))
    return [
        Row(metric=name, value=len(found), target=0, note=traffic),
        Row(metric="of them with the processor in our hands", value=len(ours), target=0, note=worst),
        Row(metric="longest stall", value=milliseconds(longest), unit="ms"),
    ]


def _place(stall: dict[str, Any]) -> str:
    if stall["collecting"] > stall["late"] / 2:
        return "garbage collection"
    return str(stall["where"]) or "unknown"


async def _traffic(stage: Stage, seconds: float) -> tuple[int, int]:
    """Return the number of mentions, and of unanswered ones."""
    rng = random.Random(1)
    agents, channels = list(AGENTS), list(stage.channels)
    asked: list[Mention] = []
    began = time.perf_counter()
    due = began
    while (due := due + rng.expovariate(LINES_A_SECOND)) < began + seconds:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        agent = rng.choice(agents) if rng.random() < MENTIONS else None
        asked += await stage.say([(f"person-{rng.randrange(10)}", agent, rng.choice(channels))])
    answered = await stage.answers(asked, within=30.0)
    return len(asked), sum(not one.answers for one in answered)
