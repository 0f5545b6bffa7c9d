"""Read the streams of the record, each entry at least once, in order.

The reader is the one consumer of a group on each stream. The file that has the entries also has their Position in the
stream, written in the same transaction; `start` sets the groups to it. So a file that was
restored from a backup, or a new one, is given everything that the streams still have. A group that is missing, since
its stream is new or Redis was emptied, is created on the way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from agentic.state.record_stream import RecordedAgents, decoded
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.entries import Entry

GROUP = CONSUMER = "recorder"
READ_SECONDS = 10.0
AT_ONCE = 200  # entries of a stream
WORDS_AT_ONCE = 20  # an entry of words may have megabytes
MISSING = ("NOGROUP", "WRONGTYPE", "The XGROUP", "no such key")  # errors if there is no stream, or no group of ours

Command = tuple[str, ...]
Entries = Sequence[tuple[str, Mapping[str, str]]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream was read: the last entry's id and `n`, and how many entries were missing on the way."""

    last_id: str = "0-0"
    last_n: int = 0
    dropped: int = 0


BEGINNING = Position()


@dataclass(frozen=True, slots=True)
class Received:
    """New entries of a stream, in order, and the position behind them. `ids` also has unreadable ones."""

    stream: str
    ids: tuple[str, ...]
    entries: tuple[Entry | TurnRecord, ...]
    position: Position


class RecordReader:
    """Reads the record of `agents`, and of those that become known by RecordedAgents. `start` comes before the first
    `read`, and after whatever was read was not kept."""

    def __init__(self, link: RedisConnection, agents: Iterable[str]) -> None:
        self._link, self._further = link, RecordedAgents(link)
        self._agents: tuple[str, ...] = ()
        self._streams: tuple[str, ...] = (keys.COORDINATOR_RECORD,)
        self._words = frozenset[str]()
        self._positions: dict[str, Position] = {}
        self._to_set = set(self._streams)  # their groups are set to their position before they are read
        self._kept: list[tuple[str, tuple[str, ...]]] = []
        self._add_agents(agents)

    def start(self, positions: Mapping[str, Position]) -> None:
        """Read on from these positions, a stream without one from its beginning."""
        self._positions = dict(positions)
        self._to_set = set(self._streams)
        self._kept = []

    async def read(self) -> list[Received]:
        """New entries, of each stream a limited number; empty for nothing. Raises StateUnavailable."""
        self._add_agents(await self._further.read())
        await self._acknowledge()
        if self._to_set:
            await self._set_groups()
        streams = [stream for stream in self._streams if stream not in self._to_set]
        self._to_set = set(self._streams)  # what is in an answer that is lost must be given again
        counts = {stream: WORDS_AT_ONCE if stream in self._words else AT_ONCE for stream in streams}
        asked = ("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT")
        commands = [(*asked, str(counts[stream]), "STREAMS", stream, ">") for stream in streams]
        answers = dict(zip(streams, await self._run_all(commands), strict=True))
        gone = {stream for stream, answer in answers.items() if isinstance(answer, ResponseError)}
        self._to_set = set(self._streams) - answers.keys() | gone
        found = {stream: _entries(answer) for stream, answer in answers.items() if stream not in gone}
        if not any(found.values()):
            return []
        # Long prompts take milliseconds, which the bots would feel.
        return await asyncio.to_thread(
            lambda: [self._decode(stream, entries) for stream, entries in found.items() if entries]
        )

    async def keep(self, received: Iterable[Received]) -> None:
        """Acknowledge what is recorded (later if Redis is unavailable): it isn't given again, and words leave Redis."""
        self._kept += [(each.stream, each.ids) for each in received]
        try:
            await self._acknowledge()
        except StateUnavailable as away:
            log.debug("what was recorded is acknowledged later: %s", away)

    def _add_agents(self, agents: Iterable[str]) -> None:
        """Read the streams of these agents too, from now on."""
        new = sorted(set(agents).difference(self._agents))
        if not new:
            return
        self._agents += tuple(new)
        known = set(self._streams)
        self._words = frozenset(map(keys.words, self._agents))
        # The notes first: a deletion is known before the prompts that quote what was deleted.
        self._streams = (keys.COORDINATOR_RECORD, *map(keys.turns, self._agents), *map(keys.words, self._agents))
        self._to_set |= set(self._streams) - known

    async def _acknowledge(self) -> None:
        await self._run_all([("XACK", stream, GROUP, *ids) for stream, ids in self._kept])
        await self._run_all([("XDEL", stream, *ids) for stream, ids in self._kept if stream in self._words])
        self._kept = []

    async def _set_groups(self) -> None:
        """Set the groups of the streams that exist. A new group has nothing pending of an earlier reader."""
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
            start = self._positions.get(stream, BEGINNING).last_id
            if _id_order(start) > _id_order(last):  # the stream ends before its position: another Redis' or clock's
                start = BEGINNING.last_id
            starts.append(("XGROUP CREATE", stream, GROUP, start))
        made = await self._run_all(starts)
        self._to_set -= {stream for stream, answer in zip(newest, made, strict=True) if answer is True}

    def _decode(self, stream: str, entries: Entries) -> Received:
        read, position, unreadable = [], self._positions.get(stream), 0
        for entry_id, fields in entries:
            n = fields.get("n", "")
            is_counted = n.isascii() and n.isdecimal() and len(n) < 18
            position = _advance(position, entry_id, int(n) if is_counted else None)
            try:
                if "record" in fields:
                    entry: Entry | TurnRecord | None = TurnRecord.model_validate_json(fields["record"])
                else:
                    entry = decoded(fields.get("kind", ""), fields.get("data", ""))  # None for an unknown kind
                if entry is not None:
                    read.append(entry)
            except ValueError:  # pydantic's and base64's too
                unreadable += 1
        assert position is not None
        before = self._positions.get(stream, position)
        if position.dropped > before.dropped:
            lost = position.dropped - before.dropped
            log.warning("%s: %d entries were gone before they could be recorded", stream, lost)
        if unreadable:
            log.warning("%s: %d entries cannot be read and are not recorded", stream, unreadable)
        self._positions[stream] = position
        return Received(stream, tuple(entry_id for entry_id, _ in entries), tuple(read), position)

    async def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands, in one round trip; a ResponseError if the stream or its group is missing."""
        if not commands:
            return []

        async def run(redis: Redis) -> list[Any]:
            pipe = redis.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)
            return await pipe.execute(raise_on_error=False)

        answers = await self._link.call_slowly(run, READ_SECONDS)
        for answer in answers:
            if isinstance(answer, Exception) and not str(answer).startswith(MISSING):
                raise StateUnavailable(str(answer)) from answer
        return answers


def _entries(answer: Any) -> Entries:
    """Return the entries of a stream in XREADGROUP's answer; None is one that was deleted while it was pending."""
    streams = answer.items() if isinstance(answer, dict) else answer or ()
    return [(entry_id, fields or {}) for _, entries in streams for entry_id, fields in entries]


def _advance(position: Position | None, entry_id: str, n: int | None) -> Position:
    """Return the position behind an entry; `n` is None if it is of a version that did not count.

    An `n` that is too large for its place tells of entries that were dropped. Before the first entry that this file
    knows nothing is missing, and a smaller `n` is of a Redis that was emptied.
    """
    if position is None or n is None:
        return Position(entry_id, n or 0) if position is None else replace(position, last_id=entry_id)
    missing = max(0, n - position.last_n - 1) if position.last_n else 0
    return Position(entry_id, n, position.dropped + missing)


def _id_order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, within = entry_id.partition("-")
    return int(milliseconds), int(within or 0)
