"""What of a growing answer is shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.turn.cleaning import clean_text, lines_of_prompt
from agentic.turn.streaming import StreamFilter, certain_part

PROMPT = lines_of_prompt("A person speaks to you and waits for your answer.")
SECRET = "secret"
MARKS = [
    "<think>{}</think>",
    "<Reasoning>{}</Reasoning>",
    "<tool_call>{}</tool_call>",
    '<x:invoke name="{0}">{0}</x:invoke>',
    '\n<call name="web_fetch">\n{{"a": "{}"}}\n</call>',
    "[msg:{0} {0}]".replace("{0} ", "123 "),
    "[reactions: {}]",
    '[posted image: "{}" → https://x]',
    "\n[note: msg:1 by {} now reads] {}",
    "\n[tool] {}",
    "<|{}|>",
    "<thinking>{}",
]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("before", ["Hello there, ", "A < b, and [so on]. "])
def test_nothing_of_a_mark_is_shown_at_any_cut_of_it(mark, before):
    text = before + mark.replace("{}", SECRET).replace("{0}", SECRET).replace("{{", "{").replace("}}", "}") + " and on"
    for end in range(len(text) + 1):
        assert SECRET not in certain_part(text[:end])
        assert not re.search(r"<t|<c|\[[mnrtp]|<\||<[Rx]", certain_part(text[:end]))


@given(st.text(alphabet="ab <>[]\n.,", max_size=200))
def test_what_is_shown_of_plain_words_begins_as_what_is_posted(text):
    posted = clean_text(text) or ""
    for end in range(0, len(text), 7):
        shown = certain_part(text[:end])
        assert posted.startswith(shown) or shown.rstrip() in posted


@pytest.mark.parametrize("text", ['{"name": "search", "arguments": {}', "```json\n{", "  [{", "<think>"])
def test_what_may_turn_out_to_be_no_words_waits_for_the_end(text):
    assert certain_part(text) == ""


def test_a_line_of_the_prompt_is_not_shown_while_it_grows():
    line = next(iter(PROMPT))
    assert [certain_part(f"Well.\n{line[:end]}", (), PROMPT) for end in (1, 20, len(line))] == ["Well."] * 3
    assert certain_part("Well.\nA person came in, and", (), PROMPT) == "Well.\nA person came in, and"


def test_the_speakers_own_name_is_not_shown():
    assert certain_part("Claude: I think so", ("Claude",)) == "I think so"


def test_the_listener_cleans_only_now_and_then_but_immediately_when_the_answer_begins_again():
    heard, reads = [], []
    take = StreamFilter(heard.append, ()).listener(lambda raw: reads.append(raw) or raw)
    for end in range(1, 60):
        take("x" * end)
    take("")
    take("again")
    assert len(reads) <= 8
    assert heard[0] == "x"
    assert heard[-2:] == ["", "again"]
