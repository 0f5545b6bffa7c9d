"""What is posted of a model's words, whatever they are made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentic.turn.cleaning import clean_emoji, clean_text, lines_of_prompt
from agentic.turn.decision import UnreadableDecision, apply_turn_rules, parse_decision
from agentic.turn.form import Decision

PROMPT = lines_of_prompt("Answer with the JSON object only.\nYou may not skip, since a person waits.")
MARKS = ["[msg:123 3h ago]", "[msg:5]", "Claude:", "Claude (you):", "<think>", "</think>", "<|im_end|>", "<|message|>"]
CALLS = ["<tool_call>", "</tool_call>"]
BROKEN = ["PASS", "[skip]", "[INST]", "[reactions: 🔥 (Grok)]", "<|", "|>", "<tool_", "call>"]
COPIED = ["[note: msg:1 by Grok now reads] ", "[tool] ", "\n  ", '<call name="x">', "</call>", "\n</call>"]
PLAIN = ["hello", " ", "\n", "**", "```", "\u200b", "\x00", '{"skip": false, "text": "hi"}', "[", "]", "msg:"]
PIECES = st.sampled_from([*MARKS, *CALLS, *BROKEN, *COPIED, *PLAIN, *sorted(PROMPT)])
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join)
CODE = re.compile(r"```.*?```|(`{1,2})(?!`)[^`\n]+\1", re.DOTALL)  # which shows marks to people who ask about them
TOKEN = r"<\|(?!\s)[^|<>\n]{1,60}(?<!\s)\|>"  # an operator of some languages has spaces within
LEAKS = re.compile(rf"\[msg:\s*\d+[^\]\n]{{0,120}}\]|{TOKEN}|\[reactions: [^\]\n]{{0,400}}\]|[\x00-\x08]")


@pytest.mark.promise(7)
@example("<|[note: msg:1 by Grok now reads] |>")
@given(TEXTS)
def test_no_mark_is_left_and_a_second_cleaning_finds_nothing(text: str) -> None:
    once = clean_text(text, ("Claude",), PROMPT)
    assert once is None or not LEAKS.search(CODE.sub("\n", once))
    assert clean_text(once, ("Claude",), PROMPT) == once


@pytest.mark.promise(33)
@given(TEXTS | st.text(), st.booleans())
def test_any_answer_is_words_or_silence_or_unreadable(answer: str, forced: bool) -> None:
    try:
        read = parse_decision(answer)
        final = apply_turn_rules(
            read, forced=forced, always_draw=False, can_draw=False, names=("Claude",), prompt=PROMPT
        )
    except UnreadableDecision as error:
        final = Decision(text=error.reason)
    assert final.text or not forced


@given(st.text(max_size=40))
def test_an_emoji_that_is_left_is_left_again(text: str) -> None:
    once = clean_emoji(text)
    assert clean_emoji(once) == once
