"""What a mention and an instruction cost in calls, so that no change adds a layer unseen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.benchmarks.measures.counts import counts
from tests.benchmarks.stage import Bench

PYTHON = (3, 11)  # of these numbers: versions of Python differ
CALLS = {
    "Python calls for each mention": 5_450,
    "C calls for each mention": 4_650,
    "Python calls for each instruction": 4_200,
    "C calls for each instruction": 3_640,
}
SHARE = 0.1  # by which a count may differ
TRIES = 2  # a busy machine may disturb one


@pytest.mark.skipif(sys.version_info[:2] != PYTHON, reason=f"the numbers are of Python {PYTHON[0]}.{PYTHON[1]}")
async def test_a_turn_costs_as_many_calls_as_the_repository_says(tmp_path: Path) -> None:
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = {row.metric: row.value or 0.0 for row in await counts(Bench(folder, quick=True))}
        wrong = {name: found[name] for name, calls in CALLS.items() if abs(found[name] / calls - 1) > SHARE}
        if not wrong:
            return
    lines = [f"{name}: {CALLS[name]:,} before, {value:,.0f} now" for name, value in wrong.items()]
    pytest.fail(
        "\n".join(lines)
        + "\nTo see all counts: python -m tests.benchmarks --only counts --quick. Set the new numbers in"
        " CALLS and in the table of docs/dev/benchmarks.md, and say in the commit message why a turn needs them."
    )
