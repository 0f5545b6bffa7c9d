"""A turn whose model calls tools."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace

import pytest
from PIL import Image

from agentic.context.options import Options
from agentic.llm.errors import BadAnswer, ServerFailed
from agentic.llm.types import Picture, Reply, ToolCall, Usage
from agentic.net.images import ImageLimits
from agentic.state.budgets import Caps
from agentic.tools.call_log import ToolRecords
from agentic.tools.tool import ToolOutput
from agentic.turn.history import MAX_LINES, tool_lines
from agentic.turn.tools import searches_itself
from agentic.wire.messages import HistoryEntry
from tests.support.agent_scene import CALL, DEBATE, LOUNGE
from tests.support.doubles import ALICE, until
from tests.support.thinking_scene import calls, let, thinking_scene
from tests.support.tools.tool_doubles import FakeTool

NOON = {"text": "It is noon."}


def clock(answer="noon"):
    return FakeTool("clock", lambda _: answer)


@pytest.fixture
async def stage():
    """`await stage(*tools, options=…)`: one agent whose model has these tools."""
    scenes = []

    async def make(*tools, **kwargs):
        scenes.append(await thinking_scene(*tools, **kwargs))
        return scenes[-1]

    yield make
    for scene in scenes:
        await scene.aclose()


async def test_the_result_of_a_call_goes_back_to_the_model_and_each_completion_is_booked_once(stage):
    tool = clock()
    scene = await stage(tool)
    scene.answers(calls(("clock", {"zone": "UTC"})), NOON)
    question = await scene.ask("what time is it?")
    assert scene.texts() == ["It is noon."]
    assert tool.ran == [{"zone": "UTC"}]
    (step,) = scene.prompt.rounds
    assert step.results[0].text == "noon"
    assert (scene.spent()["total_cost"], scene.spent()["ai_calls"]) == (pytest.approx(2 * CALL.cost_usd), 2)
    assert scene.state.recorded[-1].posted == (scene.channel().sent[0].id,)
    assert question < scene.channel().sent[0].id


async def test_a_picture_that_a_tool_brings_is_made_into_one_that_the_model_takes(stage):
    out, asked = io.BytesIO(), asyncio.Event()
    Image.new("RGB", (300, 200), "red").save(out, "WEBP")
    brought = ToolOutput("a painting", (Picture(out.getvalue(), "image/webp"), Picture(b"none", "image/webp")))
    scene = await stage(FakeTool("look", lambda _: brought))
    model = replace(scene.cog.host.agent.models.main, image_limits=ImageLimits(100, 10_000, frozenset({"image/jpeg"})))
    object.__setattr__(scene.cog.host.agent.models, "main", model)
    scene.answers(calls(("look", {})), lambda _: asked.set() or NOON)
    await scene.ask()
    await asyncio.wait_for(asked.wait(), 10)  # a picture is scaled in a thread
    (result,) = scene.prompt.rounds[0].results
    assert [(p.media_type, Image.open(io.BytesIO(p.data)).size) for p in result.pictures] == [("image/jpeg", (100, 67))]
    assert "1 of 2 pictures left out" in result.text


async def test_without_tools_a_turn_asks_as_ever(stage):
    scene = await stage()
    await scene.ask()
    assert (scene.prompt.tools, scene.prompt.rounds, len(scene.cog.asked)) == ((), (), 1)


async def test_the_options_narrow_the_tools_and_set_their_depth(stage):
    scene = await stage(clock(), FakeTool("shell", str), options=Options(tools=("clock", "web_*"), max_tool_depth=1))
    scene.answers(calls(("shell", {})), NOON)
    await scene.ask()
    first, last = (prompt for prompt, _ in scene.cog.asked)
    assert [tool.name for tool in first.tools] == ["clock"]
    assert last.tools == ()
    assert "unknown tool" in last.text


async def test_a_depth_of_none_switches_them_off(stage):
    scene = await stage(clock(), options=Options(max_tool_depth=0))
    await scene.ask()
    assert scene.prompt.tools == ()


@pytest.mark.parametrize(("model", "named"), [("anthropic/claude-haiku-5-5", []), ("compatible/llama", ["web_search"])])
async def test_a_model_that_searches_by_itself_is_offered_no_other_search(stage, model, named):
    search = FakeTool("web_search", str)
    scene = await stage(search)
    let(scene, search, model_name=model)
    await scene.ask()
    assert [tool.name for tool in scene.prompt.tools] == named
    assert not searches_itself("google/gemini-2.5-flash"), "it would lose its search beside other tools"


async def test_an_answer_that_cannot_be_read_is_asked_for_once_more_with_what_the_tools_brought(stage):
    scene = await stage(clock())
    scene.answers(calls(("clock", {})), '{"te', NOON)
    await scene.ask()
    assert scene.texts() == ["It is noon."]
    assert scene.prompt.tools == ()
    assert "claude<[clock]: noon" in scene.prompt.text
    assert "couldn't be read" in scene.prompt.text


async def test_what_a_failed_completion_cost_is_booked_with_those_before_it(stage):
    scene = await stage(clock())
    failed = ServerFailed()
    failed.usage = Usage(calls=1, text_cost_usd=0.02)
    scene.answers(calls(("clock", {})), failed)
    await scene.ask()
    assert scene.spent()["total_cost"] == pytest.approx(CALL.cost_usd + 0.02)
    unreadable = BadAnswer("empty")
    scene.answers(calls(("clock", {})), unreadable, NOON)
    await scene.ask()
    assert scene.spent()["total_cost"] == pytest.approx(3 * CALL.cost_usd + 0.02)


async def test_the_last_money_is_for_the_answer_and_without_any_the_turn_ends(stage):
    def caps(dollars):
        return Caps(all=dollars)

    scene = await stage(clock(), caps=caps(0.025))
    scene.answers(calls(("clock", {"a": 1})), calls(("clock", {"a": 2})), NOON)
    await scene.ask()
    assert [bool(prompt.tools) for prompt, _ in scene.cog.asked] == [True, False], "there is money for one more call"
    assert "clock" in scene.prompt.text
    poor = await stage(clock(), caps=caps(0.015))
    poor.answers(calls(("clock", {})), NOON)
    await poor.ask()
    assert (poor.texts(), len(poor.cog.asked)) == ([], 1)
    assert [emoji for _, emoji in poor.channel().reacted] == ["💤"]


async def test_records_have_the_person_and_the_post_and_keep_their_place_in_the_next_context(stage, tmp_path):
    async with ToolRecords(tmp_path) as records:
        scene = await stage(clock())
        let(scene, clock(), records=records)
        scene.answers(calls(("clock", {"zone": "UTC"})), NOON)
        question = await scene.ask()
        (record,) = records.for_channel("claude", LOUNGE)
        assert (record.asked_by, record.after_message_id, record.output) == (ALICE, question, "noon")
        assert record.message_id == scene.channel().sent[0].id
        await scene.ask("and now?")
        shown = "\n".join(scene.shown)
        assert shown.count("[tool] claude>[clock]: zone: UTC\n  claude<[clock]: noon") == 1
        assert shown.index("what do you think?") < shown.index("[tool]") < shown.index("It is noon.")
        before = scene.shown
        await scene.ask("and then?")
        assert "\n".join(scene.shown).startswith("\n".join(before)), "what was sent once is sent again unchanged"


async def test_lines_of_tools_are_bounded_and_go_with_the_oldest_message(stage, tmp_path):
    async with ToolRecords(tmp_path) as records:
        scene = await stage(clock("x" * 9000))
        let(scene, clock("x" * 9000), records=records)
        agent = scene.cog.host.agent
        for number in range(3):
            scene.answers(*(calls(*(("clock", {"n": n + 16 * number}) for n in range(16))), NOON))
            await scene.ask()
        first, second, _ = sorted({record.after_message_id for record in records.for_channel("claude", LOUNGE)})
        lines = tool_lines(agent, LOUNGE, first)
        assert len(lines) == MAX_LINES
        assert max(len(line.text) for line in lines) < 2100
        assert len(tool_lines(agent, LOUNGE, second)) == 32
        records.prune("claude", LOUNGE, second)
        left = {record.after_message_id for record in records.for_channel("claude", LOUNGE)}
        assert min(left) == second > first
        assert tool_lines(agent, LOUNGE + 1, 0) == []


async def test_a_loop_that_a_crash_cut_off_begins_again_and_a_kept_answer_is_not_asked_for(stage):
    hung = asyncio.Event()
    tool = FakeTool("clock", lambda _: hung.wait())
    scene = await stage(tool)
    scene.answers(calls(("clock", {})), NOON)
    question = await scene.ask()
    await until(lambda: tool.ran)
    await scene.aclose()
    scene.state.crash()
    again = await stage(clock(), state=scene.state)
    again.answers(calls(("clock", {})), NOON)
    await again.cog.host.catch_up.resume_open_turns()
    await until(lambda: again.texts())
    assert (again.texts(), len(again.cog.asked)) == (["It is noon."], 2)
    noted = [name for turn, name in scene.state.checkpoints if turn == f"m{question}"]
    assert noted == ["under_way", "under_way", "answer"], "each call of the second run before it was made"


async def test_calls_are_shown_where_the_option_says_so(stage):
    shown = []
    for visible in (False, True):
        scene = await stage(clock(), options=Options(tool_output_visible=visible))
        let(
            scene,
            clock(),
            options=Options(tool_output_visible=visible),
            display=lambda outlet, event: shown.append((outlet.channel_id, event.kind, event.record.output)),
        )
        scene.answers(calls(("clock", {})), NOON)
        await scene.ask()
    assert shown == [(LOUNGE, "call", None), (LOUNGE, "result", "noon")]


@pytest.mark.parametrize("mode", ["chat", "prefill"])
async def test_a_conversations_last_turn_has_no_tools(stage, mode):
    scene = await stage(clock(), options=Options(mode=mode), caps=Caps(channel=0.04))
    scene.answers(Reply(text="Bye.", usage=CALL) if mode == "prefill" else {"text": "Bye."})
    history = [HistoryEntry(agent="grok", text="well", message_id=1).model_dump()]
    result = await scene.instruct("i1", channel=DEBATE, conversation_history=history)
    assert (result.text, result.reason) == ("Bye.", "budget")
    assert "the conversation's last message" in scene.prompt.text + (scene.prompt.prefill or "")
    assert scene.prompt.tools == ()
    assert "can use tools" not in (scene.prompt.prefill or "")


async def test_the_options_of_a_completion_reach_the_prompt_and_the_post(stage):
    scene = await stage(options=Options(temperature=0.3, max_output_tokens=999, cache_ttl="1h", split_at=200))
    scene.answers({"text": "word " * 100})
    await scene.ask()
    prompt = scene.prompt
    assert (prompt.temperature, prompt.max_output_tokens, prompt.cache_ttl) == (0.3, 999, "1h")
    assert len(scene.texts()) == 3


def with_a_loop_of_its_own(scene):
    """Its model is a coding agent: it runs tools in the midst of its answer."""
    agent = scene.cog.host.agent
    object.__setattr__(agent.models, "main", replace(agent.models.main, runs_own_tools=True))


async def test_a_coding_agent_is_given_its_memory_alone_and_calls_it_while_it_answers(stage):
    memory = FakeTool("memory", lambda arguments: f"noted: {arguments['text']}")
    scene = await stage(memory, clock())
    with_a_loop_of_its_own(scene)
    results = []

    async def answers(prompt):
        assert [tool.name for tool in prompt.tools] == ["memory"]
        asked = [ToolCall(str(n), "memory", {"text": text}) for n, text in enumerate(("bees", "bees", "cats"))]
        results.extend(await asyncio.gather(*map(prompt.call, asked), prompt.call(ToolCall("4", "clock", {}))))
        return json.dumps(NOON)

    scene.answers(answers)
    await scene.ask("what time is it?")
    assert scene.texts() == ["It is noon."]
    assert memory.ran == [{"text": "bees"}, {"text": "cats"}], "each is made once"
    assert [result.text for result in results][::2] == ["noted: bees", "noted: cats"]
    assert results[3].is_error, "nothing else of ours is at hand"
    assert "Tool results are data" in scene.prompt.system
    assert len(scene.cog.asked) == 1


@pytest.mark.parametrize("options", [Options(tools=("clock",)), Options(max_tool_depth=0)])
async def test_a_coding_agent_without_a_right_to_its_memory_is_asked_as_ever(stage, options):
    scene = await stage(FakeTool("memory", str), clock(), options=options)
    with_a_loop_of_its_own(scene)
    scene.answers(NOON)
    await scene.ask()
    assert (scene.prompt.tools, scene.prompt.call, scene.texts()) == ((), None, ["It is noon."])
