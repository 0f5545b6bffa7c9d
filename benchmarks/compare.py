"""python -m benchmarks.compare --against PATH [--rounds 3] [--only name,...] [--quick] [--json FILE]

Measures two checkouts in alternation, so that both see the same minutes of a machine, and prints what this one needs as
a share of the other: the least, the median and the most of all rounds. Both are measured by this checkout's benchmarks,
each on its own program, so that a row that is new here is there for both.
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

from benchmarks.__main__ import WIDTH, machine, names
from benchmarks.processes import ROOT, measured_environment
from benchmarks.table import median, shown

ROWS = ("start", "cold", "mentions", "instructions", "context", "crowd", "rush")

Values = Mapping[str, tuple[float, str]]
"""A metric's value and unit."""


def main() -> int:
    options = _parser().parse_args()
    progress, out = Console(stderr=True), Console(width=None if sys.stdout.isatty() else WIDTH)
    rounds: list[tuple[Values, Values]] = []
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        other = grafted(options.against.resolve(), Path(folder) / "other")
        for number in range(1, options.rounds + 1):
            # Who is measured first is measured second in the next round.
            order = (ROOT, other) if number % 2 else (other, ROOT)
            found: dict[Path, Values] = {}
            for checkout in order:
                progress.print(f"[dim]round {number}: {'this' if checkout is ROOT else options.against} ...")
                found[checkout] = values_of(checkout, options.only, quick=options.quick)
            rounds.append((found[ROOT], found[other]))
    out.print(render(rounds))
    out.print(f"[dim]{machine()['text']}, {options.rounds} rounds in alternation against {options.against}")
    if options.json is not None:
        told = {"machine": machine(), "rounds": [{"this": this, "other": that} for this, that in rounds]}
        options.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0


def grafted(checkout: Path, folder: Path) -> Path:
    """A folder that is the checkout but for the benchmarks, which are ours."""
    folder.mkdir()
    for entry in checkout.iterdir():
        (folder / entry.name).symlink_to(ROOT / entry.name if entry.name == "benchmarks" else entry)
    return folder


def values_of(checkout: Path, names: Sequence[str], *, quick: bool) -> Values:
    """Measures a checkout. Raises RuntimeError when something broke."""
    with tempfile.NamedTemporaryFile(suffix=".json") as rows:
        wanted = ["--without-bare", "--only", ",".join(names), "--json", rows.name, *(["--quick"] if quick else [])]
        ran = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "benchmarks", *wanted],
            cwd=checkout,
            env=measured_environment(),
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"the measurement of {checkout} broke")
        told = json.loads(Path(rows.name).read_bytes())
    return {row["metric"]: (row["value"], row["unit"]) for row in told["rows"] if row["value"] is not None}


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="Measure two checkouts.")
    parser.add_argument("--against", type=Path, required=True, metavar="PATH", help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (3)")
    parser.add_argument("--only", type=names, default=ROWS, metavar="name,...", help=f"these rows ({', '.join(ROWS)})")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, rough numbers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
