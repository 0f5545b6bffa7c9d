"""kill -9 around a post in a room: the room goes on after the restart, posts once, and misses no number. Also around
its closing card, which is posted once, in the phases of a debate, each announced once, and with two rooms at once. Each
call is charged.

room_kills.py has the other points, which `make chaos` plays.
"""

import pytest

from tests.chaos.room_kills import POINTS, run_trial


@pytest.mark.promise(180)
@pytest.mark.parametrize(
    ("point", "seed"),
    [
        *(("answered", 1), ("posted", 1), ("card", 1)),
        ("audience", 1),  # while a question waits for an answer
        ("closing words", 1),  # while the phase is announced
        ("two rooms", 4),  # while a post is taken
    ],
)
async def test_a_room_whose_process_was_killed_goes_on_with_its_next_number(point, seed, tmp_path):
    tally = await run_trial(tmp_path, point, seed)
    assert tally.faults() == []
    assert tally.posts == POINTS[point].rooms * POINTS[point].turns
