"""Read a persona's files, for each event.

All eight files are optional here; boot.md says which are required. An unreadable file (half written, or no file
descriptor is free) is reported in one line and keeps the text that was read last. Reading is cheap: a file with the
same time, size and inode as before is not opened, and its text is the same object, so results computed from it can be
cached by that object.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentic.personas.errors import NotFound, PersonaError
from agentic.personas.safe_files import as_text, read_plain

PERSONA_FILES = (
    "soul.md",
    "identity.md",
    "agents.md",
    "user.md",
    "memory.md",
    "tools.md",
    "heartbeat.md",
    "boot.md",
)
MAY_BE_MISSING = ("heartbeat.md", "boot.md")
"""Without them an agent does nothing by itself, and starts with what is built in."""

MAX_FILE_BYTES = 65_536
_SETTLED_SECONDS = 2.0  # a file changed twice within the clock of a file system would look unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaFiles:
    """Each file's text, None if missing or never readable. `problems`: one line each, with the file's name."""

    soul: str | None = None
    identity: str | None = None
    agents: str | None = None
    user: str | None = None
    memory: str | None = None
    tools: str | None = None
    heartbeat: str | None = None
    boot: str | None = None
    problems: tuple[str, ...] = ()

    def text(self, name: str) -> str | None:
        """Return a file's text, by its name in PERSONA_FILES."""
        found = getattr(self, name.removesuffix(".md"))
        return found if isinstance(found, str) else None

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return ((name, self.text(name)) for name in PERSONA_FILES)


@dataclass(frozen=True, slots=True)
class _Kept:
    mark: tuple[int, int, int]
    text: str


class FileCache:
    """Caches files of folders that are read again and again. The files stay the only truth."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._kept = clock, dict[str, _Kept]()

    def read(self, path: Path | str) -> str:
        """Return the file's current text. Links are followed, because the folder is its owner's. Raises
        PersonaError."""
        path = os.fspath(path)
        try:
            found = os.stat(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                self._kept.pop(path, None)
            return _read(path)  # which says what is wrong
        mark = (found.st_mtime_ns, found.st_size, found.st_ino)
        kept = self._kept.get(path)
        if kept is not None and kept.mark == mark:
            return kept.text
        text = _read(path)
        if kept is not None and kept.text == text:
            text = kept.text
        settled = self._clock() - found.st_mtime >= _SETTLED_SECONDS
        self._kept[path] = _Kept(mark if settled else (-1, -1, -1), text)
        return text

    def last_text(self, path: Path | str) -> str | None:
        """Return the text of a file as it was last read, None if it never was or is gone."""
        kept = self._kept.get(os.fspath(path))
        return kept.text if kept is not None else None


def read_file(folder: Path, name: str, cache: FileCache) -> str | None:
    """Return the current text of one of PERSONA_FILES, the last one if it is unreadable now, None if there is none;
    `read_persona` reports why."""
    path = os.path.join(os.fspath(folder), name)
    try:
        return cache.read(path)
    except PersonaError:
        return cache.last_text(path)


def read_persona(
    folder: Path, cache: FileCache | None = None, may_be_missing: Collection[str] = MAY_BE_MISSING
) -> PersonaFiles:
    """Read the folder's current files. Never raises: `problems` says what is wrong, worth one warning each."""
    cache = cache or FileCache()
    texts: dict[str, str] = {}
    problems: list[str] = []
    place = os.fspath(folder)
    for name in PERSONA_FILES:
        path = os.path.join(place, name)
        try:
            texts[name.removesuffix(".md")] = cache.read(path)
        except NotFound:
            if name not in may_be_missing:
                problems.append(f"{name}: missing")
        except PersonaError as error:
            if (last := cache.last_text(path)) is None:
                problems.append(f"{name}: skipped, {error}")
            else:
                texts[name.removesuffix(".md")] = last
                problems.append(f"{name}: its previous text stays in use, {error}")
    return PersonaFiles(**texts, problems=tuple(problems))


def _read(path: str) -> str:
    return as_text(read_plain(path, MAX_FILE_BYTES, follow=True))
