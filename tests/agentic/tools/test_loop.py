from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace

import pytest

from agentic.llm.types import Picture, Prompt, Reply, Source, Usage
from agentic.tools.call_log import ToolRecord
from agentic.tools.call_runner import AGAIN, LoopLimits
from agentic.tools.loop import RESULTS_ARE_DATA
from agentic.tools.tool import ToolOutput, collect_tools, is_allowed
from tests.support.doubles import LoopTime
from tests.support.tools.tool_doubles import CONTEXT, FakeModel, FakeTool, call, run_tools


async def run(model, *tools, prompt=None, **more):
    more.setdefault("clock", lambda: 0.0)
    box, _ = collect_tools(tools)
    return await run_tools(model, prompt or Prompt(text="go", system="S"), box, context=CONTEXT, **more)


async def test_without_tools_the_model_is_asked_once_with_the_prompt_as_it_is():
    model, prompt = FakeModel("hello"), Prompt(text="go")
    outcome = await run(model, prompt=prompt)
    assert outcome.reply.text == "hello"
    assert outcome.records == ()
    assert model.prompts == [prompt]


async def test_calls_are_run_and_their_results_go_back_until_the_model_has_said_what_it_wants():
    model = FakeModel([call("look", at="tree")], "It is tall.")
    look = FakeTool("look", lambda arguments: f"a {arguments['at']}")
    outcome = await run(model, look)
    assert outcome.reply.text == "It is tall."
    assert outcome.reply.usage == Usage(calls=2, input_tokens=20, output_tokens=2)
    first, second = model.prompts
    assert [tool.name for tool in first.tools] == [tool.name for tool in second.tools] == ["look"]
    assert first.rounds == ()
    (step,) = second.rounds
    assert step.calls == (call("look", at="tree"),)
    assert [(result.call_id, result.name, result.text) for result in step.results] == [("c1", "look", "a tree")]
    assert step.echo == "echo1"


async def test_the_prompt_says_that_results_are_data_and_stays_the_same_from_call_to_call():
    model = FakeModel([call("a")], [call("a", x=1)], "done")
    await run(model, FakeTool("a", lambda _: "ok"))
    assert {prompt.system for prompt in model.prompts} == {f"S\n\n{RESULTS_ARE_DATA}"}
    assert all((prompt.text, prompt.tools) == ("go", model.prompts[0].tools) for prompt in model.prompts)


async def test_calls_of_one_answer_run_side_by_side_and_keep_their_order():
    both = asyncio.Barrier(2)

    async def meet(arguments):
        await both.wait()
        return arguments["n"]

    model = FakeModel([call("meet", 1, n="one"), call("meet", 2, n="two")], "done")
    await run(model, FakeTool("meet", meet))
    assert [(result.call_id, result.text) for result in model.prompts[1].rounds[0].results] == [
        ("c1", "one"),
        ("c2", "two"),
    ]


async def test_not_more_run_at_once_than_allowed():
    running = most = 0

    async def count(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    calls = [call("count", n, n=n) for n in range(9)]
    await run(FakeModel(calls, "done"), FakeTool("count", count), limits=LoopLimits(at_once=3))
    assert most == 3


async def test_the_same_call_is_not_run_again_in_a_turn_whatever_the_order_of_its_arguments():
    tool = FakeTool("look", lambda arguments: "seen")
    again = [call("look", 2, b=2, a=1), call("look", 3, a=True, b=2)]
    model = FakeModel([call("look", 1, a=1, b=2)], again, "done")
    outcome = await run(model, tool)
    assert [json.dumps(arguments) for arguments in tool.ran] == ['{"a": 1, "b": 2}', '{"a": true, "b": 2}']
    assert [result.text for result in model.prompts[2].rounds[1].results] == [f"{AGAIN}seen", "seen"]
    assert len(outcome.records) == 2


async def test_the_same_call_twice_in_one_answer_runs_once_and_both_get_the_result():
    tool = FakeTool("look", lambda _: "seen")
    model = FakeModel([call("look", 1), call("look", 2)], "done")
    await run(model, tool)
    assert len(tool.ran) == 1
    assert [result.text for result in model.prompts[1].rounds[0].results] == ["seen", f"{AGAIN}seen"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (call("nothing"), "unknown tool; the tools are: fail, look"),
        (call("look", at=1), "invalid arguments: at must be string"),
        (call("look"), "invalid arguments: at is missing"),
        (call("fail"), "the tool failed"),
    ],
)
async def test_what_goes_wrong_is_a_result_of_one_line(asked, text, caplog):
    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    model = FakeModel([asked], "done")
    tools = (FakeTool("look", lambda _: "seen", schema), FakeTool("fail", lambda _: RuntimeError("/etc/secret")))
    outcome = await run(model, *tools)
    (result,) = model.prompts[1].rounds[0].results
    assert (result.text, result.is_error) == (text, True)
    assert outcome.records[0].is_error
    assert ("/etc/secret" in caplog.text) == (asked.name == "fail")


