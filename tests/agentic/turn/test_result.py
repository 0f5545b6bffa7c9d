"""What is kept of a turn: its record."""

import pytest

from agentic.llm.errors import BadKey, ConnectionFailed, Refused, SessionLost
from agentic.state.turn_records import Reacted, TurnRecord
from agentic.turn.result import LINES, OUTCOMES, error_line
from agentic.wire.entries import CallRecord, Phases
from agentic.wire.reasons import REASONS
from tests.support.agent_scene import CALL, ELSEWHERE, LOUNGE, Scene
from tests.support.doubles import ALICE, BOB, GUILD


@pytest.fixture
async def scene():
    made = await Scene("claude").start()
    yield made
    await made.aclose()


async def test_a_mention_is_recorded_with_who_asked_what_was_read_and_what_it_cost(scene):
    await scene.hear("one")
    await scene.hear("two", author=BOB)

    async def think():
        scene.clock.now += 2.5

    scene.answers(think)
    asked = await scene.ask("three")
    (kept,) = scene.state.recorded
    assert kept == TurnRecord(
        id=f"m{asked}",
        agent="claude",
        at=scene.clock(),
        kind="mention",
        trigger="mention",
        channel_id=LOUNGE,
        guild_id=GUILD,
        asked_by=ALICE,
        asked_message_id=asked,
        model=CALL.model,
        entries=3,
        seconds=2.5,
        input_tokens=100,
        output_tokens=10,
        cost_usd=0.01,
        posted=(scene.channel().sent[-1].id,),
        outcome="posted",
        phases=Phases(model=2.5),
        calls=(
            CallRecord(
                n=0,
                model=CALL.model,
                at=scene.clock() - 2.5,
                seconds=2.5,
                input_tokens=100,
                output_tokens=10,
                cost_usd=0.01,
            ),
        ),
    )


async def test_a_turn_of_a_conversation_is_recorded_with_its_round(scene):
    await scene.instruct("i1", round_number=3, conversation_id="talk")
    await scene.instruct("i2", is_conversation_starter=True)
    turn, start = scene.state.recorded
    assert (turn.kind, turn.trigger, turn.round_number, turn.conversation_id) == ("instruction", "round", 3, "talk")
    assert (turn.asked_by, turn.asked_message_id) == (None, None)
    assert (start.trigger, start.conversation_id) == ("starter", None)


async def test_who_joins_in_is_recorded_with_the_person_behind_it(scene):
    asked = await scene.hear("what do you all think?", author=BOB)
    await scene.instruct("i1", trigger_message_id=asked)
    (turn,) = scene.state.recorded
    assert (turn.trigger, turn.asked_by, turn.asked_message_id) == ("reactive", BOB, asked)


async def test_every_part_of_a_long_answer_and_its_picture_and_reaction_are_recorded(scene):
    scene.answers({"text": "word " * 900, "generate_image": True, "image_prompt": "a cat", "react_emoji": "🔥"})
    asked = await scene.ask()
    (turn,) = scene.state.recorded
    assert len(turn.posted) == 3
    assert turn.posted == tuple(sent.id for sent in scene.channel().sent)
    assert turn.image
    assert turn.reacted == Reacted(emoji="🔥", message_id=asked)


@pytest.mark.parametrize(
    ("answer", "reason", "line"),
    [
        (ConnectionFailed(), "model_failed", error_line(ConnectionFailed())),
        (Refused(), "refused", LINES["refused"]),
        (BadKey(), "model_failed", error_line(BadKey())),
        (SessionLost(), "session_lost", LINES["session_lost"]),
    ],
)
async def test_the_line_that_says_why_there_is_no_answer_is_recorded_with_the_reason(scene, answer, reason, line):
    scene.answers(answer)
    await scene.ask()
    (turn,) = scene.state.recorded
    assert (scene.texts(), turn.reason) == ([line], reason)
    assert turn.posted == (scene.channel().sent[-1].id,)
    assert turn.model  # the one that was meant


async def test_turns_that_post_nothing_are_recorded_too(scene):
    scene.answers({"skip": True})
    await scene.instruct("i1")
    await scene.instruct("i2", deadline=scene.clock() - 1)
    await scene.instruct("i3", channel=ELSEWHERE)
    assert [(turn.outcome, turn.reason, turn.posted) for turn in scene.state.recorded] == [
        ("skipped", "skipped", ()),
        ("timed_out", "deadline", ()),
        ("refused", "unknown_channel", ()),
    ]


def test_the_outcome_of_each_reason_is_meant():
    """A new reason has to be put into OUTCOMES, or below."""
    refusals = "cooldown daily_limit budget agent_budget person_budget idle_budget too_often benched muted busy invalid"
    refusals += " superseded"
    others = "unknown_action unknown_channel not_permitted not_ours refused"
    assert sorted({*OUTCOMES, *refusals.split(), *others.split()}) == sorted(REASONS)


async def test_no_record_holds_a_word_of_what_was_said(scene):
    scene.answers({"text": "canary-answer", "topic": "canary-topic", "image_prompt": "canary-picture"})
    await scene.ask("canary-question")
    await scene.instruct("i1", conversation_history=({"agent": "grok", "text": "canary-history"},))
    kept = "".join(turn.to_json() for turn in scene.state.recorded)
    assert len(scene.state.recorded) == 2
    assert "canary" not in kept


async def test_an_id_that_came_over_the_wire_makes_no_record_large(scene):
    await scene.instruct("i" * 200, conversation_id="c" * 100_000)
    assert len(scene.state.recorded[0].to_json()) < 1000
