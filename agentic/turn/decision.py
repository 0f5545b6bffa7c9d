"""Parse a model's answer into the agent's decision (form.py has its fields).

Text outside the form may be reasoning, a refusal, or a leaked prompt, so it's never posted. An answer without the form
isn't a decision, but if a person waits, its text is the answer, since small models often write nothing else. Marked
reasoning around the form is ignored. The first object that is a decision is used.

An answer that was cut off keeps its complete fields. A cut text of CUT_TEXT_MIN characters or more is kept up to its
last whole sentence, or with "…" if that would lose more than half. Any other cut value is dropped, since half a picture
prompt or half an id means something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from agentic.context.prefill_layout import cut_at_other_speaker
from agentic.ids import MAX_ID
from agentic.llm.markup import NOTHING_KNOWN, KnownSources, strip_reasoning
from agentic.text import says_again, tokens, unquoted
from agentic.turn.cleaning import clean_emoji, clean_prose, clean_text, unfenced
from agentic.turn.form import FIELDS, MAX_LINE, Decision, Kind, is_placeholder
from agentic.turn.loose_json import MAX_CHARS, CutString, join_surrogates, objects, unescape

CUT_TEXT_MIN = 40  # characters
MIN_COPIED = 4  # words
LAST_WORD = "I'm leaving this room."  # posted if an agent leaves without a word
MAX_EXACT_FLOAT = 2**53  # beyond it neighboring ids are the same float

_TRUE = frozenset({"true", "yes", "y", "1", "on"})
_FALSE = frozenset({"false", "no", "n", "0", "off", "null", "none", ""})
_ID = re.compile(r"\[?(?:msg:)?\s*(\d{1,20})\]?")
_ENDED = re.compile(r"[.!?…][\"'”’)*_]*\Z")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)*_]*(?=\s)|\n")


class UnreadableDecision(Exception):
    """An answer has no decision. `reason` is a short line without any of the answer's words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_decision(raw: str) -> Decision:
    """Return the first decision in the first 64,000 characters of an answer, before the turn's rules are applied.
    Raises UnreadableDecision."""
    text = strip_reasoning(raw[:MAX_CHARS]).strip()
    if not text:
        raise UnreadableDecision("empty")
    decision = _first_decision(text)
    if decision is None and "\\" in text:
        decision = _first_decision(unescape(text))  # an object inside a JSON string
    if decision is None:
        raise UnreadableDecision("no decision in the answer" if "{" in text else "no JSON object")
    return _unwrap_nested(decision)


def decision_of(fields: Mapping[str, object]) -> Decision:
    return _unwrap_nested(Decision(**_known(fields)))


def decision_from_prose(
    raw: str,
    names: Collection[str] = (),
    prompt: Collection[str] = (),
    *,
    cut: bool = False,
    known: KnownSources = NOTHING_KNOWN,
) -> Decision | None:
    """Return the decision to post a plain-text answer; None if it has a part of the form or other artifacts of a model.
    `names` and `prompt`: see `apply_turn_rules`. `cut`: the answer reached the length limit."""
    text = strip_reasoning(raw[:MAX_CHARS]).strip()
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    words = clean_prose(read if isinstance(read, str) else text, names, prompt, known)
    said = whole_part(words) if words is not None and cut else words
    return Decision(text=said) if said is not None else None


def apply_turn_rules(
    decision: Decision,
    *,
    forced: bool,
    always_draw: bool,
    can_draw: bool,
    names: Collection[str] = (),
    others: Collection[str] = (),
    heard: Collection[str] = (),
    not_again: Collection[str] = (),
    prompt: Collection[str] = (),
    may_leave: bool = False,
    names_next: bool = False,
    known: KnownSources = NOTHING_KNOWN,
) -> Decision:
    """Apply the turn's rules to a decision.

    `forced`: a person waits, so the answer needs text or a picture. `always_draw`: every post of the theme has a
    picture. `names`: the agent's own, removed from the beginning of the text. `others`: the other agents', removed too;
    if one of them speaks on a further line, the text ends before it. `heard`: messages that must not be posted again,
    `not_again`: not even in similar words. `prompt`: its lines, which must not be posted. `may_leave`: the turn is in a
    room; an agent that leaves it says a last word, even with `skip`. `names_next`: the agent may name the next speaker.
    `known`: the sources that it may link to. Raises UnreadableDecision if a forced turn has neither text nor a picture,
    or if the text repeats a message.
    """
    leaves = may_leave and decision.leave
    if decision.skip and not (forced or leaves):
        return Decision(skip=True)
    text = clean_text(decision.text, (*names, *others), prompt, known)
    text = (cut_at_other_speaker(text, others) if text else None) or (LAST_WORD if leaves else None)
    if text and (is_copy(text, heard) or says_again(text, not_again)):
        raise UnreadableDecision("it repeats a message")
    image_prompt = None
    if can_draw and (decision.generate_image or always_draw):
        image_prompt = clean_text(decision.image_prompt) or text  # a picture needs something to show
    if forced and not (text or image_prompt):
        raise UnreadableDecision("empty")
    emoji = None if decision.skip else clean_emoji(decision.react_emoji)
    return replace(
        decision,
        skip=False,
        text=text,
        generate_image=image_prompt is not None,
        image_prompt=image_prompt,
        react_emoji=emoji,
        react_to_message_id=decision.react_to_message_id if emoji else None,
        end_conversation=decision.end_conversation and not decision.skip,
        topic=unquoted(clean_text(decision.topic, (), prompt) or "") or None,
        leave=leaves,
        next_speaker=decision.next_speaker if names_next else None,
    )


