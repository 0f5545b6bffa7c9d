"""kill -9 at each point of a turn: one post, no second call once the answer was there, charged once. See kills.py."""

import json

import pytest

from tests.chaos.kills import AGENT, POINTS, Trial, run_trial
from tests.support.flow import decision
from tests.support.models.wire.values import Answer


@pytest.mark.promise(74)
@pytest.mark.parametrize("point", POINTS)
async def test_a_turn_that_was_killed_is_gone_on_with_and_posted_once(point, tmp_path):
    kind = "mention" if point in ("answered", "reacting") else "instruction"
    outcome = await run_trial(tmp_path, point, kind, seed=1)
    assert outcome.faults() == [], outcome


class Calling(Trial):
    """Killed while the model thinks about what a tool has brought."""

    def _set_the_trap(self):
        note = json.dumps({"action": "append", "text": "Alice drinks tea"})

        async def answer(request):
            if not request.results:
                return Answer(text="", calls=(("memory", note),))
            if not self._seen.is_set():
                self._seen.set()
                await self._stuck.wait()
            return decision("It is noted.")

        self.f.models.answer = answer


@pytest.mark.promise(75)
async def test_a_call_that_was_made_before_the_kill_is_not_made_again(tmp_path):
    await run_trial(tmp_path, "calling", "mention", seed=1, trial=Calling)
    (file,) = (tmp_path / "data" / "tools" / AGENT).glob("*/*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(line["id"].rpartition(":")[2], line["name"], line["at"]) for line in lines} == {
        ("1", "memory", lines[0]["at"])
    }
    assert lines[-1]["message_id"]
