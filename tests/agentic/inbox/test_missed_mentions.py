"""Calls of which nobody hears what they cost: stopped, timed out, cancelled, failed; and on whose account they are."""

from __future__ import annotations

import asyncio

import pytest

from agentic.llm.errors import BadKey, ServerFailed
from agentic.llm.types import Usage
from agentic.state.budgets import Caps
from agentic.state.silence import Scope
from tests.support.agent_scene import CALL, MEMES, PAINTING, Scene
from tests.support.doubles import ALICE, BOB, LoopTime, settle

LOOK = {"text": "Look.", "generate_image": True, "image_prompt": "a cat"}


@pytest.fixture
async def stage():
    """`await stage(**caps)`: one agent under these caps."""
    scenes = []

    async def make(env=None, **caps):
        scenes.append(await Scene("claude", env=env, caps=Caps(**caps)).start())
        return scenes[-1]

    yield make
    for scene in scenes:
        await scene.aclose()


async def charged(scene, person):
    """Millionths of a dollar that the person has spent today."""
    uses = await scene.state.uses()
    return round(uses[f"person:{person}"].spent * 1_000_000)


@pytest.mark.promise(48)
async def test_a_call_that_a_person_stops_costs_what_was_put_aside_for_it(stage):
    scene = await stage()
    scene.answers(asyncio.Event().wait)
    await scene.ask()
    reserved = (await scene.state.uses())["all"].reserved
    await scene.silence.stop(Scope.channel(100), source="m1")
    await settle()
    assert (scene.texts(), scene.spent()["ai_calls"]) == ([], 1)
    uses = await scene.state.uses()
    assert 0 < uses["all"].spent <= reserved
    assert uses[f"person:{ALICE}"].spent == uses["all"].spent


@pytest.mark.promise(48)
async def test_who_says_stop_again_and_again_comes_to_the_end_of_their_money(stage):
    scene = await stage(person=0.006)
    for number in range(4):
        scene.answers(asyncio.Event().wait)
        await scene.ask()
        await scene.silence.stop(Scope.channel(100), source=f"m{number}")
        await settle()
        await scene.silence.resume(Scope.channel(100))
    assert len(scene.cog.asked) == 2
    assert [emoji for _, emoji in scene.channel().reacted][-2:] == ["💤", "💤"]


@pytest.mark.promise(48)
async def test_a_call_that_outlasts_its_turn_is_charged(stage):
    scene = await stage()
    scene.answers(asyncio.Event().wait)
    time = LoopTime()
    await scene.ask()
    await time.run(130)
    assert scene.spent()["ai_calls"] == 1
    assert scene.spent()["total_cost"] > 0.002


@pytest.mark.promise(48)
async def test_a_call_that_the_end_of_the_process_cuts_off_is_charged_by_the_next_one(stage):
    scene = await stage()
    scene.answers(asyncio.Event().wait)
    await scene.ask()
    await scene.aclose()
    scene.state.crash()
    after = await Scene(state=scene.state).start()
    await after.cog.host.catch_up.resume_open_turns()
    await settle()
    assert after.spent()["ai_calls"] == 2
    await after.aclose()


@pytest.mark.parametrize("error", [BadKey(), ServerFailed()])
async def test_a_call_that_the_provider_refuses_costs_nothing(stage, error):
    scene = await stage()
    scene.answers(error)
    await scene.ask()
    assert scene.spent() == {}


async def test_a_turn_that_stops_before_its_call_costs_nothing(stage):
    scene = await stage(all=0.001)
    await scene.ask()
    assert (scene.cog.asked, scene.spent()) == ([], {})


async def test_a_failed_drawing_costs_what_its_provider_says_it_did(stage):
    scene = await stage()
    scene.cog.brush = ServerFailed()
    scene.cog.brush.usage = Usage(calls=1, pictures=1, picture_cost_usd=0.07)
    scene.answers(LOOK)
    await scene.ask(channel=MEMES)
    assert scene.texts(MEMES) == ["Look."]
    assert (scene.spent()["image_calls"], scene.spent()["image_cost"]) == (1, 0.07)
    assert scene.spent()["total_cost"] == pytest.approx(CALL.cost_usd + 0.07)


