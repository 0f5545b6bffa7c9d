"""The reply chain of a question in an agent's prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentic.context.options import Options
from agentic.state.silence import Scope
from agentic.turn.trace import quoted_in
from tests.support.agent_scene import LOUNGE, Scene
from tests.support.doubles import BOB
from tests.support.thinking_scene import let, thinking_scene, words

SHORT = Options(max_messages=1, rolling_threshold=0)  # a window of the question alone


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = await thinking_scene(options=SHORT)
    yield scene
    await scene.aclose()


def reply(message_id: int) -> dict[str, Any]:
    return {"message_reference": {"message_id": str(message_id), "channel_id": str(LOUNGE)}, "type": 19}


async def chain(scene: Scene) -> tuple[int, int]:
    first = await scene.hear("The lake is near the mill.", author=BOB)
    return first, await scene.hear("Which mill?", **reply(first))


async def test_what_the_question_replies_to_is_in_the_prompt_once(scene: Scene) -> None:
    first, second = await chain(scene)
    await scene.hear("Something else.", author=BOB)
    await scene.ask("do you know?", **reply(second))
    lines = f"  [msg:{first}] Bob: The lake is near the mill.\n  [msg:{second}] Alice: Which mill?\n"
    assert lines in scene.prompt.text
    let(scene, options=Options(max_messages=40))
    await scene.ask("and now?", **reply(second))
    assert "chain of replies" not in scene.prompt.text


async def test_the_record_of_the_prompt_knows_whose_words_they_are(scene: Scene) -> None:
    first, second = await chain(scene)
    await scene.ask("do you know?", **reply(second))
    ((_, made),) = scene.watcher.ended_turns
    quoted = quoted_in(made.trace.calls[0].sources)  # type: ignore[attr-defined]
    assert quoted[first] == BOB
    assert second in quoted


async def test_ignored_people_and_messages_before_a_reset_are_left_out(scene: Scene) -> None:
    first, second = await chain(scene)
    await scene.silence.stop(Scope.person(BOB))
    await scene.ask("do you know?", **reply(second))
    assert (f"[msg:{first}]" in scene.prompt.text, f"[msg:{second}]" in scene.prompt.text) == (False, True)
    await scene.silence.resume(Scope.person(BOB))

    let(scene, reset=first, options=SHORT)
    await scene.ask("do you know?", **reply(second))
    assert (f"[msg:{first}]" in scene.prompt.text, f"[msg:{second}]" in scene.prompt.text) == (False, True)


async def test_the_option_bounds_it_and_switches_it_off(scene: Scene) -> None:
    first, second = await chain(scene)
    for most, shown in ((1, [False, True]), (0, [False, False])):
        let(scene, options=SHORT.model_copy(update={"chain_messages": most}))
        await scene.ask("do you know?", **reply(second))
        assert [f"[msg:{one}]" in scene.prompt.text for one in (first, second)] == shown


async def test_in_prefill_mode_it_is_named_before_the_agents_words() -> None:
    prefilled = SHORT.model_copy(update={"mode": "prefill"})
    scene = await thinking_scene(options=prefilled)
    let(scene, options=prefilled, model_name="compatible/llama")
    scene.answers(words("At the river."))
    _, second = await chain(scene)
    await scene.ask("do you know?", **reply(second))
    assert "Before it came: Bob: “The lake is near the mill.”; Alice: “Which mill?”." in scene.prompt.prefill
    assert scene.texts() == ["At the river."]
    await scene.aclose()
