"""Standard streams that are missing (`<&-`), or whose encoding lacks characters."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper

PLAIN = {"·": "-", "↳": ">", "↱": ">", "←": "<", "›": ">", "…": "...", "✗": "x", "✎": "~"}
"""What stands for a character of the terminal where the encoding lacks it; anything else becomes a question mark."""


def fill_standard_streams() -> None:
    """Open the null device for each missing stream, before anything else is opened: a file or connection that got its
    descriptor would be read as typed input."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def allow_any_characters() -> None:
    """Let standard output take characters that its encoding lacks, instead of ending the program."""
    if isinstance(sys.stdout, TextIOWrapper):
        codecs.register_error("plain characters", _plain)
        sys.stdout.reconfigure(errors="plain characters")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in lacking), error.end
