"""Read and write a persona's files safely. Each error's text is a line for the agent, without paths.

All of a persona's eight files are optional here; boot.md says which are required. An unreadable file (half written, or
no free file descriptor) is reported in one line and keeps its last text. A file with unchanged time, size, and inode
isn't opened; its text is the same object, so that other caches can use it as a key.

Files are opened part by part, relative to their folder's descriptor, with O_NOFOLLOW (man 2 openat): no name leads out,
even if an attacker replaces a folder with a link meanwhile. A write goes to a temporary file, is flushed, and is
renamed. A lock file makes writers of a folder wait for each other, across threads and processes. Only the owner can
read new files.
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
"""Without these files an agent does nothing on its own and starts with built-in defaults."""

MAX_FILE_BYTES = 65_536
_SETTLED_SECONDS = 2.0  # two changes within a tick of the file system's clock would look like one

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700  # only the owner may read people's words and agents' notes
LOCK = ".lock"
LOCK_SECONDS = 5.0
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")  # names of write_whole's temporary files
_POLL_SECONDS = 0.02
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = (errno.ELOOP, errno.EMLINK)


class PersonaError(Exception):
    """The text says in a line what is wrong: a limit, a disk, several matches."""


class OutOfBounds(PersonaError):
    """The name leads out of the folder or through a link, or isn't a regular text file."""


class NotFound(PersonaError):
    """There is no such file, section, or entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaFiles:
    """Each file's text, or None if it is missing or was never readable. `problems` are lines with the file's name."""

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
    folder: Path, cache: FileCache | None = None, may_be_missing: Collection[str] = MAY_BE_MISSING, max_age: float = 0.0
) -> PersonaFiles:
    """Read the folder's files, as they were at most `max_age` seconds ago. Never raises: see `problems`."""
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
            problems.append(f"{name}: {error}; {'skipped' if text is None else 'its previous text is used'}")
    return PersonaFiles(**texts, problems=tuple(problems))


FileText = tuple[str | None, PersonaError | None]


class FileCache:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._kept = clock, dict[str, tuple[tuple[int, int, int], str]]()  # path → file's mark, its text
        self._seen: dict[str, tuple[float, int, FileText]] = {}  # path → time of the last check, number of writes then

    def read(self, path: Path | str, max_age: float = 0.0) -> FileText:
        """Return the file's text, and the error if it can't be read: then the text is the last one, if there is any.

        Links are followed, because the folder is the owner's. The file isn't checked again for `max_age` seconds,
        unless this process writes files.
        """
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
            text = as_text(read_plain(place, MAX_FILE_BYTES, follow=True))
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


def read_plain(name: str, limit: int, folder: int | None = None, *, follow: bool = False) -> bytes:
    """Read a regular file of at most `limit` bytes. Raises NotFound and other PersonaErrors."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)  # a pipe would wait forever
    with os_errors():
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OutOfBounds("it isn't a regular file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    if len(data) > limit:
        raise PersonaError(f"it has more than {limit:,} bytes")
    return data


class Writes:
    """Counts the files that this process has written, for caches."""

    count = 0


def write_whole(folder: int, name: str, data: bytes) -> None:
    """Write a file atomically and flush it to disk. Rejects a link with that name."""
    temporary = f".{secrets.token_hex(8)}.tmp"
    with os_errors():
        mode: int | None = None  # a replaced file keeps its permissions
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise OutOfBounds("it isn't a regular file")
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
    """Hold the folder's lock. Blocks the thread for at most LOCK_SECONDS, then raises PersonaError."""
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
                    raise PersonaError("another writer has locked the file") from None
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(lock)  # releases it


@contextlib.contextmanager
def folder_at(place: Path | int, *parts: str, make: bool = False) -> Iterator[int]:
    """Open a folder and then the folders in `parts`, one in another; with `make`, create missing folders. `place` is an
    open folder, or a path from the owner, in which links are followed."""
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
    """Make what everyone can read private, except links, and files open to a group. Raises PersonaError."""
    with os_errors(), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = path.lstat()
        if found.st_mode & 0o007 and not stat.S_ISLNK(found.st_mode):
            path.chmod(PRIVATE_FOLDER if stat.S_ISDIR(found.st_mode) else PRIVATE_FILE)


@contextlib.contextmanager
def os_errors() -> Iterator[None]:
    """Convert the system's errors to ours, which have no paths."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("the file doesn't exist") from error
    except OSError as error:
        if error.errno in _NO_LINK:
            raise OutOfBounds("links are not followed") from error
        if error.errno == errno.ENOTDIR:  # Linux raises it for links, too
            raise OutOfBounds("a part of its path isn't a folder") from error
        raise PersonaError((error.strerror or str(error)).lower()) from error


def as_text(data: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark, and normalize line ends to \\n."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OutOfBounds(f"it isn't UTF-8 text (byte {error.start + 1})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def as_bytes(text: str) -> bytes:
    """Encode as UTF-8. Lone surrogates become question marks."""
    return text.encode("utf-8", "replace")
