"""What a model's tools, chat format and prompt leave in a text."""

from __future__ import annotations

import json

import pytest

from agentic.turn.cleaning import clean_text, lines_of_prompt, without_echoes, without_machinery
from agentic.turn.decision import UnreadableDecision, apply_turn_rules, decision_from_prose, parse_decision
from agentic.turn.form import Decision


@pytest.mark.promise(5)
@pytest.mark.parametrize(
    ("leaked", "clean"),
    [
        ('<tool_call>{"name": "search"}</tool_call>Hello', "Hello"),
        ('Hello\n<function_calls><invoke name="x">1</invoke></function_calls>', "Hello"),
        ('<x:function_calls>\n<x:invoke name="post">', None),
        ('<invoke name="x"><parameter name="q">v</parameter></invoke> hi', "hi"),
        ('{"name": "web_search", "arguments": {"query": "pizza"}}', None),
        ('```json\n[{"tool": "post", "input": {"text": "hi"}}]\n```', None),
        ('{"type": "function", "function": {"name": "search", "arguments": {"q": "x"}}}', None),
        ('{"name": "search", "parameters": {"q": "x"}}; {"name": "search", "parameters": {"q": "y"}}', None),
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


@pytest.mark.promise(5)
def test_a_word_for_silence_is_a_skip_in_a_round_and_no_answer_to_a_person() -> None:
    rules = {"always_draw": False, "can_draw": False}
    assert apply_turn_rules(Decision(text="PASS"), forced=False, **rules).is_empty
    with pytest.raises(UnreadableDecision):
        apply_turn_rules(Decision(text="PASS"), forced=True, **rules)


@pytest.mark.promise(5)
@pytest.mark.parametrize("wrapped", ["{}", "```json\n{}\n```", "```\n{}"])
def test_a_decision_inside_of_a_decisions_text_is_the_one_that_was_meant(wrapped: str) -> None:
    text = wrapped.replace("{}", json.dumps({"skip": False, "text": "hi"}))
    assert parse_decision(json.dumps({"skip": False, "text": text})).text == "hi"


@pytest.mark.promise(7)
def test_a_line_of_the_prompt_goes_and_a_quoted_message_stays() -> None:
    quoted = "  [msg:5] Alice: a long question of hers, word for word"
    known = lines_of_prompt(f"It is your turn in round 3 of the conversation.\n{quoted}\nYes.")
    said = "> It is your turn in round 3 of the conversation.\na long question of hers, word for word\nYes."
    assert without_echoes(said, known) == "a long question of hers, word for word\nYes."


CODE = "Sure:\n```python\nprint({'a': 1})\n```\nThat prints it."


@pytest.mark.promise(6)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("I think we should all have pizza.", None),
        ("Half of it: $\\frac{1}{2}$.\r\nSee [the docs](https://example.com).", "\\frac{1}{2}"),
        (CODE, CODE),
        ("- one\n- two", None),
        ("42", None),
        ("The text: is what I read.", None),
        ("<think>I could say {nothing}</think>\nPizza.", "Pizza."),
        ("[msg:123 3h ago] Claude: Pizza.", "Pizza."),
        ("**Claude:** Pizza.", "Pizza."),
        ('"Pizza, \\"hot\\"."', 'Pizza, "hot".'),
    ],
)
def test_words_alone_are_what_a_model_without_a_form_says(answer: str, words: str | None) -> None:
    said = decision_from_prose(answer, ("Claude",))
    assert said is not None
    assert (words or answer) in str(said.text)


@pytest.mark.promise(6)
@pytest.mark.parametrize(
    "answer",
    [
        *("", " \n", "<think>pizza", "PASS", "[skip]", "null", "None", "true", "\u200b"),
        *(
            "{",
            "{}",
            "Well, {",
            '{"skip": tr',
            "{'text': 'pi",
            '{"query": "pizza"}',
            "So: {text: pizza",
            "[[[[1]]]]",
            '["a"]',
        ),
        *("```json\nskip", '```\n{"text": "a', "skip: false\ntext: pizza", "**text**: pizza", '"skip": true, "text'),
        'I would set "text": "pizza" here',
        "I set react_emoji to a fire.",
        '<tool_call>{"name": "search"}</tool_call>Pizza.',
        'Let me see\n<call name="web_search">\n{"query"',
        '<|python_tag|>search.call(query="pizza")',
        "Pizza. [msg:5] Alice: and for me?",
        "Pizza.\n[msg:5] Alice: and for me?\n[msg:6] Claude: too",
        "[msg:5 3h ago] Alice: I want pizza.",
        "Pizza. [reactions: x (Grok)]",
        "It is your turn in round 3 of the conversation.",
        "Pizza.\nIt is your turn in round 3 of the conversation.",
    ],
)
def test_machinery_among_the_words_makes_them_no_answer(answer: str) -> None:
    prompt = lines_of_prompt("It is your turn in round 3 of the conversation.")
    assert decision_from_prose(answer, ("Claude",), prompt) is None


def test_words_that_were_cut_end_in_a_whole_sentence() -> None:
    said = "One must wait for the bus at the corner. Two must wait for the"
    assert decision_from_prose(said, cut=True) == Decision(text="One must wait for the bus at the corner.")
    assert decision_from_prose("One", cut=True) is None
    assert decision_from_prose(said) == Decision(text=said)


@pytest.mark.promise(6)
@pytest.mark.parametrize("length", range(1, 60))
def test_no_beginning_of_the_form_is_taken_for_words(length: int) -> None:
    whole = json.dumps({"skip": False, "text": "secret", "react_emoji": None})
    for raw in (whole[:length], f"Sure! {whole[:length]}", f"```json\n{whole[:length]}", f"```\n{whole[:length]}"):
        assert decision_from_prose(raw) is None


def test_what_is_taken_out_leaves_no_other_mark_behind() -> None:
    assert without_machinery("<tool_" + "<|x|>" * 5 + 'call>{"a": 1}') == ""


def test_a_long_hostile_text_costs_little() -> None:
    assert without_machinery("<tool_call>" * 5000) == ""
    assert len(without_machinery("<|" * 30_000)) == 60_000
