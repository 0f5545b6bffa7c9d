"""Pauses between tries of what fails: doubling, half of each by chance, so that bots do not come all at once."""

from __future__ import annotations

import random
from collections.abc import Iterator

SHORTEST, LONGEST = 1.0, 30.0  # seconds between two tries to reach Discord
STEADY_SECONDS = 60.0  # what has held for so long begins with the shortest pause again


def backoff(rng: random.Random, shortest: float = SHORTEST, longest: float = LONGEST) -> Iterator[float]:
    """Seconds before each further try, never fewer than `shortest` nor more than `longest`."""
    least = shortest
    while True:
        yield rng.uniform(least, min(2 * least, longest))
        least = min(2 * least, longest / 2)
