"""Times, money and lists as people read them."""

import pytest

from agentic.text import counted, dollars, lasting, listed


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
        "a, b and c",
    ]
    assert [counted(number, "turn") for number in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]
