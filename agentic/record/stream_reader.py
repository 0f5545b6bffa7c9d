"""Read the streams of the record, each entry at least once, in order.

The reader is the only consumer of a group on each stream. The file has the entries and, written in the same
transaction, their Position in the stream. `start` sets the groups to these positions, so a new file, or a file restored
from a backup, gets everything that the streams still have. If a stream is new or Redis was emptied, its group is
created.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import ResponseError

from agentic.state.record_stream import RecordedAgents, decode
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.entries import Entry

GROUP = CONSUMER = "recorder"
READ_SECONDS = 10.0
LOOK_SECONDS = 2.0  # between two looks for new agents and streams
AT_ONCE = 200  # entries of a stream
WORDS_AT_ONCE = 20  # an entry of words may have megabytes
MISSING = ("NOGROUP", "WRONGTYPE", "The XGROUP", "no such key")  # errors if the stream or our group doesn't exist

Command = tuple[str, ...]
Entries = Sequence[tuple[str, Mapping[bytes, bytes]]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream was read: the last entry's id and `n`, and how many entries were missing on the way."""

    last_id: str = "0-0"
    last_n: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Received:
    """New entries of a stream, in order, and the position after them. `ids` includes unreadable entries."""

    stream: str
    ids: tuple[str, ...]
    entries: tuple[Entry | TurnRecord, ...]
    position: Position


