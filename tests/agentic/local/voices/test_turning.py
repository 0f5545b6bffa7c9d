"""A person's words from the listener's side."""

from __future__ import annotations

import random
import re

import pytest

from agentic.local.voices.wording import turned


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("my bicycle is blue", "your bicycle is blue"),
        ("I disagree with all of you", "you disagree with all of us"),
        ("most of you are wrong", "most of us are wrong"),
        ("I disagree with you", "you disagree with me"),
        ("are you happy", "am I happy"),
        ("why are you here", "why am I here"),
        ("were you there", "was I there"),
        ("weren't you there", "wasn't I there"),
        ("am I wrong", "are you wrong"),
        ("what was I to do", "what were you to do"),
        ("I am tired", "you are tired"),
        ("I really am tired", "you really are tired"),
        ("I never was there", "you never were there"),
        ("I wasn't ready", "you weren't ready"),
        ("you were right", "I was right"),
        ("you never listen", "I never listen"),
        ("you can't be serious", "I can't be serious"),
        ("I think you are wrong", "you think I am wrong"),
        ("I hope you understand", "you hope I understand"),
        ("I know you", "you know me"),
        ("I love you", "you love me"),
        ("I saw you yesterday", "you saw me yesterday"),
        ("I want you to be honest", "you want me to be honest"),
        ("I can help you with that", "you can help me with that"),
        ("can you hear me", "can I hear you"),
        ("I wonder what you think", "you wonder what I think"),
        ("I was wondering if you were asleep", "you were wondering if I was asleep"),
        ("as you said", "as I said"),
        ("you're my friend", "I'm your friend"),
        ("I'm sure that you'd like it", "you're sure that I'd like it"),
        ("I’d rather have tea", "you'd rather have tea"),
        ("I've lost mine, take yours", "you've lost yours, take mine"),
        ("myself and yourself", "yourself and myself"),
        ("your idea beats mine", "my idea beats yours"),
        ("you are right about me", "I am right about you"),
        ("the die is cast", "the die is cast"),
        ("we moved house", None),
        ("our garden is small", None),
        ("this is between you and me", None),
        ("you and I are friends", None),
        ("you all are wrong", None),
        ("the people behind you are loud", None),
        ("I gave you my word", None),
    ],
)  # fmt: skip
def test_words_are_turned_to_the_listener_or_not_at_all(said: str, heard: str | None) -> None:
    assert turned(said) == heard


def test_a_subject_is_turned_by_the_word_before_it() -> None:
    assert turned("you", "of") == "me"
    assert turned("me", "about") == "you"


def test_no_turned_words_are_broken() -> None:
    rng = random.Random(12)
    words = [
        "I",
        "you",
        "me",
        "my",
        "your",
        "am",
        "are",
        "was",
        "were",
        "is",
        "and",
        "of",
        "with",
        "to",
        "that",
        "think",
        "know",
        "like",
        "happy",
        "all",
        "really",
        "not",
        "if",
        "the",
    ]
    broken = re.compile(r"\b(?:of I|with I|to I|are I|I are|am you|you am|you was)\b")
    for _ in range(20_000):
        heard = turned(" ".join(rng.choices(words, k=rng.randint(1, 7))))
        assert heard is None or not broken.search(heard), heard
