"""A turn by the Claude Agent SDK: what its query() is given, what comes of its answers and failures."""

import asyncio
import logging
from dataclasses import replace

import pytest

from agentic.llm.errors import (
    BadAnswer,
    BadKey,
    BadRequest,
    CannotDraw,
    ConnectionFailed,
    ModelError,
    NotInstalled,
    PrefillRefused,
    RateLimited,
    ServerFailed,
    SessionLost,
    TimedOut,
)
from agentic.llm.providers.agent_sdk import AgentSdkModel, after_reading, unread
from agentic.llm.types import Message, Prompt, Tool, ToolResult
from tests.support.doubles import until
from tests.support.models.agent_sdk_doubles import (
    CLIConnectionError,
    CLINotFoundError,
    FakeSdk,
    MemoryConversations,
    ProcessError,
    ResultError,
    ResultMessage,
    config_in,
    init,
    model_with,
)

LOUNGE = 10
SECRET = "sk-ant-secret /home/owner/.env"


def prompt(text="now you", **more):
    return Prompt(text=text, system="Who you are.", **{"conversation": LOUNGE, **more})


def said(*texts):
    return [Message("user", text) for text in texts]


async def test_a_first_turn_is_told_all_and_a_later_one_what_is_new(tmp_path):
    sdk = FakeSdk([init("s1"), ResultMessage("One.")], [init("s1"), ResultMessage("Two.")])
    model = model_with(sdk, tmp_path)
    assert (await model.complete(prompt(), said("a", "b"))).text == "One."
    assert (await model.complete(prompt("and now"), said("a", "b", "c"))).text == "Two."
    (first, one), (second, two) = sdk.asked
    assert (first, one.resume) == ("a\n\nb\n\nnow you", None)
    assert (second, two.resume) == ("c\n\nand now", "s1")
    assert one.system_prompt == "Who you are."


async def test_after_a_cut_of_the_window_the_session_is_told_how_it_stands_now(tmp_path):
    sdk = FakeSdk([init("s1"), ResultMessage("One.")], [init("s1"), ResultMessage("Two.")])
    model = model_with(sdk, tmp_path)
    await model.complete(prompt(), said("a", "b"))
    await model.complete(prompt(), said("b", "c"))
    assert sdk.asked[1][0] == "b\n\nc\n\nnow you"


@pytest.mark.promise(117)
async def test_a_conversation_that_begins_anew_while_its_session_does_begins_anew(tmp_path):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def resets():
        begun.set()
        await go_on.wait()

    sdk = FakeSdk([resets, init("s1"), ResultMessage("One.")], [init("s2"), ResultMessage("Two.")], [])
    model = model_with(sdk, tmp_path)
    first = asyncio.create_task(model.complete(prompt(since=5), said("a", "b")))
    await begun.wait()
    await model.sessions.drop(LOUNGE)  # somebody says /reset, and message 9 is the last of the old conversation
    go_on.set()
    assert (await first).text == "One."
    await model.complete(prompt("anew", since=9), said("c"))
    assert [(asked, options.resume) for asked, options in sdk.asked[1:]] == [("c\n\nanew", None)]
    assert model.sessions.kept[LOUNGE].since == 9


@pytest.mark.promise(117)
async def test_a_session_goes_on_after_the_reset_that_it_began_with(tmp_path):
    sdk = FakeSdk([init("s1"), ResultMessage("One.")], [init("s1"), ResultMessage("Two.")])
    model = model_with(sdk, tmp_path)
    await model.complete(prompt(since=9), said("c"))
    await model.complete(prompt("and now", since=9), said("c", "d"))
    assert [options.resume for _, options in sdk.asked] == [None, "s1"]


async def test_the_tools_that_it_is_given_are_a_server_in_this_process(tmp_path):
    sdk, calls = FakeSdk(), []

    async def call(asked):
        calls.append((asked.name, asked.arguments))
        return ToolResult(asked.id, asked.name, "noted", is_error=len(calls) > 1)

    memory = Tool("memory", "Changes your memory.", {"type": "object"})
    await model_with(sdk, tmp_path).complete(prompt(tools=(memory,), call=call))
    ((_, options),) = sdk.asked
    assert options.allowed_tools[-1] == "mcp__agent__memory"
    assert "memory" not in options.tools
    tool = options.mcp_servers["agent"].tools["memory"]
    assert (tool.description, tool.input_schema) == (memory.description, memory.parameters)
    said = [await tool.handler({"action": "append", "text": text}) for text in ("a", "b")]
    assert said == [{"content": [{"type": "text", "text": "noted"}], "is_error": failed} for failed in (False, True)]
    assert calls[0] == ("memory", {"action": "append", "text": "a"})


