"""python -m tests.benchmarks.measures.record_days [--days N] [--turns N] [--prompts DAYS] [--all DAYS]

A day of a server's turns, or several, through the record at full speed: what turns leave in Redis, the recorder, the
file, retention. The clock is driven, models and Discord are left out. Prints memory and the file's size by simulated
hour, and bytes a turn. docs/maintain.md predicts sizes with its numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

from agentic.ids import id_at
from agentic.process.redaction import Redactor
from agentic.record.database import connect
from agentic.record.recorder import Recorder
from agentic.record.retention import RetentionPolicy
from agentic.record.stream_reader import RecordReader
from agentic.state.forget_requests import ForgetRequests
from agentic.state.leases import Lease
from agentic.state.record_stream import RecordWriter
from agentic.state.shared_state import SharedState
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import (
    CallRecord,
    CallWords,
    ConversationNote,
    HistoryMessage,
    PostWords,
    ReactionNote,
    RoomWords,
    SearchWords,
)
from agentic.wire.server import locate_redis
from tests.benchmarks.texts import Chat

AGENTS = ("chatgpt", "claude", "gemini", "grok")
CHANNELS = tuple(range(1, 7))
BEGIN = 1_795_305_600.0  # 2026-11-22 00:00 UTC
HOUR = 3600.0
WINDOW = range(40, 81)  # messages: a window grows until it is cut
SYSTEM = 4800  # characters of persona, theme and contract, as local mode's
SCHEMA = 1700  # characters of the answer's form
MESSAGE = 120  # characters, on average


class Channels:
    """The channels' messages, and the constant part of each bot's prompt."""

    def __init__(self, seed: int) -> None:
        self.chat = Chat(seed)
        self.system = {agent: self.chat.text(SYSTEM) for agent in AGENTS}
        self.schema = self.chat.text(SCHEMA)
        self.lines = {channel: [self.chat.text(MESSAGE) for _ in range(WINDOW.stop)] for channel in CHANNELS}


@dataclass
class TurnTexts:
    """Implements agentic.state.record_stream.TurnWords."""

    size: int
    call: CallWords
    post: PostWords

    def calls(self) -> Sequence[CallWords]:
        return (self.call,)

    def searches(self) -> Sequence[SearchWords]:
        return ()

    def posts(self) -> Sequence[PostWords]:
        return (self.post,)

    def rooms(self) -> Sequence[RoomWords]:
        return ()


@dataclass
class Day:
    """`now` is the driven clock."""

    said: Channels = field(default_factory=lambda: Channels(1))
    now: float = BEGIN
    made: int = 0

    def turn(self, number: int) -> tuple[TurnRecord, TurnTexts]:
        agent, channel = AGENTS[number % len(AGENTS)], CHANNELS[number // 30 % len(CHANNELS)]
        turn_id, message = f"i{number:08x}-{agent}", id_at(self.now) + number % 4_000_000
        lines = self.said.lines[channel]
        line = self.said.chat.text(MESSAGE * 2)
        lines.append(line)
        del lines[: max(0, len(lines) - WINDOW.stop)]
        seen = lines[-WINDOW[number % len(WINDOW)] :]
        history = (
            HistoryMessage(role="user", text="\n".join(seen[:-1]), cache=True),
            HistoryMessage(role="user", text=seen[-1]),
        )
        call = CallRecord(n=0, model="anthropic/a-model", at=self.now, seconds=3.0, input_tokens=4000, output_tokens=90)
        record = TurnRecord(
            id=turn_id,
            agent=agent,
            at=self.now,
            kind="instruction",
            trigger="round",
            conversation_id=f"c{number // 30}",
            round_number=number % 30 // 4,
            channel_id=channel,
            guild_id=1,
            model="anthropic/a-model",
            entries=len(seen),
            seconds=3.5,
            posted=(message,),
            outcome="posted",
            calls=(call,),
        )
        values: dict[str, Any] = {"agent": agent, "turn_id": turn_id, "channel_id": channel, "at": self.now}
        quoted: dict[int, int | None] = {message - 4096 * place: place % 9 for place in range(len(seen))}
        words = CallWords(
            **values,
            n=0,
            model="anthropic/a-model",
            system=self.said.system[agent],
            history=history,
            text="Answer now.",
            options={"schema": self.said.schema},
            completion=line,
            quoted=quoted,
        )
        post = PostWords(**values, message_id=message, text=line)
        return record, TurnTexts(20_000, words, post)


async def simulate(folder: Path, days: int, turns: int, policy: RetentionPolicy) -> None:
    day, path = Day(), folder / "record.db"
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(locate_redis(None, folder, use_default_port=False))
        link = await stack.enter_async_context(RedisConnection(place.address))
        state, writer = (
            SharedState(link, lambda: day.now, holder="day"),
            RecordWriter(link, Redactor(), prompts=policy.prompts != 0),
        )
        recorder = Recorder(
            path,
            RecordReader(link, AGENTS),
            Lease(link, keys.RECORDER_OWNER, holder="day"),
            ForgetRequests(link),
            policy=policy,
            timezone=UTC,
            clock=lambda: day.now,
        )
        recorder.poll_seconds = 0.01
        tasks = [asyncio.create_task(recorder.run()), asyncio.create_task(writer.run())]
        print(f"{'hour':>5} {'turns':>7} {'memory':>9} {'file':>9}   (MiB)")
        try:
            while not recorder.acting:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            for hour in range(days * 24):
                for _ in range(round(turns / 24 * (hour + 1)) - round(turns / 24 * hour)):
                    day.now += HOUR / (turns / 24)
                    await _take(day, state, writer)
                await _recorded(path, day.made * (2 if policy.prompts == 0 else 3))  # a turn, its call, its post
                if hour % max(1, days) == max(1, days) - 1:
                    _print_line(hour + 1, day.made, path)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    await _print_sizes(path, day.made)


async def _take(day: Day, state: SharedState, writer: RecordWriter) -> None:
    number = day.made
    record, words = day.turn(number)
    await state.turns.settle(record.agent, record.id, "{}", day.now + 90, record=record)
    writer.ended(record, words)
    begins = ConversationNote(id=f"c{number // 30}", channel_id=1, theme="casual", started_at=day.now)
    if number % 30 == 0:
        writer.note(begins)
    if number % 5 == 0:
        reaction = ReactionNote(message_id=record.posted[0], channel_id=1, user_id=number, emoji="🔥", at=day.now)
        writer.note(reaction)
    day.made += 1
    while writer.waiting > 50:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def _recorded(path: Path, entries: int) -> None:
    """Wait until so many entries of turns and words were recorded, those that retention has removed too."""
    async with asyncio.timeout(300):
        db = await connect(path)
        try:
            while True:
                [read] = await db.execute_fetchall("SELECT sum(last_n) FROM positions WHERE stream LIKE 'agent:%'")
                if (read[0] or 0) >= entries:
                    return
                await asyncio.sleep(0.02)
        finally:
            await db.close()


def _print_line(hour: int, turns: int, path: Path) -> None:
    memory = psutil.Process(os.getpid()).memory_info().rss
    files = sum(file.stat().st_size for file in path.parent.glob("record.db*"))
    print(f"{hour:>5} {turns:>7} {memory / 2**20:>9.1f} {files / 2**20:>9.1f}", flush=True)


async def _print_sizes(path: Path, turns: int) -> None:
    db = await connect(path)
    try:
        [row] = await db.execute_fetchall("SELECT count(*), avg(length(data)), sum(length(data)) FROM words")
        [kept] = await db.execute_fetchall("SELECT count(*) FROM turns")
        [pages] = await db.execute_fetchall(
            "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"
        )
    finally:
        await db.close()
    size = (pages[0] - pages[1]) * 4096
    print(f"{turns} turns taken, {kept[0]} kept, {row[0]} prompts kept of {row[1] or 0:.0f} bytes each, compressed")
    if kept[0]:
        print(f"{size} bytes in use: {size / kept[0]:.0f} a kept turn")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.measures.record_days", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2000, help="a day, of all agents (2000)")
    parser.add_argument("--prompts", type=float, default=7, help="RECORD_PROMPTS_DAYS (7)")
    parser.add_argument("--all", type=float, default=90, help="RECORD_DAYS (90)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="day-") as folder:
        asyncio.run(simulate(Path(folder), options.days, options.turns, RetentionPolicy(options.all, options.prompts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
