"""Write the durable record: copy the record's streams from Redis into SQLite. The bots never wait for it.

    lease → open and migrate the file → read streams → write a batch with its positions → acknowledge → …

One recorder per Redis is active; the others stand by and open no file. If the disk or the file fails, the recorder
logs that once and retries with growing pauses. Meanwhile the bots continue, and the streams keep their newest entries.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import tzinfo
from pathlib import Path

import aiosqlite

from agent_config import Settings
from agentic.process.tasks import cancel_and_wait, wait_at_most
from agentic.record.database import BUSY_MS, RecordError, connect, copies, identity, migrate
from agentic.record.embeddings import Embeddings, VectorWriter
from agentic.record.forgetting import forget_person
from agentic.record.recall import MemoryIndex
from agentic.record.retention import Retention, RetentionPolicy
from agentic.record.rows import Rules, days_in
from agentic.record.stream_reader import Position, RecordReader
from agentic.record.writing import Overtaken, read_positions, transaction, write
from agentic.state.forget_requests import ForgetRequests
from agentic.state.leases import Lease
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable

POLL_SECONDS = 1.0  # from one read to the next, unless there is more to read
FIRST_WAIT, MAX_WAIT = 1.0, 300.0  # seconds after a failure
RECORDING, STANDING_BY, OFF = "recording", "standing by", "off"
FINE = frozenset({RECORDING, STANDING_BY, OFF})  # any other state is a problem, as a line for the owner
LAST_SECONDS = 3.0  # to record the last turns when the process ends

ReadState = Callable[[], str]

log = logging.getLogger(__name__)


class Recorder:
    """`problem`: why nothing can be written now, as a line for the owner, or "". `acting`: this process records."""

    poll_seconds, first_wait = POLL_SECONDS, FIRST_WAIT

    def __init__(
        self,
        path: Path,
        reader: RecordReader,
        lease: Lease,
        forgets: ForgetRequests,
        *,
        policy: RetentionPolicy,
        timezone: tzinfo,
        clock: Callable[[], float] = time.time,
        meaning: Embeddings | None = None,
    ) -> None:
        self.problem = ""
        self.acting = False
        self._path, self._reader, self._lease, self._forgets = path, reader, lease, forgets
        self._rules = Rules(days_in(timezone), policy.unwanted)
        self._retention = Retention(path, policy, clock)
        self._positions: dict[str, Position] = {}  # in the file
        self._forgotten_until = 0  # the time of the last request that was applied to the file, in unix milliseconds
        self._failures = 0
        self._wake = asyncio.Event()  # set at the end
        self._unwiped = False  # whether the write-ahead log still has removed words
        self._index: MemoryIndex | None = None  # of the open file
        self._meaning, self._vector_writers = meaning, list[VectorWriter]()  # empty without an embedding model

    @property
    def state(self) -> str:
        return self.problem or (RECORDING if self.acting else STANDING_BY)

    async def run(self) -> None:
        """Record whenever this process has the lease, until `finish` is called or this is canceled."""
        while not self._wake.is_set():
            try:
                async with asyncio.TaskGroup() as tasks:
                    renewing = tasks.create_task(self._lease.run(), name="recorder's lease")
                    await self._record_while_held()
                    renewing.cancel()
            except Exception:  # the edge of the task: recording must continue
                log.exception("the recorder failed; it restarts")
                await self._pause_after("a bug in the program; the log has details")
            finally:
                self.acting = False
                await self._lease.release()

    async def finish(self, task: asyncio.Task[None]) -> None:
        """Record the remaining entries, and end `task`, which runs this recorder."""
        self._wake.set()
        await asyncio.wait((task,), timeout=LAST_SECONDS)

    async def _record_while_held(self) -> None:
        with suppress(StateUnavailable):  # then the lease's own task takes it when Redis is back
            if not await self._lease.acquire():
                log.info("another process writes the history; this process takes over when the other one ends")
        overtaken = False
        while overtaken or not self._wake.is_set():
            overtaken = False
            if not self._lease.is_held:
                await wait_at_most(self._wake, 0.2)
                continue
            try:
                await self._record()
            except Overtaken:
                log.warning("another recorder wrote to %s; continuing from its position", self._path)
                overtaken = True
            except (RecordError, sqlite3.Error, OSError) as error:
                await self._pause_after(f"{self._path}: {explain_error(error)}")
            finally:
                self.acting = False

    async def _record(self) -> None:
        """Record until the lease is lost or until `finish`. Raises Overtaken, RecordError, sqlite3.Error, OSError."""
        applied = await asyncio.to_thread(migrate, self._path)
        if applied:
            log.info("%s: updated the tables with %s", self._path, ", ".join(map(str, applied)))
        db = await connect(self._path, writable=True)
        try:
            self._index = await MemoryIndex.prepare(db)
            model = self._meaning.model if self._meaning else None
            await db.execute("DELETE FROM embeddings WHERE model IS NOT ?", (model,))
            self._vector_writers = [VectorWriter(db, self._meaning)] if self._meaning else []
            self._positions = await read_positions(db)
            newest = next(iter(await db.execute_fetchall("SELECT max(at) FROM forgotten")))[0]
            self._forgotten_until = round((newest or 0) * 1000)
            self._reader.start(self._positions)
            self.acting, self._unwiped = True, True
            opened = identity(self._path)
            while self._lease.is_held:
                if identity(self._path) != opened:
                    log.warning(
                        "%s was moved, deleted, or replaced; recording to the file that is there now", self._path
                    )
                    return
                ending = self._wake.is_set()  # read before the step, which still records all earlier entries
                busy = await self._step(db, ending)
                if self.problem:
                    log.info("recording again to %s", self._path)
                self.problem, self._failures = "", 0
                if not busy and ending:
                    return
                if not busy:
                    await wait_at_most(self._wake, self.poll_seconds)
        finally:
            for writer in self._vector_writers:
                await writer.aclose()
            await db.close()

    async def _step(self, db: aiosqlite.Connection, ending: bool) -> bool:
        """Read and write a batch, and do a piece of every other task. Return whether to do the next step right away."""
        busy = False
        try:
            received = await self._reader.read(last=ending)
            busy = self._reader.has_more or (ending and bool(received))
            if received:
                removed = await write(db, received, self._positions, self._rules)
                self._unwiped = self._unwiped or removed > 0
                self._positions |= {each.stream: each.position for each in received}
                await self._reader.keep(received)
            await self._forget(db)
        except StateUnavailable as away:
            log.debug("reading the record's streams failed: Redis is unavailable (%s)", away)
        busy = await self._retention.step(db) or busy
        if not busy and self._index and await self._index.step():
            busy = self._unwiped = True
        for writer in self._vector_writers:
            busy = await writer.step() or busy
        if self._unwiped:
            self._unwiped = not await _empty_log(db)
        return busy

    async def _forget(self, db: aiosqlite.Connection) -> None:
        """Carry out people's requests to be forgotten. Raises StateUnavailable."""
        for at, user_id in await self._forgets.after(self._forgotten_until):
            chats = await self._forgets.chats_of(user_id)
            async with transaction(db):
                removed = await forget_person(db, user_id, at, chats)
                if self._index:
                    await self._index.merge_all()
            self._forgotten_until = at
            self._unwiped = not await _empty_log(db)
            for copy in copies(self._path):  # made before a migration
                copy.unlink(missing_ok=True)
            await self._forgets.answer(user_id, removed)

    async def _pause_after(self, problem: str) -> None:
        wait = min(self.first_wait * 2**self._failures, MAX_WAIT)
        self._failures += 1
        level = logging.DEBUG if problem == self.problem else logging.ERROR
        log.log(level, "recording failed: %s; the bots continue; next attempt in %.0f s", problem, wait)
        self.problem = problem
        await wait_at_most(self._wake, wait)


