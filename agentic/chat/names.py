"""Names in a transcript.

Strangers choose them: before a model sees one, all is removed that could imitate the form of a transcript
(`[msg:1 …] Name: `), hide text or turn it around.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

MAX_NAME = 32  # characters
NOBODY = "someone"

_STRUCTURE = frozenset(
    ":：꞉˸∶︓﹕\u0589\u05c3\u0703\u1803\ua4fd\u205a\u2982@`\\<>[]{}()＜＞［］｛｝（）【】「」〔〕⟦⟧⟨⟩⁅⁆〈〉《》"
)
BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_SPACES = frozenset({"Zs", "Zl", "Zp"})
_MARKS_IN_A_ROW = 2  # more of them write over the neighbouring lines
_SENTENCE_ENDS = re.compile(r"[ \t]*+(?:[,.;:!?\n]|\Z)")


def _is_form(char: str) -> bool:
    """Whether the character is structure, also in another shape: superscript parentheses, a small colon."""
    return char in _STRUCTURE or (char > "\x7f" and not _STRUCTURE.isdisjoint(unicodedata.normalize("NFKC", char)))


@lru_cache(maxsize=4096)
def clean_name(name: str) -> str:
    """A name that is harmless in a transcript: one line of at most 32 characters, never empty.

    Colons, brackets, `@`, backticks and backslashes become spaces; control, bidirectional and invisible characters go,
    and so do piles of combining marks.
    """
    kept: list[str] = []
    marks = 0
    for char in name[: 8 * MAX_NAME]:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if _is_form(char) or char in BLANK_LETTERS or category in _SPACES or char in "\n\r\t\v\f":
            kept.append(" ")
        elif category not in _INVISIBLE and marks <= _MARKS_IN_A_ROW:
            kept.append(char)
    return " ".join("".join(kept).split())[:MAX_NAME].strip() or NOBODY


def strip_mention(text: str, mentions: Iterable[str]) -> str:
    """The text without these mentions, with no gap where they were, and trimmed.

    A mention is `<@1>` as Discord sends it, or `@Claude` as the transcript has it.
    """
    mention = "|".join(re.escape(one) + ("" if one.endswith(">") else r"(?!\w)") for one in mentions)
    text = re.sub(rf"\A\s*(?:(?:{mention})[ \t]*)+[,:]?(?=\s|\Z)", "", text)
    run = re.compile(rf"(?:(?<![ \t])[ \t]++)?(?:{mention})(?:[ \t]*+(?:{mention}))*+")
    text = run.sub(lambda found: "" if _SENTENCE_ENDS.match(found.string, found.end()) else found[0], text)
    return re.sub(rf"(?:{mention})[ \t]*", "", text).strip()
