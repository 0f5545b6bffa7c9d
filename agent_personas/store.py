"""Changing a persona's file: under the folder's lock, whole or not at all, and the last ten versions are kept.

    .history/memory.md.20261120T091500Z-000001      what the file held before, oldest first by name

Whoever changes a file says what it becomes of what it is; that function runs under the lock, so nothing that was
written in between is lost. The thread waits: call it from one of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from agent_personas.disk import as_bytes, as_text, below, folder_at, locked, read_plain, told, write_whole
from agent_personas.errors import NotFound, OutOfBounds, TooLarge
from agent_personas.files import MAX_FILE_BYTES, PERSONA_FILES

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
