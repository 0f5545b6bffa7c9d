"""Scripted bots speak in the order of their scene."""

from __future__ import annotations

import random

from agent_coordinator.config import CoordinatorConfig
from agentic.local.scene_order import ScenePolicies
from agentic.local.voices.scenes import PERSONAS, Heard, scenes_of
from agentic.state.talk import PersonMessage
from tests.support.coordinator_doubles import conversation

SCENE = scenes_of("debate")[0]
NAMES = {"chatgpt": "ChatGPT", "claude": "Claude", "gemini": "Gemini", "grok": "Grok"}


def test_the_bot_with_the_next_line_speaks_unless_a_person_waits() -> None:
    heard, rng, last = Heard(), random.Random(1), "gemini"
    heard.add(SCENE.opening)
    config = CoordinatorConfig(agents=PERSONAS, channels={7: "debate"}, shown=NAMES, policy="pull")
    policies, order = ScenePolicies(config, heard), []
    for _ in SCENE.lines[1:]:
        state = conversation(topic=SCENE.topic, theme="debate", policy="pull", last_speaker=last)
        (last,) = policies.of(state).choose(state, rng).speakers
        order.append(last)
        heard.add(next(text for speaker, text in SCENE.lines if speaker == last and text not in heard))
    assert order == [speaker for speaker, _ in SCENE.lines[1:]]
    asked = conversation(topic="breakfast", theme="casual", policy="pull", last_speaker=last)
    asked = asked.hear(PersonMessage(900, "Claude?", after=0))
    assert policies.of(asked).choose(asked, rng).because != "has the next line"
