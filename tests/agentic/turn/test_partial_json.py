"""The words of a decision that is still being written."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.turn.loose_json import text_so_far

FIELDS = st.fixed_dictionaries(
    {
        "skip": st.just(False),
        "react_emoji": st.none() | st.text(max_size=8),
        "topic": st.none() | st.text(max_size=8),
        "generate_image": st.booleans(),
        "more": st.lists(st.integers() | st.text(max_size=3), max_size=3),
    }
)


@given(st.text(max_size=60), FIELDS, st.randoms(use_true_random=False), st.booleans(), st.sampled_from([None, 1]))
def test_at_every_cut_it_is_a_beginning_of_the_text_and_it_only_grows(text, fields, rng, ascii_only, indent):
    pairs = [("text", text), *fields.items()]
    rng.shuffle(pairs)
    raw = json.dumps(dict(pairs), ensure_ascii=ascii_only, indent=indent)
    shown = [text_so_far(raw[:end]) for end in range(len(raw) + 1)]
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
    assert shown[-1] == text


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "Let me think. {",
        '{"skip": true, "text": "no',
        '{"text": null, "skip"',
        '{"text": 5',
        '{"skip": fal',
        '{"topic": {"a": [1, ',
        '{"thoughts": "so {\\"text\\": \\"secret',
        '[{"text": "a"}]',
        "{" * 5000,
    ],
)
def test_where_no_text_has_begun_there_is_nothing_to_show(raw):
    assert text_so_far(raw) == ""


def test_a_code_block_and_raw_new_lines_are_read_too():
    assert text_so_far('```json\n{"skip": false, "text": "one\ntwo\\n three \\ud83d\\ude00 \\ud83d') == (
        "one\ntwo\n three 😀 "
    )


@given(st.text(max_size=200))
def test_any_text_is_read_to_its_end_without_an_error(raw):
    assert isinstance(text_so_far('{"text": "' + raw), str)
