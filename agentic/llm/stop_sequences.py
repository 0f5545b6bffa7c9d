"""Stop sequences on our side: where an answer ends, and how much of a growing one may be shown.

A provider takes few stop sequences or none, and a model may write one that was not sent. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def for_request(stops: Sequence[str], most: int) -> list[str]:
    """Return the first `most` that a provider accepts: no duplicates, none of mere whitespace."""
    return list(dict.fromkeys(stop for stop in stops if stop.strip()))[:most]


def cut(text: str, stops: Sequence[str]) -> str:
    """Cut the text at the stop sequence that begins first."""
    found = [at for at in (text.find(stop) for stop in stops if stop) if at >= 0]
    return text[: min(found)] if found else text


def settled(text: str, stops: Sequence[str]) -> str:
    """Return the part of a growing text that can no longer turn out to belong to a stop sequence."""
    ends = (_beginning(text, stop) for stop in stops if stop)
    return text[: min(ends, default=len(text))][: len(cut(text, stops))]


def _beginning(text: str, stop: str) -> int:
    """Return where a stop sequence may have begun at the end of the text, or the text's length."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return len(text) - size
    return len(text)


def until_stop(on_text: Callable[[str], None] | None, stops: Sequence[str]) -> Callable[[str], None] | None:
    """Wrap a listener of a growing text so that it gets nothing from a stop sequence on."""
    if on_text is None or not stops:
        return on_text
    return lambda text: on_text(settled(text, stops))
