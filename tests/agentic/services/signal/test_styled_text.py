"""Markdown → runs → the styled text of signal-cli-rest-api, read back by its own rules."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentic.services.signal.styled_text import MARKS, SEPARATOR, Run, Style, parse, plain, split_runs, to_styled_text

OF_MARK = {mark: style for style, mark in MARKS.items()}


def read(text: str) -> tuple[str, list[tuple[int, int, Style]]]:
    """The text and its styled ranges, as src/utils/textstyleparser.go of signal-cli-rest-api reads them."""
    out, ranges, open_marks = "", [], []
    before, at = "", 0
    while at < len(text):
        char, following = text[at], text[at + 1 : at + 2]
        mark = char * 2 if char in "*|" and following == char else char if char in "*~`" else ""
        at += len(mark) or 1
        if mark and before == "\\":
            out += mark
        elif mark:
            if open_marks and open_marks[-1][0] == mark:
                ranges.append((open_marks.pop()[1], len(out), OF_MARK[mark]))
            else:
                open_marks.append((mark, len(out)))
        elif not (char == "\\" and following and following in "*`|~"):
            out += char
        before = char
    return out, ranges


def shown(markdown: str) -> tuple[str, list[tuple[str, Style]]]:
    text, ranges = read(to_styled_text(parse(markdown)))
    return text, [(text[begin:end], style) for begin, end, style in ranges]


@pytest.mark.parametrize(
    ("markdown", "text", "styles"),
    [
        ("plain", "plain", []),
        ("**bold** and *italic*", "bold and italic", [("bold", Style.BOLD), ("italic", Style.ITALIC)]),
        ("_so_ __or so__", "so or so", [("so", Style.ITALIC), ("or so", Style.ITALIC)]),
        ("***both***", "both", [("both", Style.BOLD)]),
        ("~~gone~~ ||hidden||", "gone hidden", [("gone", Style.STRIKE), ("hidden", Style.SPOILER)]),
        ("a `code` b", "a code b", [("code", Style.MONO)]),
        ("``a ` b``", "a ` b", [("a ` b", Style.MONO)]),
        ("# Title\ntext", "Title\ntext", [("Title", Style.BOLD)]),
        ("### **Title** 2", "Title 2", [("Title 2", Style.BOLD)]),
        ("-# small", "small", [("small", Style.ITALIC)]),
        ("- one\n  - two\n* three", "• one\n  • two\n• three", []),
        ("1. one\n2. two", "1. one\n2. two", []),
        ("---", "———", []),
        ("> said", "> said", []),
        ("[Title](https://a.example/b)", "Title (https://a.example/b)", []),
        ("[T](<https://a.example/b>)", "T (https://a.example/b)", []),
        ("[https://a.example](https://a.example)", "https://a.example", []),
        ("<https://a.example/x>", "https://a.example/x", []),
        ("https://a.example/~you/a_b_c*d", "https://a.example/~you/a_b_c*d", []),
        ("<:smile:123> <a:dance:45>", ":smile: :dance:", []),
        ("```py\nx = 2 * 3 * 4\n```", "x = 2 * 3 * 4", [("x = 2 * 3 * 4", Style.MONO)]),
        ("before\n```\n  a\n  b\n```\nafter", "before\n  a\n  b\nafter", [("  a\n  b", Style.MONO)]),
        ("```open", "open", [("open", Style.MONO)]),
        ("2 * 3 * 4 = 24", "2 * 3 * 4 = 24", []),
        ("snake_case_name", "snake_case_name", []),
        ("**half", "**half", []),
        ("a | b || c", "a | b || c", []),
        ("\\*literal\\*", "*literal*", []),
        ("~5 minutes, ~6 at most", "~5 minutes, ~6 at most", []),
        ("||**bold** in secret||", "bold in secret", [("bold in secret", Style.SPOILER)]),
        ("**bold with `code`**", "bold with code", [("bold with ", Style.BOLD), ("code", Style.MONO)]),
        ("in `C:\\` **now**", "in C:\\ now", [("now", Style.BOLD)]),
        ("👋 **hello** 漢字", "👋 hello 漢字", [("hello", Style.BOLD)]),
    ],
)
def test_markdown_reads_on_signal_as_it_was_meant(markdown, text, styles):
    assert shown(markdown) == (text, styles)


SECRETS = (
    "SECRET\n\nSECRET",
    "SECRET " * 700,
    "```py\nSECRET\n```",
    "SECRET `a || b` SECRET",
    "SECRET\\\\",
    "https://SECRET.example/SECRET",
    "[SECRET](https://SECRET.example)",
    "\n- SECRET\n- **SECRET**\n",
)


@pytest.mark.promise(549)
@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
@pytest.mark.parametrize("around", ["{}", "> {}\n> b", "# {}", "**a {} b**", "`D:\\`{}`x`", "1. {}"])
def test_what_is_hidden_on_discord_is_hidden_in_each_message(secret, around):
    for message in split_runs(parse(around.format(f"||{secret}||"))):
        text, ranges = read(to_styled_text(message))
        hidden = {place for begin, end, style in ranges if style is Style.SPOILER for place in range(begin, end)}
        assert all(place in hidden for place, char in enumerate(text) if char in "SECRT")


PIECES = st.sampled_from(
    ["*", "**", "`", "```", "~", "~~", "|", "||", "\\", "_", " ", "\n", "a", "b c", "é", "- ", "# "]
)
RUNS = st.lists(
    st.builds(Run, st.lists(PIECES, min_size=1, max_size=4).map("".join), st.sampled_from(Style)), max_size=6
)


@pytest.mark.promise(464)
@given(RUNS)
@example([Run("a*", Style.BOLD)])
@example([Run("a", Style.ITALIC), Run("b", Style.BOLD)])
@example([Run("\\"), Run("x", Style.BOLD), Run("|"), Run("y", Style.SPOILER)])
def test_no_mark_is_ever_half_open_and_no_character_is_lost(runs):
    separated, ranges = read(to_styled_text(runs))
    assert separated.replace(SEPARATOR, "") == plain(runs)
    hidden = {place for begin, end, style in ranges if style is Style.SPOILER for place in range(begin, end)}
    seen = [(place in hidden, char) for place, char in enumerate(separated) if char != SEPARATOR]
    assert seen == [(run.style is Style.SPOILER, char) for run in runs for char in run.text]
    styles = {(separated[begin:end].replace(SEPARATOR, ""), style) for begin, end, style in ranges}
    assert styles <= {(run.text, run.style) for run in runs}


@pytest.mark.promise(464)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_markdown_is_read_without_a_mark_of_its_own_left_open(markdown):
    runs = parse(markdown)
    text, _ = read(to_styled_text(runs))
    assert text.replace(SEPARATOR, "") == plain(runs)
    assert all(one.style is not other.style for one, other in itertools.pairwise(runs))


def test_a_flood_of_marks_is_read_in_time():
    for flood in ("*" * 20_000, "**a" * 5_000, "||" * 10_000, "`" * 20_000, "_a" * 10_000, "[" * 20_000, "~~" * 10_000):
        assert plain(parse(flood)) is not None
