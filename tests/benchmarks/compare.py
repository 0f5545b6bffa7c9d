"""python -m tests.benchmarks.compare --against PATH [--rounds 3] [--only name,...] [--quick] [--json FILE]

Measures two checkouts in alternation, so that both see the same minutes of a machine, and prints what this one needs as
a share of the other: the least, the median and the most of all rounds. Each is measured by its own benchmarks, since
these import its program; rows that only one of them has are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentic.process.root import ROOT
from tests.benchmarks.__main__ import WIDTH, machine, names
from tests.benchmarks.processes import measured_environment
from tests.benchmarks.table import median, shown

ROWS = ("start", "cold", "mentions", "instructions", "context", "crowd", "rush")

Values = Mapping[str, tuple[float, str]]
"""A metric's value and unit."""


def main() -> int:
    options = _parser().parse_args()
    progress, out = Console(stderr=True), Console(width=None if sys.stdout.isatty() else WIDTH)
    rounds: list[tuple[Values, Values]] = []
    other = options.against.resolve()
    for number in range(1, options.rounds + 1):
        order = (ROOT, other) if number % 2 else (other, ROOT)  # the first of a round is the second of the next
        found: dict[Path, Values] = {}
        for checkout in order:
            progress.print(f"[dim]round {number}: {'this' if checkout is ROOT else options.against} ...")
            found[checkout] = values_of(checkout, options.only, quick=options.quick)
        rounds.append((found[ROOT], found[other]))
    out.print(render(rounds))
    out.print(f"[dim]{machine()['text']}, {options.rounds} rounds in alternation against {options.against}")
    if options.json is not None:
        report = {"machine": machine(), "rounds": [{"this": this, "other": that} for this, that in rounds]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def values_of(checkout: Path, names: Sequence[str], *, quick: bool) -> Values:
    """Measure a checkout. Raises RuntimeError when something failed."""
    is_new = (checkout / "tests" / "benchmarks" / "__main__.py").exists()
    package = "tests.benchmarks" if is_new else "benchmarks"  # where older checkouts have them
    with tempfile.NamedTemporaryFile(suffix=".json") as rows:
        wanted = ["--without-bare", "--only", ",".join(names), "--json", rows.name, *(["--quick"] if quick else [])]
        ran = subprocess.run(  # noqa: S603
            [sys.executable, "-m", package, *wanted],
            cwd=checkout,
            env=measured_environment(),
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"measuring {checkout} failed, see above")
        report = json.loads(Path(rows.name).read_bytes())
    return {row["metric"]: (row["value"], row["unit"]) for row in report["rows"] if row["value"] is not None}


def render(rounds: Sequence[tuple[Values, Values]]) -> Table:
    table = Table(expand=False)
    for heading in ("measured", "this", "the other", "ratio: least", "median", "most"):
        table.add_column(heading, justify="left" if heading == "measured" else "right")
    for metric in rounds[0][0]:
        both = [(this[metric], that[metric]) for this, that in rounds if metric in this and metric in that]
        if both:
            table.add_row(metric, *_cells(both))
    return table


def _cells(both: Sequence[tuple[tuple[float, str], tuple[float, str]]]) -> Iterable[str]:
    unit = both[0][0][1]
    ratios = [this / that for (this, _), (that, _) in both if that]
    yield shown(median([this for (this, _), _ in both]), unit)
    yield shown(median([that for _, (that, _) in both]), unit)
    for ratio in (min(ratios), median(ratios), max(ratios)) if ratios else ():
        yield f"{ratio:.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.compare", description="Measure two checkouts in turn and compare them."
    )
    parser.add_argument("--against", type=Path, required=True, metavar="PATH", help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3, help="measure each this often (3)")
    parser.add_argument("--only", type=names, default=ROWS, metavar="name,...", help=f"these rows ({', '.join(ROWS)})")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: rough numbers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rounds as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
