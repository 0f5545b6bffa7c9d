"""Clean the words and the emoji of an answer before they are posted.

Models copy the form of what they read: marks of messages (`[msg:123 3h ago] Grok: …`, agentic/context/render.py),
notes of reactions, pictures and changes, lines of tools, their own name before their words. Where one emoji is asked
for they write names, several, or words. Some write reasoning in marks, also inside of the requested form. Tables become
bullets (tables.py).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from agentic.chat.emoji import reaction_emoji
from agentic.llm.markup import MAX_ROUNDS, NOTHING_KNOWN, KnownSources, strip_additions, strip_reasoning
from agentic.turn.model_artifacts import begins_a_form, without_echoes, without_machinery
from agentic.turn.tables import without_tables

MAX_WORDS = 64_000  # characters; nobody posts more

_MARK = r"\[msg:\s*\d{1,20}[^\]\n]{0,120}\]"
_NAME = r"[^\s:\[\]()]+(?: [^\s:\[\]()]+){0,2}(?: \([^()\n]{1,60}\)){0,2}"  # as render.py writes a speaker
_MARK_AND_NAME = re.compile(rf"^[ \t]*{_MARK}[ \t]*(?:{_NAME}:(?:[ \t]+|$))?", re.MULTILINE)
_FIRST_MARK = re.compile(rf"\A{_MARK}[ \t]*")
_LABEL = re.compile(rf"{_NAME}:\s")
_MARK_INSIDE = re.compile(rf"[ \t]?{_MARK}")
_NOTES = re.compile(
    r"[ \t]{0,8}\[(?:reactions: [^\]\n]{0,400}|posted image: (?:(?!\[posted image: )[^\n→]){0,2000}+→[^\]\n]{0,600})\]"
)
# A note or a tool's line is removed with its mark and its further, indented lines.
_CHANGES = r"\[note:[^\]\n]{1,200}?(?:now (?:reads|has)|changed a message[^\]\n]{0,40})\]"
_COPIED_LINES = re.compile(rf"^(?:{_CHANGES}|\[(?:tool|system)\])[^\n]*(?:\n {{2}}[^\n]*)*\n?", re.MULTILINE)
_UNSEEN = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CUSTOM_EMOJI = re.compile(r"<a?:\w{2,32}:\d{15,20}>")


def clean_text(
    text: str | None,
    names: Collection[str] = (),
    prompt: Collection[str] = (),
    known: KnownSources = NOTHING_KNOWN,
) -> str | None:
    """The words that may be posted, or None when none are left.

    `names` are the agent's own, `prompt` the lines of the prompt (model_artifacts.lines_of_prompt). `known`: the
    sources that citation marks and pictures by address may become links to.
    """
    if text is None:
        return None
    text = text[:MAX_WORDS]
    for _ in range(MAX_ROUNDS):  # a removal may join the halves of another mark
        cleaned = _cleaned_once(text, names, prompt, known)
        if cleaned is None or cleaned == text:
            return cleaned
        text = cleaned
    return None  # no model writes such a text


def clean_prose(
    text: str,
    names: Collection[str] = (),
    prompt: Collection[str] = (),
    known: KnownSources = NOTHING_KNOWN,
) -> str | None:
    """The words of an answer without the requested form; None where it holds anything but words.

    Reasoning in marks, the agent's own mark and name before it, and citation marks are removed as always.
    """
    answer = strip_additions(strip_reasoning(text[:MAX_WORDS]), known=known)
    marked = _CONTROL.sub("", answer.replace("\r\n", "\n")).strip()
    named = _FIRST_MARK.sub("", marked)
    words = _without_name(named, names).strip()
    if not words or (named != marked and words == named and _LABEL.match(words)):  # as somebody else
        return None
    words = without_tables(words)
    return words if not begins_a_form(words) and clean_text(words, names, prompt, known) == words else None


def _cleaned_once(text: str, names: Collection[str], prompt: Collection[str], known: KnownSources) -> str | None:
    text = _CONTROL.sub("", text.replace("\r\n", "\n"))
    text = without_echoes(without_machinery(text, known), prompt)
    for pattern in (_COPIED_LINES, _MARK_AND_NAME, _NOTES, _MARK_INSIDE):
        text = pattern.sub("", text)
    text = without_tables(_without_name(text.strip(), names)).strip()
    return text if any(_is_seen(char) for char in text) else None


def _is_seen(char: str) -> bool:
    return unicodedata.category(char) not in _UNSEEN and char not in _BLANK_LETTERS


def _without_name(text: str, names: Collection[str]) -> str:
    """`**Claude:** Hello` → `Hello`; the name stays where nothing follows it."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    if not known:
        return text
    stars = r"[*_]{0,3}"
    prefix = rf"\A(?:{stars}(?:{known})(?: \(you\))?{stars}:{stars}\s+)+"
    return re.sub(prefix, "", text, flags=re.IGNORECASE)


def clean_emoji(text: str | None) -> str | None:
    """Return one emoji as services take it for a reaction, or None.

    A custom emoji stays `<:name:id>`. Of several emoji the first one is used. A known `:shortcode:` becomes its emoji.
    An emoji among words gives None.
    """
    text = (text or "").strip()
    return text if _CUSTOM_EMOJI.fullmatch(text) else reaction_emoji(text)
