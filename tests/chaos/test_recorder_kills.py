import pytest

from tests.chaos.recorder_kills import run_trial


@pytest.mark.promise(130)
async def test_a_recorder_that_is_killed_at_random_points_records_each_turn_once(tmp_path):
    tally = await run_trial(tmp_path, seed=1, kills=3, turns=90)
    assert tally.faults() == []
    assert tally.posts == 270