async def test_a_drawing_that_takes_too_long_costs_a_picture(stage):
    scene = await stage()
    scene.cog.brush = asyncio.Event().wait
    scene.answers(LOOK)
    time = LoopTime()
    await scene.ask(channel=MEMES)
    await time.run(115)
    assert scene.texts(MEMES) == ["Look."]
    assert (scene.spent()["image_calls"], scene.spent()["image_cost"]) == (
        1,
        scene.cog.host.agent.models.main.prices.picture().cost_usd,
    )


async def test_a_drawing_is_noted_before_it_is_made_and_charged_by_who_goes_on(stage):
    scene = await stage()
    scene.cog.brush = asyncio.Event().wait
    scene.answers(LOOK)
    await scene.ask(channel=MEMES)
    assert [name for _, name in scene.state.checkpoints] == ["answer", "under_way"]
    await scene.aclose()
    scene.state.crash()
    after = await Scene(state=scene.state).start()
    await after.cog.host.catch_up.resume_open_turns()
    await settle()
    assert (after.cog.asked, after.cog.drawn) == ([], ["a cat"])
    assert (after.spent()["ai_calls"], after.spent()["image_calls"]) == (1, 2)
    assert after.spent()["image_cost"] > PAINTING.cost_usd
    await after.aclose()


async def test_a_picture_for_which_no_time_is_left_is_neither_drawn_nor_paid_for(stage):
    scene = await stage()
    scene.answers(LOOK)
    complete = scene.cog.host.agent.models.main.complete

    async def slow(*asked):
        scene.clock.now += 2
        return await complete(*asked)

    object.__setattr__(scene.cog.host.agent.models.main, "complete", slow)
    result = await scene.instruct("i1", channel=MEMES, deadline=scene.clock() + 11.5)
    assert (result.text, scene.cog.drawn) == ("Look.", [])
    assert "image_calls" not in scene.spent()


@pytest.mark.promise(51)
async def test_a_prompt_that_is_larger_than_was_foreseen_has_more_put_aside_before_it_is_sent(stage):
    scene = await stage(all=0.00205)
    scene.cog.host.agent.limits.overhead.tokens = 0  # and it has more than 500
    await scene.ask()
    assert (scene.cog.asked, scene.spent()) == ([], {})
    scene.state.limits.budgets.caps = Caps(all=5.0)
    scene.answers(asyncio.Event().wait)
    await scene.ask()
    (name,) = scene.state.limits.budgets.holds
    assert scene.state.limits.budgets.holds[name].amount > 500 * 0.1 + 4_000 * 0.5
    assert scene.state.checkpoints == [(name.removeprefix("claude:"), "under_way")]
    assert scene.cog.host.agent.limits.overhead.tokens > 500, "the next one is foreseen better"


@pytest.mark.promise(50)
async def test_who_joins_in_on_an_answer_does_so_on_the_account_of_the_person_who_was_answered(stage):
    scene = await stage(person=0.02)
    asked = await scene.hear("hello all", author=BOB)
    result = await scene.instruct("i1", trigger_message_id=asked)
    assert (result.text, await charged(scene, BOB)) == ("Hello.", 10_000)
    again = await scene.instruct("i2", trigger_message_id=asked)
    assert (again.text, await charged(scene, BOB)) == ("Hello.", 20_000)
    third = await scene.instruct("i3", trigger_message_id=asked)
    assert (third.skipped, third.reason) == (True, "person_budget")
    assert scene.state.recorded[0].asked_by == BOB


@pytest.mark.promise(50)
async def test_a_hook_around_a_mention_is_on_the_account_of_the_person_who_mentioned(tmp_path):
    (tmp_path / "claude").mkdir()
    (tmp_path / "claude" / "agents.md").write_text("## Hooks\n\n### agent_begin\n\nThink of the weather.\n")
    scene = await Scene(env={"PERSONAS_DIR": str(tmp_path)}).start()
    asked = await scene.ask()
    assert len(scene.cog.asked) == 2
    assert await charged(scene, ALICE) == 20_000
    await scene.instruct("i1", trigger_message_id=asked)
    assert await charged(scene, ALICE) == 40_000
    await scene.instruct("i2")
    assert await charged(scene, ALICE) == 40_000, "a conversation's turn is nobody's"
    await scene.aclose()
