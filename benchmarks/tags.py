"""Every mention carries a tag, which the model's answer repeats, so that each answer finds its mention."""

from __future__ import annotations

import re

_TAG = re.compile(r"\bbench-(\d+)\b")


def tagged(tag: int) -> str:
    return f"bench-{tag}"


def tag_in(text: str) -> int | None:
    """The last tag in the text."""
    found = _TAG.findall(text)
    return int(found[-1]) if found else None
