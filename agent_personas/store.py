"""Changing a persona's file: under the folder's lock, whole or not at all, and the last ten versions are kept.

    .history/memory.md.20261120T091500Z-000001      what the file held before, oldest first by name

Whoever changes a file says what it becomes of what it is; that function runs under the lock, so nothing that was
written in between is lost. What must be gone altogether is taken out of the versions too. The thread waits: call it
from one of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from agent_personas.errors import NotFound, OutOfBounds, TooLarge
from agent_personas.files import MAX_FILE_BYTES, PERSONA_FILES
from agent_personas.safe_files import as_bytes, as_text, below, folder_at, locked, read_plain, told, write_whole

HISTORY = ".history"
VERSIONS = 10
_VERSION = re.compile(r"(.+)\.\d{8}T\d{6}Z-(\d{6})")


def change(
    folder: Path,
    name: str,
    edit: Callable[[str | None], str],
    *,
    limit: int = MAX_FILE_BYTES,
    clock: Callable[[], float] = time.time,
) -> str:
    """Makes of a file's text (None: there is none) what `edit` says, and gives it back. Same text: nothing is written.

    `limit` is in bytes. Raises PersonaError, and whatever `edit` raises: then the file is as it was.
    """
    if name not in PERSONA_FILES:
        raise OutOfBounds("this is no file of a persona")
    with folder_at(folder) as descriptor, locked(descriptor):
        try:
            old: bytes | None = read_plain(name, MAX_FILE_BYTES, descriptor)
        except NotFound:
            old = None
        before = None if old is None else as_text(old)
        text = edit(before)
        new = as_bytes(text)
        if len(new) > limit:
            raise TooLarge(f"the file would have {len(new):,} bytes; {limit:,} is the most")
        if text != before:
            if old is not None:
                _keep(descriptor, name, old, clock())
            write_whole(descriptor, name, new)
        return text


def rewrite(folder: Path, name: str, edit: Callable[[str], str]) -> str:
    """Makes of a file's text, and of each version that is kept of it, what `edit` says, and keeps nothing of before.
    Gives back what the file itself held, "" where there is none.

    A folder where that changes nothing is only read. Raises PersonaError; then some may be as they were.
    """
    with folder_at(folder) as descriptor:
        before, changed = _rewritten(descriptor, name, edit, write=False)
        if changed:
            with locked(descriptor):
                before, _ = _rewritten(descriptor, name, edit, write=True)
        return before


def before(folder: Path, name: str, changes: int) -> str:
    """What a file held before its last so many changes, 1 to VERSIONS. Raises NotFound where fewer are kept."""
    try:
        with folder_at(folder) as descriptor, below(descriptor, (HISTORY,)) as history:
            kept = _kept(history, name)
            if changes <= len(kept):
                return as_text(read_plain(kept[-changes], MAX_FILE_BYTES, history))
    except NotFound:
        kept = []
    raise NotFound(f"its history holds {len(kept)} changes")


def _rewritten(folder: int, name: str, edit: Callable[[str], str], *, write: bool) -> tuple[str, bool]:
    """What the file holds, and whether `edit` changes it or one of its versions; with `write` it does."""
    before, changed = _rewritten_one(folder, name, edit, write=write)
    with contextlib.suppress(NotFound), below(folder, (HISTORY,)) as history:
        for kept in _kept(history, name):
            changed |= _rewritten_one(history, kept, edit, write=write)[1]
    return before, changed


def _rewritten_one(folder: int, name: str, edit: Callable[[str], str], *, write: bool) -> tuple[str, bool]:
    try:
        text = as_text(read_plain(name, MAX_FILE_BYTES, folder))
    except NotFound:
        return "", False
    new = edit(text)
    if write and new != text:
        write_whole(folder, name, as_bytes(new))
    return text, new != text


def _keep(folder: int, name: str, data: bytes, now: float) -> None:
    with below(folder, (HISTORY,), make=True) as history:
        kept = _kept(history, name)
        number = int(kept[-1][-6:]) + 1 if kept else 1
        write_whole(history, f"{name}.{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{number:06d}", data)
        for old in kept[: max(0, len(kept) + 1 - VERSIONS)]:
            with contextlib.suppress(FileNotFoundError), told():
                os.unlink(old, dir_fd=history)


def _kept(history: int, name: str) -> list[str]:
    """By their running number, oldest first: a clock may go back."""
    with told():
        found = [(match[2], entry) for entry in os.listdir(history) if (match := _VERSION.fullmatch(entry))]
    return [entry for _, entry in sorted(found) if entry.startswith(f"{name}.")]
