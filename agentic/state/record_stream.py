"""Write the record's entries to their Redis streams, in the background.

A turn, the engine, and the gateway hand in entries without waiting. One task redacts, compresses, and writes them in
order: words every half second, or with the next note, since a note may be a deletion, which must not be lost. The queue
is bounded: beyond its bound, the oldest words are dropped first. Dropped entries are counted in the next entry's number
(turn_records.py), so the recorder knows of them, and are logged now and then.

The recorder may be another process. It knows the bots from its settings, and from `RecordedAgents` which personas have
streams, too.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic_core import PydanticSerializationError

from agentic.process.redaction import Redactor
from agentic.process.tasks import wait_at_most
from agentic.state.turn_records import APPEND, TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, Store
from agentic.wire.entries import NOTES, WORDS, CallWords, Entry, PackedCall, PostWords, RoomWords, SearchWords
from agentic.wire.messages import TurnNotice

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard as zstd

KEEP_SECONDS = 30 * 86400  # after the last agent was added; streams are kept for 7 days
MAX_WAITING = 2000  # entries and sets of words
MAX_BYTES = 32_000_000  # of waiting words
MAX_BATCH_BYTES = 2_000_000  # of words written together, unless a single turn has more
MAX_ENTRY_BYTES = 2_000_000  # of an entry's data
BATCH_SECONDS = 0.5  # from the first words until the batch is written
WORDS_KEPT = 1000  # in an agent's stream: far more than a recorder leaves there
WORDS_SECONDS = 86400
NOTES_KEPT = 20_000
NOTES_SECONDS = 7 * 86400
WRITE_SECONDS = 10.0  # per write; a large write over a slow line isn't an outage
PAUSE_SECONDS = 2.0  # after a failed write
REPORT_SECONDS = 600.0  # between two log lines about dropped entries
LAST_WAIT = 3.0  # seconds to write at the end of the process
LEVEL = 3  # of zstd compression
ZSTD = b"\x28\xb5\x2f\xfd"  # first bytes of zstd data

# KEYS: the stream, its count. ARGV: how many entries were dropped before these, the stream's bounds, then for each
# entry its kind, data, and blob ("" for none).
ADD = f"""{APPEND}
local entries = {{}}
for i = 4, #ARGV, 3 do
  local fields = {{'kind', ARGV[i], 'data', ARGV[i + 1]}}
  if ARGV[i + 2] ~= '' then
    fields[5], fields[6] = 'blob', ARGV[i + 2]
  end
  entries[#entries + 1] = fields
end
append(KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), entries)
"""

Fields = tuple[str, bytes, bytes]  # kind, data, and blob

_KINDS = {kind: name for name, kind in (*NOTES.items(), *WORDS.items())}
_BLOBS: Mapping[type[Entry], str] = {PackedCall: "words", PostWords: "picture"}  # the field that isn't in the JSON

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Waiting:
    """Entries for a stream: notes, or a turn's words, which are made and encoded when their batch is due."""

    stream: str
    entries: Callable[[], Sequence[Entry | CallWords]]
    size: int = 0  # of words: approximate bytes in memory
    fields: list[Fields] | None = None
    lost: int = 0  # entries that couldn't be made, or are too large


class Notes(Protocol):
    """Takes notes for the record (conversations, reactions, deletions, actions), and words that belong to no turn."""

    def note(self, entry: Entry) -> None: ...
    def log(self, agent: str, entry: Entry) -> None: ...


class TurnWords(Protocol):
    """The words of a turn that ended. The methods are slow, so they are called in a thread. `size`: approximate bytes
    in memory, 0 if there are no words."""

    @property
    def size(self) -> int: ...
    def calls(self) -> Sequence[CallWords]: ...
    def searches(self) -> Sequence[SearchWords]: ...
    def posts(self) -> Sequence[PostWords]: ...
    def rooms(self) -> Sequence[RoomWords]: ...


class NoRecord:
    """Notes that are not recorded."""

    def note(self, entry: Entry) -> None:
        del entry

    def log(self, agent: str, entry: Entry) -> None:
        del agent, entry


