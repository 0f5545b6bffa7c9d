"""Format and redact the log; make the line with the program's version.

Plain lines are for people. With LOG_FORMAT=json each line is an object: `time` (ISO 8601, UTC), `level`, `logger`,
`message`, the record's `fields` (for a turn: ids, reason, and cost), and `exception` if there is one. The formatter
redacts, not a filter, because only the formatter turns a traceback into text. Above DEBUG, no record contains the words
of people or models, but a traceback or another program's output may quote them. At DEBUG, libraries log whole messages.
"""

from __future__ import annotations

import json
import logging
import platform
import tomllib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agentic.process.root import ROOT

PROJECT_FILE = ROOT / "pyproject.toml"  # has the version; the package may not be installed
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
NO_HTTP = "aiohttp.http_exceptions"  # the module of the errors of unreadable requests
# Logged from WARNING on. INFO lines of ddgs and its client primp contain search terms.
QUIET = ("discord", "aiohttp", "httpx", "httpx2", "openai", "anthropic", "google_genai", "ddgs", "primp")

Redact = Callable[[str], str]


class PlainFormatter(logging.Formatter):
    def __init__(self, redact: Redact = str) -> None:
        super().__init__(FORMAT)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


class JsonFormatter(PlainFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            clean = {key: self._redact(value) if isinstance(value, str) else value for key, value in fields.items()}
            line |= {key: value for key, value in clean.items() if key not in line}
        if record.exc_info:
            line["exception"] = self._redact(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


FORMATTERS: dict[str, Callable[[Redact], logging.Formatter]] = {"plain": PlainFormatter, "json": JsonFormatter}


def set_up_logging(
    level: str, handlers: Sequence[logging.Handler] = (), *, style: str = "plain", redact: Redact = str
) -> None:
    """Log to these handlers only, or else to standard error. `style`: of FORMATTERS. `redact` removes secrets."""
    handlers = handlers or (logging.StreamHandler(),)
    for handler in handlers:
        handler.setFormatter(FORMATTERS[style](redact))
    logging.basicConfig(level=level, handlers=handlers, force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    # Drop requests that aren't HTTP: strangers who reach a port could fill the log.
    logging.getLogger("aiohttp.server").addFilter(
        lambda record: record.exc_info is None or type(record.exc_info[1]).__module__ != NO_HTTP
    )
    logging.getLogger("discord.utils").setLevel(logging.ERROR)  # it warns that voice support is missing


def program_version(project_file: Path = PROJECT_FILE) -> str:
    """Return the version, such as `0.1.0`, or "unknown" if the code was copied without its pyproject.toml."""
    try:
        text = project_file.read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    return str(tomllib.loads(text)["project"]["version"])


def version_line() -> str:
    """Return the line for bug reports: `agentic-discord 0.1.0 (Python 3.13.1, Linux x86_64)`."""
    machine = f"{platform.system()} {platform.machine()}"
    return f"agentic-discord {program_version()} (Python {platform.python_version()}, {machine})"
