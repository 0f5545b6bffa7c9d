"""Numbers, themes, time zones and money as people type them."""

from __future__ import annotations

import pytest

from agentic.setup.dialogue import ChoiceError, guess_theme, read_numbers, read_theme
from agentic.setup.wizard import budget_of, zone_named
from agentic.themes import THEMES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", [1]),
        ("1,3-5", [1, 3, 4, 5]),
        (" 5 , 1 ", [5, 1]),
        ("2 4", [2, 4]),
        ("1 - 3", [1, 2, 3]),
        ("3,3,1-3", [3, 1, 2]),
    ],
)
def test_numbers_are_read_in_the_order_typed(text: str, found: list[int]) -> None:
    assert read_numbers(text, 5) == found


def test_a_name_of_the_list_stands_for_its_number() -> None:
    assert read_numbers("#memes, 1 what-if", 3, ["debate", "memes", "what-if"]) == [2, 1, 3]
    with pytest.raises(ChoiceError):
        read_numbers("#other", 3, ["debate", "memes", "what-if"])


@pytest.mark.parametrize("text", ["", ",", "0", "6", "1-6", "5-1", "a", "-1", "1-", "²", "99999999999"])
def test_what_is_no_number_of_the_list_says_what_is_expected(text: str) -> None:
    with pytest.raises(ChoiceError, match=r"^Type "):
        read_numbers(text, 5)


@pytest.mark.parametrize(
    ("text", "theme"),
    [("1", "casual"), ("14", "vent"), ("Debate", "debate"), ("deb", "debate"), ("would you", "would-you-rather")],
)
def test_a_theme_is_a_number_a_name_or_its_beginning(text: str, theme: str) -> None:
    assert read_theme(text) == theme


@pytest.mark.parametrize("text", ["", "0", "15", "s", "debate2"])
def test_a_theme_that_is_none_or_several_lists_all(text: str) -> None:
    with pytest.raises(ChoiceError, match="would-you-rather"):
        read_theme(text)


@pytest.mark.parametrize(
    ("channel", "theme"),
    [
        ("debate-club", "debate"),
        ("🔥│memes", "memes"),
        ("what-if", "hypothetical"),
        ("this-or-rather", "would-you-rather"),
        ("events", "casual"),
        ("adventure", "casual"),
        ("general", "casual"),
        *((name, name) for name in THEMES),
    ],
)
def test_a_theme_is_guessed_from_whole_words_of_a_channels_name(channel: str, theme: str) -> None:
    assert guess_theme(channel) == theme


@pytest.mark.parametrize(
    ("text", "zone"),
    [("Europe/Berlin", "Europe/Berlin"), ("berlin", "Europe/Berlin"), ("new york", "America/New_York"), ("utc", "UTC")],
)
def test_a_time_zone_is_found_by_its_city_too(text: str, zone: str) -> None:
    assert zone_named(text) == zone


@pytest.mark.parametrize("text", ["Europe/Berln", "Berln", "europe berlin"])
def test_a_time_zone_that_there_is_not_brings_those_that_may_be_meant(text: str) -> None:
    with pytest.raises(ChoiceError, match=r"Did you mean .*Europe/Berlin"):
        zone_named(text)


@pytest.mark.parametrize(
    ("text", "dollars"), [("5", "5"), ("$7.50", "7.5"), ("0.25", "0.25"), ("None", "none"), ("2000", "2000")]
)
def test_money_is_read(text: str, dollars: str) -> None:
    assert budget_of(text) == dollars


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "five", "1e9"])
def test_what_is_no_money_is_asked_again(text: str) -> None:
    with pytest.raises(ChoiceError, match="US dollars"):
        budget_of(text)
