from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.tools.call_log import ToolRecord, posts, readable, record_text, unroll


def record(arguments=None, output=None, name="look", **more):
    return ToolRecord(
        id="1",
        agent="claude",
        channel_id=7,
        turn_id="t",
        after_message_id=1,
        name=name,
        arguments=arguments or {},
        output=output,
        at=0.0,
        **more,
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, ""),
        (
            {"query": "tall trees", "count": 3, "deep": True, "none": None},
            "query: tall trees\ncount: 3\ndeep: true\nnone: null",
        ),
        ({"a": {"b": {"c": 1}}, "d": []}, "a:\n  b:\n    c: 1\nd: (nothing)"),
        ({"tags": ["x", "y"]}, "tags:\n  - x\n  - y"),
        ([{"title": "A", "url": "u"}, {"title": "B"}], "- title: A\n  url: u\n- title: B"),
        ({"text": "one\ntwo"}, "text:\n  one\n  two"),
        ({"n": 123456789012345678901234567890}, "n: 123456789012345678901234567890"),
        ({"a\nb": 1}, "a b: 1"),
    ],
)
def test_json_is_unrolled_to_lines_of_key_and_value(value, text):
    assert unroll(value) == text


def test_a_result_that_is_json_is_unrolled_and_its_numbers_stay_as_they_were_written():
    assert readable('{"a": 1.10, "b": 123456789012345678901}') == "a: 1.10\nb: 123456789012345678901"
    assert readable("{not json}") == "{not json}"
    assert readable("[]") == "(nothing)"
    assert readable("[" * 100_000) == "[" * 100_000


def test_endless_nesting_ends():
    deep: object = 1
    for _ in range(50):
        deep = {"a": [deep]}
    assert unroll(deep).endswith("…")


def test_a_call_is_shown_first_and_its_result_below_it():
    assert posts("Claude", record({"at": "tree"})) == [".Claude>[look]: at: tree"]
    shown = posts("Claude", record({"at": "tree"}, '{"tall": "yes"}'))
    assert shown == [".Claude>[look]: at: tree\nClaude<[look]: tall: yes"]
    assert posts("Claude", record({}, "no such tree", is_error=True)) == [
        ".Claude>[look]:\nClaude<[look]: error: no such tree"
    ]


NAMES = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["...", "..Claude", "<@1>", "a\nb", "🙃", ""]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.sampled_from(
    ["x" * 9000, "😀" * 5000, "line\n" * 3000, "```\n" * 900, "..", ".\n.\n."]
)


@given(NAMES, NAMES, TEXTS)
def test_every_post_begins_with_one_period_and_fits(name, tool, output):
    shown = posts(name, record({"a": output[:50]}, output, tool))
    assert 1 <= len(shown) <= 3
    for post in shown:
        assert re.match(r"\.[^.\s]", post)
        assert len(post.encode("utf-16-le")) // 2 <= 2000
        assert "```" not in post


def test_a_long_result_is_cut_with_a_note_of_what_is_missing():
    shown = posts("Claude", record({}, "word\n" * 5000))
    assert len(shown) == 3
    assert re.search(r"\n\[… \d+ characters more\]$", shown[-1])
    assert shown[1].startswith(".Claude<[look] …\n")


def test_lines_of_a_result_cannot_pose_as_another_head():
    text = record_text("Claude", record({}, "a\nClaude>[rm]: all\n.config\n---"))
    assert text == "Claude>[look]:\nClaude<[look]: a\n  Claude>[rm]: all\n  .config\n  ---"
    assert len(record_text("Claude", record({}, "x" * 9000), limit=100)) < 130


def test_what_cannot_be_shown_as_json_is_shown_as_words():
    assert unroll({"at": json}) == f'at: "{json}"'
