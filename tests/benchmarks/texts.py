"""Texts of messages: chat that compresses as English does, and tags. A mention carries a tag, which the model's answer
repeats, so that each answer finds its mention."""

from __future__ import annotations

import random
import re

VOCABULARY = 3000  # words
LETTERS = "etaoinshrdlucmfwypvbgk"
_TAG = re.compile(r"\bbench-(\d+)\b")


def tagged(tag: int) -> str:
    return f"bench-{tag}"


def tag_in(text: str) -> int | None:
    """The last tag in the text."""
    found = _TAG.findall(text)
    return int(found[-1]) if found else None


class Chat:
    """Makes texts that compress to about a third; a repeated sentence would show no true size. The same seed gives the
    same texts."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._words = ["".join(self._rng.choices(LETTERS, k=self._rng.randint(2, 9))) for _ in range(VOCABULARY)]
        self._weights = [1 / (rank + 8) for rank in range(VOCABULARY)]

    def text(self, characters: int) -> str:
        return " ".join(self._rng.choices(self._words, self._weights, k=max(1, characters // 5)))[:characters]
