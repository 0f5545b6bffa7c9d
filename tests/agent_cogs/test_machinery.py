"""What a model's tools, chat format and prompt leave in a text."""

from __future__ import annotations

import json

import pytest

from agent_cogs.cleaning import clean_text
from agent_cogs.decision import Decision, UnreadableDecision, decided, parse_decision
from agent_cogs.machinery import lines_of_prompt, without_echoes, without_machinery


@pytest.mark.parametrize(
    ("leaked", "clean"),
    [
        ('<tool_call>{"name": "search"}</tool_call>Hello', "Hello"),
        ('Hello\n<function_calls><invoke name="x">1</invoke></function_calls>', "Hello"),
        ('<x:function_calls>\n<x:invoke name="post">', None),
        ('<invoke name="x"><parameter name="q">v</parameter></invoke> hi', "hi"),
        ('{"name": "web_search", "arguments": {"query": "pizza"}}', None),
        ('```json\n[{"tool": "post", "input": {"text": "hi"}}]\n```', None),
        ("<|im_start|>assistant\nHello<|im_end|>", "Hello"),
        ("<|channel|>analysis<|message|>a plan<|end|><|start|>assistant<|channel|>final<|message|>Hello", "Hello"),
        ('<call name="web_search">\n{"query": "a"}\n</call>\n<result name="web_search">\n  b\n</result>\nYes.', "Yes."),
        ('Let me see\n<call name="web_search">\n{"query"', "Let me see"),
        ("<result>5</result>", "<result>5</result>"),
        ("[INST] Hello [/INST]", "Hello"),
        ("<|im<|x|>_end|>Hello", "Hello"),
        ("PASS", None),
        ("[skip]", None),
        ("**(no reply)**", None),
        ("<silent/>", None),
        ("NO_REPLY", None),
        ("Pass the salt", "Pass the salt"),
        ("pass", "pass"),
        ("None", "None"),
        ("a <b> and c </b>", "a <b> and c </b>"),
        ('{"a": 1}', '{"a": 1}'),
        ("use `tool_call` for it", "use `tool_call` for it"),
    ],
)
def test_calls_of_tools_marks_of_a_format_and_words_for_silence_are_not_posted(leaked: str, clean: str | None) -> None:
    assert clean_text(leaked) == clean


def test_a_word_for_silence_is_a_skip_in_a_round_and_no_answer_to_a_person() -> None:
    rules = {"always_draw": False, "can_draw": False}
    assert decided(Decision(text="PASS"), forced=False, **rules).is_empty
    with pytest.raises(UnreadableDecision):
        decided(Decision(text="PASS"), forced=True, **rules)


@pytest.mark.parametrize("wrapped", ["{}", "```json\n{}\n```", "```\n{}"])
def test_a_decision_inside_of_a_decisions_text_is_the_one_that_was_meant(wrapped: str) -> None:
    text = wrapped.replace("{}", json.dumps({"skip": False, "text": "hi"}))
    assert parse_decision(json.dumps({"skip": False, "text": text})).text == "hi"


def test_a_line_of_the_prompt_goes_and_a_quoted_message_stays() -> None:
    quoted = "  [msg:5] Alice: a long question of hers, word for word"
    known = lines_of_prompt(f"It is your turn in round 3 of the conversation.\n{quoted}\nYes.")
    said = "> It is your turn in round 3 of the conversation.\na long question of hers, word for word\nYes."
    assert without_echoes(said, known) == "a long question of hers, word for word\nYes."


def test_what_is_taken_out_leaves_no_other_mark_behind() -> None:
    assert without_machinery("<tool_" + "<|x|>" * 5 + 'call>{"a": 1}') == ""


def test_a_long_hostile_text_costs_little() -> None:
    assert without_machinery("<tool_call>" * 5000) == ""
    assert len(without_machinery("<|" * 30_000)) == 60_000
