"""Signal's server restarts while an answer is written. See signal_restarts.py."""

from pathlib import Path

import pytest

from tests.chaos.signal_restarts import POINTS, run_trial


@pytest.mark.promise(538)
@pytest.mark.parametrize("point", POINTS)
async def test_an_answer_is_neither_lost_nor_doubled_by_a_restart_of_signals_server(point: str, tmp_path: Path) -> None:
    tally = await run_trial(tmp_path, point, seed=5)
    assert tally.faults() == [], tally
