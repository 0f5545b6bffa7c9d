"""Texts that compress about as English chat does, to a third: a repeated sentence would show no true size."""

from __future__ import annotations

import random

VOCABULARY = 3000  # words
LETTERS = "etaoinshrdlucmfwypvbgk"


class Chat:
    """Makes texts. The same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._words = ["".join(self._rng.choices(LETTERS, k=self._rng.randint(2, 9))) for _ in range(VOCABULARY)]
        self._weights = [1 / (rank + 8) for rank in range(VOCABULARY)]

    def text(self, characters: int) -> str:
        return " ".join(self._rng.choices(self._words, self._weights, k=max(1, characters // 5)))[:characters]
