"""The lock of local mode's folder: a second start there says so at once, before anything is opened."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentic.local.session_log import writable

FILE = "running.lock"


class AlreadyRunning(Exception):
    """Another process runs in this folder. `process` is its id, "" if unknown."""

    def __init__(self, process: str) -> None:
        super().__init__(process)
        self.process = process

    def __str__(self) -> str:
        process = f" (process {self.process})" if self.process else ""
        return f"Already running in this folder{process}: type /quit there first, or set DATA_DIR to another folder."


@contextmanager
def only_start(folder: Path) -> Iterator[None]:
    """Hold the lock while entered; the kernel releases it when the process dies.

    Raises AlreadyRunning, and SettingsError if the folder is not writable.
    """
    with writable():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = (folder / FILE).open("a+", encoding="utf-8")
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(file.read(20).strip()) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
