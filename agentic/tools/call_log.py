"""Record every tool call and its result, the only part of a context that Discord doesn't store.

    call → add() ─┬→ memory, by agent and channel → for_channel() when a context is built → prune()
                  └→ one thread → data/tools/<agent>/<channel>/<YYYY-MM-DDTHH>.jsonl (UTC, of the call)

A record is added at the call, again with the result, and again when its post is known; the last line with an id is
valid. Files are read once, at the start, newest first, until memory is full. They are deleted only for a person who
asks to be forgotten. A killed process may leave an incomplete last line: reading skips it, and the next append starts
a new line. Other processes may write into the same folder (a stand-by that took over an agent), so appending takes a
shared lock and rewriting an exclusive one.

As text, JSON becomes one `key: value` per line, with numbers as they were written. In Discord every post begins with
exactly one period, so that no bot reads it. (Two periods may be a person's ellipsis.)
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

MAX_OF_CHANNEL = 200  # records
MAX_CHARACTERS = 16_000_000  # of all records together
MAX_POST = 2000  # UTF-16 units
MAX_POSTS = 3
MAX_DEPTH = 12
MAX_NAME = 80
INDENT = "  "
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
_BESIDE = ".new"
_AGENT = re.compile(r"[A-Za-z0-9_-]{1,64}")

Place = tuple[str, int]  # agent, channel

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """A tool call. `output`: None while it's running, or if the process ended first.

    `after_message_id`: the newest message that the model had seen. `message_id`: the turn's post, None before it.
    `at`: when the call was made, in unix seconds.
    """

    id: str
    agent: str
    channel_id: int
    turn_id: str
    after_message_id: int
    message_id: int | None = None
    name: str
    arguments: Mapping[str, Any]
    output: str | None = None
    at: float
    is_error: bool = False
    asked_by: int | None = None

    @property
    def position(self) -> int:
        """The id of the message after which the record appears in a context."""
        return max(self.after_message_id, self.message_id or 0)

    @property
    def size(self) -> int:
        """The approximate number of characters in memory."""
        return 500 + len(self.output or "") + len(str(self.arguments))


class ToolRecords:
    """Tool records in memory and in `folder` (data/tools), which is created when needed.

    Enter it as an async context: that reads the records of earlier runs, and leaving it waits until all are written.
    `redact` removes secrets from each line before it is stored.
    """

    def __init__(
        self,
        folder: Path,
        *,
        redact: Callable[[str], str] = str,
        max_of_channel: int = MAX_OF_CHANNEL,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        self._files = RecordFiles(folder)
        self._redact, self._max_of_channel, self._max_characters = redact, max_of_channel, max_characters
        self._channels: OrderedDict[Place, OrderedDict[str, ToolRecord]] = OrderedDict()
        self._characters = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tool-records")

    async def __aenter__(self) -> Self:
        """Raise OSError if the folder can't be read."""
        read = self._thread.submit(self._files.read, self._max_of_channel, self._max_characters)
        for record in await asyncio.wrap_future(read):
            self._remember(record)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    def add(self, record: ToolRecord) -> None:
        """Remember and write the record, replacing an earlier record with its id."""
        line = self._redact(encode_record(record))
        self._remember(decode_record(line) or record)
        self._thread.submit(self._files.append, record, line).add_done_callback(_log_failure)

    def belongs_to(self, agent: str, channel_id: int, turn_id: str, message_id: int) -> None:
        """Note that the turn's tools led to this post."""
        for record in self.for_channel(agent, channel_id):
            if record.turn_id == turn_id and record.message_id is None:
                self.add(replace(record, message_id=message_id))

    def for_channel(self, agent: str, channel_id: int) -> tuple[ToolRecord, ...]:
        """Return the channel's records that are in memory, in the order of the calls."""
        return tuple(self._channels.get((agent, channel_id), {}).values())

    def prune(self, agent: str, channel_id: int, oldest_message_id: int) -> None:
        """Drop records older than the context's oldest message, from memory only."""
        for record in self.for_channel(agent, channel_id):
            if record.position < oldest_message_id:
                self._forget((agent, channel_id), record.id)

    async def forget_person(self, user_id: int) -> int:
        """Remove a person's records from memory and files, and the person's id from other people's records.

        A record is removed if the person asked for the call, or if nobody did and it contains the id. Return how many
        lines were removed from files. Raises OSError if a file can't be rewritten; the file then stays complete.
        """
        for place, records in list(self._channels.items()):
            for record in list(records.values()):
                left = without_person(encode_record(record).encode(), user_id)
                kept = decode_record(left) if left is not None else None
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

    def _forget(self, place: Place, record_id: str) -> None:
        records = self._channels[place]
        self._characters -= records.pop(record_id).size
        if not records:
            del self._channels[place]


