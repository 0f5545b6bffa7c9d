"""Change a persona's file: under the folder's lock, atomically, keeping the last ten versions. Create and delete the
folders of personas.

    .history/memory.md.20261120T091500Z-000001      a former content, oldest first by name
    .deleted/ada-20261120T091500Z                   beside the folders: a persona that was deleted

A change is a function from the old text to the new. It runs under the lock, so no concurrent write is lost. Text that
must be forgotten is removed from the versions too. All functions block: call them in a thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agentic.personas.errors import Ambiguous, NotFound, NotStored, OutOfBounds, TooLarge
from agentic.personas.files import MAX_FILE_BYTES, PERSONA_FILES
from agentic.personas.safe_files import (
    PRIVATE_FOLDER,
    as_bytes,
    as_text,
    below,
    folder_at,
    locked,
    os_errors,
    read_plain,
    write_whole,
)

HISTORY = ".history"
DELETED = ".deleted"
VERSIONS = 10
_VERSION = re.compile(r"(.+)\.(\d{8}T\d{6}Z)-(\d{6})")
_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class Version:
    """A former content of a file, and when it was replaced (unix seconds)."""

    replaced_at: float
    text: str


def change(
    folder: Path,
    name: str,
    edit: Callable[[str | None], str],
    *,
    limit: int = MAX_FILE_BYTES,
    clock: Callable[[], float] = time.time,
) -> str:
    """Replace a file's text (None if it is missing) with what `edit` returns, and return that. An equal text is not
    written.

    `limit` is in bytes. Raises PersonaError and whatever `edit` raises; the file is then unchanged.
    """
    if name not in PERSONA_FILES:
        raise OutOfBounds("this is not a persona's file")
    with folder_at(folder) as descriptor, locked(descriptor):
        try:
            old: bytes | None = read_plain(name, MAX_FILE_BYTES, descriptor)
        except NotFound:
            old = None
        before = None if old is None else as_text(old)
        text = edit(before)
        new = as_bytes(text)
        if len(new) > limit:
            raise TooLarge(f"the file would have {len(new):,} bytes; the limit is {limit:,}")
        if text != before:
            if old is not None:
                _keep(descriptor, name, old, clock())
            write_whole(descriptor, name, new)
        return text


def create_folder(root: Path, name: str, files: Mapping[str, str]) -> None:
    """Create a persona's folder with these files, all of them or none. Raises PersonaError."""
    with os_errors():
        root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    with folder_at(root) as descriptor, locked(descriptor):
        if os.path.lexists(root / name):
            raise Ambiguous("there is a persona of that name already")
        making = f".{secrets.token_hex(8)}.new"
        try:
            with below(descriptor, (making,), make=True) as folder:
                for file, text in files.items():
                    write_whole(folder, file, as_bytes(text))
            with os_errors():
                os.rename(making, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            shutil.rmtree(root / making, ignore_errors=True)
            raise


def delete_folder(root: Path, name: str, clock: Callable[[], float] = time.time) -> str:
    """Move a persona's folder aside, and return its new name in DELETED. Raises PersonaError."""
    kept = f"{name}-{datetime.fromtimestamp(clock(), UTC).strftime(_STAMP)}"
    with folder_at(root) as descriptor, locked(descriptor), below(descriptor, (DELETED,), make=True) as deleted:
        if os.path.lexists(root / DELETED / kept):
            raise NotStored("it was deleted a moment ago; try again")
        with os_errors():
            os.rename(name, kept, src_dir_fd=descriptor, dst_dir_fd=deleted)
    return kept


def rewrite(folder: Path, name: str, edit: Callable[[str], str]) -> str:
    """Apply `edit` to a file and to each of its kept versions, keeping nothing of before. Returns the file's former
    text, "" if it was missing.

    If nothing changes the folder is only read. Raises PersonaError; some of the files may then be changed already.
    """
    with folder_at(folder) as descriptor:
        before, changed = _rewritten(descriptor, name, edit, write=False)
        if changed:
            with locked(descriptor):
                before, _ = _rewritten(descriptor, name, edit, write=True)
        return before


def before(folder: Path, name: str, changes: int) -> str:
    """Return a file's content before its last so many changes, 1 to VERSIONS. Raises NotFound if fewer are kept."""
    try:
        with folder_at(folder) as descriptor, below(descriptor, (HISTORY,)) as history:
            kept = _kept(history, name)
            if changes <= len(kept):
                return as_text(read_plain(kept[-changes], MAX_FILE_BYTES, history))
    except NotFound:
        kept = []
    raise NotFound(f"its history holds {len(kept)} changes")


def versions_of(folder: Path, name: str) -> list[Version]:
    """Return a file's kept former contents, oldest first. Raises PersonaError."""
    if name not in PERSONA_FILES:
        raise OutOfBounds("this is not a persona's file")
    found: list[Version] = []
    with contextlib.suppress(NotFound), folder_at(folder) as descriptor, below(descriptor, (HISTORY,)) as kept:
        for entry in _kept(kept, name):
            with contextlib.suppress(NotFound):  # dropped since it was listed
                text = as_text(read_plain(entry, MAX_FILE_BYTES, kept))
                found.append(Version(_replaced_at(entry), text))
    return found


def _rewritten(folder: int, name: str, edit: Callable[[str], str], *, write: bool) -> tuple[str, bool]:
    """Return the file's text, and whether `edit` changes it or one of its versions; with `write`, change them."""
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
        write_whole(history, f"{name}.{datetime.fromtimestamp(now, UTC).strftime(_STAMP)}-{number:06d}", data)
        for old in kept[: max(0, len(kept) + 1 - VERSIONS)]:
            with contextlib.suppress(FileNotFoundError), os_errors():
                os.unlink(old, dir_fd=history)


def _kept(history: int, name: str) -> list[str]:
    """Return the versions by their number, oldest first: a clock may go back."""
    with os_errors():
        found = [(match[3], entry) for entry in os.listdir(history) if (match := _VERSION.fullmatch(entry))]
    return [entry for _, entry in sorted(found) if entry.startswith(f"{name}.")]


def _replaced_at(entry: str) -> float:
    """When the content in that version was replaced; 0 for a name that no program of ours wrote."""
    match = _VERSION.fullmatch(entry)
    try:
        return datetime.strptime(match[2], _STAMP).replace(tzinfo=UTC).timestamp() if match else 0.0
    except ValueError:  # the 31st of February
        return 0.0
