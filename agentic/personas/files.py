"""Read and write a persona's files safely; the errors of doing so, each text one line for the agent, without paths.

All of a persona's eight files are optional here; boot.md says which are required. An unreadable file (half written, or
no file descriptor is free) is reported in one line and keeps the text that was read last. A file with the same time,
size and inode as before is not opened, and its text is the same object, for caches by that object.

Files are opened part by part, relative to their folder's descriptor, with O_NOFOLLOW (man 2 openat): no name leads out,
and exchanging a folder for a link meanwhile does not help an attacker. A write goes to a temporary file, is flushed,
and is renamed. Writers of one folder wait for each other at its lock file, across threads and processes. What is new is
its owner's alone to read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PERSONA_FILES = ("soul.md", "identity.md", "agents.md", "user.md", "memory.md", "tools.md", "heartbeat.md", "boot.md")
MAY_BE_MISSING = ("heartbeat.md", "boot.md")
"""Without them an agent does nothing by itself, and starts with what is built in."""

MAX_FILE_BYTES = 65_536
_SETTLED_SECONDS = 2.0  # a file changed twice within the clock of a file system would look unchanged

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700  # what people said and what agents noted is their owner's to read
LOCK = ".lock"
LOCK_SECONDS = 5.0
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")  # the names that write_whole gives to what is not yet in its place
_POLL_SECONDS = 0.02
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = (errno.ELOOP, errno.EMLINK)


class PersonaError(Exception):
    """An error about a persona's files."""


class OutOfBounds(PersonaError):
    """The name leads out of the folder, through a link, or not to a regular text file."""


class NotFound(PersonaError):
    """There is no such file, section or entry."""


class Ambiguous(PersonaError):
    """The name matches more than once."""


class TooLarge(PersonaError):
    """It would exceed a limit."""


class NotStored(PersonaError):
    """It could not be read or written: a full or read-only disk, or a lock that is not released."""


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


def read_persona(
    folder: Path,
    cache: FileCache | None = None,
    may_be_missing: Collection[str] = MAY_BE_MISSING,
    max_age: float = 0.0,
) -> PersonaFiles:
    """Read the folder's files, as they were at most `max_age` seconds ago. Never raises: `problems` says what is wrong,
    worth one warning each."""
    cache = cache or FileCache()
    texts: dict[str, str | None] = {}
    problems: list[str] = []
    for name in PERSONA_FILES:
        text, error = cache.read(f"{folder}/{name}", max_age)
        texts[name.removesuffix(".md")] = text
        if isinstance(error, NotFound):
            if name not in may_be_missing:
                problems.append(f"{name}: missing")
        elif error is not None:
            problems.append(f"{name}: {'skipped' if text is None else 'its previous text stays in use'}, {error}")
    return PersonaFiles(**texts, problems=tuple(problems))


FileText = tuple[str | None, PersonaError | None]


class FileCache:
    """Caches files of folders that are read again and again. The files stay the only truth."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._kept = clock, dict[str, tuple[tuple[int, int, int], str]]()  # path → file's mark, its text
        self._seen: dict[str, tuple[float, int, FileText]] = {}  # path → when it was looked at, after how many writes

    def read(self, path: Path | str, max_age: float = 0.0) -> FileText:
        """Return the file's text, and why it can't be read: then the text is the last one, None if there never was one
        or the file is gone. Links are followed, because the folder is its owner's. The file is not looked at again for
        `max_age` seconds, unless this process writes files."""
        place, now = os.fspath(path), time.monotonic()
        looked_at, writes, found = self._seen.get(place, (0.0, -1, (None, None)))
        if now - looked_at >= max_age or writes != Writes.count:
            writes, found = Writes.count, self._look_at(place)
            self._seen[place] = now, writes, found
        return found

    def _look_at(self, place: str) -> FileText:
        kept_mark, kept_text = self._kept.get(place, (None, None))
        try:
            with os_errors():
                found = os.stat(place)
            mark = (found.st_mtime_ns, found.st_size, found.st_ino)
            if kept_mark == mark:
                return kept_text, None
            text = _read(place)
        except PersonaError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                self._kept.pop(place, None)
                return None, error
            return kept_text, error
        if kept_text == text:
            text = kept_text  # the same object
        settled = self._clock() - found.st_mtime >= _SETTLED_SECONDS
        self._kept[place] = (mark if settled else (-1, -1, -1), text)
        return text, None


def _read(path: str) -> str:
    return as_text(read_plain(path, MAX_FILE_BYTES, follow=True))


def read_plain(name: str, limit: int, folder: int | None = None, *, follow: bool = False) -> bytes:
    """Read a regular file of at most `limit` bytes. Raises NotFound, OutOfBounds, TooLarge, NotStored."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)  # a pipe would wait forever
    with os_errors():
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OutOfBounds("it is not a regular file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    if len(data) > limit:
        raise TooLarge(f"it has more than {limit:,} bytes")
    return data


class Writes:
    """The number of files that this process has written, for those who keep what they have read."""

    count = 0


def write_whole(folder: int, name: str, data: bytes) -> None:
    """Write a file atomically; it is on the disk when this returns. A link of that name is refused."""
    temporary = f".{secrets.token_hex(8)}.tmp"
    with os_errors():
        mode: int | None = None  # a file that is replaced keeps its permissions
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise OutOfBounds("it is not a regular file")
            mode = stat.S_IMODE(found.st_mode)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, PRIVATE_FILE, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            Writes.count += 1
        os.fsync(folder)


@contextlib.contextmanager
def locked(folder: int, *, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Hold the folder's lock. Blocks the thread for at most LOCK_SECONDS, then raises NotStored."""
    with os_errors():
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE, dir_fd=folder)
    try:
        until = clock() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock() >= until:
                    raise NotStored("another writer holds the file's lock") from None
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(lock)  # which gives it back


@contextlib.contextmanager
def folder_at(place: Path | int, *parts: str, make: bool = False) -> Iterator[int]:
    """Open a folder, and in it those of `parts` one by one; with `make`, create missing ones. `place`: an open folder,
    or a path that the owner chose, to which links are followed."""
    with os_errors():
        current = os.dup(place) if isinstance(place, int) else os.open(place, _FOLDER)
    try:
        for part in parts:
            with os_errors():
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, PRIVATE_FOLDER, dir_fd=current)
                deeper = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


def hide_from_others(path: Path) -> None:
    """Let its owner alone read a file or folder that everybody can read. One that a group was let into is left as it
    is, and so is a link. Raises PersonaError."""
    with os_errors(), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = path.lstat()
        if found.st_mode & 0o007 and not stat.S_ISLNK(found.st_mode):
            path.chmod(PRIVATE_FOLDER if stat.S_ISDIR(found.st_mode) else PRIVATE_FILE)


@contextlib.contextmanager
def os_errors() -> Iterator[None]:
    """Convert the system's errors to ours: the kind of the failure without a path."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("there is no such file") from error
    except OSError as error:
        if error.errno in _NO_LINK:
            raise OutOfBounds("links are not followed") from error
        if error.errno == errno.ENOTDIR:  # also what Linux says of a link where a folder is asked for
            raise OutOfBounds("a file or a link is in the place of a folder") from error
        raise NotStored((error.strerror or str(error)).lower()) from error


def as_text(data: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark, and normalize line ends to \\n."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OutOfBounds(f"it is not UTF-8 text (byte {error.start + 1})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def as_bytes(text: str) -> bytes:
    """Encode as UTF-8. Lone surrogates become question marks."""
    return text.encode("utf-8", "replace")
