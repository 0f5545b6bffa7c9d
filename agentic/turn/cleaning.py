"""Clean the text and the emoji of an answer before they are posted.

Models copy the form of the transcript: marks of messages (`[msg:123 3h ago] Grok: …`, agentic/context/render.py), notes
about reactions and pictures, lines of tools, and their own name before their text. They call tools that they don't
have, and write marks of their chat format, words for silence, lines of their prompt, and reasoning in marks.

Markdown tables become bullets, since chat services show their source:

    | City | Rain |          - City: Oslo · Rain: 3 mm
    | ---- | ---: |    →     - City: Rome · Rain: none
    | Oslo | 3 mm |
    | Rome | none |

A table is a line of cells, a line of dashes, and further lines of cells. Models write ragged tables: a cell without a
heading gets no label, and a heading without a cell is left out. Code blocks stay as they are. Formulas become code
(agentic/turn/formulas.py).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Sequence

from agentic.chat.directory import BLANK_LETTERS
from agentic.chat.emoji import reaction_emoji
from agentic.llm.markup import MAX_ROUNDS, NOTHING_KNOWN, KnownSources, strip_additions, strip_markup, strip_reasoning
from agentic.turn.form import FIELDS
from agentic.turn.formulas import formulas_as_code

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
# A note or a tool's line is removed with its mark and its indented lines.
_CHANGES = r"\[note:[^\]\n]{1,200}?(?:now (?:reads|has)|changed a message[^\]\n]{0,40})\]"
_COPIED_LINES = re.compile(rf"^(?:{_CHANGES}|\[(?:tool|system)\])[^\n]*(?:\n {{2}}[^\n]*)*\n?", re.MULTILINE)
_UNSEEN = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CUSTOM_EMOJI = re.compile(r"<a?:\w{2,32}:\d{15,20}>")


def clean_text(
    text: str | None, names: Collection[str] = (), prompt: Collection[str] = (), known: KnownSources = NOTHING_KNOWN
) -> str | None:
    """Return the text that may be posted, or None if nothing is left. `names` are the agent's own, `prompt` has the
    lines of the prompt (`lines_of_prompt`). Citation marks and pictures may become links to the `known` sources."""
    if text is None:
        return None
    text = text[:MAX_WORDS]
    for _ in range(MAX_ROUNDS):  # removing a mark may join the halves of another
        cleaned = without_machinery(_CONTROL.sub("", text.replace("\r\n", "\n")), known)
        cleaned = without_echoes(cleaned, prompt)
        for pattern in (_COPIED_LINES, _MARK_AND_NAME, _NOTES, _MARK_INSIDE):
            cleaned = pattern.sub("", cleaned)
        cleaned = formulas_as_code(without_tables(_without_name(cleaned.strip(), names))).strip()
        if all(unicodedata.category(char) in _UNSEEN or char in BLANK_LETTERS for char in cleaned):
            return None
        if cleaned == text:
            return cleaned
        text = cleaned
    return None  # no model writes such a text


def clean_prose(
    text: str, names: Collection[str] = (), prompt: Collection[str] = (), known: KnownSources = NOTHING_KNOWN
) -> str | None:
    """Return the text of an answer without the requested form; None if it has anything but text. Marked reasoning, the
    agent's own mark and name at the beginning, and citation marks are removed as always."""
    answer = strip_additions(strip_reasoning(text[:MAX_WORDS]), known=known)
    marked = _CONTROL.sub("", answer.replace("\r\n", "\n")).strip()
    named = _FIRST_MARK.sub("", marked)
    words = _without_name(named, names).strip()
    if not words or (named != marked and words == named and _LABEL.match(words)):  # as somebody else
        return None
    words = formulas_as_code(without_tables(words)).strip()
    return words if not begins_a_form(words) and clean_text(words, names, prompt, known) == words else None


