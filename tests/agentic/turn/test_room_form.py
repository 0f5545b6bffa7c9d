import json
from itertools import product

import pytest

from agentic.turn.cleaning import begins_a_form
from agentic.turn.decision import LAST_WORD, UnreadableDecision, apply_turn_rules, decision_of, parse_decision
from agentic.turn.form import FIELDS, FORM, Decision, FormField, as_json, form_of

PLAIN = {"forced": False, "always_draw": False, "can_draw": False}


def test_a_room_offers_leaving_and_naming_only_to_whom_it_falls() -> None:
    plain, moderating = form_of(in_room=True, names_next=False), form_of(in_room=True, names_next=True)
    assert list(plain.schema["properties"]) == [*FORM.schema["properties"], "leave"]
    assert list(moderating.schema["required"]) == [*FORM.schema["properties"], "leave", "next_speaker"]
    assert "next_speaker" not in plain.contract
    assert '"leave": false, "next_speaker": "name or null"}' in moderating.contract
    assert "leave" not in FORM.contract


def test_the_contract_of_a_room_shows_one_readable_object() -> None:
    for names_next, reacts in product((False, True), repeat=2):
        form = form_of(in_room=True, names_next=names_next, reacts=reacts)
        shown = form.contract[form.contract.index("{") : form.contract.index("}") + 1]
        assert list(json.loads(shown)) == list(form.schema["properties"])


def test_who_cannot_react_is_offered_no_reaction() -> None:
    form, usual = form_of(in_room=True, names_next=True, reacts=False), form_of(in_room=True, names_next=True)
    assert set(usual.schema["properties"]) - set(form.schema["properties"]) == {"react_emoji", "react_to_message_id"}
    assert form.schema["required"] == list(form.schema["properties"])
    assert "react" not in form.contract
    assert "react" in usual.contract


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_each_field_is_asked_for_and_survives_its_way_through_the_record(field: FormField) -> None:
    form = form_of(in_room=True, names_next=True)
    assert field.name in form.schema["properties"]
    assert field.name in form.contract
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
    assert set(json.loads(as_json(decision))) == set(FORM.schema["properties"])


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
