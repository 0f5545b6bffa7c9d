"""Missing standard streams (`<&-`): replaced by the null device."""

from __future__ import annotations

import os
import sys


def fill_standard_streams() -> None:
    """Open the null device for each missing stream, before anything else is opened: a file or connection that got its
    descriptor would be read as typed input."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
