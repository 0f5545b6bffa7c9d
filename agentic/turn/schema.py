"""The form of an answer: in words for the prompt, and as a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from agentic.chat.outlet import Service

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
_NEXT = (
    ', "next_speaker": "name or null"',
    "- next_speaker: the name of the member who speaks next.\n",
)

REACTION = frozenset({"react_emoji", "react_to_message_id"})
# What the form loses where nobody reacts.
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


# Strict as OpenAI's structured outputs ask for: everything required, nothing added. Other providers accept it too.
def _schema(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


DECISION_SCHEMA = _schema(_PROPERTIES)


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form of an answer: `contract` in words, as `on` a service, and `schema` as JSON schema."""

    contract: str
    schema: Mapping[str, Any]

    def on(self, service: Service) -> str:
        """The contract with the service's markup."""
        return self.contract.replace(MARKUP, service.markup)


FORM = DecisionForm(CONTRACT, DECISION_SCHEMA)


@cache
def room_form(*, names_next: bool, reacts: bool = True) -> DecisionForm:
    """The form in a room, where an agent may leave, and name who speaks next where that is its part. Without `reacts`
    it offers no reaction: a persona gives none."""
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