def _log_failure(written: Future[None]) -> None:
    error = written.exception()
    if error is not None:  # such as a full disk, which must not silence an agent
        log.error("writing a tool record failed: %s; it stays in memory only", error)


# --- lines and files ------------------------------------------------------------------------------------------------

_RECORDS = TypeAdapter(ToolRecord)


def encode_record(record: ToolRecord) -> str:
    """Return the record as one line of JSON, without the newline."""
    values = {each.name: getattr(record, each.name) for each in fields(record)} | {"arguments": dict(record.arguments)}
    return json.dumps(values, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()


def decode_record(line: str | bytes) -> ToolRecord | None:
    """Parse a line; return None if it isn't a complete record. Ignores unknown fields, which later versions add."""
    try:
        return _RECORDS.validate_json(line, strict=True)
    except ValueError:
        return None


def without_person(line: bytes, user_id: int) -> bytes | None:
    """Return a record's line without a person's id, or None if the line must be removed.

    A line without the id stays unchanged. The line must be removed if the person asked for the call, or if nobody did.
    If another person asked for it, 0 replaces the id. An incomplete line is removed, because its owner is unknown.
    """
    named, record = _number(user_id), decode_record(line)
    if record is not None and named.search(line) is None:
        return line
    return None if record is None or record.asked_by in (None, user_id) else named.sub(b"0", line)


@lru_cache(maxsize=8)
def _number(user_id: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?<!\d)%d(?!\d)" % user_id)


class RecordFiles:
    """The files in a folder. All methods block, so call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, record: ToolRecord, line: str) -> None:
        """Append a line. Raises OSError."""
        if not _AGENT.fullmatch(record.agent):
            raise ValueError("not an agent's key")
        hour = datetime.fromtimestamp(record.at, UTC).strftime("%Y-%m-%dT%H")
        path = self._folder / record.agent / str(int(record.channel_id)) / f"{hour}.jsonl"
        self._folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_SH):
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with os.fdopen(descriptor, "r+b", buffering=0) as file:
                torn = file.seek(0, os.SEEK_END) > 0 and os.pread(descriptor, 1, file.tell() - 1) != b"\n"
                _write_all(descriptor, (b"\n" if torn else b"") + line.encode() + b"\n")

    def read(self, max_of_channel: int, max_characters: int) -> list[ToolRecord]:
        """Return the newest records, oldest first, each as it was last written.

        Deletes the temporary files of interrupted rewrites, which may contain data that was forgotten since.
        """
        leftovers = list(self._folder.glob(f"*/*/*{_BESIDE}"))
        if leftovers:
            with self._locked(fcntl.LOCK_EX):
                for path in leftovers:
                    path.unlink(missing_ok=True)
        newest: dict[str, ToolRecord] = {}
        channels: Counter[Path] = Counter()
        characters = 0
        for path in sorted(self._folder.glob("*/*/*.jsonl"), key=lambda path: path.name, reverse=True):
            if channels[path.parent] >= max_of_channel:
                continue
            for record in reversed(_last_of_each(path)):
                if record.id in newest:
                    continue
                if channels[path.parent] >= max_of_channel or characters + record.size > max_characters:
                    break
                newest[record.id] = record
                channels[path.parent] += 1
                characters += record.size
        return sorted(newest.values(), key=lambda record: record.at)

    def forget(self, user_id: int) -> int:
        """Apply `without_person` to every line of every file. Return how many lines were removed."""
        if not self._folder.exists():
            return 0
        with self._locked(fcntl.LOCK_EX):
            return sum(_without(path, user_id) for path in self._folder.glob("*/*/*.jsonl"))

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        with open(self._folder / "records.lock", "ab") as lock:
            fcntl.flock(lock, kind)
            yield


def _last_of_each(path: Path) -> list[ToolRecord]:
    """Return a file's records in the order of their calls, each from its last line."""
    found: dict[str, ToolRecord] = {}
    skipped = 0
    for line in path.read_bytes().splitlines():
        record = decode_record(line)
        if record is None:
            skipped += bool(line.strip())
        else:
            found[record.id] = record
    if skipped:
        log.warning("tool records in %s: skipped %d unreadable lines", path.name, skipped)
    return list(found.values())


def _without(path: Path, user_id: int) -> int:
    data = path.read_bytes()
    if _number(user_id).search(data) is None:
        return 0
    lines = data.splitlines(keepends=True)
    kept = [line for found in lines if (line := without_person(found, user_id)) is not None]
    if not kept:
        path.unlink()
        return len(lines)
    beside = path.with_suffix(_BESIDE)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    try:
        _write_all(descriptor, b"".join(kept))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(beside, path)
    return len(lines) - len(kept)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


# --- text -----------------------------------------------------------------------------------------------------------


def unroll(value: Any) -> str:
    """Return a JSON value as lines, "" for an empty object."""
    return "\n".join(_lines(value, 0))


def _lines(value: Any, depth: int) -> Iterator[str]:
    if depth >= MAX_DEPTH and isinstance(value, Mapping | list | tuple):
        yield "…"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            head, inner = f"{' '.join(str(key).split())}:", list(_lines(item, depth + 1))
            if inner and (isinstance(item, Mapping | list | tuple) or len(inner) > 1):
                yield head
                yield from (f"{INDENT}{line}" for line in inner)
            else:
                yield f"{head} {inner[0] if inner else '(nothing)'}".rstrip()
    elif isinstance(value, list | tuple):
        for item in value:
            inner = list(_lines(item, depth + 1)) or ["(nothing)"]
            yield f"- {inner[0]}"
            yield from (f"{INDENT}{line}" for line in inner[1:])
    else:
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        yield from said.splitlines() or [""]


def readable(text: str) -> str:
    """Return a JSON object or list as lines, and any other text unchanged."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        found = json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return text
    return unroll(found) or "(nothing)"


def call_line(name: str, record: ToolRecord) -> str:
    return _headline(f"{_plain(name)}>[{_plain(record.name)}]:", unroll(record.arguments))


def result_line(name: str, record: ToolRecord) -> str:
    failed = "error: " if record.is_error else ""
    return _headline(f"{_plain(name)}<[{_plain(record.name)}]:", failed + readable(record.output or "(no result)"))


def record_text(name: str, record: ToolRecord, limit: int = 4000) -> str:
    """Return a record as text for a context: at most `limit` characters, and a note if it was cut."""
    text = f"{call_line(name, record)}\n{result_line(name, record)}"
    return text if len(text) <= limit else f"{text[:limit]}\n[cut here]"


def posts(name: str, record: ToolRecord) -> list[str]:
    """Return the texts of the posts that show a call in Discord, at least one.

    The first is posted at the call and edited when there is a result. Each begins with one period and has at most
    MAX_POST UTF-16 units.
    """
    text = call_line(name, record)
    if record.output is not None:
        text += f"\n{result_line(name, record)}"
    again = f"{_plain(name)}<[{_plain(record.name)}] …"
    text = text.replace("```", "`\u200b`\u200b`")  # a code fence would swallow the rest
    pieces = _pieces(text, MAX_POST - len(again.encode("utf-16-le")) // 2 - 60)
    left = sum(map(len, pieces[MAX_POSTS:]))
    shown = [f".{pieces[0]}", *(f".{again}\n{piece}" for piece in pieces[1:MAX_POSTS])]
    if left:
        shown[-1] += f"\n[… {left} characters more]"
    return shown


def _headline(head: str, text: str) -> str:
    """Return the text after its head. Further lines are indented, so that none can pass for another head."""
    return f"{head} {text}".replace("\r", "").replace("\n", f"\n{INDENT}").rstrip()


def _plain(name: str) -> str:
    """Return a name on one line, without characters that could end its brackets or format the post; never empty."""
    kept = " ".join("".join(char for char in name if char.isprintable() and char not in "[]<>:`*|~@#").split())
    return kept.lstrip(". ")[:MAX_NAME] or "tool"


def _pieces(text: str, room: int) -> list[str]:
    """Cut the text into pieces of at most `room` UTF-16 units, between lines if possible."""
    pieces: list[str] = []
    while text:
        units, end = 0, len(text)
        for index, char in enumerate(text):
            units += 2 if char > "\uffff" else 1
            if units > room:
                end = index
                break
        if end < len(text):
            line_end = text.rfind("\n", end // 2, end)
            end = line_end if line_end > 0 else end
        pieces.append(text[:end].rstrip() or "…")
        text = text[end:].lstrip("\n")
    return pieces or ["…"]
