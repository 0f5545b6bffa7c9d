"""From a model's answer to the agent's decision; the form that is asked for, in words and as a JSON schema.

Text outside of the form may be reasoning, a refusal or a leaked prompt: it is never posted. An answer without any form
is no decision, but if a person waits its words are the answer, since small models often give no other. Reasoning in any
maker's marks around the form is ignored. Of several objects the first one that is a decision counts.

An answer that was cut off keeps its complete fields. A text of CUT_TEXT_MIN characters or more is kept up to its last
whole sentence, or with "…" if that would lose more than half. Any other cut value is dropped: half a picture prompt or
half an id means something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from agentic.chat.outlet import ServiceInfo
from agentic.ids import MAX_ID
from agentic.llm.markup import NOTHING_KNOWN, KnownSources, strip_reasoning
from agentic.llm.types import Source
from agentic.turn.cleaning import clean_emoji, clean_prose, clean_text, unfenced
from agentic.turn.loose_json import MAX_CHARS, CutString, objects, unescape

CUT_TEXT_MIN = 40  # characters
LAST_WORD = "I leave this room here."  # of an agent that leaves without a word
MAX_TOPIC = 200  # characters
MAX_EXACT_FLOAT = 2**53  # beyond it neighboring ids are the same float

_TRUE = frozenset({"true", "yes", "y", "1", "on"})
_FALSE = frozenset({"false", "no", "n", "0", "off", "null", "none", ""})
_ID = re.compile(r"\[?(?:msg:)?\s*(\d{1,20})\]?")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)*_]*(?=\s)|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The actions of a turn. With `skip` no other field counts. A starter sets `topic`, only a room the last two."""

    skip: bool = False
    text: str | None = None
    generate_image: bool = False
    image_prompt: str | None = None
    react_emoji: str | None = None
    react_to_message_id: int | None = None
    end_conversation: bool = False
    topic: str | None = None
    leave: bool = False
    next_speaker: str | None = None  # a shown name
    sources: tuple[Source, ...] = ()  # web pages that the words rest on; no part of the model's form

    @property
    def is_empty(self) -> bool:
        """Nothing would be posted or reacted."""
        return self.skip or not (self.text or self.generate_image or self.react_emoji)


class UnreadableDecision(Exception):
    """An answer without a decision in it. `reason` is one short line without any of the answer's words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_decision(raw: str) -> Decision:
    """The first decision in a model's answer, as the model meant it; the turn's rules are `apply_turn_rules`'s.

    Reads the first 64,000 characters. Raises UnreadableDecision.
    """
    text = strip_reasoning(raw[:MAX_CHARS]).strip()
    if not text:
        raise UnreadableDecision("empty")
    decision = _first_decision(text)
    if decision is None and "\\" in text:
        decision = _first_decision(unescape(text))  # an object inside of a JSON string
    if decision is None:
        raise UnreadableDecision("no decision in the answer" if "{" in text else "no JSON object")
    return _unwrap_nested(decision)


def decision_of(fields: Mapping[str, object]) -> Decision:
    """A decision from its fields; unusable values are left out."""
    return _unwrap_nested(Decision(**_known(fields)))


def decision_from_prose(
    raw: str,
    names: Collection[str] = (),
    prompt: Collection[str] = (),
    *,
    cut: bool = False,
    known: KnownSources = NOTHING_KNOWN,
) -> Decision | None:
    """The decision to post an answer in words alone; None if it has any form or other artifacts of a model.

    `names` and `prompt` are those of `apply_turn_rules`; `cut`: the answer reached the length limit.
    """
    text = strip_reasoning(raw[:MAX_CHARS]).strip()
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    words = clean_prose(read if isinstance(read, str) else text, names, prompt, known)
    said = _whole_part(words) if words is not None and cut else words
    return Decision(text=said) if isinstance(said, str) else None


def apply_turn_rules(
    decision: Decision,
    *,
    forced: bool,
    always_draw: bool,
    can_draw: bool,
    names: Collection[str] = (),
    prompt: Collection[str] = (),
    may_leave: bool = False,
    names_next: bool = False,
    known: KnownSources = NOTHING_KNOWN,
) -> Decision:
    """The decision under the rules of the turn, ready to be acted on.

    `forced`: a person waits, so neither silence nor a reaction alone is an answer. `always_draw`: every post of the
    theme has a picture. `names`: the agent's own, removed from the beginning of the text. `prompt`: its lines, which
    must not be posted. `may_leave`: the turn is in a room; an agent that leaves it says a last word, also with `skip`.
    `names_next`: the agent may name the next speaker. `known`: the sources that it may link to. Raises
    UnreadableDecision("empty") when a forced turn has neither words nor a picture; any other decision may be empty.
    """
    leaves = may_leave and decision.leave
    if decision.skip and not (forced or leaves):
        return Decision(skip=True)
    text = clean_text(decision.text, names, prompt, known) or (LAST_WORD if leaves else None)
    image_prompt = None
    if can_draw and (decision.generate_image or always_draw):
        image_prompt = clean_text(decision.image_prompt) or text  # a picture needs something to show
    if forced and not (text or image_prompt):
        raise UnreadableDecision("empty")
    emoji = None if decision.skip else clean_emoji(decision.react_emoji)
    return Decision(
        text=text,
        generate_image=image_prompt is not None,
        image_prompt=image_prompt,
        react_emoji=emoji,
        react_to_message_id=decision.react_to_message_id if emoji else None,
        end_conversation=decision.end_conversation and not decision.skip,
        topic=clean_text(decision.topic),
        leave=leaves,
        next_speaker=decision.next_speaker if names_next else None,
    )


def as_json(decision: Decision) -> str:
    return json.dumps(fields_of(decision), ensure_ascii=False)


def fields_of(decision: Decision) -> dict[str, Any]:
    """The fields of the published form, and a room's if they are set."""
    fields = {name: getattr(decision, name) for name in _READERS}
    return {name: value for name, value in fields.items() if name not in _OF_ROOMS or value}


