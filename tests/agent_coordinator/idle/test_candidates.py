from __future__ import annotations

import random
from typing import Any

import pytest

from agent_coordinator.config import IdleConfig
from agent_coordinator.idle.tasks import TaskInputs, choose
from agentic.state.idle import Candidate, RunningTask, Sent
from agentic.state.silence import Scope, Silenced
from tests.support.coordinator_doubles import NOON

HOUR = 3600.0
ADA, BOB = 11, 12
CHANNEL = 1
CANDIDATE = Candidate(
    channel_id=CHANNEL,
    message_id=5,
    person_id=ADA,
    upto=5,
    material="Ada: and when will the tall ships sail from Bergen?",
    topics=("tall ships",),
    at=NOON - 9 * HOUR,
)


def sent(hours_ago: float, *, person: int, channel: int, text: str = "") -> Sent:
    at = NOON - hours_ago * HOUR
    return Sent(
        message_id=1,
        agent="grok",
        task="discover",
        channel_id=channel,
        person_id=person,
        text=text,
        at=at,
        answered=True,
    )


def chosen(task: str, again_hours: float = 0.0, **given: Any) -> str | None:
    """Why nothing is chosen; None for the candidate."""
    found = choose(
        task,
        "claude",
        [CANDIDATE],
        TaskInputs(now=NOON, unprompted="everyone", **given),
        IdleConfig(again_hours=again_hours),
        random.Random(1),
    )
    return None if isinstance(found, RunningTask) else found.why


@pytest.mark.parametrize("task", ["follow_up", "discover"])
def test_somebody_who_may_be_written_to_is_chosen(task: str) -> None:
    assert chosen(task) is None
    assert chosen(task, sent=[sent(30, person=ADA, channel=CHANNEL, text="Bread is baked at night.")]) is None


@pytest.mark.parametrize("task", ["follow_up", "discover"])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"silenced": {CHANNEL: Silenced("stopped", Scope.channel(CHANNEL), NOON)}}, "the bots are stopped in"),
        ({"silenced": {CHANNEL: Silenced("paused", Scope("all", guild=7), NOON)}}, "the bots are paused in that"),
        ({"busy": [CHANNEL]}, "a conversation is running in that channel"),
        ({"consents": {ADA: False}}, "the person doesn't want unprompted messages"),
        ({"sent": [sent(2, person=ADA, channel=2)]}, "it's too soon after the last unprompted message"),
        (
            {"sent": [sent(2, person=BOB, channel=CHANNEL)]},
            "it's too soon after an unprompted message in that channel",
        ),
    ],
)
def test_each_gate_holds_an_unasked_message_back(task: str, given: dict[str, Any], why: str) -> None:
    assert (chosen(task, **given) or "").startswith(why)


def test_what_was_sent_unasked_before_is_neither_followed_up_nor_looked_for_again() -> None:
    before = [sent(50, person=ADA, channel=CHANNEL, text="When will the tall ships sail from Bergen?")]
    assert chosen("follow_up", sent=before) == "an earlier unprompted message said the same"
    assert chosen("discover", sent=before) == "there has been an unprompted message about each of the person's topics"
    assert chosen("discover", sent=before, again_hours=40.0) is None, "sent 50 hours ago"
