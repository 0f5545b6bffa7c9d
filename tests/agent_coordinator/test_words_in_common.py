from __future__ import annotations

import pytest

from agent_coordinator.text_signals import (
    AGREEMENT,
    DISAGREEMENT,
    FAREWELL,
    THANKS,
    asks,
    says,
)
from agentic.subject import alike, content_words, in_common
from agentic.text import tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ship", "ships"),
        ("schiff", "schiffe"),
        ("navire", "navires"),
        ("philosophy", "philosophical"),
        ("корабль", "корабли"),
        ("音楽", "音楽"),
    ],
)
def test_forms_of_a_word_are_alike_in_several_languages(one: str, other: str) -> None:
    assert alike(one, other)
    assert alike(other, one)
    assert in_common([one, "something"], [other, "else"]) == [one]


@pytest.mark.parametrize(("one", "other"), [("ship", "shirt"), ("car", "care"), ("port", "portuguese"), ("a", "b")])
def test_words_that_only_begin_alike_are_not(one: str, other: str) -> None:
    assert not alike(one, other)
    assert in_common([one], [other]) == []


def test_words_carry_no_case_width_marks_or_addresses() -> None:
    assert tokens("Ｔｅａ, or COFFEE?  https://example.com/tea <@123> <:tea:9>") == ("tea", "or", "coffee")
    assert content_words("The cat sat on Straße 17") == {"strasse", "17"}


def test_a_script_without_spaces_has_characters_and_pairs() -> None:
    assert tokens("猫が好き ok") == ("猫", "が", "好", "き", "ok")
    assert content_words("猫が好き") == {"猫が", "が好", "好き"}


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("I agree with that.", AGREEMENT),
        ("Genau! Und weiter?", AGREEMENT),
        ("Je suis d’accord.", AGREEMENT),
        ("その通りです", AGREEMENT),
        ("No, I disagree.", DISAGREEMENT),
        ("Das stimmt nicht.", DISAGREEMENT),
        ("Goodbye then!", FAREWELL),
        ("До свидания", FAREWELL),
        ("谢谢你", THANKS),
        ("Muchas gracias", THANKS),
    ],
)
def test_phrases_are_found_in_several_languages(text: str, phrases: tuple[str, ...]) -> None:
    assert says(text, phrases)


def test_a_phrase_inside_another_word_is_none() -> None:
    assert not says("Bystanders and danker places, exactness", (*FAREWELL, *THANKS, *AGREEMENT))
    assert not says("I disagreed", AGREEMENT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Why?", True), ("なぜ？", True), ("لماذا؟", True), ("Why.", False), ("see https://example.com/?q=1", False)],
)
def test_a_question_has_a_mark_of_its_language_outside_of_addresses(text: str, expected: bool) -> None:
    assert asks(text) is expected
