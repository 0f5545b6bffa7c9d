"""The record with 100,000 turns: how long the console waits for what it shows, and how many turns a recorder writes.

No processes: the file is filled as tests fill it, and read by the functions that the console uses. A recorder writes
turns, each with its call, words of 6,000 characters and a post, in the batches in which it reads them; the reading of
Redis before it is not measured.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import aiosqlite

from agentic.record.database import connect, migrate
from agentic.record.queries.posts import conversation_of, posts_of_conversation
from agentic.record.queries.statistics import read_costs
from agentic.record.queries.turns import TurnFilter, turns_of_conversation, turns_over_time, turns_page, whole_turn
from agentic.record.rows import Rules, days_in
from agentic.record.stream_reader import Position, Received
from agentic.record.writing import write
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import CallRecord, CallWords, Entry, HistoryMessage, PostWords
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row, median, milliseconds
from tests.support.records import MODELS, NOW, fill

DAYS = 90
TODAY, DAYS_AGO_30, DAYS_AGO_90 = "2026-11-22", "2026-10-24", "2026-08-25"
PAGE_MS = 50
BATCH = 200  # entries
WORDS = 6000  # characters of a call
STREAM = "agent:grok:turns"

Read = Callable[[aiosqlite.Connection], Awaitable[object]]


async def record(bench: Bench) -> list[Row]:
    turns = bench.size(100_000, 20_000)
    path = bench.folder / "record.db"
    await asyncio.to_thread(fill, path, turns, days=DAYS)
    note = f"{turns:,} turns, {size_of(path) / 1024**2:.0f} MB"
    reads: tuple[tuple[str, Read, float | None], ...] = (
        ("a page of the record's turns", lambda db: turns_page(db, TurnFilter()), PAGE_MS),
        (
            "a page of one bot's failures",
            lambda db: turns_page(db, TurnFilter(agent="grok", outcome="failed")),
            PAGE_MS,
        ),
        ("a page of the most expensive turns", lambda db: turns_page(db, TurnFilter(), order="cost"), PAGE_MS),
        ("a page of a search that finds nothing", lambda db: turns_page(db, TurnFilter(text="no such words")), None),
        (
            "a page of a search in prompts that finds nothing",
            lambda db: turns_page(db, TurnFilter(text="no such words", within="prompts")),
            None,
        ),
        ("the number of turns over time", lambda db: turns_over_time(db, TurnFilter(), NOW, 60), None),
        ("one turn with its prompt", lambda db: whole_turn(db, "grok", "showcase-4"), PAGE_MS),
        ("a conversation with its posts", _conversation, PAGE_MS),
        ("the costs of 30 days", lambda db: read_costs(db, DAYS_AGO_30, TODAY), None),
        ("the costs of 90 days", lambda db: read_costs(db, DAYS_AGO_90, TODAY), None),
    )
    async with connect(path) as db:
        rows = [
            Row(metric=name, value=await _typical(db, read, bench.size(40, 10)), unit="ms", target=target, note=note)
            for name, read, target in reads
        ]
    return [*rows, await _writing(bench)]


async def _conversation(db: aiosqlite.Connection) -> None:
    await conversation_of(db, "showcase")
    await turns_of_conversation(db, "showcase")
    await posts_of_conversation(db, "showcase")


async def _typical(db: aiosqlite.Connection, read: Read, times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await read(db)
        took.append(time.perf_counter() - began)
    return milliseconds(median(took))


async def _writing(bench: Bench) -> Row:
    """Microseconds a turn, in a file of its own."""
    path, count = bench.folder / "written.db", bench.size(4000, 1000)
    await asyncio.to_thread(migrate, path)
    entries = list(_entries(count))
    async with connect(path, writable=True) as db:
        began = time.perf_counter()
        await _write(db, entries)
        took = time.perf_counter() - began
    return Row(
        metric="recording a turn with its words",
        value=milliseconds(took / count),
        unit="ms",
        note=f"{count / took:.0f} turns a second, {size_of(path) / count / 1024:.1f} KB each",
    )


async def _write(db: aiosqlite.Connection, entries: Sequence[Entry | TurnRecord]) -> None:
    at: dict[str, Position] = {}
    for end in range(BATCH, len(entries) + BATCH, BATCH):
        position = Position(f"{end}-0", end)
        await write(db, [Received(STREAM, (), tuple(entries[end - BATCH : end]), position)], at, Rules(days_in(UTC)))
        at = {STREAM: position}


def _entries(count: int) -> Iterator[Entry | TurnRecord]:
    rng = random.Random(5)
    vocabulary = ["".join(rng.choices("aeioulnrst", k=rng.randint(2, 9))) for _ in range(3000)]
    for number in range(count):
        agent = rng.choice(list(MODELS))
        model, at, message = MODELS[agent][0], NOW + number, (int(NOW) + number) << 22
        own: dict[str, Any] = {"agent": agent, "turn_id": f"t{number}", "channel_id": 1, "at": at}
        call = CallRecord(n=0, model=model, at=at, seconds=2.0, input_tokens=2000, output_tokens=80, cost_usd=0.001)
        yield TurnRecord(
            id=f"t{number}",
            agent=agent,
            at=at,
            kind="instruction",
            trigger="round",
            channel_id=1,
            model=model,
            outcome="posted",
            posted=(message,),
            calls=(call,),
        )
        said = [" ".join(rng.choices(vocabulary, k=20)) for _ in range(WORDS // 120)]
        history = tuple(HistoryMessage(role="user", text=text) for text in said)
        yield CallWords(**own, n=0, model=model, system="You are a bot.", history=history, completion=said[0])
        yield PostWords(**own, message_id=message, text=said[0])


def size_of(path: Path) -> int:
    """In bytes, with what is not yet written back from the write-ahead log."""
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))
