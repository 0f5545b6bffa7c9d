"""Stage 3: which messages bots see.

A message is hidden by its own text (hiding.py), or by a person's 🙃 or 🫥 reaction, also on bots' messages. A person's
👁️‍🗨️ shows it again, except for an `m ` command. Bots' reactions do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentic.context.entries import Entry
from agentic.context.hiding import HIDE_MARKS

SHOW_MARK = "👁\u200d🗨"  # as Discord tells it, with or without the variation selectors
_SELECTOR = "\ufe0f"

_SHOWN_M_COMMAND = re.compile(r"\A\s*(?:@[^\n]{0,200}?\s)?(?:m[ \t]+\w|M[ \t]+(?i:continue|context)\b)")


def is_mark(emoji: str) -> bool:
    """Whether a person's reaction with this emoji hides or shows a message."""
    return emoji.replace(_SELECTOR, "") in (*HIDE_MARKS, SHOW_MARK)


def is_visible(entry: Entry) -> bool:
    """Whether bots see a message, by its text and reactions."""
    if not entry.reactions:
        return not entry.hidden
    marks = {reaction.emoji.replace(_SELECTOR, "") for reaction in entry.reactions if reaction.by_person}
    if SHOW_MARK in marks:
        return not (entry.hidden and _SHOWN_M_COMMAND.match(entry.text))
    return not entry.hidden and marks.isdisjoint(HIDE_MARKS)


def visible(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that bots see."""
    return [entry for entry in entries if (is_visible(entry) if entry.reactions else not entry.hidden)]