class RecordReader:
    """Reads the record's streams of `agents`, and of further agents in RecordedAgents. `clock`: in seconds.

    Call `start` before the first `read`, and whenever entries that were read couldn't be recorded.
    """

    def __init__(
        self, link: RedisConnection, agents: Iterable[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._link, self._further, self._clock = link, RecordedAgents(link), clock
        self._agents: tuple[str, ...] = ()
        self._streams: tuple[str, ...] = (keys.COORDINATOR_RECORD,)
        self._words = frozenset[str]()
        self._positions: dict[str, Position] = {}
        self._to_set = set(self._streams)  # streams whose groups must be set to their position before reading
        self._next_look = float("-inf")  # for new agents and streams
        self._kept: list[tuple[str, tuple[str, ...]]] = []
        self.has_more = False  # whether the last `read` left entries
        self._add_agents(agents)

    def start(self, positions: Mapping[str, Position]) -> None:
        """Continue from these positions; read a stream without a position from its beginning."""
        self._positions = dict(positions)
        self._to_set, self._next_look = set(self._streams), float("-inf")
        self._kept = []

    async def read(self, *, last: bool = False) -> list[Received]:
        """Return new entries, a limited number per stream. Raises StateUnavailable.

        `last`: look for new streams first, because this is the last call.
        """
        await self._acknowledge()
        now = self._clock()
        if last or now >= self._next_look:
            self._add_agents(await self._further.read())
            await self._set_groups()
            self._next_look = now + LOOK_SECONDS
        missing, next_look = self._to_set, self._next_look
        # If the answer is lost, its entries must be delivered again.
        self._to_set, self._next_look = set(self._streams), float("-inf")
        there = [stream for stream in self._streams if stream not in missing]
        words = [stream for stream in there if stream in self._words]
        others = [stream for stream in there if stream not in self._words]
        asked = [(count, streams) for count, streams in ((AT_ONCE, others), (WORDS_AT_ONCE, words)) if streams]
        read = ("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT")
        commands = [(*read, str(count), "STREAMS", *streams, *">" * len(streams)) for count, streams in asked]
        answers = await self._run_all(commands, as_bytes=True)
        self._to_set, self._next_look, self.has_more = missing, next_look, False
        found: dict[str, Entries] = {}
        for (count, streams), answer in zip(asked, answers, strict=True):
            if isinstance(answer, ResponseError):  # a stream or its group doesn't exist anymore
                self._to_set.update(streams)
                self._next_look = float("-inf")
                continue
            for stream, entries in answer.items() if isinstance(answer, dict) else answer or ():
                # Pending entries that were deleted have no fields.
                found[stream.decode()] = [(entry_id.decode(), fields or {}) for entry_id, fields in entries]
                self.has_more = self.has_more or len(entries) >= count
        if not found:
            return []
        # In a thread, since many entries take milliseconds, which would delay the bots.
        return await asyncio.to_thread(
            lambda: [self._decode(stream, found[stream]) for stream in self._streams if stream in found]
        )

    async def keep(self, received: Iterable[Received]) -> None:
        """Acknowledge recorded entries, once Redis is available, and delete entries with words from Redis."""
        self._kept += [(each.stream, each.ids) for each in received]
        try:
            await self._acknowledge()
        except StateUnavailable as away:
            log.debug("acknowledging recorded entries failed: %s; retrying later", away)

    def _add_agents(self, agents: Iterable[str]) -> None:
        new = sorted(set(agents).difference(self._agents))
        if not new:
            return
        self._agents += tuple(new)
        known = set(self._streams)
        self._words = frozenset(map(keys.words, self._agents))
        # The notes come first, so a deletion is known before prompts that quote the deleted message.
        self._streams = (keys.COORDINATOR_RECORD, *map(keys.turns, self._agents), *map(keys.words, self._agents))
        self._to_set |= set(self._streams) - known

    async def _acknowledge(self) -> None:
        acknowledged = [("XACK", stream, GROUP, *ids) for stream, ids in self._kept]
        removed = [("XDEL", stream, *ids) for stream, ids in self._kept if stream in self._words]
        await self._run_all([*acknowledged, *removed])
        self._kept = []

    async def _set_groups(self) -> None:
        """Recreate the groups of existing streams at their positions, without pending entries of an earlier reader."""
        waiting = sorted(self._to_set)
        facts = await self._run_all([("XINFO STREAM", stream) for stream in waiting])
        newest = {
            stream: fact["last-generated-id"]
            for stream, fact in zip(waiting, facts, strict=True)
            if not isinstance(fact, ResponseError)
        }
        await self._run_all([("XGROUP DESTROY", stream, GROUP) for stream in newest])
        starts = []
        for stream, last in newest.items():
            start = self._positions.get(stream, Position()).last_id
            if _id_order(start) > _id_order(last):  # the position is from another Redis or clock
                start = Position().last_id
            starts.append(("XGROUP CREATE", stream, GROUP, start))
        made = await self._run_all(starts)
        self._to_set -= {stream for stream, answer in zip(newest, made, strict=True) if answer is True}

    def _decode(self, stream: str, entries: Entries) -> Received:
        read, position, unreadable = [], self._positions.get(stream), 0
        for entry_id, fields in entries:
            n = fields.get(b"n", b"")
            position = _advance(position, entry_id, int(n) if n.isdigit() and len(n) < 18 else None)
            try:
                if b"record" in fields:
                    entry: Entry | TurnRecord | None = TurnRecord.model_validate_json(fields[b"record"])
                else:
                    entry = decode(fields)  # None if its kind is unknown
                if entry is not None:
                    read.append(entry)
            except ValueError:  # includes the errors of pydantic and base64
                unreadable += 1
        assert position is not None
        before = self._positions.get(stream, position)
        if position.dropped > before.dropped:
            lost = position.dropped - before.dropped
            log.warning("%s: %d entries were removed before they could be recorded", stream, lost)
        if unreadable:
            log.warning("%s: reading %d entries failed; they aren't recorded", stream, unreadable)
        self._positions[stream] = position
        return Received(stream, tuple(entry_id for entry_id, _ in entries), tuple(read), position)

    async def _run_all(self, commands: Sequence[Command], *, as_bytes: bool = False) -> list[Any]:
        """Return the answers to commands, in one round trip; a ResponseError if the stream or its group is missing."""
        if not commands:
            return []

        async def run(redis: Redis) -> list[Any]:
            pipe = redis.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command, **({NEVER_DECODE: True} if as_bytes else {}))
            return await pipe.execute(raise_on_error=False)

        answers = await self._link.call_slowly(run, READ_SECONDS)
        for answer in answers:
            if isinstance(answer, Exception) and not str(answer).startswith(MISSING):
                raise StateUnavailable(str(answer)) from answer
        return answers


def _advance(position: Position | None, entry_id: str, n: int | None) -> Position:
    """Return the position after an entry; `n` is None if it was written by a version without numbers.

    A gap in the numbers means that entries were dropped. Before the file's first entry none count as dropped, nor if
    `n` gets smaller, because then Redis was emptied.
    """
    if position is None or n is None:
        return Position(entry_id, n or 0) if position is None else replace(position, last_id=entry_id)
    missing = max(0, n - position.last_n - 1) if position.last_n else 0
    return Position(entry_id, n, position.dropped + missing)


def _id_order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, within = entry_id.partition("-")
    return int(milliseconds), int(within or 0)
