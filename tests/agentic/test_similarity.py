from __future__ import annotations

import pytest

from agentic.text import says_again, shingles

KEPT = "Lighthouses were run by families who kept a diary of every storm."


@pytest.mark.parametrize(
    ("text", "earlier", "again"),
    [
        (KEPT, [], False),
        (KEPT, ["Something else entirely, about bread and how long it lasts.", KEPT], True),
        ("Every lighthouse was run by families who kept a diary of each storm.", [KEPT], True),
        (KEPT.upper() + " https://example.com/storms", [KEPT], True),
        (f"{KEPT} The question is who paid for ink, paper and the hours of a whole life out there.", [KEPT], False),
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