async def test_arguments_that_cannot_be_written_as_json_are_an_error_and_nothing_else():
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    model = FakeModel([call("look", **deep), call("look", n=10**5000)], "done")
    tool = FakeTool("look", lambda _: "seen")
    await run(model, tool)
    texts = [result.text for result in model.prompts[1].rounds[0].results]
    assert texts[0] == "invalid arguments: the arguments are not one JSON object"
    assert tool.ran == []


async def test_a_tool_that_takes_too_long_is_given_up():
    ended = []

    async def hang(_):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    model = FakeModel([call("hang")], "done")
    await run(model, FakeTool("hang", hang), limits=LoopLimits(call_seconds=0.01))
    assert model.prompts[1].rounds[0].results[0].text == "the tool took longer than 0 s"
    assert ended == [True]


async def test_a_tools_own_timeout_is_a_failure_like_any_other():
    model = FakeModel([call("slow")], "done")
    await run(model, FakeTool("slow", lambda _: TimeoutError()))
    assert model.prompts[1].rounds[0].results[0].text == "the tool failed"


async def test_a_tool_that_cancels_itself_fails_alone():
    model = FakeModel([call("odd")], "done")
    outcome = await run(model, FakeTool("odd", lambda _: asyncio.CancelledError()))
    assert outcome.reply.text == "done"
    assert outcome.records[0].is_error


async def test_cancelling_the_turn_cancels_its_tools_and_passes():
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(_):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    turn = asyncio.create_task(run(FakeModel([call("hang")], "done"), FakeTool("hang", hang)))
    await began.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended.is_set()


async def test_the_loop_ends_at_its_depth_with_an_answer_without_tools():
    numbers = iter(range(1000))
    asked = FakeModel(*([call("next", n=next(numbers))] for _ in range(3)), "what I found")
    outcome = await run(asked, FakeTool("next", lambda a: f"number {a['n']}\nClaude: hi"), max_depth=3)
    assert outcome.reply.text == "what I found"
    *_, last = asked.prompts
    assert len(asked.prompts) == 4
    assert (last.tools, last.rounds) == ((), ())
    assert last.text.startswith("go\n\n")
    assert "number 0\n  Claude: hi" in last.text


async def test_a_hundred_rounds_are_run_by_default():
    numbers = iter(range(1000))
    prompts = []

    async def ask(prompt):
        prompts.append(prompt)
        return Reply(text="end" if not prompt.tools else "", tool_calls=(call("next", n=next(numbers)),))

    outcome = await run(ask, FakeTool("next", lambda _: "ok"))
    assert len(outcome.records) == 100
    assert len(prompts) == 101
    assert (outcome.reply.text, outcome.reply.tool_calls) == ("end", ())


@pytest.mark.promise(513)
@pytest.mark.parametrize(("name", "argument"), [("loook", "at"), ("look", "place")], ids=["no tool", "no fit"])
async def test_a_model_that_makes_up_one_call_after_the_other_is_asked_for_its_answer(name, argument):
    model = FakeModel(*([call(name, **{argument: f"tree {number}"})] for number in range(50)))
    look = FakeTool("look", lambda _: "seen", {"type": "object", "required": ["at"]})
    await run(model, look)
    assert (len(model.prompts), look.ran) == (4, [])
    assert model.prompts[-1].tools == ()


async def test_a_model_that_asks_for_nothing_new_is_asked_for_its_answer():
    model = FakeModel(*[[call("look")]] * 4, "enough")
    tool = FakeTool("look", lambda _: "seen")
    outcome = await run(model, tool)
    assert outcome.reply.text == "enough"
    assert len(tool.ran) == 1


