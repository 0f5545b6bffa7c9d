"""The program's version. It stands once, in pyproject.toml beside the code, which need not be installed."""

from __future__ import annotations

import platform
import tomllib
from pathlib import Path

from agentic.process.root import ROOT

PROJECT_FILE = ROOT / "pyproject.toml"


def program_version(project_file: Path = PROJECT_FILE) -> str:
    """The version as in `0.1.0`; "unknown" where somebody copied the code without its pyproject.toml."""
    try:
        text = project_file.read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    return str(tomllib.loads(text)["project"]["version"])


def version_line() -> str:
    """The line for a bug report: `agentic-discord 0.1.0 (Python 3.13.1, Linux x86_64)`."""
    machine = f"{platform.system()} {platform.machine()}"
    return f"agentic-discord {program_version()} (Python {platform.python_version()}, {machine})"
