"""Measurements as rows with their targets, and the table of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number. `target` is its upper limit; `bare` is the value of the bare libraries in the same run.

    `value` None: it could not be measured, and `note` says why.
    """

    metric: str
    value: float | None
    unit: str = ""
    target: float | None = None
    bare: float | None = None
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """None without a target."""
        return None if self.value is None or self.target is None else self.value <= self.target

    @property
    def ratio(self) -> float | None:
        """Relative to the bare libraries."""
        return self.value / self.bare if self.value is not None and self.bare else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok, "ratio": self.ratio}


def milliseconds(seconds: float) -> float:
    return seconds * 1000


def median(values: Sequence[float]) -> float:
    """NaN for none."""
    return statistics.median(values) if values else math.nan


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` (0 to 1) of the values do not exceed; NaN for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def render(rows: Iterable[Row]) -> Table:
    table = Table(expand=False)
    for heading in ("measured", "value", "target", "", "bare libraries", "ratio", "note"):
        number = heading in ("value", "target", "bare libraries", "ratio")
        table.add_column(heading, justify="right" if number else "left", no_wrap=heading not in ("measured", "note"))
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {None: "", True: "[green]✓[/]", False: "[red]✗[/]"}[row.ok]
    return (
        row.metric,
        shown(row.value, row.unit),
        "" if row.target is None else f"≤ {shown(row.target, row.unit)}",
        verdict,
        "" if row.bare is None else shown(row.bare, row.unit),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        row.note,
    )


def shown(value: float | None, unit: str) -> str:
    """Format with two or three significant digits, and the unit."""
    if value is None:
        return "—"
    if value == int(value):
        number = f"{value:.0f}"
    else:
        number = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{number} {unit}".strip()
