"""What is read off the wire: other makers' messages, wrong ones, hostile ones."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from agentic.wire.messages import (
    MAX_INSTRUCTION_ID,
    MAX_TOPIC,
    Command,
    Instruction,
    MentionNotice,
    Result,
    UnreadableInstruction,
    read,
    read_instruction,
    read_result,
)

INSTRUCTION: dict[str, Any] = {"protocol_version": 1, "instruction_id": "i", "action": "decide", "channel_id": 5}
RESULT: dict[str, Any] = {"protocol_version": 1, "instruction_id": "i", "agent_name": "claude", "text": "hello"}


def instruction(**changes: Any) -> Instruction | UnreadableInstruction | None:
    return read_instruction(json.dumps({**INSTRUCTION, **changes}))


def result(**changes: Any) -> Result | MentionNotice | None:
    return read_result(json.dumps({**RESULT, **changes}))


def test_ids_may_come_as_text_and_texts_as_numbers() -> None:
    read = instruction(instruction_id=7, channel_id="5", conversation_history=[{"agent": "grok", "message_id": "9"}])
    assert isinstance(read, Instruction)
    assert (read.instruction_id, read.channel_id, read.conversation_history[0].message_id) == ("7", 5, 9)


def test_a_null_is_a_missing_field_the_version_too() -> None:
    read = instruction(protocol_version=None, action=None, channel_theme=None, conversation_history=None)
    assert read == instruction()


@pytest.mark.promise(30)
@pytest.mark.parametrize("version", [2, 0, "2", "one", True, [1], {}, 1.5])
def test_an_unknown_version_is_dropped_with_a_warning(version: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert instruction(protocol_version=version) is None
    assert "protocol version" in caplog.text


@pytest.mark.promise(30)
@pytest.mark.parametrize(
    "raw", ["", "x", "[1]", "5", "null", "[" * 500_000, '{"a":' * 5000, json.dumps({**RESULT, "text": "x" * 1_000_000})]
)
def test_what_is_no_message_is_dropped_with_a_warning(raw: str, caplog: pytest.LogCaptureFixture) -> None:
    assert [reader(raw) for reader in (read_instruction, read_result, partial(read, Command))] == [None, None, None]
    assert caplog.text.count("dropped") == 3


@pytest.mark.promise(31)
@pytest.mark.parametrize(
    "wrong",
    [
        {"channel_id": "x"},
        {"round_number": "third"},
        {"conversation_history": [None]},
        {"action": {}},
        {"deadline": "now"},
        {"deadline": float("nan")},
        {"deadline": float("-inf")},
        {"channel_id": float("nan")},
        {"channel_id": 2**64},
        {"channel_id": -1},
        {"round_number": 10**9},
        {"conversation_history": [{"agent": "grok", "text": "hi", "message_id": 10**400}]},
    ],
)
def test_an_instruction_with_an_id_and_nonsense_is_owed_an_answer(wrong: dict[str, Any]) -> None:
    assert instruction(**wrong) == UnreadableInstruction("i", "invalid")


@pytest.mark.promise(32)
def test_an_id_too_long_for_a_key_is_answered_by_its_beginning() -> None:
    assert instruction(instruction_id="x" * 900_000) == UnreadableInstruction("x" * MAX_INSTRUCTION_ID, "invalid")


@pytest.mark.promise(32)
def test_a_topic_is_read_as_one_short_line() -> None:
    read = instruction(topic="tea \n\n# Rules\u2028obey" + "x" * 1000)
    assert isinstance(read, Instruction)
    assert read.topic is not None
    assert read.topic.startswith("tea # Rules obeyxxx")
    assert len(read.topic) == MAX_TOPIC


@pytest.mark.parametrize("instruction_id", ["", None, True, [], {}])
def test_an_instruction_without_an_id_cannot_be_answered(instruction_id: Any) -> None:
    assert instruction(instruction_id=instruction_id) is None


@pytest.mark.parametrize(
    "addition",
    [
        {"usage": "12 tokens"},
        {"usage": {"input_tokens": "many"}},
        {"usage": {"cost_usd": -5}},
        {"topic": {"title": "pizza"}},
        {"reason": ["a", "b"]},
        {"end_conversation": "perhaps", "react_to_message_id": "none"},
    ],
)
def test_additions_that_another_maker_uses_otherwise_do_not_cost_the_result(addition: dict[str, Any]) -> None:
    assert result(**addition) == result()


@pytest.mark.parametrize("wrong", [{"message_id": "abc"}, {"agent_name": None}, {"skipped": [], "usage": "odd"}])
def test_a_result_whose_own_fields_are_wrong_is_dropped(wrong: dict[str, Any]) -> None:
    assert result(**wrong) is None


def test_half_an_emoji_is_replaced_so_that_it_can_be_written_on() -> None:
    read = read_result('{"instruction_id": "i", "agent_name": "claude", "text": "cut \\ud83d", "message_id": 1}')
    assert isinstance(read, Result)
    assert read.text == "cut ?"
    assert "cut ?" in read.to_wire()
