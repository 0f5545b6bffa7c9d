"""Files of one folder, reached from its own descriptor: no name leads out, no link is followed, none is half written.

A path is walked part by part with openat and O_NOFOLLOW, so that exchanging a folder for a link in the meantime gains
nothing (man 2 openat). A write goes to a new file beside the old one, is flushed, and takes its name; readers see the
old text or the new one. Writers of one folder wait for each other at its lock file, over threads and processes.
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
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_personas.errors import NotFound, NotStored, OutOfBounds, TooLarge

LOCK = ".lock"
LOCK_SECONDS = 5.0
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")  # the names that write_whole gives to what is not yet in its place
_POLL_SECONDS = 0.02
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = (errno.ELOOP, errno.EMLINK)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """What the system says, as our errors: the kind of the failure and no path."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("there is no such file") from error
    except OSError as error:
        if error.errno in _NO_LINK:
            raise OutOfBounds("links are not followed") from error
        if error.errno == errno.ENOTDIR:  # also what Linux says of a link where a folder is asked for
            raise OutOfBounds("a file or a link stands where a folder should be") from error
        raise NotStored((error.strerror or type(error).__name__).lower()) from error


@contextlib.contextmanager
def folder_at(path: Path) -> Iterator[int]:
    """The descriptor of a folder that the owner chose: links to it are fine."""
    with told():
        descriptor = os.open(path, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def below(folder: int, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """The descriptor of a folder inside of another; with `make`, missing ones are made."""
    current = os.dup(folder)
    try:
        for part in parts:
            with told():
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o777, dir_fd=current)
                deeper = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


def read_plain(name: str, limit: int, folder: int | None = None, *, follow: bool = False) -> bytes:
    """A plain file's bytes, `limit` at most. Raises NotFound, OutOfBounds, TooLarge, NotStored."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)  # a pipe would wait for ever
    with told():
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OutOfBounds("this is no plain file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    if len(data) > limit:
        raise TooLarge(f"it has more than {limit:,} bytes")
    return data


def as_text(data: bytes) -> str:
    """UTF-8, with or without a byte order mark, and with \\n alone at the ends of lines."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OutOfBounds(f"it is not UTF-8 text (byte {error.start + 1})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def as_bytes(text: str) -> bytes:
    """What is written: lone surrogates, which no UTF-8 has, become question marks."""
    return text.encode("utf-8", "replace")


def write_whole(folder: int, name: str, data: bytes) -> None:
    """Puts a file there, whole or not at all, and on the disk when this returns. A link of that name is refused."""
    temporary = f".{secrets.token_hex(8)}.tmp"
    with told():
        mode = _mode_of(folder, name)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
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
        os.fsync(folder)


def _mode_of(folder: int, name: str) -> int | None:
    """The rights of the file that is replaced: an owner's choice outlives an edit."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OutOfBounds("this is no plain file")
    return stat.S_IMODE(found.st_mode)


@contextlib.contextmanager
def locked(folder: int, *, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Alone in this folder. Blocks the thread, LOCK_SECONDS at most; raises NotStored after that."""
    with told():
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        until = clock() + LOCK_SECONDS
        while not _taken(lock):
            if clock() >= until:
                raise NotStored("the file is being written by somebody else")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(lock)  # which gives it back


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
