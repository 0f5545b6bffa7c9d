from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.services.signal.styled_text import LIMIT, Run, Style, parse, plain, split_runs


def texts(markdown: str, limit: int = LIMIT) -> list[str]:
    return [plain(runs) for runs in split_runs(parse(markdown), limit)]


def test_a_short_text_is_one_message_and_none_is_none():
    assert texts("hello") == ["hello"]
    assert texts(" \n ") == texts("") == []


def test_the_limit_counts_bytes_since_signals_apps_do():
    for letter in ("a", "é", "漢", "👋"):
        parts = texts(letter * 2500)
        assert all(len(part.encode()) <= LIMIT for part in parts)
        assert "".join(parts) == letter * 2500
        assert len(parts[0].encode()) > LIMIT - 8


def test_it_is_cut_between_paragraphs_then_lines_then_words():
    assert texts("one two\n\nthree four", 14) == ["one two", "three four"]
    assert texts("one two\nthree four", 14) == ["one two", "three four"]
    assert texts("one two three four", 14) == ["one two three", "four"]


def test_no_character_of_several_code_points_is_cut():
    family = "👨\u200d👩\u200d👧"
    assert all(part.count("👨") == part.count("👧") for part in texts(family * 200))
    assert all(len(part) % 2 == 0 for part in texts("🇩🇪" * 400))


def test_a_style_goes_on_in_the_next_message():
    first, second = split_runs([Run("a" * 1500 + "\n" + "b" * 1500, Style.MONO)])
    assert [run.style for run in (*first, *second)] == [Style.MONO, Style.MONO]


def test_the_indentation_of_code_stays():
    assert texts("```\n" + "x" * 18 + "\n    indented\n```", 20)[1] == "    indented"


@pytest.mark.promise(464)
@given(st.lists(st.sampled_from(["word", "\n", "\n\n", " ", "é漢👋", "**b**", "`c`"]), max_size=120).map("".join))
def test_nothing_but_white_space_is_lost_and_no_part_is_too_long(markdown):
    runs = parse(markdown)
    parts = [plain(part) for part in split_runs(runs, 40)]
    assert all(part.strip() and len(part.encode()) <= 40 for part in parts)
    assert "".join("".join(parts).split()) == "".join(plain(runs).split())