def is_copy(text: str, heard: Collection[str]) -> bool:
    """Whether the text has the same words as one of these messages. A few words may be said twice."""
    words = tokens(text)
    return len(words) >= MIN_COPIED and any(words == tokens(other) for other in heard)


def _unwrap_nested(decision: Decision) -> Decision:
    """If a decision's text is another decision, return that one, so the form isn't posted."""
    text = unfenced(decision.text or "")
    inner = next(objects(text), None) if text.startswith("{") else None
    fields = _known(inner[0]) if inner is not None else {}
    return Decision(**fields) if {"skip", "text"} <= fields.keys() else decision


def _first_decision(text: str) -> Decision | None:
    # Most answers are a single object, which the json module reads much faster.
    try:
        read = json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity become None
    except (ValueError, RecursionError):
        read = None
    fields = _known(read) if isinstance(read, dict) else {}
    if "skip" in fields:
        return Decision(**fields)
    for found, is_inner in objects(text):
        fields = _known(found)
        # An object inside another, such as a tool's arguments, is a decision only if it has several fields.
        if "skip" in fields or len(fields) > is_inner:
            return Decision(**fields)
    return None


# -- reading the fields -----------------------------------------------------------------------------------------------

_UNUSABLE = object()


def _known(raw: Mapping[str, object]) -> dict[str, Any]:
    """Return the decision's fields in `raw`, with their own names and types, without unusable values."""
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        field = _KNOWN.get(_letters(key))
        if field is None:
            continue
        if isinstance(value, list) and value and field.kind != "text":
            value = value[0]
        usable = _READERS[field.kind](value)
        if usable is not _UNUSABLE:
            fields[field.name] = usable
    return fields


def _letters(key: str) -> str:
    return re.sub(r"[\W_]", "", key).lower()


def _read_bool(value: object) -> object:
    if value is None:
        return False
    if isinstance(value, int | float):
        return bool(value)
    lowered = value.strip().lower() if isinstance(value, str) else "?"
    return True if lowered in _TRUE else False if lowered in _FALSE else _UNUSABLE


def _read_text(value: object) -> object:
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        value = "\n\n".join(value) if len(value) > 1 else value[0]
    if isinstance(value, CutString):
        return whole_part(value) or _UNUSABLE
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return _read_string(value)


def _read_string(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, str) or isinstance(value, CutString):
        return _UNUSABLE
    return None if is_placeholder(value) else join_surrogates(value)


def _read_id(value: object) -> object:
    if isinstance(value, bool | CutString):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT_FLOAT:
        value = int(value)
    if isinstance(value, str):
        match = _ID.fullmatch(value.strip())
        value = int(match[1]) if match else None
    return value if isinstance(value, int) and 0 < value <= MAX_ID else None


def _read_line(value: object) -> object:
    line = _read_string(value)
    return " ".join(line.split())[:MAX_LINE] if isinstance(line, str) else line


def whole_part(text: str) -> str | None:
    """Return the part of a cut text that can be posted."""
    text = text.strip()
    if len(text) < CUT_TEXT_MIN:
        return None
    if _ENDED.search(text):
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    if ends and ends[-1] * 2 >= len(text):
        return text[: ends[-1]].rstrip()
    return text.rsplit(None, 1)[0] + " …"


_READERS: Mapping[Kind, Callable[[object], object]] = {
    "flag": _read_bool,
    "text": _read_text,
    "string": _read_string,
    "line": _read_line,
    "id": _read_id,
}
_KNOWN = {_letters(field.name): field for field in FIELDS}
