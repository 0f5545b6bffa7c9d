"""The session of local mode: the lock of its folder, its log, the standard streams, and the summary of `--once`.

A second start in a folder says so immediately, before anything is opened. The log is a file, so that it does not mix
with the conversation; warnings are also shown in the terminal: none twice a minute, and a failing model in one line a
minute. Standard streams may be missing (`<&-`), or their encoding may lack characters.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import MemoryHandler, RotatingFileHandler
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent_config import Settings, SettingsError
from agentic.llm import errors
from agentic.process.logs import set_up_logging
from agentic.process.redaction import Redactor
from agentic.settings.models import KEY_SETTINGS
from agentic.state.conversation_state import AgentCounts, ConversationState
from agentic.text import counted
from agentic.wire.reasons import ENDINGS

LOCK_FILE = "running.lock"
LOG_FILE = "agentic-discord.log"
LOG_BYTES = 2_000_000
MAX_EARLY_WARNINGS = 1_000
EVERY_SECONDS = 60.0
MODEL_CALLS = "agentic.llm."  # each attempt is logged there; the failure of the turn is what a person wants to know
ADVICE: Mapping[type[errors.ModelError], str] = {
    errors.BadKey: "check its API key in .env",
    errors.QuotaUsedUp: "add money or quota at the provider",
    errors.ConnectionFailed: "check the network, or start the model's server",
    errors.RateLimited: "wait a minute",
    errors.ServerFailed: "try again later",
    errors.TimedOut: "ask for less, or give it a faster model",
    errors.PromptTooLong: "load it with a longer context, or lower CONTEXT_WINDOW_SIZE",
    errors.BadRequest: "check the model's name in .env",
    errors.BadAnswer: "ask again, or give it another model",
    errors.NotInstalled: "install the package that the log names",
}
HEADINGS = ("messages", "skips", "timeouts", "reactions", "pictures", "calls", "tokens", "cost")


class AlreadyRunning(Exception):
    """Another process runs in this folder. `process` is its id, "" if unknown."""

    def __init__(self, process: str) -> None:
        known = f" (process {process})" if process else ""
        advice = "type /quit there first, or set DATA_DIR to another folder"
        super().__init__(f"Already running in this folder{known}: {advice}.")


@contextmanager
def only_start(folder: Path) -> Iterator[None]:
    """Hold the lock while entered; the kernel releases it when the process dies.

    Raises AlreadyRunning, and SettingsError if the folder is not writable.
    """
    with writable():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = (folder / LOCK_FILE).open("a+", encoding="utf-8")
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


@contextmanager
def writable() -> Iterator[None]:
    """Turn an OSError below the data folder into a SettingsError that names the file."""
    try:
        yield
    except OSError as error:
        problem = f"DATA_DIR: expected to be able to write {error.filename} ({error.strerror or error})"
        raise SettingsError([problem]) from error


@contextmanager
def session_log(settings: Settings) -> Iterator[Callable[[Callable[[str], None]], None]]:
    """Log into a file while entered. Return a function that starts to show warnings, including those from before the
    terminal. Raises SettingsError if the file can't be written."""
    folder, redact = settings.data_dir, Redactor(settings.secrets()).secrets
    early = MemoryHandler(MAX_EARLY_WARNINGS, logging.CRITICAL + 1, flushOnClose=False)
    early.setLevel(logging.WARNING)
    with writable():
        for each_folder in (folder.parent, folder):
            each_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = LogFile(folder / LOG_FILE, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")

    def show_warnings(note: Callable[[str], None]) -> None:
        names = {name: agent.display_name for name, agent in settings.agents.items()}
        warnings = WarningNotes(note, redact, names, str(folder / LOG_FILE))
        root = logging.getLogger()
        early.setTarget(warnings)
        early.flush()
        root.removeHandler(early)
        root.addHandler(warnings)

    set_up_logging(settings.log_level, (file, early), style=settings.log_format, redact=redact)
    try:
        yield show_warnings
    finally:
        file.close()
        logging.getLogger().handlers.clear()


class LogFile(RotatingFileHandler):
    """Drops lines that can't be written, for example on a full disk, instead of showing a traceback in the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class WarningNotes(logging.Handler):
    """Passes warnings to `note`. `names` maps agents to shown names, `log_file` has the details."""

    def __init__(
        self,
        note: Callable[[str], None],
        redact: Callable[[str], str],
        names: Mapping[str, str],
        log_file: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(logging.WARNING)
        self._note, self._redact, self._names, self._log_file, self._clock = note, redact, names, log_file, clock
        self._noted: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        failed = next((one for one in arguments if isinstance(one, errors.ModelError)), None)
        if failed is None or record.levelno > logging.WARNING:
            text = f"{record.levelname.lower()}: {self._redact(record.getMessage())}"
            self._note_rarely(text, text)
        elif not record.name.startswith(MODEL_CALLS):
            agent = str(arguments[0])
            advice = next((text for kind, text in ADVICE.items() if isinstance(failed, kind)), "")
            if isinstance(failed, errors.BadKey) and (setting := KEY_SETTINGS.get(failed.provider)):
                advice = f"check {setting} in .env"
            done = f"{self._names.get(agent, agent)} could not answer: {failed.kind} ({failed.model})"
            self._note_rarely(agent, f"{done}{f'; {advice}' if advice else ''}. Details: {self._log_file}")

    def _note_rarely(self, subject: str, text: str) -> None:
        """Pass the text on, unless there was a note about the subject within the last minute."""
        now = self._clock()
        self._noted = {noted: at for noted, at in self._noted.items() if now - at < EVERY_SECONDS}
        if subject not in self._noted:
            self._noted[subject] = now
            self._note(text)


def summary(report: ConversationState, names: Mapping[str, str]) -> RenderableType:
    """Return a headline and a table with a row for each agent; `names` maps agents to display names."""
    table = Table(box=None, pad_edge=False, show_footer=True)
    table.add_column("", footer="all")
    for heading, total in zip(HEADINGS, _cells(report.counts.total), strict=True):
        table.add_column(heading, footer=total, justify="right")
    for agent, tally in sorted(report.counts.agents.items()):
        table.add_row(Text(names.get(agent, agent)), *_cells(tally))
    assert report.ended_because is not None
    rounds = counted(report.counts.round, "round")
    return Group(Text(f"{rounds}, ended: {ENDINGS[report.ended_because]}", "bold"), table)


def _cells(tally: AgentCounts) -> tuple[str, ...]:
    tokens = tally.input_tokens + tally.output_tokens
    counts = (tally.messages, tally.skips, tally.timeouts, tally.reactions, tally.pictures, tally.calls, tokens)
    return (*(f"{count:,}" for count in counts), f"${tally.cost_usd:.4f}")


def fill_standard_streams() -> None:
    """Open the null device for each missing stream, before a file gets its descriptor and is read as typed input."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def allow_any_characters() -> None:
    """Let standard output take characters that its encoding lacks, instead of ending the program."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


@contextmanager
def may_lose_terminal() -> Iterator[None]:
    """Let the terminal be closed while entered: what can't be written there has no reader, so it's no error."""
    had_terminal = sys.stdout.isatty()
    try:
        yield
    except OSError:
        if not had_terminal or sys.stdout.isatty():
            raise
    finally:
        if had_terminal and not sys.stdout.isatty():  # Python fails at its exit if it can't write what is buffered
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