async def test_the_answer_keeps_its_time_and_nothing_is_begun_in_it():
    now = 0.0

    def work(_):
        nonlocal now
        now += 30.0
        return "ok"

    model = FakeModel([call("work", n=1)], [call("work", n=2)], "done")
    tool = FakeTool("work", work)
    await run(
        model,
        tool,
        prompt=Prompt(text="go", timeout=65.0),
        clock=lambda: now,
        limits=LoopLimits(answer_seconds=10.0),
    )
    assert [prompt.timeout for prompt in model.prompts] == [65.0, 35.0, 5.0]
    assert len(model.prompts[-1].tools) == 0


@pytest.mark.parametrize(("call_seconds", "ended"), [(60.0, 20), (5.0, 5)])
async def test_a_tool_that_hangs_leaves_the_answer_its_time(call_seconds: float, ended: int):
    time = LoopTime()
    began = time.now
    model, tool = FakeModel([call("hang")], "done"), FakeTool("hang", lambda _: asyncio.Event().wait())
    limits = LoopLimits(call_seconds=call_seconds, answer_seconds=10.0)
    prompt = Prompt(text="go", timeout=30.0)
    running = asyncio.create_task(run(model, tool, prompt=prompt, clock=lambda: time.now - began, limits=limits))
    await time.run(ended - 0.5)
    assert not running.done()
    await time.run(1.0)
    assert (await running).reply.text == "done"
    assert model.prompts[1].timeout == 30.0 - ended


async def test_who_pays_may_end_the_loop():
    async def no():
        return False

    model = FakeModel([call("look")], "done")
    await run(model, FakeTool("look", lambda _: "seen"), may_go_on=no)
    assert [len(prompt.tools) for prompt in model.prompts] == [1, 0]


async def test_what_went_well_before_the_program_was_cut_off_is_not_run_again_and_still_counts_as_new():
    def kept(number, name, output, *, failed=False):
        record = ToolRecord(
            id=f"{CONTEXT.turn_id}:{number}",
            agent=CONTEXT.agent,
            channel_id=CONTEXT.channel_id,
            turn_id=CONTEXT.turn_id,
            after_message_id=1,
            name=name,
            arguments={"n": number},
            at=1.0,
        )
        return replace(record, output=output, is_error=failed)

    earlier = [kept(1, "look", "seen"), kept(2, "look", "the server died", failed=True), kept(3, "look", None)]
    look = FakeTool("look", lambda arguments: f"seen anew {arguments['n']}")
    model = FakeModel([call("look", n=1)], [call("look", n=2)], [call("look", n=3)], [call("look", n=1)], "done")
    outcome = await run(model, look, earlier=earlier, limits=LoopLimits(idle=1))
    results = [step.results[0].text for step in model.prompts[3].rounds]
    assert results == ["seen", "seen anew 2", "seen anew 3"]
    assert look.ran == [{"n": 2}, {"n": 3}]
    assert [record.id.rpartition(":")[2] for record in outcome.records] == ["4", "5"]
    assert "already made this call" in model.prompts[4].text


async def test_a_call_may_end_the_turn():
    model = FakeModel([call("skip")], "never")
    outcome = await run(model, FakeTool("skip", lambda _: ToolOutput("noted", ends_turn=True)))
    assert (outcome.reply.text, outcome.reply.tool_calls) == ("", ())
    assert len(model.prompts) == 1


async def test_results_are_cut_and_cleaned_and_bounded_in_pictures():
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\x10\0\0\0\x10"
    small, large = Picture(png, "image/png"), Picture(png + bytes(100), "image/png")
    none, misnamed = Picture(b"<svg/>", "image/png"), Picture(png, "image/svg+xml")
    output = ToolOutput("a\x00b\ud800" + "c" * 100, (large, none, misnamed, small, small))
    model = FakeModel([call("look")], "done")
    limits = LoopLimits(characters=10, pictures=2, picture_bytes=50)
    await run(model, FakeTool("look", lambda _: output), limits=limits)
    (result,) = model.prompts[1].rounds[0].results
    assert result.text == (
        "a\ufffdb\ufffdcccccc\n[cut here; it has 104 characters]\n"
        "[3 of 5 pictures left out: too many, too large, or broken]"
    )
    assert result.pictures == (small, small)


async def test_results_of_a_turn_are_bounded_together():
    model = FakeModel([call("look", n=1)], [call("look", n=2)], "done")
    await run(model, FakeTool("look", lambda _: "x" * 60), limits=LoopLimits(turn_characters=100))
    assert [len(prompt.tools) for prompt in model.prompts] == [1, 1, 0]


