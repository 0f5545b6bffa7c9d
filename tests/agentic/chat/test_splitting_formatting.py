"""Formatting over a split: what is hidden stays hidden, what is bold stays bold, and nothing is added."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from agentic.chat.splitting import length, split_text
from tests.support.discord.rendering import Seen, render

STYLES = {"||": "spoiler", "**": "bold", "__": "underline", "*": "italics", "~~": "strikethrough", "`": "code"}
ASTERISKS = {"bold", "italics"}
WORDS = st.sampled_from(["word", "killer", "snake_case", "漢字。", "🎃", "a < b", "x" * 30, "1. one", "it's"])
Document = tuple[str, list[Seen]]


def plain(words: str) -> Document:
    return words, [(char, frozenset()) for char in words if not char.isspace()]


def joined(parts: list[Document], by: str) -> Document:
    return by.join(text for text, _ in parts), [seen for _, chars in parts for seen in chars]


def styled(mark: str, inside: Document) -> Document:
    text, chars = inside
    styles_inside = {name for _, styles in chars for name in styles}
    if STYLES[mark] in styles_inside or (mark[0] == "*" and ("*" in (text[0], text[-1]) or styles_inside & ASTERISKS)):
        return inside  # nothing nests in itself, and where `**` meets `*` after a cut, they can be read in two ways
    if mark == "`":
        inside_marks = any(styles for _, styles in chars) or "`" in text
        return inside if inside_marks else (f"`{text}`", [(char, frozenset({"code"})) for char, _ in chars])
    return f"{mark}{text}{mark}", [(char, styles | {STYLES[mark]}) for char, styles in chars]


BLOCKS = st.lists(st.sampled_from(["x = 1", "if a || b:", "# no heading", "*p = **q"]), min_size=1, max_size=8).map(
    lambda lines: (
        "```py\n" + "\n".join(lines) + "\n```",
        [(char, frozenset({"block"})) for char in "".join(lines) if not char.isspace()],
    )
)
SENTENCES = st.lists(WORDS.map(plain), min_size=1, max_size=20).map(lambda parts: joined(parts, " "))
DOCUMENTS = st.recursive(
    SENTENCES | BLOCKS,
    lambda inner: st.lists(
        st.builds(styled, st.sampled_from(sorted(STYLES)), inner.filter(lambda one: "```" not in one[0])) | inner,
        min_size=1,
        max_size=6,
    ).flatmap(lambda parts: st.sampled_from([" ", "\n", "\n\n"]).map(lambda by: joined(parts, by))),
    max_leaves=12,
)
LIMITS = st.sampled_from([60, 100, 300, 2000])


@settings(max_examples=300)
@given(DOCUMENTS, LIMITS)
def test_people_see_the_same_text_in_the_same_styles(document: Document, limit: int) -> None:
    """But for bold text with a part in italics, or the reverse, since both have asterisks for marks."""
    text, chars = document
    chunks = split_text(text, limit)
    seen = [one for chunk in chunks for one in render(chunk)]
    assert [char for char, _ in seen] == [char for char, _ in chars]
    assert all(length(chunk) <= limit for chunk in chunks)
    assert [styles for _, styles in seen] == [styles for _, styles in chars]


SOUP = st.lists(
    st.sampled_from([*STYLES, "|", "_", "``", "```", "```py\n", "> ", ">>> ", "# ", "\n", " ", "word", "\\"])
    | st.text(max_size=5),
    max_size=60,
).map("".join)


@settings(max_examples=300)
@given(SOUP, st.sampled_from([16, 30, 60, 200]))
@example("||||||||||``||`||``", 16)
def test_any_text_gives_short_chunks_with_whole_blocks(text: str, limit: int) -> None:
    for growing in (False, True):
        for chunk in split_text(text, limit, growing=growing):
            assert length(chunk) <= limit
            assert chunk.strip()
            assert chunk.count("```") % 2 == 0


SECRETS = st.lists(st.sampled_from(["SECRET", " ", "\n", "\n\n", "**", "*", "_", "> "]), min_size=1, max_size=80)


@pytest.mark.promise(517)
@settings(max_examples=300)
@given(st.lists(st.sampled_from(["open ", "**", "*", "_", "> ", "\n", "# "]), max_size=30), SECRETS, LIMITS)
@example([*["open "] * 9, "**", "open ", "*"], ["*"], 60)
def test_no_word_of_a_spoiler_can_be_read(before: list[str], secret: list[str], limit: int) -> None:
    """But for three or more marks in a row outside of words, which Discord and the splitter read in different ways."""
    text = f"{''.join(before)}||SECRET {''.join(secret)} SECRET|| open" + " word" * 10
    assume(not re.search(r"\*{3}|_{3}", text))
    whole = ["spoiler" in styles for char, styles in render(text) if char in "SECRT"]
    shown = [one for chunk in split_text(text, limit) for one in render(chunk)]
    hidden = ["spoiler" in styles for char, styles in shown if char in "SECRT"]
    assert len(hidden) == len(whole)
    assert all(now for now, before_split in zip(hidden, whole, strict=True) if before_split)


@given(st.integers(0, 400), st.sampled_from([60, 2000]))
@example(20, 60)
def test_a_spoiler_that_is_still_being_written_cannot_be_read(written: int, limit: int) -> None:
    whole = "So it was obvious: ||the **KILLER** is\n\n" + "KILLER " * 50 + "|| and so on."
    for growing_text in (whole[:written], whole[:written].rstrip()):
        for chunk in split_text(growing_text, limit, growing=True):
            assert all("spoiler" in styles for char, styles in render(chunk) if char in "KILER")


@pytest.mark.parametrize("text", ["a || b", "if (a || b) {", "| a | b |", "2 * 3 * 4", "f(**kwargs)", "one_two_three"])
def test_text_that_only_looks_like_formatting_stays_as_it_is(text: str) -> None:
    assert split_text(text, 2000) == [text]
    longer = f"{text} " + "word " * 30
    assert "".join("".join(split_text(longer, 60)).split()) == "".join(longer.split())


@pytest.mark.parametrize(
    ("begin", "end"),
    [("**", " **"), ("**\n", "**"), ("~~ ", " ~~"), ("***", "***"), ("*one **", "***"), ("**one *", "***"),
     ("__*", "*__"), ("___", "___"), ("foo__", "__bar")],
)  # fmt: skip
def test_marks_beside_spaces_and_marks_that_end_together_are_formatting(begin: str, end: str):
    text = f"{begin}{'word ' * 40}word{end} " + "more " * 5
    whole, seen = render(text), [one for chunk in split_text(text, 100) for one in render(chunk)]
    assert not {"*", "_", "~"} & {char for char, _ in whole}
    assert seen == whole


def test_a_quote_goes_on_in_each_chunk() -> None:
    long_quote = split_text("So he said:\n>>> " + "word " * 40 + "\n\nand " + "more " * 40, 100)
    assert all(chunk.startswith(">>> ") for chunk in long_quote[1:])
    lines = split_text("> " + "word " * 40 + "\n> " + "more " * 40 + "\nMine.", 100)
    assert all({"quote"} == set(styles) for chunk in lines for char, styles in render(chunk) if char in "wdm")
    assert render(lines[-1])[-1] == (".", frozenset())


def test_a_quoted_block_of_code_goes_on() -> None:
    chunks = split_text("> ```py\n" + "> x = 1\n" * 20 + "> ```\nMine.", 60)
    assert "".join(char for chunk in chunks for char, _ in render(chunk)) == "x=1" * 20 + "Mine."


def test_a_heading_goes_on() -> None:
    chunks = split_text("# " + "word " * 40 + "\nplain", 100)
    assert {styles for chunk in chunks for char, styles in render(chunk) if char in "wod"} == {frozenset({"heading"})}


HOSTILE: dict[str, Callable[[int], str]] = {
    "bars": lambda n: "||" * n,
    "stars": lambda n: "*a " * n,
    "closed stars": lambda n: "*a " * (n // 2) + "a* " * (n // 2),
    "backticks": lambda n: "` `` " * n,
    "underscores": lambda n: "_a" * n,
    "brackets": lambda n: "[" * n,
    "links": lambda n: "[a](http://" * n,
    "quotes": lambda n: "> \n>>> \n" * n,
    "escapes": lambda n: "\\|" * n,
    "one line": lambda n: "x" * n,
    "open spoiler": lambda n: "||" + "word " * n,
    "fences": lambda n: "```||" * n,
}


@pytest.mark.parametrize("text_of", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_time_is_linear(text_of: Callable[[int], str]) -> None:
    def seconds(size: int) -> float:
        text, started = text_of(size)[:size], time.process_time()
        split_text(text, 2000, growing=True)
        return time.process_time() - started

    small, large = min(seconds(8_000) for _ in range(3)), min(seconds(64_000) for _ in range(2))
    assert large < 24 * small + 0.05  # eight times the text
