from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentic.chat.splitting import _Splitter, length, split_text
from tests.support.discord.chunks import left_out, spoken

MARKDOWN = ["```", "```py\n", "\n```\n", "```x```", "````", "``", "`code`", "https://example.org/a/b?c=d"]
WORDS = ["word", "a longer sentence, with words. ", "\n", "\n\n", "    indented\n", " ", "\t", "x" * 70, "漢字。"]
WHOLE = ["<@123456789012345678>", "<a:smile:123456789012345678>", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301"]
MARKS = st.sampled_from(["> ", ">>> ", "# ", "-# ", "**", "||", "*", "_", "`"])
PIECES = st.sampled_from([*MARKDOWN, *WORDS, *WHOLE])
TEXTS = st.lists(PIECES | st.text(max_size=20), max_size=60).map("".join)


@pytest.mark.promise(10)
@given(TEXTS, st.sampled_from([50, 100, 2000]))
def test_nothing_is_lost_or_added_and_code_stays_code(text: str, limit: int) -> None:
    chunks = split_text(text, limit)
    assert [part for chunk in chunks for part in spoken(chunk)] == spoken(text)


@pytest.mark.promise(10, 11)
@given(TEXTS, st.sampled_from([16, 50, 2000]))
@example("``https://example.org/a/b?c=d``", 16)
@example("漢字。000𐀀`code``code`", 16)
@example("``" + " " * 20 + "x``", 16)
def test_every_chunk_is_short_filled_and_balanced(text: str, limit: int) -> None:
    for chunk in split_text(text, limit):
        assert chunk.strip()
        assert len(chunk) <= length(chunk) <= limit
        assert chunk.count("```") % 2 == 0


@given(
    st.lists(PIECES | st.sampled_from(["> ", ">>> ", "# ", "-# ", "**", "||", "*", "_", "`"]), max_size=12).map("".join)
)
def test_a_text_that_fits_is_what_the_splitter_would_make_of_it(text: str) -> None:
    assert split_text(text, 2000) == list(_Splitter(text, 2000, growing=False).chunks())


@given(TEXTS)
def test_no_mention_or_emoji_is_cut(text: str) -> None:
    whole = re.compile("|".join(WHOLE))
    assert [hit for chunk in split_text(text, 100) for hit in whole.findall(chunk)] == whole.findall(text)


@pytest.mark.promise(12)
@pytest.mark.parametrize("text", ["", " ", "\n\n\t"])
def test_white_space_alone_is_nothing(text: str) -> None:
    assert split_text(text, 2000) == []


def test_a_short_text_stays_as_it_is() -> None:
    assert split_text("one\n\n    two", 2000) == ["one\n\n    two"]
    assert split_text("x" * 2000, 2000) == ["x" * 2000]


def test_paragraphs_are_kept_together_before_lines_before_words() -> None:
    paragraph = "one line\nand another line"
    assert split_text(f"{paragraph}\n\n{paragraph}", 40) == [paragraph, paragraph]
    assert split_text("a first line of words\na second line of words", 40) == [
        "a first line of words",
        "a second line of words",
    ]
    assert split_text("just some words without any line", 20) == ["just some words", "without any line"]
    assert split_text("x" * 45, 20) == ["x" * 20, "x" * 20, "x" * 5]


def test_a_short_beginning_does_not_become_a_message_of_its_own() -> None:
    first, *_ = split_text("Sure:\n\n" + "word " * 100, 100)
    assert len(first) > 80


@pytest.mark.promise(11)
def test_a_code_block_over_a_split_is_closed_and_opened_with_its_language() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(12))
    chunks = split_text(f"Look:\n```python\n{code}\n```\nNice.", 100)
    assert len(chunks) > 1
    assert all(chunk.startswith("```python\nline_") for chunk in chunks[1:])
    assert all(chunk.endswith("\n```") for chunk in chunks[:-1])
    assert set(left_out(f"Look:\n```python\n{code}\n```\nNice.", chunks)) <= {"", "\n"}


@pytest.mark.parametrize(("language", "kept"), [("python", True), ("a-language-of-that-very-long-name", False)])
def test_a_languages_name_is_repeated_only_where_it_leaves_room_for_code(language: str, kept: bool) -> None:
    chunks = split_text(f"```{language[:32]}\n" + "f(x)\n" * 40 + "```", 60)
    assert len(chunks) > 2
    assert all(chunk.startswith(f"```{language[:32]}\n" if kept else "```\nf(x)") for chunk in chunks[1:])
    assert all(length(chunk) <= 60 for chunk in chunks)


def test_a_block_moves_on_whole_where_the_text_before_it_is_enough() -> None:
    block = "```js\n" + "f();\n" * 12 + "```"
    assert split_text("w " * 20 + "\n" + block, 80) == [("w " * 20).strip(), block]


def test_indentation_in_code_survives_the_split() -> None:
    chunks = split_text("```\n" + "    four\n" * 20 + "```", 60)
    assert all(line in ("```", "    four") for chunk in chunks for line in chunk.splitlines())


@pytest.mark.promise(11)
def test_a_block_left_open_is_closed() -> None:
    assert split_text("```py\nx = 1", 2000) == ["```py\nx = 1\n```"]
    assert split_text("```word", 2000) == ["```word```"]


def test_a_link_is_not_cut_where_another_place_is_near() -> None:
    link = "[a page of some length](https://example.org/a/rather/long/path)"
    assert link in split_text("x" * 60 + link + "y" * 60, 100)[1]
    assert "".join(split_text("https://" + "e" * 300, 100)) == "https://" + "e" * 300


def test_astral_characters_count_twice() -> None:
    assert [len(chunk) for chunk in split_text("🍕" * 1500, 2000)] == [1000, 500]


def test_scripts_without_spaces_are_cut_after_punctuation() -> None:
    assert split_text("漢字漢字漢字漢字漢字漢字。" * 2, 20) == ["漢字漢字漢字漢字漢字漢字。"] * 2


def test_a_limit_too_small_for_anything_is_an_error() -> None:
    with pytest.raises(ValueError, match="16"):
        split_text("text", 15)


def test_no_flag_is_cut_in_two() -> None:
    flags = "\U0001f1e9\U0001f1ea" * 20
    for limit in (16, 17, 18, 19):
        chunks = split_text("x" + flags, limit)
        assert all(len(chunk.removeprefix("x")) % 2 == 0 for chunk in chunks)


@pytest.mark.parametrize("filler", ["x", "\u200d"])
def test_no_fence_is_cut_in_two(filler: str) -> None:
    for before in range(8, 20):
        text = "x" + filler * before + "```abc```"
        assert "".join(chunk.count("`") % 3 * "!" for chunk in split_text(text, 16)) == ""
