"""Which messages are not for bots: told by their own words, before anybody's reaction."""

from __future__ import annotations

import re

HIDE_MARKS = ("🙃", "🫥")

_ADDRESSED = re.compile(r"(?:\s*<@[!&]?\d{1,20}>)*\s*")


def hidden_by_text(content: str) -> bool:
    """Whether a message as Discord has it (mentions as `<@1>`) is hidden from bots by how it begins.

    Behind leading mentions: a period, but not two (people write `..` and `...`); a hide mark; or `m `, a command.
    """
    begun = _ADDRESSED.match(content)
    words = content[begun.end() :] if begun else content
    if words.startswith("."):
        return not words.startswith("..")
    return words.startswith((*HIDE_MARKS, "m "))
