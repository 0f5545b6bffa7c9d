"""Standard input and output that a start was not given (`<&-`): nothing is read there, and nothing shown."""

from __future__ import annotations

import os
import sys


def fill_standard_streams() -> None:
    """Opens the null device in the place of each that is missing, before anything else is opened: a file or a
    connection that took its number would be read as if it were typed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
