"""Wires what watches the turns of this process: the record's writer, and notices for the console."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from agent_cogs.trace.watchers import TurnWatchers
from agent_config import Settings
from agent_process.redaction import Redactor
from agent_protocol.connection.link import RedisLink
from agent_protocol.record.writer import NoRecord, Notes, RecordWriter
from agent_protocol.wire.turn_notices import TurnNotices
from agent_runtime.process import Runtime


@dataclass(frozen=True)
class Watching:
    """`writer` is None where nothing is recorded."""

    notices: TurnNotices
    writer: RecordWriter | None

    @classmethod
    def of(cls, settings: Settings, link: RedisLink, redact: Redactor) -> Watching:
        writer = RecordWriter(link, redact.secrets, prompts=settings.records_prompts) if settings.records else None
        return cls(TurnNotices(link), writer)

    @property
    def record(self) -> Notes:
        return self.writer or NoRecord()

    @property
    def watcher(self) -> TurnWatchers:
        return TurnWatchers(self.notices, *([self.writer] if self.writer is not None else []))

    def start(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        """Start it before the bots; when the stack is closed, after them, it writes what the last turns leave."""
        runtime.start(self.notices.run(), "turn notices", essential=False)
        if self.writer is not None:
            stack.push_async_callback(self.writer.aclose)
            runtime.start(self.writer.run(), "record", essential=False)
