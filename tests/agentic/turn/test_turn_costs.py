"""What money, and a provider that refuses, make of a turn."""

from __future__ import annotations

import pytest

from agentic.agent.limits import BACKOFF_SECONDS, REPLY_SECONDS
from agentic.llm.errors import BadKey, ConnectionFailed
from agentic.state.budgets import Caps
from agentic.turn.result import FAILED_AGAIN, LINES, MEANINGS, error_line
from agentic.wire.messages import HistoryEntry
from tests.support.agent_scene import DEBATE, ELSEWHERE, LOUNGE, MEMES, Scene
from tests.support.doubles import ALICE, BOB

CALL_COST = 0.01  # of the scene's model


@pytest.fixture
async def stage():
    """`await stage(**caps)`: one agent under these caps."""
    scenes = []

    async def make(env=None, free=False, **caps):
        scenes.append(await Scene("claude", env=env, free=free, caps=Caps(**caps)).start())
        return scenes[-1]

    yield make
    for scene in scenes:
        await scene.aclose()


def signs(scene, channel=LOUNGE):
    return [emoji for _, emoji in scene.channel(channel).reacted]


@pytest.mark.promise(42)
async def test_a_mention_that_there_is_no_money_for_sleeps_and_asks_no_model(stage):
    scene = await stage(all=0.005)
    await scene.ask()
    await scene.ask()
    assert scene.texts() == ["Hello."]
    assert signs(scene) == ["💤"]
    assert len(scene.cog.asked) == 1


@pytest.mark.promise(44)
async def test_what_one_person_used_up_is_not_anothers(stage):
    scene = await stage(person=0.005)
    await scene.ask()
    await scene.ask()
    await scene.ask(author=BOB)
    assert (len(scene.texts()), signs(scene)) == (2, ["💤"])


async def test_the_seventh_mention_in_a_minute_gets_an_hourglass(stage):
    scene = await stage(mentions=6)
    for _ in range(7):
        await scene.ask()
    assert (scene.texts(), signs(scene)) == (["Hello."] * 6 + [MEANINGS["too_often"]], ["⏳"])
    scene.clock.now += 61
    await scene.ask()
    assert len(scene.texts()) == 8


@pytest.mark.promise(42)
async def test_scheduled_work_is_refused_by_its_reason(stage):
    scene = await stage(all=0.0)
    for fields in ({"is_conversation_starter": True}, {}, {"trigger_message_id": 5}):
        result = await scene.instruct(str(fields), **fields)
        assert (result.skipped, result.reason, result.usage) == (True, "budget", None)
    assert scene.cog.asked == []


async def test_the_last_turn_that_can_be_paid_closes_the_conversation_in_few_words(stage):
    scene = await stage(channel=0.04)
    history = [HistoryEntry(agent="grok", text="well", message_id=1).model_dump()]
    first = await scene.instruct("i1", channel=DEBATE, conversation_history=history)
    assert "last message" in scene.prompt.text
    assert not scene.prompt.search
    assert (first.skipped, first.text, first.reason) == (False, "Hello.", "budget")
    second = await scene.instruct("i2", channel=DEBATE, conversation_history=history)
    assert (second.skipped, second.reason) == (True, "budget")


async def test_a_turn_before_the_last_is_like_any_other(stage):
    scene = await stage(all=5.0)
    result = await scene.instruct("i1")
    assert (result.reason, "last message" in scene.prompt.text) == (None, False)


async def test_a_closing_turn_that_stays_silent_ends_the_conversation_all_the_same(stage):
    scene = await stage(all=0.004)
    scene.answers({"skip": True})
    result = await scene.instruct("i1")
    assert (result.skipped, result.reason) == (True, "budget")


async def test_a_picture_that_there_is_no_money_for_is_left_out(stage):
    scene = await stage(all=0.1)
    scene.answers({"text": "look", "generate_image": True, "image_prompt": "a cat"})
    await scene.ask(channel=MEMES)
    assert (scene.texts(MEMES), scene.cog.drawn) == (["look"], [])