class RecordWriter:
    """Run `run` in a task; `aclose` writes what still waits. `prompts`: record prompts, completions, and messages of
    rooms, too. `note`, `log`, `began`, and `ended` never wait and never fail."""

    def __init__(
        self,
        link: RedisConnection,
        redact: Redactor,
        *,
        prompts: bool = True,
        batch_seconds: float = BATCH_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._link, self._redact, self._prompts = link, redact, prompts
        self._batch_seconds, self._pause_seconds = batch_seconds, pause_seconds
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._dropped: Counter[str] = Counter()  # by stream; not yet in its entries' numbers
        self._unreported = 0
        self._reported_at = float("-inf")  # event loop time
        self._more, self._has_note = asyncio.Event(), asyncio.Event()
        self.dropped = 0  # in total

    @property
    def waiting(self) -> int:
        """Return how many notes and turns' words are not written yet."""
        return len(self._waiting)

    def note(self, entry: Entry) -> None:
        """Write a note, one of agentic.wire.entries.NOTES."""
        self._put(_Waiting(keys.COORDINATOR_RECORD, lambda: (entry,)))

    def log(self, agent: str, entry: Entry) -> None:
        """Write words that belong to no turn to the agent's stream: a message that it read, a summary, a profile, an
        unprompted message. `prompts` doesn't apply to them."""
        size = 500 + sum(sys.getsizeof(value) for value in dict(entry).values() if isinstance(value, str))
        self._put(_Waiting(keys.words(agent), lambda: (entry,), size))

    def began(self, notice: TurnNotice) -> None:
        """Do nothing: only turns that ended are recorded."""

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        """Write the words of a turn that ended. Its TurnRecord is in Redis already."""
        if size := words.size:

            def entries() -> Sequence[Entry | CallWords]:
                # Searches come after calls: the recorder leaves out searches of calls that it must not keep.
                prompts = (*words.calls(), *words.searches(), *words.rooms()) if self._prompts else ()
                return (*prompts, *words.posts())

            self._put(_Waiting(keys.words(record.agent), entries, size))

    async def run(self) -> None:
        """Write until canceled."""
        while True:
            await self._more.wait()
            await wait_at_most(self._has_note, self._batch_seconds)
            self._more.clear()
            self._has_note.clear()
            await self._write_all()

    async def aclose(self, seconds: float = LAST_WAIT) -> None:
        """Write what waits, for at most `seconds`. `run` must have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._write_all()
        if self._waiting:
            log.warning(
                "entries of the record lost: %d; this process could not write them to Redis", len(self._waiting)
            )

    def _put(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._bytes += waiting.size
        while len(self._waiting) > MAX_WAITING or self._bytes > MAX_BYTES:
            dropped = next((each for each in self._waiting if each.size), self._waiting[0])
            self._remove(dropped)
            self._note_dropped(dropped.stream, 1)
        self._more.set()
        if not waiting.size:
            self._has_note.set()

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
            why = "Redis is unavailable or too slow; turns continue"
            log.warning("entries dropped from the record: %d; %s", self._unreported, why)
            self._reported_at, self._unreported = now, 0

    async def _write_all(self) -> None:
        while self._waiting:
            try:
                await self._write_batch()
            except StateUnavailable as away:
                log.debug("the record waits: %s", away)
                await self._link.present.wait()
                await asyncio.sleep(self._pause_seconds)

    async def _write_batch(self) -> None:
        """Write the first entries that wait. Raises StateUnavailable."""
        batch, size = list[_Waiting](), 0
        for each in self._waiting:
            size += each.size
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(each)
        if new := [each for each in batch if each.fields is None]:
            # encoding a turn's words takes a millisecond, which would delay the next turn
            if size:
                await asyncio.to_thread(self._encode, new)
            else:
                self._encode(new)
            for each in new:
                if each.lost:
                    self._note_dropped(each.stream, each.lost)
        by_stream: dict[str, list[_Waiting]] = defaultdict(list)
        for each in batch:
            by_stream[each.stream].append(each)
        for stream, together in by_stream.items():
            fields = [part for each in together for entry in each.fields or () for part in entry]
            if fields:
                try:
                    await self._add(stream, fields)
                except StateUnavailable:
                    raise
                except Exception:  # the edge of the task: one bad entry must not end the record
                    log.exception("dropping entries of the record: can't write them")
                    self._note_dropped(stream, len(fields) // 3)
            for each in together:
                self._remove(each)

    async def _add(self, stream: str, fields: Sequence[str | bytes]) -> None:
        notes = stream == keys.COORDINATOR_RECORD
        bounds = (NOTES_KEPT, NOTES_SECONDS) if notes else (WORDS_KEPT, WORDS_SECONDS)
        dropped = self._dropped[stream]
        places = [stream, keys.entries_counted(stream)]
        await self._link.script(ADD, places, [dropped, *bounds, *fields], seconds=WRITE_SECONDS)
        self._dropped[stream] -= dropped

    def _encode(self, waiting: Sequence[_Waiting]) -> None:
        for each in waiting:
            try:
                made = [encode(entry, self._redact) for entry in each.entries()]
            except Exception:  # the edge of the task, too
                log.exception("dropping an entry of the record: can't make it")
                each.fields, each.lost = [], 1
                continue
            each.fields = [fields for fields in made if len(fields[1]) + len(fields[2]) <= MAX_ENTRY_BYTES]
            each.lost = len(made) - len(each.fields)


def encode(entry: Entry | CallWords, redact: Redactor) -> Fields:
    """Redact an entry and encode it for its stream."""
    if type(entry) is CallWords:
        entry = pack(entry, redact)
    blob = getattr(entry, _BLOBS[type(entry)]) if type(entry) in _BLOBS else None
    if type(entry) is PackedCall:  # ids of messages only: nothing to redact, and much that repeats
        return "call", zstd.compress(_to_json(entry, None), LEVEL), blob or b""
    return _KINDS[type(entry)], _to_json(entry, redact), blob or b""


def decode(fields: Mapping[bytes, bytes]) -> Entry | None:
    """Read the fields that `encode` made; None for a kind that this version doesn't know. Raises ValueError."""
    kind, data = fields.get(b"kind", b"").decode(), fields.get(b"data", b"")
    entry_type = NOTES.get(kind) or WORDS.get(kind)
    if entry_type is None:
        return None
    if data.startswith(ZSTD):
        try:
            data = zstd.decompress(data)
        except zstd.ZstdError as error:
            raise ValueError(f"not compressed: {error}") from error
    if data.startswith(b"{"):
        entry = entry_type.model_validate_json(data)
        return entry.model_copy(update={_BLOBS[entry_type]: fields[b"blob"]}) if b"blob" in fields else entry
    try:  # an earlier version wrote base64 of zlib of JSON
        text = zlib.decompress(base64.b64decode(data))
    except zlib.error as error:
        raise ValueError(f"not compressed: {error}") from error
    if kind == "call":
        values = json.loads(text)
        quoted = {each["message_id"]: each.get("author_id") for each in values.pop("quoted", ())}
        return pack(CallWords(**values, quoted=quoted))
    entry = entry_type.model_validate_json(text)
    if isinstance(entry, PostWords) and entry.picture is not None:
        return entry.model_copy(update={"picture": base64.b64decode(entry.picture)})
    return entry


def pack(words: CallWords, redact: Redactor | None = None) -> PackedCall:
    """Compress the words of a call for the record.

    Each call is compressed by itself. Storing the system prompt, which repeats, only once would save about 2 KB per
    call, but it may contain people's words, which would have to be removed from a second place.
    """
    values = {name: getattr(words, name) for name in PackedCall.model_fields if name != "words"}
    compressed = zstd.compress(_to_json(words, redact, {"quoted"}), LEVEL)
    return PackedCall.model_construct(**values, words=compressed)


def unpack(data: bytes) -> CallWords:
    """Read the words of a PackedCall. Raises ValueError if they can't be read."""
    try:
        # earlier versions used zlib
        text = zstd.decompress(data) if data.startswith(ZSTD) else zlib.decompress(data)
    except (zstd.ZstdError, zlib.error) as error:
        raise ValueError(f"the words of a call can't be read: {error}") from error
    return CallWords.model_validate_json(text)


def _to_json(entry: Entry, redact: Redactor | None, exclude: set[str] | None = None) -> bytes:
    with suppress(PydanticSerializationError):  # half an emoji
        text = entry.model_dump_json(exclude_defaults=True, exclude=exclude).encode()
        if redact is None or redact.is_clean(text):
            return text
    values = entry.model_dump(exclude_defaults=True, exclude=exclude)
    if redact is not None:
        values = _redact_texts(values, redact)
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _redact_texts(value: Any, redact: Redactor) -> Any:
    """Redact each text in a value of JSON, keys included."""
    match value:
        case str():
            return redact.secrets(value)
        case list() | tuple():
            return [_redact_texts(each, redact) for each in value]
        case dict():
            return {redact.secrets(key): _redact_texts(each, redact) for key, each in value.items()}
    return value


class RecordedAgents(Store):
    async def add(self, agent: str) -> None:
        """Before its first turn."""
        key = keys.RECORDED_AGENTS
        await self._link.batch(lambda pipe: (pipe.sadd(key, agent), pipe.expire(key, KEEP_SECONDS)))

    async def read(self) -> frozenset[str]:
        return frozenset(map(str, await self._link.redis.smembers(keys.RECORDED_AGENTS)))
