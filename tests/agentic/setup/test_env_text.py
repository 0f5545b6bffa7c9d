"""Settings put into the text of a .env file: what is asked for changes, the rest stays to the byte."""

from __future__ import annotations

import io

import pytest
from dotenv.parser import parse_stream
from hypothesis import assume, given
from hypothesis import strategies as st

from agentic.setup.env_file import quoted, with_settings


def read(text: str) -> dict[str, str]:
    """As agentic.settings.loading reads it."""
    found = {line.key: line.value or "" for line in parse_stream(io.StringIO(text.removeprefix("\ufeff"))) if line.key}
    return {key: value.strip() for key, value in found.items()}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "A=new\n"),
        ("A=\n", "A=new\n"),
        ("A=old", "A=new"),
        ("A='old # not a comment' # why\n", "A=new # why\n"),
        ("A= # why\nB=1\n", "A=new # why\nB=1\n"),
        ("  export A=old  # why\n", "  export A=new  # why\n"),
        ("A=1\nB=2\nA=3\n", "A=new\nB=2\nA=new\n"),
        ("a=old\n", "a=new\n"),
        ("# A=example\nB=2\n", "# A=example\nA=new\nB=2\n"),
        ("#A=one\n# A=two", "#A=one\n# A=two\nA=new\n"),
        ("# about A: A=5 is usual\n", "# about A: A=5 is usual\nA=new\n"),
        ("B=2", "B=2\nA=new\n"),
        ("\ufeffA=old\r\nB=2\r\n", "\ufeffA=new\r\nB=2\r\n"),
        ("B=2\r\n", "B=2\r\nA=new\r\n"),
        ("A\nB=2\n", "A=new\nB=2\n"),
        ("AB=1\nXA=2\n", "AB=1\nXA=2\nA=new\n"),
        ("A=new # as it is\n", "A=new # as it is\n"),
    ],
)
def test_a_setting_is_changed_where_it_is_or_added_where_it_belongs(before: str, after: str) -> None:
    assert with_settings(before, {"A": "new"}) == after


def test_an_emptied_setting_keeps_its_line_and_a_missing_one_gets_none() -> None:
    assert with_settings("A=1 # why\n# B=2\n", {"A": "", "B": ""}) == "A= # why\n# B=2\n"


values = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=20).map(str.strip)
lines = st.lists(
    st.one_of(
        st.sampled_from(["", "# a comment", "# KEY=example", "B = 'two words' # why", "KEY=old", 'KEY="a\nb"', "X"]),
        st.text("ABKEY=#'\" \\x", max_size=12),
    ),
    max_size=8,
)


@pytest.mark.promise(120)
@given(lines, st.dictionaries(st.sampled_from(["KEY", "NEW"]), values, min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_what_was_written_is_read_again_and_all_other_settings_are_as_before(
    parts: list[str], changes: dict[str, str], end: str
) -> None:
    text = end.join(parts)
    assume(not any(line.error for line in parse_stream(io.StringIO(text))))  # such a file is refused before
    before, after = read(text), read(with_settings(text, changes))
    for key, value in changes.items():
        assert after.get(key, "") == value
    assert {key: value for key, value in after.items() if key not in changes} == {
        key: value for key, value in before.items() if key not in changes
    }


@given(values)
def test_a_quoted_value_is_read_as_it_was(value: str) -> None:
    assert read(f"A={quoted(value)}") == {"A": value}
