"""The one search before an answer to a person."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentic.context.options import Options
from agentic.llm.types import Picture, Reply, Source, Usage
from agentic.state.budgets import Caps
from agentic.tools.call_log import ToolRecords
from agentic.tools.tool import ToolOutput
from agentic.tools.web_search import SPEC
from agentic.turn.search_first import fallback_source
from tests.support.agent_scene import CALL
from tests.support.doubles import PNG, until
from tests.support.idle_scene import NEWS, reflect
from tests.support.thinking_scene import calls, let, thinking_scene, words
from tests.support.tools.tool_doubles import FakeTool

FOUND = "title: Trees\nurl: https://trees.example/\nsnippet: Hyperion is tall."
SEARCH = Options(always_search=True)
MEMORY, SAID = {"text": "From memory."}, {"text": "Hyperion."}
NATIVE = "anthropic/claude-haiku-5-5"
NO_ANSWER = Reply(text='{"te', usage=CALL)


def web_search(answer=FOUND):
    tool = FakeTool("web_search", lambda _: answer)
    tool.spec = SPEC
    return tool


@pytest.fixture
async def stage():
    """`await stage(tool, options=…)`: one agent that searches before its answers."""
    scenes = []

    async def make(*tools, options=SEARCH, **kwargs):
        scenes.append(await thinking_scene(*tools, options=options, **kwargs))
        return scenes[-1]

    yield make
    for scene in scenes:
        await scene.aclose()


def prompts(scene):
    return [prompt for prompt, _ in scene.cog.asked]


async def test_the_programs_search_costs_one_call_more_which_is_reserved_and_booked(stage):
    tool = web_search()
    scene = await stage(tool)
    scene.answers(MEMORY, SAID)
    await scene.ask("which tree is the tallest?")
    assert tool.ran == [{"query": "which tree is the tallest?"}]
    assert (scene.spent()["total_cost"], scene.spent()["ai_calls"]) == (pytest.approx(2 * CALL.cost_usd), 2)
    assert "Hyperion is tall." in scene.prompt.text
    (call,) = scene.state.recorded[-1].tool_calls
    assert (call.name, call.error) == ("web_search", False)


@pytest.mark.promise(402)
async def test_without_money_for_that_call_the_first_answer_stands_and_nothing_is_searched(stage):
    tool = web_search()
    scene = await stage(tool, caps=Caps(all=0.038))  # with three searches by its maker a call may come to 0.033
    scene.answers(MEMORY, SAID)
    await scene.ask("which tree is the tallest?")
    assert (scene.texts(), tool.ran, len(scene.cog.asked)) == (["From memory."], [], 1)


async def test_a_question_without_words_for_an_engine_is_answered_at_once(stage):
    tool = web_search()
    scene = await stage(tool)
    scene.answers(MEMORY, SAID)
    await scene.ask("alice@example.com?")
    assert (scene.texts(), tool.ran, len(scene.cog.asked)) == (["From memory."], [], 1)


@pytest.mark.promise(513)
@pytest.mark.parametrize("query", ["tree {}", "+49 170 55512{}"], ids=["words", "private details alone"])
async def test_a_model_that_searches_again_and_again_is_asked_for_its_answer(stage, query):
    tool = web_search()
    scene = await stage(tool)
    scene.answers(*(calls(("web_search", {"query": query.format(number)})) for number in range(10, 40)))
    await scene.ask("which tree is the tallest?")
    assert len(tool.ran) <= 1
    assert len(scene.cog.asked) <= 6


@pytest.mark.parametrize("cannot", ["no rounds of tools", "a loop of its own"])
async def test_for_a_model_that_cannot_search_the_program_searches_before_it_is_asked(stage, cannot):
    tool = web_search()
    scene = await stage(tool, options=Options(always_search=True, max_tool_depth=0 if "rounds" in cannot else 5))
    agent = scene.cog.host.agent
    object.__setattr__(agent.models, "main", replace(agent.models.main, runs_own_tools="loop" in cannot))
    scene.answers(SAID)
    await scene.ask("which tree is the tallest?")
    (prompt,) = prompts(scene)
    assert ("Hyperion is tall." in prompt.text, "First search" in prompt.text) == (True, False)
    assert len(tool.ran) == 1


async def test_an_answer_that_cannot_be_read_is_asked_for_once_more_with_a_search(stage):
    tool = web_search()
    scene = await stage(tool)
    scene.answers(NO_ANSWER, NO_ANSWER, SAID)
    await scene.ask("which tree is the tallest?")
    assert (len(tool.ran), len(scene.cog.asked)) == (1, 3)
    assert "couldn't be read" in scene.prompt.text
    assert "Hyperion is tall." in scene.prompt.text


async def test_only_the_answer_to_a_person_who_called_searches(stage):
    tool = web_search()
    scene = await stage(tool)
    scene.answers(MEMORY)
    await scene.instruct("i1", round_number=2)
    heard = await scene.hear("well, which tree is it?")
    await scene.instruct("i2", trigger_message_id=heard)
    assert (tool.ran, len(scene.cog.asked)) == ([], 2)
    assert not any("First search" in prompt.text for prompt in prompts(scene))


async def test_a_makers_search_is_offered_in_any_theme_and_only_until_it_was_made(stage):
    clock = FakeTool("clock", lambda _: "noon")
    scene = await stage(web_search(), clock)
    let(scene, web_search(), clock, options=SEARCH, model_name=NATIVE)
    searched = replace(calls(("clock", {})), usage=Usage(calls=1, searches=1))
    scene.answers(searched, SAID)
    await scene.ask()
    assert [(prompt.search, prompt.max_searches) for prompt in prompts(scene)] == [(True, 1), (False, None)]
    assert ["web_search" in [tool.name for tool in prompt.tools] for prompt in prompts(scene)] == [False, False]


async def test_a_failed_search_is_told_and_is_the_one_search(stage):
    tool = web_search(ToolOutput.failed("the search failed: ddgs failed"))
    scene = await stage(tool)
    scene.answers(calls(("web_search", {"query": "tree"})), calls(("web_search", {"query": "trees"})), SAID)
    await scene.ask()
    assert (len(tool.ran), scene.texts()) == (1, ["Hyperion."])
    again = await stage(web_search(ToolOutput.failed("the search failed: ddgs failed")))
    again.answers(MEMORY, {"text": "I could not look."})
    await again.ask()
    assert "search failed (the search failed: ddgs failed)" in again.prompt.text


async def test_after_a_crash_the_search_that_was_made_is_not_made_again(stage, tmp_path):
    async with ToolRecords(tmp_path) as records:
        hung, tool = asyncio.Event(), web_search()
        scene = await stage(tool)
        let(scene, tool, options=SEARCH, records=records)
        scene.answers(calls(("web_search", {"query": "tallest tree"})), lambda _: hung.wait())
        await scene.ask()
        await until(lambda: len(scene.cog.asked) == 1 and records.for_channel("claude", scene.channel().id))
        await scene.aclose()
        scene.state.crash()
        again = await stage(web_search("title: none"), state=scene.state)
        other = web_search("title: none")
        let(again, other, options=SEARCH, records=records)
        again.answers(calls(("web_search", {"query": "which tree is tallest"})), SAID)
        await again.cog.host.catch_up.resume_open_turns()
        await until(lambda: again.texts())
        assert (other.ran, again.prompt.rounds[0].results[0].text) == ([], FOUND)


async def test_a_found_picture_is_posted_and_its_search_ends_with_the_turn(stage):
    ended = []

    async def find(query):
        if query == "a slow tree":
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(query)
        return Picture(PNG, "image/png")

    options = Options(always_search=True, search_pictures=True)
    scene = await stage(web_search(), options=options)
    let(scene, web_search(), options=options, pictures=find)
    scene.answers(calls(("web_search", {"query": "a tree"})), SAID)
    await scene.ask()
    assert scene.channel().sent[-1].options["files"][0].filename == "picture.png"
    scene.answers(calls(("web_search", {"query": "a slow tree"})), NO_ANSWER, NO_ANSWER)
    await scene.ask()
    await until(lambda: ended)


async def test_in_prefill_mode_the_first_words_are_kept_back_until_the_search_is_made(stage):
    tool = web_search()
    scene = await stage(tool, options=Options(always_search=True, mode="prefill"))
    scene.answers(words("From memory."), words("Hyperion."))
    await scene.ask("which tree is the tallest?")
    assert scene.texts()[0].startswith("Hyperion.")
    assert "A web search for this answer found" in scene.prompt.prefill


async def test_an_unasked_message_is_searched_for_by_its_own_words_and_silence_is_not(stage):
    tool = web_search()
    scene = await stage(tool)
    scene.answers({"text": "The rocket flew this morning."}, {"text": NEWS})
    result = await reflect(scene, "follow_up")
    assert (result.text, tool.ran) == (NEWS, [{"query": "The rocket flew this morning."}])
    scene.answers({"skip": True, "text": None})
    result = await reflect(scene, "discover", "r2", topics=("tea",))
    assert (result.reason, len(tool.ran), len(scene.cog.asked)) == ("skipped", 1, 3)


PAGES = (Source("Trees", "https://www.trees.example/tall"), Source("Wood", "https://wood.example/"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Hyperion.", PAGES[:1]),
        ("Hyperion, says wood.example.", PAGES[1:]),
        ("See https://wood.example", ()),
        ("See [Trees](https://www.trees.example/tall).", ()),
        ("See https://other.example/", PAGES[:1]),
        (None, ()),
    ],
)
def test_the_first_page_is_shown_where_the_answer_names_none(text, shown):
    assert fallback_source(text, PAGES) == shown
    assert fallback_source(text, ()) == ()
