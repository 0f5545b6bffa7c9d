"""Summaries and profiles: one call, one result, on the books of idle work alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentic.llm.errors import ServerFailed
from agentic.llm.types import Prompt, Reply
from agentic.state.budgets import Caps
from agentic.state.silence import Scope
from tests.support.agent_scene import ELSEWHERE, LOUNGE, Scene
from tests.support.cheap import give_cheap
from tests.support.doubles import ALICE, settle, until
from tests.support.idle_scene import begin, cancel, reflect, result_of


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = await Scene().start()
    yield scene
    await scene.aclose()


async def test_a_summary_is_the_text_of_the_result_and_is_posted_nowhere(scene: Scene):
    cheap = give_cheap(scene, "Alice asked about rockets.")
    result = await reflect(scene, "summarise")
    assert not result.skipped
    assert (result.text, result.message_id, result.reason) == ("Alice asked about rockets.", None, None)
    assert (len(cheap.asked), scene.cog.asked, scene.texts()) == (1, [], [])
    (record,) = scene.state.recorded
    assert (record.kind, record.trigger, record.outcome) == ("reflection", "summarise", "written")
    assert (record.asked_by, record.channel_id, record.model) == (None, LOUNGE, "openai/gpt-6-luna")
    assert [(call.kind, call.cost_usd) for call in record.calls] == [("summary", 0.0001)]


async def test_a_profile_is_a_topic_a_line(scene: Scene):
    give_cheap(scene, "Topics:\n- rockets\n- tea")
    result = await reflect(scene, "profile", topics=("tea",))
    assert result.text == "rockets\ntea"
    assert [call.kind for call in scene.state.recorded[0].calls] == ["profile"]


async def test_a_person_without_topics_is_a_result_and_no_failure(scene: Scene):
    give_cheap(scene, "none")
    result = await reflect(scene, "profile")
    assert (result.skipped, result.text) == (False, "")


@pytest.mark.promise(481)
async def test_whom_the_bots_ignore_has_no_topics_and_no_model_is_asked(scene: Scene):
    cheap = give_cheap(scene, "rockets")
    await scene.silence.stop(Scope.person(ALICE))
    result = await reflect(scene, "profile", topics=("tea",))
    assert (result.skipped, result.text, cheap.asked) == (False, "", [])


async def test_without_a_cheap_model_the_agents_own_writes_without_its_persona(scene: Scene):
    scene.answers("Alice asked about rockets.")
    result = await reflect(scene, "summarise")
    assert result.text == "Alice asked about rockets."
    prompt, history = scene.cog.asked[0]
    assert history == ()
    assert "Claude" not in prompt.system
    assert scene.state.recorded[0].calls[0].kind == "summary"


@pytest.mark.promise(450)
async def test_the_same_instruction_again_gets_the_same_result_and_no_second_call(scene: Scene):
    cheap = give_cheap(scene, "One.", "Two.")
    assert await reflect(scene, "summarise") == await reflect(scene, "summarise")
    assert len(cheap.asked) == 1
    assert len(scene.results) == 2


async def test_secrets_are_no_part_of_a_summary(scene: Scene):
    give_cheap(scene, "The password is hunter2.")
    result = await reflect(scene, "summarise")
    assert result.text == "The password is …."


@pytest.mark.parametrize("reflection", [{"task": "dream"}, None])
async def test_an_unknown_task_is_refused(scene: Scene, reflection: dict[str, str] | None):
    result = await scene.instruct("r1", action="reflect", reflection=reflection)
    assert (result.skipped, result.reason) == (True, "unknown_action")


async def test_a_post_for_nobody_is_refused(scene: Scene):
    result = await reflect(scene, "discover", person_id=None)
    assert result.reason == "unknown_action"


async def test_a_coding_agent_writes_nothing_by_its_own_model(scene: Scene):
    object.__setattr__(scene.cog.host.agent.models.main, "runs_own_tools", True)
    result = await reflect(scene, "summarise")
    assert result.reason == "unknown_action"
    assert scene.cog.asked == []
    give_cheap(scene, "Alice asked.")
    result = await reflect(scene, "summarise", "r2")
    assert result.text == "Alice asked."


@pytest.mark.promise(450)
async def test_an_answer_without_words_and_a_model_that_fails_are_reasons(scene: Scene):
    give_cheap(scene, '{"text": "hm"}', ServerFailed("no", status=500))
    first, second = await reflect(scene, "summarise"), await reflect(scene, "summarise", "r2")
    assert (first.reason, second.reason) == ("unreadable", "model_failed")


async def test_a_channel_that_the_agent_does_not_see_is_a_reason(scene: Scene):
    give_cheap(scene, "Alice asked.")
    result = await reflect(scene, "summarise", channel=ELSEWHERE)
    assert result.reason == "unknown_channel"


@pytest.mark.promise(450)
async def test_it_counts_as_no_turn_of_the_day_and_has_the_share_of_idle_work():
    scene = await Scene(env={"AGENT_MAX_DAILY": "1"}, caps=Caps(idle=0.04)).start()
    scene.answers("One.", "Two.", "Three.", "Four.", "Five.")
    results = [await reflect(scene, "summarise", f"r{n}") for n in range(5)]
    reasons = [result.reason for result in results if result is not None]
    assert reasons[:2] == [None, None]
    assert reasons[-1] == "idle_budget"
    scene.answers()
    await scene.ask()
    assert scene.texts() == ["Hello."]
    await scene.aclose()


async def test_in_a_stopped_channel_nothing_is_written(scene: Scene):
    cheap = give_cheap(scene, "Alice asked.")
    await scene.silence.stop(Scope.channel(LOUNGE))
    result = await reflect(scene, "summarise")
    assert (result.reason, cheap.asked) == ("stopped", [])


@pytest.mark.promise(450)
async def test_a_cancel_ends_the_call_which_is_booked_as_spent(scene: Scene):
    begun, never = asyncio.Event(), asyncio.Event()

    async def think() -> None:
        begun.set()
        await never.wait()

    give_cheap(scene, think)
    await begin(scene, "summarise")
    await until(begun.is_set)
    await cancel(scene)
    result = result_of(scene)
    assert (result.skipped, result.reason) == (True, "person_wrote")
    (record,) = scene.state.recorded
    assert record.calls[0].error == "cancelled"
    assert record.cost_usd > 0
    assert scene.spent()["total_cost"] == pytest.approx(record.cost_usd)
    assert await reflect(scene, "summarise") == result


async def test_a_question_is_answered_while_a_summary_is_written(scene: Scene):
    never = asyncio.Event()
    give_cheap(scene, never.wait)
    await begin(scene, "summarise")
    await scene.ask()
    assert scene.texts() == ["Hello."]
    await cancel(scene)
    stopped = result_of(scene)
    assert stopped.reason == "person_wrote"


async def test_a_stop_of_the_channel_ends_the_call(scene: Scene):
    never = asyncio.Event()
    give_cheap(scene, never.wait)
    await begin(scene, "summarise")
    await scene.silence.stop(Scope.channel(LOUNGE))
    await settle()
    result = result_of(scene)
    assert result.reason == "stopped"


@pytest.mark.promise(450)
async def test_what_a_killed_process_began_is_written_by_the_next_one_and_paid_twice(scene: Scene):
    never = asyncio.Event()
    give_cheap(scene, never.wait)
    await begin(scene, "summarise")
    scene.state.crash()
    later = Scene(state=scene.state)
    later.clock.now = scene.clock.now
    await later.start()
    give_cheap(later, "Alice asked.")
    result = await reflect(later, "summarise")
    assert result.text == "Alice asked."
    assert result.usage is not None
    assert result.usage.calls == 2
    await later.aclose()


async def test_no_hook_runs_around_it(scene: Scene):
    ran: list[str] = []

    class Hooks:
        async def before(self, event: object) -> None:
            ran.append("before")

        async def after(self, event: object) -> None:
            ran.append("after")

    scene.cog.host.queue._runner.hooks = Hooks()
    give_cheap(scene, "Alice asked.")
    await reflect(scene, "summarise")
    assert ran == []
    await scene.ask(author=ALICE)
    assert ran == ["before", "after"]


async def test_its_prompt_is_no_part_of_the_record(scene: Scene):
    give_cheap(scene, "Alice asked.")
    await reflect(scene, "summarise")
    (ended,) = scene.watcher.ended_turns
    assert list(ended[1].calls()) == []
    assert ended[0].kind == "reflection"


async def test_the_own_model_gets_a_prompt_that_a_coding_agent_would_not_continue(scene: Scene):
    async def complete(prompt: Prompt, history: object) -> Reply:
        assert prompt.conversation is None
        return Reply(text="Alice asked.")

    object.__setattr__(scene.cog.host.agent.models.main, "complete", complete)
    result = await reflect(scene, "summarise")
    assert result.text == "Alice asked."
