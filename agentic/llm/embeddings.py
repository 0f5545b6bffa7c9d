"""Embeddings: texts as vectors, whose angle shows how similar their meanings are.

    embedder = build_model("ollama", model="embeddinggemma", api_key="")
    bees, honey = (await embedder.embed(["bees", "honey"])).vectors

A vector has length 1, so the dot product of two is the cosine of their angle. Pure Python compares a thousand vectors
of 768 numbers in less than a tenth of a second, in a thread. NumPy would save that, and cost 20 MB.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, Protocol, TypeAlias

from agentic.llm.errors import BadAnswer
from agentic.llm.pricing import tokens_of
from agentic.llm.types import Usage

Vector: TypeAlias = "array[float]"  # of 32-bit floats, of length 1

NO_VECTOR: Vector = array("f")  # of a text that the model can't read

MAX_TEXTS = 64  # in a request
MAX_CHARACTERS = 6_000  # of a text: embedding models read 512 to 8,192 tokens, and longer texts get blurry vectors
MAX_NUMBERS = 8_192  # in a vector


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts, in their order, and what they cost."""

    vectors: tuple[Vector, ...]
    usage: Usage
    model: str = ""


class Embedder(Protocol):
    """A model that makes vectors. Retries within `timeout` seconds. Raises only ModelError."""

    @property
    def name(self) -> str:
        """`provider/model`. Vectors of different models can't be compared."""
        ...

    @property
    def free(self) -> bool: ...

    async def embed(self, texts: Sequence[str], *, timeout: float = 30.0) -> Embedded:  # noqa: ASYNC109 - all attempts
        """Return a vector for each text. Long texts are cut."""
        ...

    async def aclose(self) -> None: ...


def texts_of(texts: Sequence[str]) -> list[str]:
    """Prepare texts for sending: cut, and not empty, because servers reject empty texts."""
    if len(texts) > MAX_TEXTS:
        raise ValueError(f"at most {MAX_TEXTS} texts a request")
    return [text[:MAX_CHARACTERS].strip() or "-" for text in texts]


def expected(texts: Sequence[str]) -> Usage:
    """Estimate the usage by the length of the texts."""
    return Usage(calls=1, input_tokens=sum(tokens_of(len(text)) for text in texts_of(texts)))


def vectors_of(lists: Sequence[Any], count: int) -> tuple[Vector, ...]:
    """Return an answer's lists of numbers as vectors. Raises BadAnswer unless there are `count` of the same size."""
    vectors = tuple(map(vector_of, lists))
    if len(vectors) != count or len({len(vector) for vector in vectors}) > 1:
        raise BadAnswer("not a vector for each text")
    return vectors


def vector_of(numbers: object) -> Vector:
    """Return the numbers scaled to length 1. Raises BadAnswer if they are not finite numbers, or all zero."""
    if not isinstance(numbers, Sequence) or not 0 < len(numbers) <= MAX_NUMBERS:
        raise BadAnswer("no vector")
    try:
        length = math.sqrt(sum(map(mul, numbers, numbers)))
        if not 0 < length < math.inf:
            raise BadAnswer("a vector without a length")
        return array("f", [number / length for number in numbers])
    except (TypeError, OverflowError):
        raise BadAnswer("no vector of numbers") from None


def cosine(one: Vector, other: Vector) -> float:
    """Return the similarity of two vectors: 1 for the same direction, 0 for nothing in common or different models."""
    return sum(map(mul, one, other)) if len(one) == len(other) else 0.0


def nearest(
    wanted: Vector, known: Iterable[tuple[int, Vector]], limit: int, least: float = 0.0
) -> list[tuple[int, float]]:
    """Return the ids of the nearest vectors with their cosines, nearest first: at most `limit`, none below `least`."""
    found = [(key, near) for key, vector in known if (near := cosine(wanted, vector)) >= least]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:limit]


def packed(vector: Vector) -> bytes:
    """Return a vector as bytes for a database, little-endian."""
    return _little_endian(vector).tobytes()


def unpacked(stored: bytes) -> Vector:
    """Return the vector in bytes made by `packed`. Raises ValueError for an impossible length."""
    return _little_endian(array("f", stored))


def _little_endian(vector: Vector) -> Vector:
    if sys.byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return vector
