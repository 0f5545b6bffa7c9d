"""kill -9 around a post in a room: the room goes on after the restart, posts once, and misses no number.

room_kills.py has the other points, which `make chaos` plays.
"""

import pytest

from tests.chaos.room_kills import TURNS, run_trial


@pytest.mark.promise(180)
@pytest.mark.parametrize("point", ["answered", "posted"])
async def test_a_room_whose_process_was_killed_goes_on_with_its_next_number(point, tmp_path):
    tally = await run_trial(tmp_path, point, seed=1)
    assert tally.faults() == []
    assert tally.posts == TURNS
