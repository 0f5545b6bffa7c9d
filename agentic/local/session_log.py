"""The log of local mode: a file, so that it does not mix with the conversation; warnings also in the terminal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import MemoryHandler, RotatingFileHandler

from agent_config import Settings, SettingsError
from agentic.local.warning_notes import WarningNotes
from agentic.process.logs import set_up_logging
from agentic.process.redaction import Redactor

LOG_FILE = "agentic-discord.log"
LOG_BYTES = 2_000_000
EARLY_WARNINGS = 1_000


class SessionLog:
    """The log, entered by `open()`. Warnings are held until `show_warnings()`, since the first come before the
    terminal."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._redact = Redactor(settings.secrets()).secrets
        self._early = MemoryHandler(EARLY_WARNINGS, logging.CRITICAL + 1, flushOnClose=False)
        self._early.setLevel(logging.WARNING)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Raises SettingsError if the file cannot be written."""
        folder = self._settings.data_dir
        with writable():
            for each_folder in (folder.parent, folder):
                each_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = RotatingFileHandler(folder / LOG_FILE, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
        settings = self._settings
        set_up_logging(settings.log_level, (file, self._early), style=settings.log_format, redact=self._redact)
        try:
            yield
        finally:
            file.close()
            logging.getLogger().handlers.clear()

    def show_warnings(self, note: Callable[[str], None]) -> None:
        """Pass warnings to `note`: earlier ones now, others as they come."""
        names = {name: agent.display_name for name, agent in self._settings.agents.items()}
        warnings = WarningNotes(note, self._redact, names, str(self._settings.data_dir / LOG_FILE))
        root = logging.getLogger()
        self._early.setTarget(warnings)
        self._early.flush()
        root.removeHandler(self._early)
        root.addHandler(warnings)


@contextmanager
def writable() -> Iterator[None]:
    """Turn an OSError below the data folder into a SettingsError that names the file."""
    try:
        yield
    except OSError as error:
        problem = f"DATA_DIR: expected to be able to write {error.filename} ({error.strerror or error})"
        raise SettingsError([problem]) from error
