from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent_coordinator.text_signals import PERSPECTIVES, repetition_in

NEW = (
    "Lighthouses were run by families who kept a diary of every storm.",
    "Then the diaries are the oldest weather record of that coast, are they not?",
    "Older is a parish book from Bergen; it notes frost on each Sunday from 1684.",
    "A priest counts differently from a keeper: he writes down what ruined the harvest.",
)
SAID_AGAIN = "Each lighthouse, they say, was run by families who kept a diary of every storm."


@pytest.mark.promise(191)
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (NEW, None),
        ((), None),
        (("ok",), None),
        (("ok", "ok", "ok"), None),  # too short to say anything, and so to repeat it
        ((*NEW, SAID_AGAIN), "duplicate"),
        ((*NEW, NEW[0] + " So the question is who paid for ink, for paper, and for the hours of a whole life."), None),
        (
            (
                "灯台は家族によって運営され、嵐の日記をつけていた。",
                "なるほど。",
                "灯台は家族によって運営されて、嵐の日記をつけていた。",
            ),
            "duplicate",
        ),
        (
            ("That's a good point about ink.", "Hm.", "That's a good one about paper.", "That's a good list of costs."),
            "openings",
        ),
        (("That's a start about ink.", "Hm.", "Well.", "That's a start, of a list of costs."), None),
        (("I agree, ink is dear.", "Exactly, and so is paper.", "So true. Time is dearest."), "agreement"),
        (("Ich stimme zu.", "D'accord.", "Так и есть, именно."), "agreement"),
        (("I agree, ink is dear.", "Who paid?", "So true. Time is dearest."), None),
        (("Well, goodbye everyone!", "Gute Nacht!"), "farewells"),
        (("Thanks a lot.", "Merci, vraiment."), "thanks"),
        (("Well, goodbye everyone!", "Wait: who keeps the diary?"), None),
        (("Goodbye is an odd word. " * 10, "Bye comes from it, as does the habit of waving. " * 5), None),
    ],
)
def test_what_repeats_is_seen_and_what_is_new_is_left_alone(texts: Sequence[str], expected: str | None) -> None:
    assert repetition_in(texts) == expected
    assert expected is None or PERSPECTIVES[expected]  # type: ignore[index]


def test_only_the_newest_message_counts_as_said_again() -> None:
    assert repetition_in((NEW[0], NEW[0], *NEW[1:])) is None
