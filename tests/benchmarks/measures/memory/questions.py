"""python -m tests.benchmarks.measures.memory.questions [--messages N]

A message log of 60 channels, filled at full speed with replies and words as frequent as in a language. Prints how long
each question to it takes, and the merge of the index after a deletion.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC
from functools import partial
from pathlib import Path

import aiosqlite

from agentic.ids import MAX_ID, id_at
from agentic.record import memories as messages
from agentic.record.database import connect, connect_blocking, migrate
from agentic.record.idle_queries import IdleMemory
from agentic.record.recall import MemoryIndex, Reach, channels, recall
from agentic.record.rows import Rules, days_in
from agentic.record.stream_reader import Position, Received
from agentic.record.writing import read_positions, write
from agentic.wire.entries import DeletionNote, Entry, LoggedMessage

AT = 1_790_000_000.0
CHANNELS = range(100, 160)
PEOPLE = 2_000
WORDS = 40_000
BATCH = 200
TRIES = 7


def vocabulary(chance: random.Random) -> list[str]:
    return ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10))) for _ in range(WORDS)]


def log_of(count: int, words: list[str], chance: random.Random) -> Iterator[LoggedMessage]:
    """Messages, six of ten with a parent, four of ten of the agent. Words are as frequent as in a language (Zipf)."""
    frequencies = list(itertools.accumulate(1 / (place + 3) for place in range(len(words))))
    last: dict[int, int] = {}
    for number in range(count):
        channel, at = chance.choice(CHANNELS), AT - 20.0 * (count - number)
        agent = chance.random() < 0.4
        yield LoggedMessage(
            message_id=id_at(at),
            channel_id=channel,
            guild_id=1,
            author="agent" if agent else "person",
            author_id=None if agent else chance.randint(1, PEOPLE),
            agent="penny" if agent else None,
            name="Penny" if agent else "Ann",
            text=" ".join(chance.choices(words, cum_weights=frequencies, k=chance.randint(4, 30))),
            reply_to=last.get(channel) if chance.random() < 0.6 else None,
            at=at,
            read_at=at,
        )
        last[channel] = id_at(at)


async def fill(path: Path, count: int, words: list[str]) -> None:
    rules, begun = Rules(days_in(UTC)), time.perf_counter()
    async with connect(path, writable=True) as db:
        index = await MemoryIndex.prepare(db)
        said = log_of(count, words, random.Random(2))
        while batch := list(itertools.islice(said, BATCH)):
            await put(db, batch, rules)
        print(f"{count} messages written in {time.perf_counter() - begun:.0f} s")
        await put(db, [DeletionNote(channel_id=1, message_ids=(id_at(AT - 200),), at=AT)], rules)
        steps = []
        begun = time.perf_counter()
        while await index.step():
            steps.append(time.perf_counter() - begun)
            begun = time.perf_counter()
        print(f"index merged in {sum(steps):.1f} s, {len(steps)} steps, the longest {max(steps) * 1000:.0f} ms")


async def put(db: aiosqlite.Connection, entries: Sequence[Entry], rules: Rules) -> None:
    place = Position("1-0", 1)
    known = await read_positions(db)
    await write(db, [Received("measured", (), tuple(entries), place)], known, rules)


def show(name: str, question: Callable[[], object]) -> None:
    took = []
    for _ in range(TRIES):
        begun = time.perf_counter()
        question()
        took.append(time.perf_counter() - begun)
    print(f"{name:<42} {statistics.median(took) * 1000:7.1f} ms")


def ask(db: sqlite3.Connection, idle: IdleMemory, words: list[str]) -> None:
    newest = messages.newest_of(db, "penny")
    reach = Reach(dict.fromkeys(channels(db), (0, MAX_ID)))
    queries = {"a rare word": words[5000], "a frequent one": words[300], "seven": " ".join(words[50:5000:800])}
    for name, query in queries.items():
        show(f"recall, {name}", partial(recall, db, query, reach, 5))
    show("chain", lambda: messages.chain(db, newest, 20))
    show("newest", lambda: messages.newest_of(db, "penny"))
    show("to_summarise", lambda: asyncio.run(idle.to_summarise("penny", AT)))
    show("to_profile", lambda: asyncio.run(idle.to_profile("penny")))
    show("hanging", lambda: asyncio.run(idle.hanging("penny", AT, 5)))
    show("people, none with a profile", lambda: asyncio.run(idle.people("penny", 5)))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.measures.memory.questions", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--messages", type=int, default=100_000)
    options = parser.parse_args()
    words = vocabulary(random.Random(1))
    with tempfile.TemporaryDirectory(prefix="log-") as folder:
        path = Path(folder) / "record.db"
        migrate(path)
        asyncio.run(fill(path, options.messages, words))
        print(f"{path.stat().st_size / options.messages:.0f} bytes a message")
        with closing(connect_blocking(path)) as db:
            ask(db, IdleMemory(path), words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
