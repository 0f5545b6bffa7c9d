"""If an agent's model is at home, people's questions go before the coordinator's turns in the same channel."""

from __future__ import annotations

import asyncio

from tests.support.agent_scene import Scene
from tests.support.doubles import settle

AT_HOME = {"CLAUDE_MODEL": "ollama/small", "BARGE_IN": "finish"}


async def test_a_conversations_turn_without_an_answer_gives_way_and_is_taken_again() -> None:
    scene = await Scene(env=AT_HOME).start()
    scene.answers(asyncio.Event().wait, {"text": "For the person."}, {"text": "In the conversation."})
    await scene.instruct("i1")
    await scene.ask("And now?")
    await settle()
    assert scene.texts() == ["For the person.", "In the conversation."]
    assert [(result.instruction_id, result.reason) for result in scene.results] == [("i1", None)]
    assert [prompt.priority for prompt, _ in scene.cog.asked] == ["yield", "person", "yield"]
    await scene.aclose()


async def test_a_turn_whose_model_has_begun_to_answer_is_not_interrupted() -> None:
    scene, go_on = await Scene(env=AT_HOME).start(), asyncio.Event()

    async def write() -> None:
        on_text = scene.prompt.on_text
        assert on_text is not None
        on_text('{"text": "In the')
        await go_on.wait()

    scene.answers(write, {"text": "For the person."})
    await scene.instruct("i1")
    await scene.ask("And now?")
    go_on.set()
    await settle()
    assert scene.texts() == ["Hello.", "For the person."]
    await scene.aclose()


async def test_a_question_passes_a_turn_that_waits_in_the_same_channel() -> None:
    scene, go_on = await Scene(env=AT_HOME).start(), asyncio.Event()
    scene.answers(go_on.wait, {"text": "For the person."}, {"text": "In the conversation."})
    await scene.ask("First?")
    await scene.instruct("i1")
    await scene.ask("Second?")
    go_on.set()
    await settle()
    assert scene.texts() == ["Hello.", "For the person.", "In the conversation."]
    await scene.aclose()


async def test_a_turn_that_gave_way_until_its_time_was_over_counts_as_overtaken() -> None:
    scene, go_on = await Scene(env=AT_HOME).start(), asyncio.Event()
    scene.answers(asyncio.Event().wait, go_on.wait)
    await scene.instruct("i1")
    await scene.ask("And now?")
    scene.clock.now += 100.0
    go_on.set()
    await settle()
    assert [(result.instruction_id, result.reason) for result in scene.results] == [("i1", "overtaken")]
    await scene.aclose()


async def test_a_providers_model_is_not_interrupted() -> None:
    scene, go_on = await Scene(env={"BARGE_IN": "finish"}).start(), asyncio.Event()
    scene.answers(go_on.wait, {"text": "For the person."})
    await scene.instruct("i1")
    await scene.ask("And now?")
    go_on.set()
    await settle()
    assert scene.texts() == ["Hello.", "For the person."]
    await scene.aclose()