def _unwrap_nested(decision: Decision) -> Decision:
    """The inner decision, if a decision's text is a decision again: the form itself must not be posted."""
    text = unfenced(decision.text or "")
    inner = next(objects(text), None) if text.startswith("{") else None
    fields = _known(inner.fields) if inner is not None else {}
    return Decision(**fields) if {"skip", "text"} <= fields.keys() else decision


def _first_decision(text: str) -> Decision | None:
    # Most answers are one object and nothing else: the json module reads it in a fraction of the time.
    try:
        read = json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity mean nothing
    except (ValueError, RecursionError):
        read = None
    fields = _known(read) if isinstance(read, dict) else {}
    if "skip" in fields:
        return Decision(**fields)
    for found in objects(text):
        fields = _known(found.fields)
        # an object in another one, such as a tool's arguments, must say more than one thing to be taken for a decision
        if "skip" in fields or len(fields) > (1 if found.inner else 0):
            return Decision(**fields)
    return None


# -- reading the fields -----------------------------------------------------------------------------------------------

_UNUSABLE = object()


def _known(raw: Mapping[str, object]) -> dict[str, Any]:
    """The fields of a decision among `raw`, under their own names, as their types; unusable values are left out."""
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        name = _NAMES.get(_letters(key))
        if name is None:
            continue
        if isinstance(value, list) and value and name != "text":
            value = value[0]
        usable = _READERS[name](value)
        if usable is not _UNUSABLE:
            fields[name] = usable
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
        return _whole_part(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return _read_string(value)


def _read_string(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, str) or isinstance(value, CutString):
        return _UNUSABLE
    return None if value.strip().lower() in ("", "null") else value


def _read_id(value: object) -> object:
    if isinstance(value, bool | CutString):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT_FLOAT:
        value = int(value)
    if isinstance(value, str):
        match = _ID.fullmatch(value.strip())
        value = int(match[1]) if match else None
    return value if isinstance(value, int) and 0 < value <= MAX_ID else None


def _read_topic(value: object) -> object:
    topic = _read_string(value)
    return " ".join(topic.split())[:MAX_TOPIC] if isinstance(topic, str) else topic


def _whole_part(text: str) -> object:
    """The part of a text that was cut off that can be posted."""
    text = text.strip()
    if len(text) < CUT_TEXT_MIN:
        return _UNUSABLE
    if text[-1] in ".!?…":
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    if ends and ends[-1] * 2 >= len(text):
        return text[: ends[-1]].rstrip()
    return text.rsplit(None, 1)[0] + " …"


_READERS = {
    "skip": _read_bool,
    "text": _read_text,
    "generate_image": _read_bool,
    "image_prompt": _read_string,
    "react_emoji": _read_string,
    "react_to_message_id": _read_id,
    "end_conversation": _read_bool,
    "topic": _read_topic,
    "leave": _read_bool,
    "next_speaker": _read_topic,
}

_NAMES = {_letters(name): name for name in _READERS}
_OF_ROOMS = frozenset({"leave", "next_speaker"})


# -- the form ---------------------------------------------------------------------------------------------------------

CONTRACT = """
One JSON object, nothing around it:

{"skip": false, "text": "message or null", "generate_image": false, "image_prompt": "prompt or null",
 "react_emoji": "emoji or null", "react_to_message_id": "id or null", "end_conversation": false,
 "topic": "topic or null"}

- skip: stay silent, with no reaction either.
- text: your post in {markup}, as people chat: short, no headings, no sign-off; @Name addresses somebody.
- generate_image, image_prompt: true and a full description, where a picture says more.
- react_emoji, react_to_message_id: one emoji on a message above, seldom.
- end_conversation: the topic is exhausted.
- topic: only to open a conversation.
"""

MARKUP = "{markup}"  # stands for that of the service in the contract

# What a room adds: to the fields of the form, and to the words on them.
_LEAVE = (', "leave": false', "- leave: true to leave this room for good; text is then your last word.\n")
_NEXT = (', "next_speaker": "name or null"', "- next_speaker: the name of the member who speaks next.\n")

REACTION = frozenset({"react_emoji", "react_to_message_id"})
# What the form loses if nobody reacts.
_WITHOUT_REACTION = (
    (',\n "react_emoji": "emoji or null", "react_to_message_id": "id or null", "end', ',\n "end'),
    ("- react_emoji, react_to_message_id: one emoji on a message above, seldom.\n", ""),
    ("stay silent, with no reaction either.", "stay silent."),
)

REPAIR = (
    "Your last answer could not be read ({reason}). "
    "Answer once more, with nothing but the JSON object that was asked for."
)


def _nullable(kind: str, description: str) -> dict[str, Any]:
    return {"type": [kind, "null"], "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


_PROPERTIES: dict[str, Any] = {
    "skip": _flag("true to stay silent: no text, no picture, no reaction"),
    "text": _nullable("string", "the message to post, null for none"),
    "generate_image": _flag("true to post a picture"),
    "image_prompt": _nullable("string", "what the picture shows, null for none"),
    "react_emoji": _nullable("string", "one emoji to react with, null for none"),
    # as text: JSON numbers of 19 digits lose their last ones in many parsers
    "react_to_message_id": _nullable("string", "digits of the id of the message to react to, null for none"),
    "end_conversation": _flag("true when the topic is exhausted"),
    "topic": _nullable("string", "the conversation's topic in a few words when you open it, else null"),
}


def _schema(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    # Strict as OpenAI's structured outputs ask for: everything required, nothing added. Other providers accept it too.
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


DECISION_SCHEMA = _schema(_PROPERTIES)


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form of an answer: `contract` in words, as `on` a service, and `schema` as JSON schema."""

    contract: str
    schema: Mapping[str, Any]

    def on(self, service: ServiceInfo) -> str:
        return self.contract.replace(MARKUP, service.markup)


FORM = DecisionForm(CONTRACT, DECISION_SCHEMA)


@cache
def room_form(*, names_next: bool, reacts: bool = True) -> DecisionForm:
    """The form in a room: an agent may leave, with `names_next` name who is next, and without `reacts` not react."""
    more = {"leave": _flag("true to leave the room for good; text is then the last word")}
    added = [_LEAVE]
    if names_next:
        more["next_speaker"] = _nullable("string", "the name of the member who speaks next, null for none")
        added.append(_NEXT)
    fields, lines = ("".join(parts) for parts in zip(*added, strict=True))
    contract, properties = CONTRACT, {**_PROPERTIES, **more}
    if not reacts:
        contract = reduce(lambda text, part: text.replace(*part), _WITHOUT_REACTION, contract)
        properties = {name: each for name, each in properties.items() if name not in REACTION}
    contract = contract.replace('"topic or null"}', f'"topic or null"{fields}}}')
    return DecisionForm(contract + lines, _schema(properties))