async def test_without_tools_there_is_no_server(tmp_path):
    sdk = FakeSdk()
    await model_with(sdk, tmp_path).complete(prompt(tools=(Tool("memory", "m", {}),)))
    ((_, options),) = sdk.asked
    assert options.mcp_servers == {}
    assert not [name for name in options.allowed_tools if name.startswith("mcp__")]


def test_what_was_read_is_known_by_its_digest_alone():
    seen = after_reading("s", "one\n\ntwo")
    assert unread("one\n\ntwo\n\nthree", seen) == "three"
    assert unread("one\n\nTWO\n\nthree", seen) == "one\n\nTWO\n\nthree"
    assert unread("one", seen) == "one"
    assert "one" not in repr(seen)


async def test_an_errand_is_no_part_of_a_conversation(tmp_path):
    sdk = FakeSdk()
    model = model_with(sdk, tmp_path)
    model.sessions.kept[LOUNGE] = after_reading("s1", "")
    await model.complete(prompt("look at the build", conversation=None))
    assert (sdk.asked[0][0], sdk.asked[0][1].resume) == ("look at the build", None)
    assert model.sessions.kept[LOUNGE].session_id == "s1"


@pytest.mark.parametrize(
    "error",
    [
        ResultError("No conversation found with session ID: s1", subtype="error_during_execution"),
        ProcessError("Error output: No conversation found with session ID: s1"),
    ],
)
async def test_a_session_that_is_lost_is_dropped_and_the_next_turn_begins_anew(tmp_path, error):
    sdk = FakeSdk([error], [init("s2"), ResultMessage("Here.")])
    model = model_with(sdk, tmp_path)
    model.sessions.kept[LOUNGE] = after_reading("s1", "a")
    with pytest.raises(SessionLost):
        await model.complete(prompt(), said("a", "b"))
    assert LOUNGE not in model.sessions.kept
    await model.complete(prompt(), said("a", "b"))
    assert (sdk.asked[1][0], sdk.asked[1][1].resume) == ("a\n\nb\n\nnow you", None)
    assert model.sessions.kept[LOUNGE].session_id == "s2"


async def test_a_query_that_is_cut_off_has_been_read_by_its_session(tmp_path):
    sdk = FakeSdk([init("s1"), asyncio.Event().wait])
    model = model_with(sdk, tmp_path)
    with pytest.raises(TimedOut):
        await model.complete(prompt(timeout=0.0), said("a"))
    assert sdk.closed == len(sdk.asked)  # the program is ended, if it was begun
    thinking = asyncio.create_task(model.complete(prompt(), said("a")))
    await until(lambda: model.sessions.kept)
    thinking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await thinking
    assert sdk.closed == len(sdk.asked)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CLINotFoundError(SECRET), NotInstalled),
        (CLIConnectionError(SECRET), ConnectionFailed),
        (ProcessError(SECRET), ServerFailed),
        (ResultError(SECRET, api_error_status=401), BadKey),
        (ResultError(SECRET, api_error_status=429), RateLimited),
        (ResultError(SECRET, api_error_status=400), BadRequest),
        (ResultError(SECRET, api_error_status=529), ServerFailed),
        (ResultError(SECRET, subtype="error_max_turns"), BadAnswer),
        (OSError(SECRET), ConnectionFailed),
        (ValueError(SECRET), ServerFailed),
    ],
)
async def test_a_failure_of_the_sdk_is_one_of_ours_without_its_words(tmp_path, error, kind, caplog):
    model = model_with(FakeSdk([init("s1"), error]), tmp_path)
    with caplog.at_level(logging.INFO), pytest.raises(ModelError) as caught:
        await model.complete(prompt())
    assert type(caught.value) is kind
    assert caught.value.origin == type(error).__name__
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"
    assert SECRET not in caplog.text


async def test_what_a_failed_query_cost_is_told(tmp_path):
    data = {"usage": {"input_tokens": 1000, "output_tokens": 10}, "num_turns": 3}
    model = model_with(FakeSdk([ResultError("x", subtype="error_max_turns", data=data)]), tmp_path)
    with pytest.raises(BadAnswer) as caught:
        await model.complete(prompt())
    assert (caught.value.usage.calls, caught.value.usage.input_tokens) == (3, 1000)
    assert caught.value.usage.cost_usd > 0


