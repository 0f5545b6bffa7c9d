"""What an agent sees when it begins to think."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentic.chat.attachments import TextFile
from agentic.context.options import Options
from agentic.turn.view import quote_file
from tests.support.agent_scene import Scene
from tests.support.doubles import BOB
from tests.support.thinking_scene import let, thinking_scene


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = await thinking_scene()
    yield scene
    await scene.aclose()


@pytest.mark.parametrize(("tools", "searches"), [(("*",), True), (("clock",), False)])
async def test_an_agent_without_the_search_tool_does_not_search_also_as_a_starter(
    scene: Scene, tools: tuple[str, ...], searches: bool
) -> None:
    let(scene, options=Options(tools=tools))
    await scene.instruct(is_conversation_starter=True)
    assert scene.prompt.search is searches


async def test_in_a_conversation_without_a_message_yet_nobody_has_joined_in(scene: Scene) -> None:
    await scene.hear("what about spaces?", author=BOB)
    await scene.instruct()
    assert "has joined in" not in scene.prompt.text


async def test_a_scripted_model_is_given_a_persons_words_in_one_piece(scene: Scene) -> None:
    opening = await scene.hear("Tea is soup.", author=31, name="Grok", bot=True)
    await scene.hear("wait", author=BOB)
    await scene.hear("what about spaces?", author=BOB)
    await scene.instruct(conversation_history=[{"agent": "grok", "text": "Tea is soup.", "message_id": opening}])
    labels = scene.prompt.labels
    assert (labels["human_name"], labels["human_said"], labels["aside"]) == ("Bob", "wait\nwhat about spaces?", "1")


async def test_a_reaction_that_names_no_message_is_to_what_another_one_said_last(scene: Scene) -> None:
    heard = await scene.hear("what a day", author=BOB)
    await scene.hear("I am here.", author=scene.me.id, name="Claude", bot=True)
    scene.answers({"text": None, "react_emoji": "🔥"})
    await scene.instruct()
    assert scene.channel().reacted == [(heard, "🔥")]


async def test_what_lies_before_a_reset_is_not_seen(scene: Scene) -> None:
    reset = await scene.hear("the old plan", author=BOB)
    await scene.hear("the new plan", author=BOB)

    let(scene, reset=reset)
    await scene.instruct()
    assert [("old plan" in text, "new plan" in text) for text in scene.shown] == [(False, True)]


@pytest.mark.parametrize(("left_out", "shown"), [(0, "words"), (12_345, "words\n… (12,345 more characters)")])
def test_a_file_ends_with_how_much_of_it_is_not_shown(left_out: int, shown: str) -> None:
    assert quote_file(TextFile("notes.txt", "words", left_out)) == shown
