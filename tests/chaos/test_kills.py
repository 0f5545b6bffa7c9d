"""kill -9 at each point of a turn: one post, no second call once the answer was there, charged once. See kills.py."""

import pytest

from tests.chaos.kills import POINTS, run_trial


@pytest.mark.parametrize("point", POINTS)
async def test_a_turn_that_was_killed_is_gone_on_with_and_posted_once(point, tmp_path):
    kind = "mention" if point in ("answered", "reacting") else "instruction"
    outcome = await run_trial(tmp_path, point, kind, seed=1)
    assert outcome.faults() == [], (outcome, (tmp_path / "log").read_text())
