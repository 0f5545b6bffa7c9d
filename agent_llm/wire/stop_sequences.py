"""Stop sequences, on our side: where an answer ends, and how much of a growing one may be shown.

A provider takes few stop sequences or none, and a model may write one that it was not told of. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def for_request(stops: Sequence[str], most: int) -> list[str]:
    """The first `most` of those that a provider accepts: each once, none of mere whitespace."""
    return list(dict.fromkeys(stop for stop in stops if stop.strip()))[:most]


def cut(text: str, stops: Sequence[str]) -> str:
    """The text up to the stop sequence that begins first."""
    found = [at for at in (text.find(stop) for stop in stops if stop) if at >= 0]
    return text[: min(found)] if found else text


def settled(text: str, stops: Sequence[str]) -> str:
    """What of a growing text can no longer turn out to belong to a stop sequence."""
    ends = (_beginning(text, stop) for stop in stops if stop)
    return text[: min(ends, default=len(text))][: len(cut(text, stops))]


def _beginning(text: str, stop: str) -> int:
    """Where a stop sequence may have begun at the end of the text; its length where none has."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return len(text) - size
    return len(text)


def heeding(hear: Callable[[str], None] | None, stops: Sequence[str]) -> Callable[[str], None] | None:
    """The same listener of a growing text, that hears nothing from a stop sequence on."""
    if hear is None or not stops:
        return hear
    listener = hear

    def heed(text: str) -> None:
        listener(settled(text, stops))

    return heed
