"""Writes the entries of the record to their Redis streams, in the background.

A turn, the engine, and the gateway hand entries in and go on. One task redacts, compresses, and writes them, in order.
What waits has a bound: beyond it the oldest words go first, since notes of deletions are among the rest. What was
dropped is counted in the next entry's number (turn_records.py), so the recorder knows of it, and logged now and then.

The recorder may be another process, and knows the bots by its settings; `RecordedAgents` tells it which personas have
streams too.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import logging
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from cachetools import LRUCache

from agentic.state.turn_records import APPEND, TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, Store
from agentic.wire.entries import NOTES, WORDS, CallWords, Entry, PostWords, RoomWords, SearchWords
from agentic.wire.messages import TurnNotice

KEEP_SECONDS = 30 * 86400  # of a recorded agent, after the last one was added; the streams are kept for 7 days
MAX_WAITING = 2000  # entries, and sets of words
MAX_BYTES = 32_000_000  # of words that wait
MAX_ENTRY_CHARACTERS = 2_000_000  # characters of an entry's data
WORDS_KEPT = 1000  # in the stream of an agent: far more than a recorder leaves there
WORDS_SECONDS = 86400
NOTES_KEPT = 20_000
NOTES_SECONDS = 7 * 86400
WRITE_SECONDS = 10.0  # for a write; a large one over a slow line is no outage
PAUSE_SECONDS = 2.0  # after a write that failed
REPORT_SECONDS = 600.0  # between two lines about dropped entries
LAST_WAIT = 3.0  # seconds to write at the end of the process
REMEMBERED = 4_000_000  # bytes of texts that were redacted; an emoji makes four of each character of its text
SHORT = 40  # characters that are redacted sooner than they are found

# KEYS: the stream, its count. ARGV: how many entries were dropped before these, the stream's bounds, then pairs of
# kind and data.
ADD = f"""{APPEND}
for i = 4, #ARGV, 2 do
  append(KEYS[1], KEYS[2], i == 4 and tonumber(ARGV[1]) or 0, ARGV[2], tonumber(ARGV[3]),
    'kind', ARGV[i], 'data', ARGV[i + 1])
end
"""

Make = Callable[[], Sequence[Entry]]
Redact = Callable[[str], str]

_KINDS = {kind: name for name, kind in (*NOTES.items(), *WORDS.items())}
_EXACT = frozenset({"picture"})  # base64, in which a redactor might find something that looks like a key

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Entries that wait for a stream: notes, or the words of a turn, which are made when they are written."""

    stream: str
    entries: Make
    size: int = 0  # of words: about how many bytes they hold in memory


class Notes(Protocol):
    """Where notes for the record go: conversations, reactions, deletions, actions; and words that are in no turn."""

    def note(self, entry: Entry) -> None: ...
    def log(self, agent: str, entry: Entry) -> None: ...


class TurnWords(Protocol):
    """The words of a turn that ended. Its methods take their time, so they are called in a thread; `size`: about how
    many bytes it holds in memory, 0 if there are no words."""

    @property
    def size(self) -> int: ...
    def calls(self) -> Sequence[CallWords]: ...
    def searches(self) -> Sequence[SearchWords]: ...
    def posts(self) -> Sequence[PostWords]: ...
    def rooms(self) -> Sequence[RoomWords]: ...


class NoRecord:
    """The notes of an installation that records nothing."""

    def note(self, entry: Entry) -> None:
        del entry

    def log(self, agent: str, entry: Entry) -> None:
        del agent, entry


