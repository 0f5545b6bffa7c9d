"""Keeps the durable record in a process, beside the bots, which never wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import tzinfo
from pathlib import Path
from typing import Protocol

from agentic.record.embeddings import Meaning
from agentic.record.recorder import RECORDING, STANDING_BY, Recorder
from agentic.record.retention import Ages
from agentic.record.stream_reader import RecordReader
from agentic.state.forget_requests import ForgetRequests
from agentic.state.leases import Lease
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.link import RedisLink

OFF = "off"
FINE = frozenset({RECORDING, STANDING_BY, OFF})  # any other state is a problem, in a line for the owner
ReadState = Callable[[], str]


class RecordSettings(Protocol):
    """The settings of the record, as agent_config.Settings has them; `agents` by name."""

    @property
    def records(self) -> bool: ...
    @property
    def record_file(self) -> Path: ...
    @property
    def record_days(self) -> int | None: ...
    @property
    def record_prompts_days(self) -> int | None: ...
    @property
    def message_log_days(self) -> int | None: ...
    @property
    def timezone(self) -> tzinfo: ...
    @property
    def agents(self) -> Mapping[str, object]: ...


@asynccontextmanager
async def recording(
    settings: RecordSettings,
    link: RedisLink,
    bus: Bus,
    *,
    holder: str,
    clock: Callable[[], float] = time.time,
    meaning: Meaning | None = None,
) -> AsyncIterator[ReadState]:
    """Record while entered, and yield a function that says how that goes; not with RECORD_DAYS=0.

    Leave it after the last turn ended: what that left in Redis is recorded first.
    """
    if not settings.records:
        yield lambda: OFF
        return
    recorder = Recorder(
        settings.record_file,
        RecordReader(link, settings.agents),
        Lease(link, keys.RECORDER_OWNER, holder=holder),
        ForgetRequests(link, bus),
        ages=Ages(settings.record_days, settings.record_prompts_days, settings.message_log_days),
        timezone=settings.timezone,
        clock=clock,
        meaning=meaning,
    )
    task = asyncio.create_task(recorder.run(), name="recorder")
    try:
        yield lambda: recorder.state
        await recorder.finish(task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
