"""The record of every tool call and its result: the one part of a context that Discord does not keep.

    call → add() ─┬→ memory, by agent and channel → for_channel() when a context is built → prune()
                  └→ one thread → data/tools/<agent>/<channel>/<YYYY-MM-DDTHH>.jsonl (files.py)

A record is added at the call, again with the result, and again when its post is known; the last one of an id counts.
Files are read once, at the start, from the newest back until memory is full. They are deleted only for a person who
asks to be forgotten. One thread does all writes, in the order of the calls; `aclose` waits for the last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from agentic.tools.call_log_files import RecordFiles, without_person
from agentic.tools.record import ToolRecord, decoded, encoded

__all__ = ["ToolRecord", "ToolRecords"]

MAX_OF_CHANNEL = 200  # records
MAX_CHARACTERS = 16_000_000  # of all records together

_Place = tuple[str, int]

log = logging.getLogger(__name__)


def unchanged(text: str) -> str:
    return text


class ToolRecords:
    """`async with ToolRecords(folder) as records`. `folder` is data/tools, created when needed.

    `redact` removes secrets from a line before it is kept anywhere.
    """

    def __init__(
        self,
        folder: Path,
        *,
        redact: Callable[[str], str] = unchanged,
        max_of_channel: int = MAX_OF_CHANNEL,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        self._files = RecordFiles(folder)
        self._redact = redact
        self._max_of_channel, self._max_characters = max_of_channel, max_characters
        self._channels: OrderedDict[_Place, OrderedDict[str, ToolRecord]] = OrderedDict()
        self._characters = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tool-records")

    async def __aenter__(self) -> Self:
        """Read the records of earlier runs. Raises OSError if the folder cannot be read."""
        read = self._thread.submit(self._files.read, self._max_of_channel, self._max_characters)
        for record in await asyncio.wrap_future(read):
            self._remember(record)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait until everything that was added is written."""
        await asyncio.to_thread(self._thread.shutdown)

    def add(self, record: ToolRecord) -> None:
        """Remember and write the record, replacing an earlier one of its id."""
        line = self._redact(encoded(record))
        self._remember(decoded(line) or record)
        self._thread.submit(self._files.append, record, line).add_done_callback(_log_failure)

    def belongs_to(self, agent: str, channel_id: int, turn_id: str, message_id: int) -> None:
        """Note that the turn's tools led to this post."""
        for record in self.for_channel(agent, channel_id):
            if record.turn_id == turn_id and record.message_id is None:
                self.add(replace(record, message_id=message_id))

    def for_channel(self, agent: str, channel_id: int) -> tuple[ToolRecord, ...]:
        """Return the remembered records of a channel, in the order of the calls."""
        return tuple(self._channels.get((agent, channel_id), {}).values())

    def prune(self, agent: str, channel_id: int, oldest_message_id: int) -> None:
        """Drop records older than the context's oldest message, from memory only."""
        for record in self.for_channel(agent, channel_id):
            if record.position < oldest_message_id:
                self._forget((agent, channel_id), record.id)

    async def forget_person(self, user_id: int) -> int:
        """Remove this person's records from memory and files, and their id from other people's.

        A record is removed if the person asked for the call, or if nobody did and it contains their id. Returns how
        many lines were removed from files. Raises OSError if a file cannot be rewritten; it stays whole.
        """
        for place, records in list(self._channels.items()):
            for record in list(records.values()):
                left = without_person(encoded(record).encode(), user_id)
                kept = decoded(left) if left is not None else None
                if kept is None:
                    self._forget(place, record.id)
                elif kept != record:
                    self._characters += kept.size - record.size
                    records[record.id] = kept
        return await asyncio.wrap_future(self._thread.submit(self._files.forget, user_id))

    def _remember(self, record: ToolRecord) -> None:
        place = (record.agent, record.channel_id)
        records = self._channels.setdefault(place, OrderedDict())
        earlier = records.get(record.id)
        records[record.id] = record
        self._characters += record.size - (earlier.size if earlier else 0)
        self._channels.move_to_end(place)
        while len(records) > self._max_of_channel:
            self._forget(place, next(iter(records)))
        while self._characters > self._max_characters and self._channels:
            longest_unused = next(iter(self._channels))
            self._forget(longest_unused, next(iter(self._channels[longest_unused])))

    def _forget(self, place: _Place, record_id: str) -> None:
        records = self._channels[place]
        self._characters -= records.pop(record_id).size
        if not records:
            del self._channels[place]


def _log_failure(written: Future[None]) -> None:
    """Log a failed write. A full disk must not silence an agent: the record stays in memory."""
    error = written.exception()
    if error is not None:
        log.error("tool record not written, kept in memory only: %s", error)
