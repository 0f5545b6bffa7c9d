"""The form of a model's answer: the fields of a decision, declared once, as code, as text, and as a JSON schema.

To add a field, add an attribute to Decision. Models are then asked for it, it's parsed (decision.py), saved, and
recorded, and the console shows it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from agentic.chat.outlet import ServiceInfo
from agentic.context.prompt import TalkContext, Task
from agentic.llm.schemas import closed_object
from agentic.llm.types import Source

MARKUP = "{markup}"  # in the contract; replaced by the service's markup
REPAIR = "Your last answer couldn't be read ({reason}). Answer again, with only the JSON object described above."
MAX_LINE = 200  # characters of a topic or a name
# A small model copies the form's words, as "topic or null", "Your message here", or "<text>". "Answer." may be a post.
_VALUE = "(?:message|text|topic|prompt|emoji|id|name|string|answer|reply|response)"
_PLACEHOLDER = re.compile(
    rf"{_VALUE}|(?i:(?:an? |the |your ){_VALUE}(?: text| goes)?(?: here)?(?: or null)?[.!]?"
    rf"|{_VALUE}(?: text)?(?: goes here| here| or null| here or null)[.!]?|null|…|\.\.\.|)"
)
# In the example of the contract. Small models copy it, so an answer with these words has none (chat_mode.py).
SAMPLE_TEXT = "I'd take the window seat, even on a night train."
SAMPLE_TOPIC = "window or aisle seat on night trains"

Kind = Literal["flag", "text", "string", "line", "id"]  # how decision.py reads the value
Where = Literal["everywhere", "skipping", "drawing", "reacting", "rounds", "opening", "rooms", "naming"]
MAX_SMALL_TEXT = 400  # characters of a small model's text; the schema says so, since such models don't stop


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of the form, with its value in the contract's `example`, and its `rule` there. `where`: answers that have
    it."""

    name: str
    kind: Kind
    example: Any
    rule: str
    where: Where

    def schema(self, *, small: bool) -> Mapping[str, Any]:
        if self.kind == "flag":
            return {"type": "boolean"}
        if small:
            return {"type": "string", "minLength": 1, "maxLength": MAX_SMALL_TEXT if self.kind == "text" else MAX_LINE}
        # Ids are text, since many parsers round JSON numbers of 19 digits.
        return {"type": ["string", "null"]}


def _field(kind: Kind, *, example: Any = None, rule: str = "", where: Where = "everywhere") -> Any:
    default = False if kind == "flag" else None
    shown = {"kind": kind, "example": default if example is None else example, "rule": rule, "where": where}
    return dataclasses.field(default=default, metadata=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The actions of a turn. With `skip` all other fields are ignored. A starter sets `topic`."""

    skip: bool = _field("flag", rule="skip: true to stay silent, with no reaction.", where="skipping")
    text: str | None = _field(
        "text",
        example=SAMPLE_TEXT,
        rule=f"text: your message in {MARKUP}. No headings, no sign-off. @Name addresses someone.",
    )
    generate_image: bool = _field(
        "flag",
        rule="generate_image: true if a picture says more than words. Describe it fully in image_prompt.",
        where="drawing",
    )
    image_prompt: str | None = _field("string", where="drawing")
    react_emoji: str | None = _field(
        "string",
        rule="react_emoji: one emoji for a message above, rarely. Put that message's id in react_to_message_id.",
        where="reacting",
    )
    react_to_message_id: int | None = _field("id", where="reacting")
    end_conversation: bool = _field("flag", rule="end_conversation: true if the topic is exhausted.", where="rounds")
    topic: str | None = _field(
        "line",
        example=SAMPLE_TOPIC,
        rule="topic: what the conversation is about, in at most eight words.",
        where="opening",
    )
    leave: bool = _field(
        "flag", rule="leave: true to leave this room for good. Then text says why, as your last word.", where="rooms"
    )
    next_speaker: str | None = _field("line", rule="next_speaker: the member who speaks next.", where="naming")
    sources: tuple[Source, ...] = ()  # web pages that support the text; not part of the model's form

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to post or react with."""
        return self.skip or not (self.text or self.generate_image or self.react_emoji)


FIELDS: tuple[FormField, ...] = tuple(
    FormField(name=each.name, **each.metadata) for each in dataclasses.fields(Decision) if each.metadata
)


def is_placeholder(value: str) -> bool:
    """Whether a value is the form's own, which means null: it's a word for a value, or the example's value."""
    bare = value.strip().strip("<>[]{}()\"'“”").strip()
    return _PLACEHOLDER.fullmatch(bare) is not None or bare in (SAMPLE_TEXT, SAMPLE_TOPIC)


def fields_of(decision: Decision) -> dict[str, Any]:
    """Return the fields as a model writes them; a room's fields only if they are set."""
    fields: dict[str, Any] = {}
    for field in FIELDS:
        value = getattr(decision, field.name)
        if value or field.where not in ("rooms", "naming"):
            fields[field.name] = str(value) if field.kind == "id" and value is not None else value
    return fields


def as_json(decision: Decision) -> str:
    return json.dumps(fields_of(decision), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form of an answer: the `contract` as text, and the JSON `schema`."""

    contract: str
    schema: Mapping[str, Any]

    def on(self, service: ServiceInfo) -> str:
        return self.contract.replace(MARKUP, service.markup)


def form_for(
    task: Task, talk: TalkContext, *, can_draw: bool, reacts: bool = True, small: bool = False
) -> DecisionForm:
    """Return the form with the fields that a turn can use. It's the same for all turns of a room, and for all rounds of
    a conversation, so that providers can cache it. `small`: for a small model, which only writes a text."""
    in_room = talk.room is not None
    offered: dict[Where, bool] = {
        "everywhere": True,
        "skipping": not in_room and task.trigger in ("round", "reactive", "call", "errand"),
        "drawing": can_draw,
        "reacting": reacts and (in_room or task.trigger != "starter"),
        "rounds": in_room or task.trigger == "round",
        "opening": not in_room and task.trigger == "starter" and not talk.topic,
        "rooms": in_room,
        "naming": talk.names_next,
    }
    wanted = frozenset(where for where, is_offered in offered.items() if is_offered)
    return form_of(wanted & {"everywhere", "opening", "naming"} if small else wanted, small=small)


@cache
def form_of(offered: frozenset[Where], *, small: bool = False) -> DecisionForm:
    fields = [field for field in FIELDS if field.where in offered]
    example = json.dumps({field.name: field.example for field in fields}, ensure_ascii=False)
    rules = "".join(f"- {field.rule}\n" for field in fields if field.rule)
    schema = closed_object({field.name: field.schema(small=small) for field in fields})
    return DecisionForm(f"Answer with only a JSON object, such as:\n\n{example}\n\n{rules}", schema)
