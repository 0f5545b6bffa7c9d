"""A recorder over a Redis and a file, and entries for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agentic.ids import id_at
from agentic.process.redaction import Redactor
from agentic.record.database import connect_blocking
from agentic.record.recorder import Recorder
from agentic.record.retention import RetentionPolicy
from agentic.record.stream_reader import LOOK_SECONDS, RecordReader
from agentic.state.forget_requests import ForgetRequests
from agentic.state.leases import Lease
from agentic.state.record_stream import RecordWriter
from agentic.state.turn_records import RECORD, TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import (
    NOTES,
    CallRecord,
    CallWords,
    Entry,
    LoggedMessage,
    PostWords,
    RoomWords,
    SearchWords,
    SummaryNote,
    ToolCallRecord,
)
from tests.support.redis_server import PATIENT, until

AGENTS = ("claude", "grok")
AT = 1_790_000_000.0  # 2026-09-21, before any request to be forgotten
ADD_RECORDS = f"{RECORD}\nfor i = 1, #ARGV do record(KEYS[1], ARGV[i]) end"


def turn(turn_id: str, **more: Any) -> TurnRecord:
    """A turn of Claude that posted, with one call of its model and one of a tool."""
    values: dict[str, Any] = {
        "agent": "claude",
        "at": AT,
        "kind": "mention",
        "trigger": "mention",
        "channel_id": 5,
        "asked_by": 77,
        "outcome": "posted",
        "calls": (CallRecord(n=0, model="anthropic/m", at=AT - 1, cost_usd=0.5),),
        "tool_calls": (ToolCallRecord(n=0, name="look_up", at=AT),),
    }
    return TurnRecord(id=turn_id, **{**values, **more})


def words(turn_id: str, **more: Any) -> CallWords:
    values: dict[str, Any] = {"agent": "claude", "n": 0, "channel_id": 5, "at": AT, "text": f"the prompt of {turn_id}"}
    return CallWords(turn_id=turn_id, **{**values, **more})


def quotes(*messages: tuple[int, int | None]) -> dict[int, int | None]:
    return dict(messages)


def said(number: int, text: str = "hi", **more: Any) -> LoggedMessage:
    """A message of the person 77, Ann, in channel 5, `number` seconds after the hour before AT."""
    at = AT - 3600 + number
    values: dict[str, Any] = {"author": "person", "author_id": 77, "name": "Ann", "channel_id": 5, "guild_id": 1}
    if "agent" in more:
        values |= {"author": "agent", "author_id": None, "name": "Claude"}
    values |= {"message_id": id_at(at), "text": text, "at": at, "read_at": at}
    if isinstance(answered := more.pop("to", None), LoggedMessage):
        values["reply_to"] = answered.message_id
    return LoggedMessage(**{**values, **more})


def summary(*sources: LoggedMessage, text: str = "They talked.", **more: Any) -> SummaryNote:
    """Of a chain, the oldest first."""
    values: dict[str, Any] = {
        "message_id": sources[-1].message_id,
        "channel_id": sources[-1].channel_id,
        "agent": "claude",
        "text": text,
        "message_ids": tuple(each.message_id for each in sources),
        "people": tuple({each.author_id for each in sources if each.author_id}),
        "at": AT,
    }
    return SummaryNote(**{**values, **more})


class Scene:
    """`put` writes entries to the streams, `record` lets a recorder write what is there to the file."""

    def __init__(self, link: RedisConnection, path: Path) -> None:
        self.link, self.path = link, path
        self.forgets = ForgetRequests(link)
        self.writer = RecordWriter(link, Redactor(), batch_seconds=0.0)

    async def put(self, *entries: Entry | TurnRecord) -> None:
        for entry in entries:
            if isinstance(entry, TurnRecord):
                await self.put_turns([entry])
            elif hasattr(entry, "turn_id"):
                kinds = {"calls": CallWords, "searches": SearchWords, "posts": PostWords}
                made = {
                    name: lambda kind=kind, one=entry: [one] if isinstance(one, kind) else []
                    for name, kind in kinds.items()
                }
                self.writer.ended(
                    turn(entry.turn_id, agent=entry.agent), SimpleNamespace(size=1, rooms=lambda: (), **made)
                )
                await self.writer.aclose()
            elif type(entry) in NOTES.values() or isinstance(entry, RoomWords):
                self.writer.note(entry)
                await self.writer.aclose()
            else:
                self.writer.log("claude", entry)
                await self.writer.aclose()

    async def put_turns(self, records: Sequence[TurnRecord]) -> None:
        """Turns of one agent, as the script that settles a turn writes them."""
        stream = keys.turns(records[0].agent)
        names = [stream, keys.entries_counted(stream)]
        await self.link.script(ADD_RECORDS, names, [record.to_json() for record in records])

    def recorder(self, **more: Any) -> Recorder:
        options: dict[str, Any] = {"policy": RetentionPolicy(None, None), "timezone": UTC, "clock": lambda: AT + 60}
        path, holder = more.pop("path", self.path), more.pop("holder", "tests")
        ttl = more.pop("ttl", 1.0)
        lease = Lease(self.link, keys.RECORDER_OWNER, holder=holder, ttl=ttl, renew_every=0.05)
        reader = RecordReader(self.link, AGENTS, itertools.count(step=LOOK_SECONDS).__next__)
        recorder = Recorder(path, reader, lease, self.forgets, **{**options, **more})
        recorder.poll_seconds = recorder.first_wait = 0.01
        return recorder

    async def record(self, **more: Any) -> Recorder:
        """Record all that is there, and end."""
        recorder = self.recorder(**more)
        async with at_work(recorder):
            pass
        return recorder

    def rows(self, question: str, path: Path | None = None) -> list[tuple[Any, ...]]:
        with closing(connect_blocking(path or self.path)) as connection:
            return [tuple(row) for row in connection.execute(question)]


@asynccontextmanager
async def at_work(recorder: Recorder) -> AsyncIterator[Recorder]:
    """Run it; at the end it records what is there."""
    task = asyncio.create_task(recorder.run())
    try:
        await until(lambda: recorder.acting or task.done())
        yield recorder
        await recorder.finish(task)
        await asyncio.wait((task,), timeout=PATIENT)  # a busy machine needs longer than a program's end waits
        assert task.done(), "there is still something to record"
    finally:
        task.cancel()
        await asyncio.wait((task,))


@asynccontextmanager
async def recording(url: Any, path: Path) -> AsyncIterator[Scene]:
    async with RedisConnection(url, command_timeout=PATIENT) as link:
        yield Scene(link, path)