async def test_an_answer_is_counted_and_priced_by_our_own_table(tmp_path):
    usage = {
        **{"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 50, "output_tokens": 7},
        "cache_creation": {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 30},
        "output_tokens_details": {"thinking_tokens": 3},
        "server_tool_use": {"web_search_requests": 2},
    }
    sdk = FakeSdk([init("s1"), ResultMessage(" Yes. ", num_turns=4, usage=usage)])
    heard = []
    reply = await model_with(sdk, tmp_path).complete(prompt(on_text=heard.append))
    counts = reply.usage
    assert (reply.text, reply.model, heard) == ("Yes.", "anthropic/claude-haiku-5-5", ["Yes."])
    assert (counts.calls, counts.input_tokens, counts.cached_tokens, counts.output_tokens) == (4, 160, 100, 7)
    assert (counts.cache_write_tokens, counts.hour_write_tokens, counts.reasoning_tokens) == (50, 20, 3)
    assert counts.searches == 2
    assert counts.cost_usd > 0


async def test_a_query_of_many_calls_counts_more_tokens_than_one_call_can_take(tmp_path):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 30_000_000, "output_tokens": 7}
    sdk = FakeSdk([init("s1"), ResultMessage("Yes.", num_turns=150, usage=usage)])
    counts = (await model_with(sdk, tmp_path).complete(prompt())).usage
    assert (counts.input_tokens, counts.cached_tokens) == (30_000_010, 30_000_000)
    assert counts.cost_usd > 1


async def test_an_empty_answer_and_one_that_never_came_are_bad_answers_that_cost(tmp_path):
    sdk = FakeSdk([init("s1"), ResultMessage("  ")], [init("s1")])
    model = model_with(sdk, tmp_path)
    costs = []
    for _ in range(2):
        with pytest.raises(BadAnswer) as caught:
            await model.complete(prompt())
        costs.append(caught.value.usage.cost_usd)
    assert 0 < costs[0] < costs[1] == model.config.max_usd


async def test_a_query_that_is_cut_off_costs_what_it_may_at_most_and_one_that_never_began_nothing(tmp_path):
    sdk = FakeSdk([init("s1"), ProcessError("x")], [ProcessError("x")], [init("s1"), asyncio.Event().wait])
    model = model_with(sdk, tmp_path)
    usages = []
    for seconds in (60.0, 60.0, 0.05):
        with pytest.raises(ModelError) as caught:
            await model.complete(prompt(timeout=seconds))
        usages.append(caught.value.usage)
    assert [usage and usage.cost_usd for usage in usages] == [model.config.max_usd, None, model.config.max_usd]


async def test_what_it_cannot_do_is_said(tmp_path):
    model = model_with(FakeSdk(), tmp_path)
    with pytest.raises(PrefillRefused):
        await model.complete(prompt("", prefill="Claude:"))
    with pytest.raises(CannotDraw):
        await model.draw("a cat")
    await model.aclose()


async def test_without_the_package_the_owner_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic.llm.providers.agent_sdk.SDK", "a_package_that_nobody_has")
    model = AgentSdkModel(config_in(tmp_path), sessions=MemoryConversations())
    with pytest.raises(NotInstalled, match=r"requirements-agent-sdk\.txt"):
        await model.complete(prompt())


@pytest.mark.parametrize(
    ("model", "level", "asked_with"),
    [
        ("claude-haiku-5-5", None, (None, None)),
        ("claude-haiku-5-5", "none", ({"type": "disabled"}, None)),
        ("claude-opus-5-5", "high", ({"type": "adaptive"}, "high")),
        ("claude-opus-5-5", "none", (None, None)),
        ("claude-haiku-4-5", "high", (None, None)),
    ],
)
async def test_a_thinking_level_that_the_model_has_is_passed_on(tmp_path, model, level, asked_with):
    sdk = FakeSdk()
    await model_with(sdk, tmp_path, model=model).complete(replace(prompt(), thinking=level))
    options = vars(sdk.asked[0][1])
    assert (options.get("thinking"), options.get("effort")) == asked_with


async def test_neither_somebodys_words_nor_the_owners_configuration_can_steer_the_program(tmp_path):
    sdk = FakeSdk()
    await model_with(sdk, tmp_path, hidden=("BOT_TOKEN_CLAUDE", "REDIS_URL")).complete(prompt("@/etc/passwd /help"))
    (asked, options) = sdk.asked[0]
    assert (asked, options.verbatim_prompts) == ("@/etc/passwd /help", True)
    assert (options.setting_sources, options.strict_mcp_config, options.skills) == ([], True, [])
    assert (options.permission_mode, options.cwd) == ("dontAsk", tmp_path / "workspace")
    assert (options.tools, options.allowed_tools) == (["Read", "Glob", "Grep"], ["Read(./**)"])
    assert (options.env["BOT_TOKEN_CLAUDE"], options.env["REDIS_URL"]) == ("", "")
    assert options.env["ANTHROPIC_API_KEY"] == "a-key"
