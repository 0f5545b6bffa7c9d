"""Stage 3: which messages bots see.

Hidden is what hides itself by its words (hiding.py) and what bears 🙃 or 🫥 as a reaction; the bots' own messages too.
👁️‍🗨️ as a reaction shows a hidden message again, but never an `m ` command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_context.entries import Entry
from agent_context.hiding import HIDE_MARKS

SHOW_MARK = "👁\u200d🗨"  # as Discord tells it, with or without the variation selectors
_SELECTOR = "\ufe0f"

_SHOWN_M_COMMAND = re.compile(r"\A\s*(?:@[^\n]{0,200}?\s)?(?:m[ \t]+\w|M[ \t]+(?i:continue|context)\b)")


def is_visible(entry: Entry) -> bool:
    """Whether bots see a message, by its text and its reactions."""
    if not entry.reactions:
        return not entry.hidden
    marks = {reaction.emoji.replace(_SELECTOR, "") for reaction in entry.reactions}
    if SHOW_MARK in marks:
        return not (entry.hidden and _SHOWN_M_COMMAND.match(entry.text))
    return not entry.hidden and marks.isdisjoint(HIDE_MARKS)


def visible(entries: Iterable[Entry]) -> list[Entry]:
    """Those of `entries` that bots see."""
    return [entry for entry in entries if (is_visible(entry) if entry.reactions else not entry.hidden)]
