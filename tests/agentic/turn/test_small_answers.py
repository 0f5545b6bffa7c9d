"""What small models write instead of an answer: the form's own words, others' lines, copies, and texts without end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentic.turn.decision import UnreadableDecision, apply_turn_rules, parse_decision
from agentic.turn.form import SAMPLE_TEXT, SAMPLE_TOPIC, Decision

RULES: dict[str, Any] = {"forced": False, "always_draw": False, "can_draw": True, "names": ("Claude",)}


def posted(text: str, **rules: Any) -> str | None:
    return apply_turn_rules(Decision(text=text), **RULES, others=("ChatGPT", "Grok"), **rules).text


@pytest.mark.parametrize(
    "value",
    [
        *("topic or null", "message or null", "prompt or null", "Emoji or null", "string", "<text>", "[your message]"),
        *("Your message here.", "the message text", "…", "...", "null", "", SAMPLE_TEXT, SAMPLE_TOPIC),
    ],
)
def test_words_of_the_form_are_no_values(value):
    fields = {"skip": False, "text": value, "topic": value, "image_prompt": value, "react_emoji": value}
    assert parse_decision(json.dumps(fields)) == Decision()


@pytest.mark.parametrize("value", ["The message is clear.", "None.", "A string of lights", "No answer"])
def test_words_of_a_person_are_values_although_they_are_alike(value):
    assert parse_decision(json.dumps({"text": value})).text == value


def test_another_bots_label_before_the_text_is_removed():
    assert posted("ChatGPT: Start with the kettle.") == "Start with the kettle."
    assert posted("**Grok:** Claude: No.") == "No."
    assert posted("Grok, start with the kettle.") == "Grok, start with the kettle."


def test_a_post_that_speaks_for_several_ends_at_the_second():
    assert posted("Tea has no salt.\n\nGrok: It does.\n\nClaude: No.") == "Tea has no salt."
    assert posted("Grok: It does.\nChatGPT: Never.") == "It does."


def test_a_copy_of_a_heard_message_is_not_posted():
    heard = ["@Claude Is tea a kind of soup?", "Yes."]
    with pytest.raises(UnreadableDecision):
        posted("@Claude is tea a kind of soup", heard=heard)
    assert posted("Yes.", heard=heard) == "Yes."
    assert posted("Is tea a kind of soup? It is.", heard=heard) == "Is tea a kind of soup? It is."
