"""Times, money, and lists as people read them; names in texts; texts that say the same."""

from __future__ import annotations

import errno
import socket

import pytest

from agentic.text import (
    calls_in,
    counted,
    dollars,
    explain_failure,
    lasting,
    listed,
    named,
    names_in,
    says_again,
    shingles,
    unquoted,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 second"),
        (40, "40 seconds"),
        (60, "1 minute"),
        (5400, "90 minutes"),
        (7200, "2 hours"),
        (86400, "24 hours"),
        (7 * 86400, "7 days"),
    ],
)
def test_a_time_has_the_unit_that_people_would_use(seconds, text):
    assert lasting(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0.00"), (0.00001, "less than $0.0001"), (0.0042, "$0.0042"), (0.5, "$0.50"), (12.345, "$12.35")],
)
def test_a_small_sum_is_not_shown_as_nothing(amount, text):
    assert dollars(amount) == text


def test_lists_and_counts_read_as_sentences():
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "nobody",
        "a",
        "a and b",
        "a, b, and c",
    ]
    assert [counted(number, "turn") for number in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]


SHOWN = {"chatgpt": "ChatGPT", "claude": "Claude", "ada": "Ada Lovelace", "hana": "花子", "c3": "C++"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("claude, what do you think?", ("claude",)),
        ("CLAUDE and ＣｈａｔＧＰＴ!", ("claude", "chatgpt")),
        ("Claude's idea, not Claudette's", ("claude",)),
        ("Claudette is somebody else", ()),
        ("ask Ada Lovelace", ("ada",)),
        ("花子さん、どう思う？", ("hana",)),
        ("I like C++, really", ("c3",)),
        ("vitamin C", ()),
        ("ada-lovelace! Chat GPT?", ("ada", "chatgpt")),
        ("ádá  lovelace", ("ada",)),
        ("", ()),
    ],
)
def test_names_are_found_as_whole_words_in_any_case_and_script(text, found):
    assert names_in(text, SHOWN) == found


SCEPTICS = {
    "sceptic": "Sceptic",
    "the-sceptic": "The Sceptic",
    "owl": "🦉",
    "emile": "Émile Zola",
    "doc": "The Doctor",
    "jm": "Jürgen Müller",
}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("The Sceptic", ("the-sceptic",)),
        ("the  sceptic", ("the-sceptic",)),
        ("“THE SCEPTIC”", ("the-sceptic",)),
        ("Sceptic", ("sceptic",)),
        ("@sceptic.", ("sceptic",)),
        ("a sceptic", ("sceptic", "the-sceptic")),
        ("doctor", ("doc",)),
        ("🦉\ufe0f", ("owl",)),
        ("emile-zola", ("emile",)),
        ("**Émile Zola**", ("emile",)),
        ("ÉMILE", ("emile",)),
        ("Jurgen Muller", ("jm",)),
        ("juergen mueller", ("jm",)),
        ("nobody", ()),
        ("", ()),
    ],
)
def test_a_name_matches_as_it_was_given_before_it_matches_loosely(given, found):
    assert named(SCEPTICS, given) == found


def test_the_longer_name_in_a_text_is_the_one_that_is_meant():
    assert calls_in("The Sceptic, then Sceptic, then the doctor", SCEPTICS) == [
        ("the-sceptic",),
        ("sceptic",),
        ("doc",),
    ]
    assert calls_in("I saw a doctor", SCEPTICS) == []


def test_a_text_that_fits_two_names_says_both():
    assert calls_in("sceptic?", {"a": "The Sceptic", "b": "A Sceptic"}) == [("a", "b")]


def test_a_name_with_umlauts_is_found_in_a_text_that_has_none():
    assert names_in("And Juergen Mueller?", SCEPTICS) == ("jm",)


KEPT = "Lighthouses were run by families who kept a diary of every storm."


@pytest.mark.parametrize(
    ("text", "earlier", "again"),
    [
        (KEPT, [], False),
        (KEPT, ["Something else entirely, about bread and how long it lasts.", KEPT], True),
        ("Every lighthouse was run by families who kept a diary of each storm.", [KEPT], True),
        (KEPT.upper() + " https://example.com/storms", [KEPT], True),
        (f"{KEPT} The question is who paid for ink, paper and the hours of a whole life out there.", [KEPT], False),
        (f"“{KEPT}” So you say, but who of them ever kept it for twenty years?", [KEPT], False),
        (f"“{KEPT}”", [KEPT], True),
        ("Families kept it.", ["Families kept it."], False),  # too short to say anything
        (
            "灯台は家族によって運営されて、嵐の日記をつけていた。",
            ["灯台は家族によって運営され、嵐の日記をつけていた。"],
            True,
        ),
        ("", [""], False),
    ],
)
def test_a_text_says_again_what_half_of_it_said_before(text: str, earlier: list[str], again: bool) -> None:
    assert says_again(text, earlier) is again


def test_shingles_are_runs_of_three_words() -> None:
    assert shingles("One, two THREE four") == {("one", "two", "three"), ("two", "three", "four")}
    assert shingles("one two") == frozenset()


@pytest.mark.parametrize(
    ("written", "topic"),
    [
        ('"Is tea good?"', "Is tea good?"),
        (" “Is tea good?” ", "Is tea good?"),
        ("„Tee?“", "Tee?"),
        ('"Tea" or "coffee"', '"Tea" or "coffee"'),
        ("it's tea", "it's tea"),
        ('""', '""'),
    ],
)
def test_quotation_marks_around_a_whole_topic_are_removed(written: str, topic: str) -> None:
    assert unquoted(written) == topic


def test_a_failed_connection_is_explained_without_the_address() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")  # asyncio's words
    assert explain_failure(refused) == "connection refused"
    assert explain_failure(socket.gaierror(-2, "Name or service not known")) == "name or service not known"
    assert [explain_failure(TimeoutError()), explain_failure(OSError("closed."))] == ["no answer in time", "closed"]
