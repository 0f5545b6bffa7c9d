"""The form of a model's answer: the fields of a decision, declared once, as code, as words, and as a JSON schema.

A new field is an attribute of Decision. It is then asked for, read (decision.py), saved, and recorded, and the console
shows it. The code that obeys it reads the attribute.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from agentic.chat.outlet import ServiceInfo
from agentic.llm.types import Source

MARKUP = "{markup}"  # in the contract; replaced by the service's markup
REPAIR = (
    "Your last answer could not be read ({reason}). "
    "Answer once more, with nothing but the JSON object that was asked for."
)

Kind = Literal["flag", "text", "string", "line", "id"]  # how decision.py reads the value
Where = Literal["everywhere", "reactions", "rooms", "naming"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of the form. `about` describes it in the schema, `example` and `rule` in the contract, whose example has
    it in this `row`. `where`: the answers that have it."""

    name: str
    kind: Kind
    about: str
    example: Any
    rule: str
    row: int
    where: Where

    @property
    def schema(self) -> Mapping[str, Any]:
        # Ids as text: JSON numbers of 19 digits lose their last ones in many parsers.
        return {"type": "boolean" if self.kind == "flag" else ["string", "null"], "description": self.about}


def _field(
    kind: Kind,
    about: str,
    *,
    example: Any = False,
    rule: str = "",
    row: int = 0,
    where: Where = "everywhere",
) -> Any:
    said = {"kind": kind, "about": about, "example": example, "rule": rule, "row": row, "where": where}
    return dataclasses.field(default=False if kind == "flag" else None, metadata=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The actions of a turn. With `skip` all other fields are ignored. A starter sets `topic`."""

    skip: bool = _field(
        "flag",
        "true to stay silent: no text, no picture, no reaction",
        rule="skip: stay silent, with no reaction either.",
    )
    text: str | None = _field(
        "text",
        "the message to post, null for none",
        example="message or null",
        rule=f"text: your post in {MARKUP}, as people chat: short, no headings, no sign-off; @Name addresses somebody.",
    )
    generate_image: bool = _field(
        "flag",
        "true to post a picture",
        rule="generate_image, image_prompt: true and a full description, where a picture says more.",
    )
    image_prompt: str | None = _field("string", "what the picture shows, null for none", example="prompt or null")
    react_emoji: str | None = _field(
        "string",
        "one emoji to react with, null for none",
        example="emoji or null",
        rule="react_emoji, react_to_message_id: one emoji on a message above, seldom.",
        row=1,
        where="reactions",
    )
    react_to_message_id: int | None = _field(
        "id",
        "digits of the id of the message to react to, null for none",
        example="id or null",
        row=1,
        where="reactions",
    )
    end_conversation: bool = _field(
        "flag", "true when the topic is exhausted", rule="end_conversation: the topic is exhausted.", row=1
    )
    topic: str | None = _field(
        "line",
        "the conversation's topic in a few words when you open it, else null",
        example="topic or null",
        rule="topic: only to open a conversation.",
        row=2,
    )
    leave: bool = _field(
        "flag",
        "true to leave the room for good; text is then the last word",
        rule="leave: true to leave this room for good; text is then your last word.",
        row=2,
        where="rooms",
    )
    next_speaker: str | None = _field(
        "line",
        "the name of the member who speaks next, null for none",
        example="name or null",
        rule="next_speaker: the name of the member who speaks next.",
        row=2,
        where="naming",
    )
    sources: tuple[Source, ...] = ()  # web pages that the words rest on; no part of the model's form

    @property
    def is_empty(self) -> bool:
        """Nothing would be posted or reacted."""
        return self.skip or not (self.text or self.generate_image or self.react_emoji)


FIELDS: tuple[FormField, ...] = tuple(
    FormField(name=each.name, **each.metadata) for each in dataclasses.fields(Decision) if each.metadata
)


def fields_of(decision: Decision) -> dict[str, Any]:
    """Return the fields as a model writes them: those that every answer has, and a room's if they are set."""
    fields: dict[str, Any] = {}
    for field in FIELDS:
        value = getattr(decision, field.name)
        if value or field.where in ("everywhere", "reactions"):
            fields[field.name] = str(value) if field.kind == "id" and value is not None else value
    return fields


def as_json(decision: Decision) -> str:
    return json.dumps(fields_of(decision), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form of an answer: `contract` in words, as `on` a service, and `schema` as JSON schema."""

    contract: str
    schema: Mapping[str, Any]

    def on(self, service: ServiceInfo) -> str:
        return self.contract.replace(MARKUP, service.markup)


@cache
def form_of(*, in_room: bool = False, names_next: bool = False, reacts: bool = True) -> DecisionForm:
    """Return the form of an answer. In a room the agent may leave, and with `names_next` name who is next."""
    offered = {"everywhere": True, "reactions": reacts, "rooms": in_room, "naming": names_next}
    fields = [field for field in FIELDS if offered[field.where]]
    rows: dict[int, list[str]] = {}
    for field in fields:
        rows.setdefault(field.row, []).append(f'"{field.name}": {json.dumps(field.example)}')
    example = ",\n ".join(", ".join(row) for row in rows.values())
    rules = "".join(f"- {field.rule}\n" for field in fields if field.rule)
    if not reacts:
        rules = rules.replace("stay silent, with no reaction either.", "stay silent.")
    # Strict as OpenAI's structured outputs ask for: everything required, nothing added. Other providers accept it too.
    properties = {field.name: field.schema for field in fields}
    return DecisionForm(
        f"\nOne JSON object, nothing around it:\n\n{{{example}}}\n\n{rules}",
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False},
    )


FORM = form_of()
