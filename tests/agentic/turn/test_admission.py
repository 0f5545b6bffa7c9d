"""What a turn asks the limits for in the step that claims it, and which turns ask nothing there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentic.agent.events import InstructionEvent, MentionEvent
from agentic.agent.limits import AFTER_DEADLINE
from agentic.context.entries import Entry, Speaker
from agentic.llm.errors import BadKey
from agentic.turn.progress import Turn, TurnState
from agentic.turn.turn import limit_request
from agentic.wire.messages import Instruction
from tests.support.agent_scene import LOUNGE, Scene
from tests.support.doubles import ALICE

ASKED = Entry(5, Speaker(ALICE, "Alice", "person"), "what now?", 0.0)


@pytest.fixture
async def scene():
    scene = await Scene().start()
    yield scene
    await scene.aclose()


def mention(scene, seconds=60.0):
    event = MentionEvent.of(ASKED, channel_id=LOUNGE, theme="casual", to_all=False, now=scene.clock())
    return replace(event, deadline=scene.clock() + seconds)


def asked(scene, event):
    agent, outlet = scene.cog.host.agent, scene.cog.channels.outlet_of(LOUNGE)
    return limit_request(
        Turn(agent=agent, outlet=outlet, event=event, state=TurnState(scene.state, agent.key, event.id))
    )


async def test_a_turn_that_will_be_taken_asks_for_its_money_and_is_noted_before_its_call(scene):
    ask = asked(scene, mention(scene))
    assert (ask.channel_id, ask.turn_id, ask.kind, ask.person_id, ask.message_id) == (LOUNGE, "m5", "mention", ALICE, 5)
    assert ask.until == scene.clock() + 60 + AFTER_DEADLINE
    assert ask.under_way


@pytest.mark.parametrize(
    ("fields", "kind"),
    [({"is_conversation_starter": True}, "opening"), ({}, "round"), ({"trigger_message_id": 9}, "joining")],
)
async def test_a_scheduled_turn_is_nobodys(scene, fields, kind):
    event = InstructionEvent.of(Instruction(instruction_id="i1", channel_id=LOUNGE, **fields), scene.clock())
    ask = asked(scene, event)
    assert (ask.kind, ask.person_id, ask.message_id) == (kind, None, None)


@pytest.mark.parametrize(("seconds", "asks"), [(0.1, True), (0.0, False), (-1.0, False)])
async def test_at_its_deadline_a_turn_asks_for_nothing_any_more(scene, seconds, asks):
    assert (asked(scene, mention(scene, seconds)) is not None) == asks


async def test_a_question_that_was_taken_back_asks_for_nothing(scene):
    scene.services.chats.transcripts.of(LOUNGE).add(ASKED)
    scene.services.chats.transcripts.of(LOUNGE).delete(5)
    assert asked(scene, mention(scene)) is None


async def test_an_agent_in_back_off_asks_for_nothing(scene):
    for _ in range(3):
        scene.cog.host.agent.models.main.backoff.failed(BadKey())
    assert asked(scene, mention(scene)) is None


async def test_a_bot_that_may_not_write_asks_for_nothing(scene, monkeypatch):
    outlet = scene.cog.channels.outlet_of(LOUNGE)
    monkeypatch.setattr(type(outlet.sink), "refusal", lambda _: "not_permitted")
    assert asked(scene, mention(scene)) is None
