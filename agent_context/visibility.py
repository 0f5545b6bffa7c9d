"""Stage 3: which messages bots see.

Hidden is what begins with a period once mentions are taken away (`..` and `...` are not: people write them), what
begins with 🙃 or 🫥 or bears one of them as a reaction, and every `m ` command; the bots' own messages too. 👁️‍🗨️ as
a reaction shows a hidden message again, but never an `m ` command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_context.entries import Entry

HIDE_MARKS = ("🙃", "🫥")
SHOW_MARK = "👁\u200d🗨"  # as Discord tells it, with or without the variation selectors
_SELECTOR = "\ufe0f"

_MENTIONS = re.compile(r"\A(?:\s*<(?:@[!&]?|#)\d{1,20}>[ \t]*[,:]?)*\s*")
_M_COMMAND = re.compile(r"m[ \t]+\w|M[ \t]+(?i:continue|context)\b")
_SHOWN_M_COMMAND = re.compile(r"\A\s*(?:@[^\n]{0,200}?\s)?(?:m[ \t]+\w|M[ \t]+(?i:continue|context)\b)")


def hidden_by_text(raw: str) -> bool:
    """Whether a message hides itself; `raw` is its content as Discord sends it, mentions as `<@1>`."""
    if _begins_plainly(raw):
        return False
    text = _MENTIONS.sub("", raw, count=1)
    if text.startswith(".") and not text.startswith(".."):
        return True
    return text.startswith(HIDE_MARKS) or _M_COMMAND.match(text) is not None


def _begins_plainly(text: str) -> bool:
    """As most messages do: with a letter or digit, and not that of a command."""
    return text[:1].isalnum() and text[0] not in "mM"


def is_visible(entry: Entry) -> bool:
    """Whether bots see a message, by its text and its reactions.

    `Entry.hidden` knows the raw content; the text is looked at as well, since an edit hides at once.
    """
    if not (entry.reactions or entry.hidden) and _begins_plainly(entry.text):
        return True
    hidden = entry.hidden or hidden_by_text(entry.text)
    if not entry.reactions:
        return not hidden
    marks = {reaction.emoji.replace(_SELECTOR, "") for reaction in entry.reactions}
    if SHOW_MARK in marks:
        return not (hidden and _SHOWN_M_COMMAND.match(entry.text))
    return not hidden and marks.isdisjoint(HIDE_MARKS)


def visible(entries: Iterable[Entry]) -> list[Entry]:
    """Those of `entries` that bots see."""
    return [entry for entry in entries if is_visible(entry)]
