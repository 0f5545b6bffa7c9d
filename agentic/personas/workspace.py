"""Read, write, edit, and search the files in an agent's own folder; nothing outside is reachable.

Paths are relative, with `/`. Parts that are empty or start with a period are rejected, links are never followed
(files.py), and content is text within limits of size, number, and depth. Searches use plain words, not regular
expressions: the model that would write them reads strangers' text, and some expressions never end.

All methods block the thread and raise PersonaError.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agentic.personas.files import (
    PRIVATE_FOLDER,
    NotFound,
    OutOfBounds,
    PersonaError,
    as_bytes,
    as_text,
    folder_at,
    locked,
    os_errors,
    read_plain,
    write_whole,
)

MAX_FILE_BYTES = 262_144
MAX_FILES = 500
MAX_TOTAL_BYTES = 16_777_216
MAX_DEPTH = 8
MAX_PATH = 240  # characters
MAX_PATTERN = 200
MAX_HITS = 200


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that contains the words: its number, from 1, and at most 300 characters."""

    path: str
    line: int
    text: str


class Workspace:
    """The folder `root`, created by the first write."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str, first_line: int = 1, max_lines: int = 2_000) -> str:
        *folders, name = _parts(path)
        with folder_at(self._root, *folders) as folder:
            text = as_text(read_plain(name, MAX_FILE_BYTES, folder))
        lines = text.split("\n")
        start = max(0, first_line - 1)
        return text if not start and len(lines) <= max_lines else "\n".join(lines[start : start + max_lines])

    def write(self, path: str, text: str) -> None:
        *folders, name = _parts(path)
        data = as_bytes(text)
        _check_size(len(data))
        with os_errors():
            self._root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        with folder_at(self._root) as root, locked(root):
            self._make_room(root, path, len(data))
            with folder_at(root, *folders, make=True) as folder:
                write_whole(folder, name, data)

    def edit(self, path: str, old: str, new: str, *, everywhere: bool = False) -> int:
        """Replace `old`, which must occur exactly once unless `everywhere`, with `new`. Returns how often it did."""
        *folders, name = _parts(path)
        if not old:
            raise OutOfBounds("the text to replace is empty")
        with folder_at(self._root) as root, locked(root), folder_at(root, *folders) as folder:
            text = as_text(read_plain(name, MAX_FILE_BYTES, folder))
            times = text.count(old)
            if not times:
                raise NotFound("the text to replace is not in the file")
            if times > 1 and not everywhere:
                raise PersonaError(f"the text to replace is in the file {times} times")
            # Check the size first: replacing a short text everywhere could make gigabytes.
            _check_size(len(as_bytes(text)) + times * (len(as_bytes(new)) - len(as_bytes(old))))
            data = as_bytes(text.replace(old, new))
            self._make_room(root, path, len(data))
            write_whole(folder, name, data)
        return times

    def glob(self, pattern: str = "**") -> tuple[str, ...]:
        """Return the matching paths in order: `*` and `?` match within a part, `**` matches any number of parts."""
        wanted = _pattern(pattern)
        try:
            with folder_at(self._root) as root:
                files = sorted(path for path, _ in _walk(root, "", MAX_DEPTH))
        except NotFound:
            return ()
        return tuple(path for path in files if _fits(path.split("/"), wanted))

    def grep(self, words: str, pattern: str = "**") -> tuple[Hit, ...]:
        """Return the first MAX_HITS lines that contain these words, in any case, in matching text files."""
        wanted, hits = words.casefold(), list[Hit]()
        if not wanted.strip() or len(words) > MAX_PATTERN:
            raise OutOfBounds(f"a search needs 1 to {MAX_PATTERN} characters")
        for path in self.glob(pattern):
            try:
                text = self.read(path, max_lines=MAX_FILE_BYTES)
            except PersonaError:  # gone meanwhile, or not text
                continue
            for number, line in enumerate(text.split("\n"), 1):
                if wanted in line.casefold():
                    hits.append(Hit(path, number, line.strip()[:300]))
                    if len(hits) == MAX_HITS:
                        return tuple(hits)
        return tuple(hits)

    def _make_room(self, root: int, path: str, size: int) -> None:
        others = [found for name, found in _walk(root, "", MAX_DEPTH) if name != path]
        if len(others) >= MAX_FILES:
            raise PersonaError(f"the workspace has {MAX_FILES} files, which is the limit")
        if sum(others) + size > MAX_TOTAL_BYTES:
            raise PersonaError(f"the workspace would have more than {MAX_TOTAL_BYTES:,} bytes")


def _parts(path: str) -> list[str]:
    """Split a path. Raises OutOfBounds if it may lead outside."""
    parts = path.split("/")
    if not path.isprintable() or "\\" in path or len(path) > MAX_PATH or len(parts) > MAX_DEPTH:
        raise OutOfBounds(f"a path has at most {MAX_DEPTH} parts separated by / and {MAX_PATH} characters")
    for part in parts:
        if not part.strip() or part.startswith(".") or len(part.encode()) > 200:
            raise OutOfBounds("a path is relative, and no part of it is empty or starts with a period")
    return parts


def _check_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise PersonaError(f"a file has at most {MAX_FILE_BYTES:,} bytes")


def _pattern(pattern: str) -> list[str]:
    parts = pattern.split("/")
    if len(pattern) > MAX_PATTERN or len(parts) > MAX_DEPTH:
        raise OutOfBounds(f"a pattern has at most {MAX_DEPTH} parts and {MAX_PATTERN} characters")
    return [part for part, before in zip(parts, ["", *parts], strict=False) if (part, before) != ("**", "**")]


def _fits(parts: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or (bool(parts) and _fits(parts[1:], pattern))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _walk(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, int]]:
    """Yield the regular files below a folder, skipping links and hidden names."""
    with os_errors():
        names = [name for name in os.listdir(folder) if not name.startswith(".")]
    for name in names:
        try:
            with os_errors():
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield prefix + name, found.st_size
            elif stat.S_ISDIR(found.st_mode) and depth > 1:
                with folder_at(folder, name) as deeper:
                    yield from _walk(deeper, f"{prefix}{name}/", depth - 1)
        except (NotFound, OutOfBounds):  # deleted or replaced with a link since the listing
            continue