async def test_an_answer_that_cannot_be_read_is_asked_for_again_only_where_it_can_be_paid(stage):
    scene = await stage(all=CALL_COST)
    scene.answers("{")
    await scene.ask()
    assert len(scene.cog.asked) == 1
    assert scene.texts() == [LINES["unreadable"]]


@pytest.mark.parametrize("free", [True, False])
async def test_in_a_turn_that_nobody_waits_for_only_a_model_that_costs_nothing_is_asked_again(stage, free):
    scene = await stage(free=free)
    scene.answers("I think we should all have pizza.", {"text": "Pizza."})
    result = await scene.instruct("i1")
    assert (result.reason, scene.texts()) == ((None, ["Pizza."]) if free else ("unreadable", []))
    assert len(scene.cog.asked) == 1 + free


async def test_an_ignored_person_calls_nobody(stage):
    scene = await stage(env={"IGNORE_USER_IDS": str(ALICE)})
    await scene.ask()
    assert (scene.texts(), signs(scene), scene.cog.asked) == ([], [], [])
    await scene.ask(author=BOB)
    assert scene.texts() == ["Hello."]


async def test_a_budgets_notice_goes_to_the_owners_channel(stage, caplog):
    scene = await stage(env={"OWNER_CHANNEL_ID": str(ELSEWHERE)}, all=0.0125)
    await scene.ask()
    assert scene.texts(ELSEWHERE) == ["⚠️ 80% of today's budget ($0.01) is spent."]
    await scene.ask()
    assert len(scene.texts(ELSEWHERE)) == 1
    assert "80% of today's budget" in caplog.text


async def test_an_owners_channel_that_is_not_there_leaves_the_log(stage, caplog):
    scene = await stage(env={"OWNER_CHANNEL_ID": "999"}, all=0.0125)
    await scene.ask()
    assert scene.texts() == ["Hello."]
    assert "80% of today's budget" in caplog.text


async def test_an_agent_whose_provider_refuses_it_backs_off_and_says_so_once(stage):
    scene = await stage()
    scene.answers(*[BadKey()] * 3)
    for _ in range(5):
        scene.clock.now += REPLY_SECONDS
        await scene.ask()
    assert scene.texts() == [error_line(BadKey())] * 3 + [LINES["benched"]]
    assert (len(scene.cog.asked), signs(scene)) == (3, ["💤"])
    result = await scene.instruct("i1")
    assert (result.skipped, result.reason) == (True, "benched")
    scene.clock.now += BACKOFF_SECONDS
    await scene.ask()
    assert scene.texts()[-1] == "Hello."


async def test_a_person_gets_two_failure_replies_a_minute_and_then_a_sign(stage):
    scene = await stage()
    scene.answers(*[ConnectionFailed()] * 5)
    for author in (None, None, None, BOB):
        await scene.ask(**({"author": author} if author else {}))
    line = error_line(ConnectionFailed())
    assert (scene.texts(), signs(scene)) == ([line, FAILED_AGAIN + line, line], ["⚠️"])
    scene.clock.now += REPLY_SECONDS
    await scene.ask()
    assert len(scene.texts()) == 4


async def test_what_an_hourglass_means_is_said_to_each_person_once_and_not_to_a_crowd(stage):
    scene = await stage(env={"AGENT_MAX_DAILY": "1"})
    for author in (ALICE, ALICE, BOB, ALICE):
        await scene.ask(author=author)
    assert scene.texts() == ["Hello.", MEANINGS["daily_limit"]]
    assert signs(scene) == ["⏳"] * 3
    scene.clock.now += 61
    for author in (ALICE, BOB):
        await scene.ask(author=author)
    assert scene.texts()[2:] == [MEANINGS["daily_limit"]], "to a person without a recent reply"


async def test_turns_of_a_model_that_costs_nothing_do_not_use_up_the_day(stage):
    scene = await stage(env={"AGENT_MAX_DAILY": "1"}, free=True)
    for _ in range(3):
        await scene.ask()
    assert scene.texts() == ["Hello."] * 3
