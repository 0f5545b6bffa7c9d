"""python -m tests.benchmarks [--only name,...] [--quick] [--without-bare] [--seconds N] [--json FILE] [--profile
FOLDER]

Numbers are reported, not asserted: the exit code is 0 unless a measurement failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]
from rich.console import Console

from tests.benchmarks.run import MEASURES, USUAL, run
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import render

WIDTH = 160  # characters, where there is no terminal
LIBRARIES = ("py-cord", "redis", "openai", "anthropic", "google-genai")


def main() -> int:
    options = _parser().parse_args()
    out, progress = Console(width=None if sys.stdout.isatty() else WIDTH), Console(stderr=True)
    if options.profile is not None:
        options.profile.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        bench = Bench(
            Path(folder),
            quick=options.quick,
            bare=not options.without_bare,
            seconds=options.seconds,
            profiles=options.profile,
        )
        rows, broken = asyncio.run(run(bench, options.only, progress))
    out.print(render(rows))
    out.print(f"[dim]{machine()['text']}. Memory in units of 1024² bytes. Definitions: docs/dev/benchmarks.md")
    if options.json is not None:
        report = {"machine": machine(), "rows": [row.to_json() for row in rows]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if broken else 0


def machine() -> dict[str, Any]:
    """Describe the machine and the libraries."""
    load = psutil.getloadavg()[0]
    libraries = {name: version(name) for name in LIBRARIES}
    python, cores = platform.python_version(), psutil.cpu_count() or 0
    text = f"Python {python}, {platform.system()} {platform.machine()}, {cores} processors, load {load:.1f}"
    return {"text": text, "python": python, "processors": cores, "load": load, "libraries": libraries}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure the program from outside.")
    known = ", ".join(MEASURES)
    parser.add_argument(
        "--only",
        type=names,
        default=USUAL,
        metavar="name,...",
        help=f"some of {known}; without it all but watched and day",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: about two minutes, rough numbers")
    parser.add_argument("--without-bare", action="store_true", help="without the bare libraries")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the measurement stalls (60)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows as JSON")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="profile the program; times are then inflated")
    return parser


def names(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of measurements."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in found if name not in MEASURES]
    if unknown or not found:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown) or text!r}; known: {', '.join(MEASURES)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
