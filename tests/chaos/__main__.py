"""`make chaos`: every scenario with varied seeds, and one table of what came of it. Exit code 1 if anything is wrong.

python -m tests.chaos --only redis            the rows of a group (kills, rooms, signal, redis, gateway, tools, models,
                                              processes, ports, pauses, orders)
python -m tests.chaos --only "op 9" --seeds 3 rows by a part of their name, each with so many seeds
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import discord.http

from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.chaos.tally import Tally, heading, row, total

MOST_SECONDS = 240.0  # for one trial


async def trial(scenario: Scenario, seed: int) -> Tally:
    """One trial in a folder of its own; one that breaks is a fault like any other."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            tally = await asyncio.wait_for(scenario.run(Path(folder), seed), MOST_SECONDS)
        except Exception as error:  # the outermost edge: one that fails must not hide the others
            slowest = time.monotonic() - began
            frames = ((Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__))
            place = " > ".join(f"{file.name}:{line}" for file, line in frames if file.parent == Path(__file__).parent)
            tally = Tally(slowest=slowest, wrong=(f"the trial failed at {place}: {type(error).__name__}: {error}",))
    for fault in tally.faults():
        print(f"{scenario.name}, seed {seed}: {fault}", file=sys.stderr, flush=True)
    return tally


async def trials(scenario: Scenario, seeds: int) -> Tally:
    places = asyncio.Semaphore(scenario.at_once)

    async def one(seed: int) -> Tally:
        async with places:
            return await trial(scenario, seed)

    home = discord.http.Route.API_BASE_URL  # trials side by side do not put it back in their order
    try:
        return total(await asyncio.gather(*(one(seed) for seed in range(seeds))))
    finally:
        discord.http.Route.API_BASE_URL = home


async def main(chosen: Sequence[Scenario], seeds: int | None) -> int:
    rows = []
    for scenario in chosen:
        began = time.monotonic()
        rows.append((scenario.name, await trials(scenario, seeds or scenario.runs)))
        print(f"{scenario.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(heading())
    for name, tally in rows:
        print(row(name, tally))
    everything = total(tally for _, tally in rows)
    print(row("all", everything))
    return 1 if everything.faults() else 0


def picked(only: str) -> list[Scenario]:
    words = [word.strip() for word in only.split(",")]
    return [s for s in SCENARIOS if any(word == s.group or word in s.name for word in words)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Bad days, again and again.")
    parser.add_argument("--only", default="", help="groups or parts of names, by commas")
    parser.add_argument("--seeds", type=int, help="trials of each row instead of its own number")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    selected = picked(options.only)
    if not selected:
        parser.error(f"--only names nothing; groups are {', '.join(sorted({s.group for s in SCENARIOS}))}")
    sys.exit(asyncio.run(main(selected, options.seeds)))
