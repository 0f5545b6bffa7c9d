"""A model that is asked again, over the OpenAI SDK and a server on loopback."""

from __future__ import annotations

import json

import pytest

from agentic.llm.types import Message, Picture, Prompt, Tool, ToolCall, ToolResult, ToolRound
from agentic.replay.replay import NotReplayable, Replaying, inputs_of, with_persona
from agentic.tools.prefill_tools import call_in, continued_prefill
from tests.support.models.chat_api import ChatAnswer
from tests.support.models.chat_doubles import chatting
from tests.support.recorded_calls import PERSONA, SYSTEM, recorded_call

SPEC = Tool("web_search", "Searches the web.", {"type": "object", "properties": {"query": {"type": "string"}}})
TEA = ToolCall("call_1", "web_search", {"query": "tea"})
SAID = json.dumps({"skip": False, "text": "Tea, since 2737 BC."})


def searched(completion=SAID):
    """The two calls of a turn that has searched for tea."""
    prompt = Prompt(text="Tea?", system=SYSTEM, tools=(SPEC,))
    step = ToolRound((TEA,), (ToolResult("call_1", "web_search", "It is old."),))
    asked = recorded_call("", prompt=prompt, tool_calls=({"name": TEA.name, "arguments": dict(TEA.arguments)},))
    return asked, recorded_call(
        completion, n=1, prompt=Prompt(text="Tea?", system=SYSTEM, tools=(SPEC,), rounds=(step,))
    )


async def replayed(words, *answers, redact=str):
    async with chatting(*answers) as (model, server):
        answer, problem = await Replaying(model, words, redact, 5.0).answer()
        return answer, problem, server.requests


async def test_a_model_that_makes_the_recorded_call_gets_its_result_and_the_same_words():
    call = ChatAnswer(text="", calls=[("web_search", '{"query": "tea"}')], finish="tool_calls")
    answer, _, requests = await replayed(searched(), call, SAID)
    assert (answer.text, answer.decision["text"], answer.calls) == (SAID, "Tea, since 2737 BC.", 2)
    system, asked, called, result = requests[1].messages
    assert (system["content"], result["content"]) == (SYSTEM, "It is old.")
    assert asked["content"] == "[msg:1] Ada: tea or coffee?\n\nTea?"
    assert called["tool_calls"][0]["id"] == result["tool_call_id"]
    assert requests[0].body["tools"][0]["function"]["name"] == "web_search"


@pytest.mark.promise(144)
@pytest.mark.parametrize("calls", [[("web_search", '{"query": "coffee"}')], [("memory", "{}")]])
async def test_a_call_whose_result_is_not_recorded_ends_the_replay_and_names_its_tool(calls):
    answer, problem, requests = await replayed(searched(), ChatAnswer(text="", calls=calls, finish="tool_calls"))
    assert (len(requests), answer.decision) == (1, None)
    assert problem == f"it wants {calls[0][0]}, and no such call is recorded (a replay runs no tools)"


async def test_a_model_that_makes_the_same_call_for_ever_is_asked_no_more_often_than_there_are_results():
    again = ChatAnswer(text="", calls=[("web_search", '{"query": "tea"}')], finish="tool_calls")
    answer, _, requests = await replayed(searched(), again)
    assert (len(requests), answer.decision) == (2, None)


async def test_in_prefill_mode_the_recorded_result_is_part_of_the_text_that_goes_on():
    wrote = 'Let me look.\n<call name="web_search">\n{"query": "tea"}'
    prompt = Prompt(text="", system=SYSTEM, prefill="Ada: tea?\n\nClaude:", stop=("\n</call>", "\nAda:"))
    following = continued_prefill(prompt.prefill, call_in(wrote), ToolResult("", "web_search", "It is old."))
    words = (
        recorded_call(wrote, prompt=prompt),
        recorded_call(" Old.", n=1, prompt=Prompt(text="", system=SYSTEM, prefill=following, stop=prompt.stop)),
    )
    other = wrote.replace("Let me look.", "One moment.")
    answer, _, requests = await replayed(words, other, " Old, it says.")
    assert answer.decision["text"] == "One moment.\nOld, it says."
    assert requests[1].messages[-1]["content"] == following.replace("Let me look.", "One moment.")
    skipped, _, _ = await replayed(words, '<call name="skip">\n')
    assert skipped.decision["skip"]


async def test_an_unreadable_answer_and_a_failed_call_are_problems_and_not_retried():
    unreadable, problem, _ = await replayed([recorded_call()], "I would say tea.")
    assert (unreadable.text, problem) == ("I would say tea.", "the answer can't be read: no JSON object")
    _, problem, requests = await replayed([recorded_call()], ChatAnswer(status=503))
    assert (problem, len(requests)) == ("the provider's server failed (503)", 1)


async def test_answers_lose_secrets_as_those_of_turns_do():
    answer, _, _ = await replayed([recorded_call()], SAID, redact=lambda text: text.replace("2737", "…"))
    assert "2737" not in answer.text


def test_another_persona_stands_in_the_place_of_the_recorded_one_and_nothing_else_changes():
    words = with_persona(recorded_call(), "# Personality\n\nYou are bold and loud today.")
    assert words.system == SYSTEM.replace(PERSONA, "# Personality\n\nYou are bold and loud today.")
    assert words.stable == len(words.system)
    with pytest.raises(NotReplayable, match="no persona"):
        with_persona(recorded_call(persona=""), "x")


def test_pictures_are_counted_since_they_are_not_recorded():
    picture = Picture(b"", "image/png")
    words = recorded_call(history=(Message("user", "look", (picture, picture)),))
    inputs = inputs_of(words, least_seconds=90.0)
    assert (inputs.pictures_missing, inputs.history[0].pictures, inputs.prompt.timeout) == (2, (), 90.0)


def test_words_of_an_unknown_form_are_not_replayed():
    with pytest.raises(NotReplayable):
        inputs_of(recorded_call(options={"tools": [{"title": "x"}]}), least_seconds=1.0)