async def _empty_log(db: aiosqlite.Connection) -> bool:
    """Empty the write-ahead log. Return False if that failed because somebody is reading from it."""
    await db.execute("PRAGMA busy_timeout = 0")
    try:
        found = list(await db.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)"))
    finally:
        await db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    return not found[0][0]


def explain_error(error: Exception) -> str:
    """Return the cause, and how to fix it, in one line."""
    text = str(error)
    if isinstance(error, OSError):
        return error.strerror or text
    damaged = "the file is damaged; move it away with its -wal and -shm, or restore a backup (docs/maintain.md)"
    causes = {
        "full": "the disk is full",
        "readonly": "the file is read-only",
        "locked": "another program has locked the file",
        "malformed": damaged,
        "not a database": damaged,
    }
    return next((cause for word, cause in causes.items() if word in text), text)


@asynccontextmanager
async def recording(
    settings: Settings,
    link: RedisConnection,
    *,
    holder: str,
    clock: Callable[[], float] = time.time,
    meaning: Embeddings | None = None,
) -> AsyncIterator[ReadState]:
    """Record while entered, unless RECORD_DAYS is 0, and yield a function that returns the recorder's state.

    Leave it after the last turn has ended: the last turn's entries are recorded first.
    """
    if not settings.records:
        yield lambda: OFF
        return
    recorder = Recorder(
        settings.record_file,
        RecordReader(link, settings.agents),
        Lease(link, keys.RECORDER_OWNER, holder=holder),
        ForgetRequests(link),
        policy=RetentionPolicy(settings.record_days, settings.record_prompts_days, settings.message_log_days),
        timezone=settings.timezone,
        clock=clock,
        meaning=meaning,
    )
    task = asyncio.create_task(recorder.run(), name="recorder")
    try:
        yield lambda: recorder.state
        await recorder.finish(task)
    finally:
        await cancel_and_wait(task)
