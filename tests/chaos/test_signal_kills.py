"""kill -9 on Signal, where one that stands by takes over. See signal_kills.py."""

from pathlib import Path

import pytest

from tests.chaos.signal_kills import POINTS, run_trial


@pytest.mark.promise(487)
@pytest.mark.parametrize("point", POINTS)
async def test_one_that_stands_by_answers_once_and_what_came_meanwhile(point: str, tmp_path: Path) -> None:
    tally = await run_trial(tmp_path, point, seed=5)
    assert tally.faults() == [], tally
