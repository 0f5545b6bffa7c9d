"""Records on the disk: one file of lines for an agent, a channel and an hour (UTC, of the call).

A line is appended by one write, and a file is open only during that write, so nothing happens at the end of an hour. A
killed process may leave a torn last line: reading skips it, and the next append starts a new line. Rewriting creates a
new file and renames it. Other processes may write into the same folder (a stand-by that took over an agent), so
appending takes a shared lock and rewriting an exclusive one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from agentic.tools.record import ToolRecord, decoded

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
_BESIDE = ".new"
_HOUR = "%Y-%m-%dT%H"
_AGENT = re.compile(r"[A-Za-z0-9_-]{1,64}")

log = logging.getLogger(__name__)


def without_person(line: bytes, user_id: int) -> bytes | None:
    """Remove a person's id from a record's line, or return None to remove the line.

    The line is removed if the person asked for the call, or nobody did. A call that another person asked for is kept,
    with 0 for the id. A torn line is removed too, because its owner is unknown.
    """
    named = _number(user_id)
    record = decoded(line)
    if record is not None and named.search(line) is None:
        return line
    if record is None or record.asked_by in (None, user_id):
        return None
    return named.sub(b"0", line)


@lru_cache(maxsize=8)
def _number(user_id: int) -> re.Pattern[bytes]:
    """Match the id as a whole number."""
    return re.compile(rb"(?<!\d)%d(?!\d)" % user_id)


class RecordFiles:
    """The files of a folder. All methods block: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, record: ToolRecord, line: str) -> None:
        """Append a line. Raises OSError."""
        path = self.path_of(record)
        self._folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_SH):
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with os.fdopen(descriptor, "r+b", buffering=0) as file:
                torn = file.seek(0, os.SEEK_END) > 0 and os.pread(descriptor, 1, file.tell() - 1) != b"\n"
                _write_all(descriptor, (b"\n" if torn else b"") + line.encode() + b"\n")

    def path_of(self, record: ToolRecord) -> Path:
        if not _AGENT.fullmatch(record.agent):
            raise ValueError("not an agent's key")
        hour = datetime.fromtimestamp(record.at, UTC).strftime(_HOUR)
        return self._folder / record.agent / str(int(record.channel_id)) / f"{hour}.jsonl"

    def read(self, max_of_channel: int, max_characters: int) -> list[ToolRecord]:
        """The newest records, oldest first, each once, as it was written last. Removes what a rewriting that was cut
        off left beside a file: it may hold what was forgotten since."""
        self._remove_leftovers()
        newest: dict[str, ToolRecord] = {}
        channels: Counter[Path] = Counter()
        characters = 0
        for path in sorted(self._paths(), key=lambda path: path.name, reverse=True):
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
        """Rewrite every file that contains the person's id, as `without_person` says. Returns how many lines were
        removed."""
        if not self._folder.exists():
            return 0
        with self._locked(fcntl.LOCK_EX):
            return sum(_without(path, user_id) for path in self._paths())

    def _remove_leftovers(self) -> None:
        if next(self._folder.glob(f"*/*/*{_BESIDE}"), None) is None:
            return
        with self._locked(fcntl.LOCK_EX):
            for path in self._folder.glob(f"*/*/*{_BESIDE}"):
                path.unlink(missing_ok=True)

    def _paths(self) -> Iterator[Path]:
        return self._folder.glob("*/*/*.jsonl")

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        with open(self._folder / "records.lock", "ab") as lock:
            fcntl.flock(lock, kind)
            yield


def _last_of_each(path: Path) -> list[ToolRecord]:
    """Return a file's records in the order of their calls, the last line of each."""
    found: dict[str, ToolRecord] = {}
    skipped = 0
    for line in path.read_bytes().splitlines():
        record = decoded(line)
        if record is None:
            skipped += bool(line.strip())
        else:
            found[record.id] = record
    if skipped:
        log.warning("tool records %s: skipped %d unreadable lines", path.name, skipped)
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
