"""A persona's files, read for each event.

Eight files, each of them optional here; which are needed is for boot.md to say. A file that cannot be read is a problem
in one line, and the rest is used. Reading is cheap: a file whose time, size and inode are the same as before is not
opened again, and its text is the very same object, which what is computed from it can be kept by.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_personas.errors import NotFound, PersonaError
from agent_personas.safe_files import as_text, read_plain

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
    """Each file's text, None where it is missing or cannot be read. `problems`: one line each, with the file's name."""

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
        """By the file's name, as in PERSONA_FILES."""
        found = getattr(self, name.removesuffix(".md"))
        return found if isinstance(found, str) else None

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return ((name, self.text(name)) for name in PERSONA_FILES)


@dataclass(frozen=True, slots=True)
class _Kept:
    mark: tuple[int, int, int]
    text: str


class FileCache:
    """What was read before. Owned by whoever reads a folder again and again; the files stay the only truth."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._kept = clock, dict[str, _Kept]()

    def read(self, path: Path | str) -> str:
        """The file's text as it is now. Links are followed: the folder is its owner's. Raises PersonaError."""
        path = os.fspath(path)
        try:
            found = os.stat(path)
        except OSError:
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


def read_file(folder: Path, name: str, cache: FileCache) -> str | None:
    """One of PERSONA_FILES as it is now; None where it is missing or cannot be read, which `read_persona` tells."""
    try:
        return cache.read(os.path.join(os.fspath(folder), name))
    except PersonaError:
        return None


def read_persona(folder: Path, cache: FileCache | None = None) -> PersonaFiles:
    """The folder's files as they are now. Never raises: what is wrong stands in `problems`, worth a warning once."""
    cache = cache or FileCache()
    texts: dict[str, str] = {}
    problems: list[str] = []
    place = os.fspath(folder)
    for name in PERSONA_FILES:
        try:
            texts[name.removesuffix(".md")] = cache.read(os.path.join(place, name))
        except NotFound:
            if name not in MAY_BE_MISSING:
                problems.append(f"{name}: missing")
        except PersonaError as error:
            problems.append(f"{name}: left out, {error}")
    return PersonaFiles(**texts, problems=tuple(problems))


def _read(path: str) -> str:
    return as_text(read_plain(path, MAX_FILE_BYTES, follow=True))