def _without_name(text: str, names: Collection[str]) -> str:
    """`**Claude:** Hello` → `Hello`; the name stays if nothing follows it."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    if not known:
        return text
    stars = r"[*_]{0,3}"
    prefix = rf"\A(?:{stars}(?:{known})(?: \(you\))?{stars}:{stars}\s+)+"
    return re.sub(prefix, "", text, flags=re.IGNORECASE)


def clean_emoji(text: str | None) -> str | None:
    """Return the first emoji in a form that services accept as a reaction; None if there is none, or it's among words.
    A custom emoji stays `<:name:id>`, and a known `:shortcode:` becomes its emoji."""
    text = (text or "").strip()
    return text if _CUSTOM_EMOJI.fullmatch(text) else reaction_emoji(text)


# -- tool calls, the form, the prompt ----------------------------------------------------------------------------------

MIN_ECHO = 25  # characters; people may write shorter sentences of the prompt, too

_SILENCE = re.compile(
    r"[\[(<*_`\s]*(?:PASS|SKIP|SILENT|SILENCE|NO[_ ]?(?:REPLY|RESPONSE))[\])>*_`/.!\s]*"
    r"|[*_`]*[\[(<]\s*(?i:pass|skip(?:s|ped)?|silent|silence|stays? silent|no[_ ]?(?:reply|response))\s*/?[\])>][*_`.]*"
)
_FENCE = re.compile(r"```\w{0,20}")
_PYTHONIC_CALL = re.compile(r"\[[a-z_][\w.]{0,63}\((?:[a-z_]\w{0,63}=|\)).*\)\]\Z", re.DOTALL | re.IGNORECASE)
_CALLED = frozenset({"name", "tool", "tool_name", "function", "recipient_name"})
_GIVEN = frozenset({"arguments", "args", "parameters", "input", "tool_input", "query"})
_decoder = json.JSONDecoder()
_SENTENCES = re.compile(r"(?<=[.!?])\s+")
# The beginning of the form: an object, or fields without an object. Code blocks other than JSON are text.
_CODE = re.compile(r"```(?!json)\w{0,20}\n(?!\s*+[{\[]).*?```", re.DOTALL | re.IGNORECASE)
_OBJECT = re.compile(
    r"""\{\s*+(?:["'“”‘’`}]|[\w-]*+\s*+(?::|\Z))|\A\s*+\[\s*+(?:["'“‘\[{\d]|\Z)|```json""", re.IGNORECASE
)
_NAMES = "|".join(field.name for field in FIELDS if "_" in field.name)
_WORDS = "|".join(field.name for field in FIELDS if "_" not in field.name and field.where != "rooms")
_FIELDS = re.compile(
    rf"""\b(?:{_NAMES})\b"""
    rf"""|^[ \t>*_-]*+["'“‘`]?(?:{_WORDS})["'”’`]?[*_]*+\s*+:|["'“‘`](?:skip|text)["'”’`]\s*+:""",
    re.IGNORECASE | re.MULTILINE,
)
_NOTHING = frozenset({"", "null", "none", "undefined", "true", "false"})


def begins_a_form(text: str) -> bool:
    """Return whether an unreadable text looks like a decision or another object, so it isn't meant for people."""
    words = _CODE.sub("", text)
    return bool(_OBJECT.search(words) or _FIELDS.search(text)) or text.strip().lower() in _NOTHING


def without_machinery(text: str, known: KnownSources = NOTHING_KNOWN) -> str:
    """Remove a model's marks (agentic/llm/markup.py). Return "" if the whole text is a call, or a word for silence."""
    text = strip_markup(text, known=known)
    return "" if _SILENCE.fullmatch(text.strip()) or _is_call(unfenced(text)) else text


def unfenced(text: str) -> str:
    """Return the content of a code block if the text is nothing else; otherwise the text."""
    stripped = text.strip()
    fence = _FENCE.match(stripped)
    content = stripped[fence.end() :].removesuffix("```").strip() if fence else stripped
    return stripped if "```" in content else content


def lines_of_prompt(text: str) -> frozenset[str]:
    """Return the lines and sentences at the margin of a prompt, where only the program writes."""
    at_margin = [line.strip() for line in text.splitlines() if line[:1].strip()]
    sentences = (sentence for line in at_margin for sentence in _SENTENCES.split(line))
    return frozenset(part for part in (*at_margin, *sentences) if len(part) >= MIN_ECHO)


def without_echoes(text: str, prompt: Collection[str]) -> str:
    """Remove the prompt's lines (see `lines_of_prompt`)."""
    if not prompt:
        return text
    return "\n".join(line for line in text.split("\n") if line.strip(" \t>*_-`#") not in prompt)


def _is_call(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    if _PYTHONIC_CALL.match(text):  # Llama, LFM
        return True
    calls: list[object] = []
    while text:
        try:
            read, end = _decoder.raw_decode(text)
        except (ValueError, RecursionError):
            return False
        calls += read if isinstance(read, list) else [read]
        text = text[end:].lstrip("; \n")
    for call in calls:
        if not isinstance(call, dict):
            return False
        is_wrapped = call.get("type") == "function" and isinstance(call.get("function"), dict)
        if not (call.keys() == {"tool_calls"} or is_wrapped or (call.keys() & _CALLED and call.keys() & _GIVEN)):
            return False
    return bool(calls)


# -- tables ------------------------------------------------------------------------------------------------------------

_LEAD = " \t>"  # a table in a quotation keeps its mark
_DASHES = re.compile(r"[ \t]*:?-+:?[ \t]*")
_BAR = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def without_tables(text: str) -> str:
    """Turn each table into bullets."""
    if "|" not in text or "-" not in text:
        return text
    lines = text.split("\n")
    in_code, found, place = _in_code(lines), list[str](), 0
    while place < len(lines):
        end = place
        if not _is_dashes(lines[place]):
            while end < len(lines) and not in_code[end] and _BAR.search(lines[end]):
                end += 1
        if end > place + 1 and _is_dashes(lines[place + 1]):
            found += _bullets(lines[place:end])
            place = end
        else:
            found.append(lines[place])
            place += 1
    return "\n".join(found)


def settled_lines(text: str) -> str:
    """Return the part of a growing text that can't become a part of a table. Held back are the unfinished line if it
    may be a row, a line of cells that a line of dashes may follow, and the headings of a table without rows."""
    lines = text.split("\n")
    in_code = _in_code(lines)
    if in_code[-1]:
        return text
    end = len(lines) - 1
    begins_a_row = _BAR.search(lines[end]) or not lines[end].strip(" \t>:-")
    if not begins_a_row:
        return text
    first = end
    while first and not in_code[first - 1] and _BAR.search(lines[first - 1]):
        first -= 1
    dashes = next((place for place in range(first + 1, end) if _is_dashes(lines[place])), end)
    whole = end if dashes < end - 1 else max(first, dashes - 1)
    return text if whole == end and not lines[end] else "\n".join(lines[:whole])


def _bullets(lines: Sequence[str]) -> list[str]:
    headings, *rows = [_cells(line) for line in lines if not _is_dashes(line)]
    if not rows:
        headings, rows = [], [headings]
    bullets, lead = [], lines[0][: len(lines[0]) - len(lines[0].lstrip(_LEAD))]
    for row in rows:
        labels = [heading.strip("*_: ") for heading in headings] + [""] * len(row)
        alone = len(headings) < 2 or len(row) < 2
        pairs = zip(labels, row, strict=False)
        said = " · ".join(cell if alone or not label else f"{label}: {cell}" for label, cell in pairs if cell)
        if said:
            bullets.append(f"{lead}- {said}")
    return bullets


def _cells(line: str) -> list[str]:
    cells = _BAR.split(line.lstrip(_LEAD).strip())
    if cells and not cells[0].strip():
        del cells[0]
    if cells and not cells[-1].strip():
        del cells[-1]
    return [" ".join(_BREAK.sub(" ", cell.replace("\\|", "|")).split()) for cell in cells]


def _is_dashes(line: str) -> bool:
    """Return whether the line separates headings from rows: dashes, perhaps with marks of alignment."""
    parts = _BAR.split(line.lstrip(_LEAD).strip())
    return len(parts) > 1 and any(parts) and all(_DASHES.fullmatch(part) for part in parts if part.strip())


def _in_code(lines: Sequence[str]) -> list[bool]:
    """Return for each line whether it's in a code block, or begins or ends it."""
    found, inside = [], False
    for line in lines:
        fences = line.count("```")
        found.append(inside or fences > 0)
        inside ^= fences % 2 == 1
    return found
