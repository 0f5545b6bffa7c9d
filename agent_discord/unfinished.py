"""The mark at the end of a post that still grows: by it a run after a crash knows what to go on with, and until it is
gone nobody's context shows the half of an answer."""

from __future__ import annotations

UNFINISHED = " ▌"


def unfinished(text: str) -> bool:
    """Whether a message of ours was left while it grew."""
    return text.rstrip().endswith(UNFINISHED.strip())


def without_mark(text: str) -> str:
    """A finished text that ends as an unfinished one would be taken for it."""
    return text.rstrip(f"{UNFINISHED}\n") if unfinished(text) else text