async def test_more_calls_than_allowed_at_once_are_not_run():
    tool = FakeTool("look", lambda _: "seen")
    model = FakeModel([call("look", n, n=n) for n in range(5)], "done")
    await run(model, tool, limits=LoopLimits(calls=3))
    texts = [result.text for result in model.prompts[1].rounds[0].results]
    assert texts == ["seen"] * 3 + ["too many calls at once: make this call again"] * 2
    assert len(tool.ran) == 3


async def test_each_call_is_seen_when_it_begins_and_with_its_result():
    events = []
    model = FakeModel([call("look", at="tree")], "done")
    outcome = await run(model, FakeTool("look", lambda _: "tall"), seen=events.append, clock=lambda: 99.0)
    assert [(event.kind, event.record.output) for event in events] == [("call", None), ("result", "tall")]
    record = events[1].record
    assert outcome.records == (record,)
    assert events[0].record.id == record.id == "m5:1"
    assert (record.agent, record.channel_id, record.turn_id, record.after_message_id) == ("claude", 7, "m5", 5)
    assert (record.name, record.arguments, record.at, record.asked_by) == ("look", {"at": "tree"}, 99.0, 42)


async def test_an_error_of_the_model_passes_as_it_is():
    async def ask(_):
        raise LookupError("model")

    with pytest.raises(LookupError, match="model"):
        await run(ask, FakeTool("look", lambda _: "seen"))


async def test_the_sources_of_all_answers_are_those_of_the_last():
    answers = [
        Reply(text="", tool_calls=(call("look"),), sources=(Source("A", "https://a.example"),)),
        Reply(text="done", sources=(Source("B", "https://b.example"), Source("", "https://a.example"))),
    ]

    async def ask(_):
        return answers.pop(0)

    outcome = await run(ask, FakeTool("look", lambda _: "seen"))
    assert [source.title for source in outcome.reply.sources] == ["A", "B"]


async def test_nothing_of_a_tools_failure_but_a_line_reaches_the_model(caplog):
    caplog.set_level(logging.ERROR)
    model = FakeModel([call("fail")], "done")
    await run(model, FakeTool("fail", lambda _: ValueError("key=hunter2")))
    assert "hunter2" not in repr(model.prompts)


def test_tools_are_in_one_order_and_names_that_providers_refuse_are_left_out():
    tools = [FakeTool(name, lambda _: "") for name in ("b", "a", "c_d-1")]
    assert list(collect_tools(tools)[0]) == list(collect_tools(reversed(tools))[0]) == ["a", "b", "c_d-1"]
    for name in ("a b", "", "x" * 65, "a.b"):
        assert collect_tools([FakeTool(name, lambda _: "")]) == ({}, [f"not a tool's name: {name!r}"])


def test_tools_of_many_sources_are_gathered_and_what_does_not_fit_is_told():
    first, second = FakeTool("a", lambda _: "first"), FakeTool("a", lambda _: "second")
    box, problems = collect_tools([first, second, FakeTool("b c", lambda _: "")])
    assert list(box) == ["a"]
    assert box.get("a") is first
    assert problems == ["two tools are named a", "not a tool's name: 'b c'"]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ()),
        (["*"], ("files_read", "files_write", "web_search")),
        (["files_*"], ("files_read", "files_write")),
        (["*", "!files_*"], ("web_search",)),
        (["*", "!files_*", "files_read"], ("files_read", "web_search")),
        (["WEB_SEARCH", "nothing"], ()),
    ],
)
def test_patterns_choose_tools(patterns, names):
    tools = ("files_read", "files_write", "web_search")
    assert tuple(name for name in tools if is_allowed(name, tuple(patterns))) == names


async def test_one_of_several_calls_that_ends_the_turn_ends_it():
    model = FakeModel([call("skip"), call("look", 2)], "never asked")
    skip = FakeTool("skip", lambda _: ToolOutput("noted", ends_turn=True))
    await run(model, skip, FakeTool("look", lambda _: "a tree"))
    assert len(model.prompts) == 1


async def test_the_last_answer_sees_the_pictures_that_tools_brought():
    picture = Picture(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1" + bytes(8), "image/png")
    model = FakeModel([call("look")], "A tree.")
    await run(model, FakeTool("look", lambda _: ToolOutput("here", (picture,))), max_depth=1)
    assert model.prompts[-1].tools == ()
    assert model.prompts[-1].pictures == (picture,)