class RecordWriter:
    """`redact` removes secrets from a text; `prompts`: those, completions and messages of rooms are recorded too. Run
    `run` in a task; `aclose` writes what still waits.

    `note`, `log`, `began` and `ended` never wait and never fail.
    """

    def __init__(
        self,
        link: RedisConnection,
        redact: Redact,
        *,
        prompts: bool = True,
        write_seconds: float = WRITE_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._link, self._redact, self._prompts = link, remembering(redact), prompts
        self._write_seconds, self._pause_seconds = write_seconds, pause_seconds
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._dropped: Counter[str] = Counter()  # by stream, not yet counted in its numbers
        self._unreported = 0
        self._reported_at = float("-inf")  # event loop time
        self._more = asyncio.Event()
        self.dropped = 0  # in all

    @property
    def waiting(self) -> int:
        """How many notes and turns' words are not written yet."""
        return len(self._waiting)

    def note(self, entry: Entry) -> None:
        """Write one of agentic.wire.entries.NOTES."""
        self._put(_Waiting(keys.COORDINATOR_RECORD, lambda: (entry,)))

    def log(self, agent: str, entry: Entry) -> None:
        """Write words that are in no turn to the agent's stream: a message that it heard, a summary, a profile, what it
        posted unprompted. They are no prompts, so `prompts` does not count."""
        size = 500 + sum(sys.getsizeof(value) for value in dict(entry).values() if isinstance(value, str))
        self._put(_Waiting(keys.words(agent), lambda: (entry,), size))

    def began(self, notice: TurnNotice) -> None:
        """Nothing is recorded of a turn that only began."""

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        """Write the words of a turn that ended; its record is in Redis already."""
        if size := words.size:

            def entries() -> Sequence[Entry]:
                # The searches stay behind the calls: the recorder leaves out those of calls that it must not keep.
                prompts = (*words.calls(), *words.searches(), *words.rooms()) if self._prompts else ()
                return (*prompts, *words.posts())

            self._put(_Waiting(keys.words(record.agent), entries, size))

    async def run(self) -> None:
        """Write until canceled."""
        while True:
            await self._more.wait()
            self._more.clear()
            await self._write_all()

    async def aclose(self, seconds: float = LAST_WAIT) -> None:
        """Write what waits, for so many seconds at most. `run` must have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._write_all()
        if self._waiting:
            log.warning("entries lost with this process, which could not write them to Redis: %d", len(self._waiting))

    def _put(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._bytes += waiting.size
        while len(self._waiting) > MAX_WAITING or self._bytes > MAX_BYTES:
            dropped = next((each for each in self._waiting if each.size), self._waiting[0])
            self._remove(dropped)
            self._note_dropped(dropped.stream, 1)
        self._more.set()

    def _remove(self, waiting: _Waiting) -> None:
        with suppress(ValueError):  # dropped while it was being written
            self._waiting.remove(waiting)
            self._bytes -= waiting.size

    def _note_dropped(self, stream: str, count: int) -> None:
        self.dropped += count
        self._dropped[stream] += count
        self._unreported += count
        now = asyncio.get_running_loop().time()
        if now - self._reported_at >= REPORT_SECONDS:
            why = "Redis is unavailable or too slow for them, turns go on"
            log.warning("entries dropped from the record: %d; %s", self._unreported, why)
            self._reported_at, self._unreported = now, 0

    async def _write_all(self) -> None:
        while self._waiting:
            waiting = self._waiting[0]
            try:
                await self._write(waiting)
            except StateUnavailable as away:
                log.debug("the record waits: %s", away)
                await self._link.present.wait()
                await asyncio.sleep(self._pause_seconds)
                continue
            except Exception:  # the edge of the task: one bad entry must not end the record
                log.exception("an entry of the record cannot be made or written and is dropped")
                self._note_dropped(waiting.stream, 1)
            self._remove(waiting)

    async def _write(self, waiting: _Waiting) -> None:
        """Raises StateUnavailable."""
        stream, of_words = waiting.stream, waiting.size > 0

        def make() -> list[tuple[str, str]]:
            return [(_KINDS[type(entry)], encoded(entry, self._redact)) for entry in waiting.entries()]

        # Compressing a long prompt takes milliseconds, which a turn would feel.
        made = await asyncio.to_thread(make) if of_words else make()
        fields = [pair for pair in made if len(pair[1]) <= MAX_ENTRY_CHARACTERS]
        if len(fields) < len(made):
            self._note_dropped(stream, len(made) - len(fields))
        if not fields:
            return
        bounds = (WORDS_KEPT, WORDS_SECONDS) if of_words else (NOTES_KEPT, NOTES_SECONDS)
        dropped = self._dropped[stream]
        entries = itertools.chain(*fields)
        places = [stream, keys.entries_counted(stream)]
        await self._link.script(ADD, places, [dropped, *bounds, *entries], seconds=self._write_seconds)
        self._dropped[stream] -= dropped


def remembering(redact: Redact, size: int = REMEMBERED) -> Redact:
    """The same, remembering the newest texts: most of a prompt was in the prompt before it, and while a pattern looks
    for secrets in a long text no other thread runs, the event loop's neither."""
    known = LRUCache[str, str](size, getsizeof=sys.getsizeof)

    def remembered(text: str) -> str:
        if len(text) < SHORT:
            return redact(text)
        found = known.get(text)
        if found is None:
            found = redact(text)
            found = text if found == text else found  # kept once
            with suppress(ValueError):  # longer than all that is remembered
                known[text] = found
        return found

    return remembered


def encoded(entry: Entry, redact: Redact) -> str:
    """An entry's `data`: JSON of a note; of words base64 of zlib of JSON."""
    shown = redacted(entry.model_dump(exclude_defaults=True), redact)
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    if type(entry) in NOTES.values():
        return text.encode(errors="replace").decode()
    return base64.b64encode(zlib.compress(text.encode(errors="replace"))).decode()


def decoded(kind: str, data: str) -> Entry | None:
    """Read what `encoded` wrote; None for a kind that this version does not know. Raises ValueError."""
    if kind in NOTES:
        return NOTES[kind].model_validate_json(data)
    if kind not in WORDS:
        return None
    try:
        text = zlib.decompress(base64.b64decode(data))
    except zlib.error as error:
        raise ValueError(f"not compressed: {error}") from error
    return WORDS[kind].model_validate_json(text)


def redacted(value: Any, redact: Redact) -> Any:
    """A value of JSON with each text redacted, keys included."""
    match value:
        case str():
            return redact(value)
        case list() | tuple():
            return [redacted(each, redact) for each in value]
        case dict():
            return {redact(key): each if key in _EXACT else redacted(each, redact) for key, each in value.items()}
    return value


class RecordedAgents(Store):
    async def add(self, agent: str) -> None:
        """Before its first turn."""
        key = keys.RECORDED_AGENTS
        await self._link.batch(lambda pipe: (pipe.sadd(key, agent), pipe.expire(key, KEEP_SECONDS)))

    async def read(self) -> frozenset[str]:
        return frozenset(map(str, await self._link.call(lambda redis: redis.smembers(keys.RECORDED_AGENTS))))
