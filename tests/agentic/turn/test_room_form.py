import json
import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from agentic.context.prompt import RoomTurn, TalkContext, Task, Trigger
from agentic.turn.cleaning import begins_a_form
from agentic.turn.decision import LAST_WORD, UnreadableDecision, apply_turn_rules, decision_of, parse_decision
from agentic.turn.form import FIELDS, SAMPLE_TEXT, Decision, DecisionForm, FormField, as_json, form_for, form_of

PLAIN = {"forced": False, "always_draw": False, "can_draw": False}


ROOM = RoomTurn(topic="Tea?", turn_number=2, turns=9)


def form(trigger: Trigger = "round", *, can_draw: bool = True, reacts: bool = True, **talk: Any) -> DecisionForm:
    return form_for(Task(trigger=trigger), TalkContext(**talk), can_draw=can_draw, reacts=reacts)


def offered(*args: Any, **more: Any) -> set[str]:
    return set(form(*args, **more).schema["properties"])


def test_a_turn_is_offered_only_the_fields_that_it_can_use() -> None:
    picture, reaction = {"generate_image", "image_prompt"}, {"react_emoji", "react_to_message_id"}
    assert offered("mention") == {"text", *picture, *reaction}
    assert offered("mention", can_draw=False, reacts=False) == {"text"}
    assert offered("starter") == {"text", *picture, "topic"}
    assert offered("starter", topic="tea") == {"text", *picture}
    assert offered("round") == {"skip", "text", *picture, *reaction, "end_conversation"}
    assert offered("errand", can_draw=False, reacts=False) == {"skip", "text"}


@pytest.mark.parametrize("trigger", ["starter", "round", "continue"])
def test_the_form_is_the_same_at_all_turns_of_a_room(trigger: Trigger) -> None:
    assert form(trigger, room=ROOM) is form("round", room=replace(ROOM, turn_number=9), topic="Tea?")


def test_a_room_offers_leaving_and_naming_only_to_whom_it_falls() -> None:
    moderating = offered(room=replace(ROOM, names_next=True))
    assert moderating - offered(room=ROOM) == {"next_speaker"}
    assert offered(room=ROOM) - offered() == {"leave"}


@pytest.mark.parametrize("room", [None, ROOM, replace(ROOM, names_next=True)])
@pytest.mark.parametrize("trigger", ["starter", "round", "reactive", "mention", "call", "continue", "errand"])
@pytest.mark.parametrize(("can_draw", "reacts"), product((False, True), repeat=2))
def test_the_contract_shows_one_answer_with_real_values(
    trigger: Trigger, room: RoomTurn | None, can_draw: bool, reacts: bool
) -> None:
    made = form(trigger, can_draw=can_draw, reacts=reacts, room=room)
    shown = made.contract[made.contract.index("{") : made.contract.index("}") + 1]
    assert list(json.loads(shown)) == list(made.schema["properties"]) == made.schema["required"]
    assert json.loads(shown)["text"] == SAMPLE_TEXT
    assert "null" not in shown.replace(": null", "")
    assert set(re.findall(r"^- (\w+):", made.contract, re.MULTILINE)) <= set(made.schema["properties"])


def test_a_copied_example_is_no_answer() -> None:
    with pytest.raises(UnreadableDecision):
        apply_turn_rules(
            Decision(text=SAMPLE_TEXT), forced=True, always_draw=False, can_draw=False, prompt={SAMPLE_TEXT}
        )


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_each_field_is_described_and_survives_its_way_through_the_record(field: FormField) -> None:
    assert field.name in form_of(frozenset({field.where})).contract
    values = {"flag": True, "id": 1 << 60, "text": "said", "string": "said", "line": "said"}
    decision = Decision(**{"text": "Hi.", field.name: values[field.kind]})
    assert parse_decision(as_json(decision)) == decision
    assert begins_a_form(f"{field.name}: x") is (field.where != "rooms")


@pytest.mark.parametrize(
    "raw",
    [
        '{"skip": false, "text": "Bye.", "leave": true, "next_speaker": "Ada"}',
        "```json\n{'text': 'Bye.', 'LEAVE': 'yes', 'nextSpeaker': 'Ada',}\n```",
        "{text: \"Bye.\", leave: true, next_speaker: ['Ada']}",
    ],
)
def test_the_fields_of_a_room_are_read_in_every_form(raw: str) -> None:
    decision = parse_decision(raw)
    assert (decision.leave, decision.next_speaker, decision.text) == (True, "Ada", "Bye.")


def test_outside_of_rooms_nobody_leaves_and_nobody_is_named() -> None:
    decision = apply_turn_rules(decision_of({"text": "Bye.", "leave": True, "next_speaker": "Ada"}), **PLAIN)
    assert decision == Decision(text="Bye.")
    assert not {"leave", "next_speaker"} & set(json.loads(as_json(decision)))


def test_who_leaves_without_a_word_says_so() -> None:
    for fields in ({"leave": True}, {"leave": True, "skip": True}):
        decision = apply_turn_rules(decision_of(fields), **PLAIN, may_leave=True)
        assert (decision.text, decision.leave, decision.skip) == (LAST_WORD, True, False)


def test_a_decision_to_leave_survives_being_kept() -> None:
    decision = apply_turn_rules(
        Decision(text="Bye.", leave=True, next_speaker="Ada"), **PLAIN, may_leave=True, names_next=True
    )
    assert parse_decision(as_json(decision)) == decision


def test_only_who_names_the_next_may_name_anybody() -> None:
    decision = Decision(text="So.", next_speaker="Ada")
    assert apply_turn_rules(decision, **PLAIN, may_leave=True).next_speaker is None
    assert apply_turn_rules(decision, **PLAIN, may_leave=True, names_next=True).next_speaker == "Ada"


def test_a_person_who_is_to_be_taken_up_is_not_met_with_silence() -> None:
    with pytest.raises(UnreadableDecision):
        apply_turn_rules(Decision(skip=True), forced=True, always_draw=False, can_draw=False, may_leave=True)
