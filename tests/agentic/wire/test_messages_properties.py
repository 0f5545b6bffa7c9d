"""The wire under arbitrary input: what is written is read back, and what is junk is a warning and nothing else."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentic.ids import MAX_ID
from agentic.wire.messages import (
    MAX_INSTRUCTION_ID,
    Command,
    HistoryEntry,
    Instruction,
    MentionNotice,
    Result,
    SilenceNotice,
    TurnUsage,
    UnreadableInstruction,
    read,
    read_instruction,
    read_result,
)

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
IDS = st.integers(1, MAX_ID)
TURN_IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_INSTRUCTION_ID)
AMOUNTS = st.integers(0, 10**12)
DOLLARS = st.floats(0, 10**6)
HISTORY = st.builds(HistoryEntry, agent=WORDS, text=WORDS, message_id=st.none() | IDS)
USAGE = st.builds(
    TurnUsage, model=WORDS, calls=AMOUNTS, input_tokens=AMOUNTS, cost_usd=DOLLARS, picture_cost_usd=DOLLARS
)
INSTRUCTIONS = st.builds(
    Instruction,
    instruction_id=TURN_IDS,
    action=WORDS,
    channel_id=IDS,
    channel_theme=WORDS,
    round_number=st.integers(0, 10**6),
    conversation_id=WORDS,
    conversation_history=st.lists(HISTORY, max_size=4).map(tuple),
    is_conversation_starter=st.booleans(),
    deadline=st.none() | st.floats(0, 10**12),
    topic=st.none() | WORDS,
    trigger_message_id=st.none() | IDS,
)
RESULTS = st.builds(
    Result,
    instruction_id=TURN_IDS,
    agent_name=WORDS,
    skipped=st.booleans(),
    text=st.none() | WORDS,
    image_url=st.none() | WORDS,
    emoji_reacted=st.none() | WORDS,
    message_id=st.none() | IDS,
    reason=st.none() | WORDS,
    react_to_message_id=st.none() | IDS,
    end_conversation=st.booleans(),
    topic=st.none() | WORDS,
    usage=st.none() | USAGE,
)
NOTICES = st.builds(
    MentionNotice,
    agent_name=WORDS,
    channel_id=IDS,
    message_id=st.none() | IDS,
    trigger_message_id=st.none() | IDS,
)
COMMANDS = st.builds(
    Command, command=WORDS, channel_id=st.none() | IDS, theme=st.none() | WORDS, agent_name=st.none() | WORDS
)
SILENCES = st.builds(SilenceNotice, scope=WORDS, until=st.floats(0, 10**12), person_id=st.none() | IDS)

READERS = (read_instruction, read_result, partial(read, Command), partial(read, SilenceNotice))
TYPES = (Instruction, UnreadableInstruction, Result, MentionNotice, Command, SilenceNotice, type(None))
JUNK_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -(10**400), 2**63, 2**64])
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["\ud800", "1" * 500, "NaN", "-1", "1e999", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted(
    {field for model in (Instruction, Result, MentionNotice, SilenceNotice) for field in model.model_fields}
)
NEAR_MISSES = st.dictionaries(st.sampled_from(FIELDS), JUNK_VALUES, max_size=8)
PLAIN = {"protocol_version": 1, "instruction_id": "i", "action": "decide", "channel_id": 5, "agent_name": "claude"}


@given(INSTRUCTIONS)
def test_an_instruction_is_read_as_it_was_written(written: Instruction) -> None:
    assert read_instruction(written.to_wire()) == written


@given(RESULTS | NOTICES)
def test_a_result_or_notice_is_read_as_it_was_written(written: Result | MentionNotice) -> None:
    assert read_result(written.to_wire()) == written


@given(COMMANDS)
def test_a_command_is_read_as_it_was_written(written: Command) -> None:
    assert read(Command, written.to_wire()) == written


@given(SILENCES)
def test_an_order_is_read_as_it_was_written(written: SilenceNotice) -> None:
    assert read(SilenceNotice, written.to_wire()) == written


@pytest.mark.promise(30)
@given(st.text() | st.binary())
def test_no_text_and_no_bytes_are_more_than_a_warning(raw: str | bytes) -> None:
    for reader in READERS:
        assert isinstance(reader(raw), TYPES)


@pytest.mark.promise(30)
@given(NEAR_MISSES)
@example({"deadline": math.nan, "until": math.inf, "usage": {"cost_usd": math.nan}})
@settings(max_examples=300)
def test_fields_of_any_kind_are_read_as_something_known_that_can_be_written_on(fields: dict[str, Any]) -> None:
    for raw in (json.dumps(fields), json.dumps({**PLAIN, **fields})):
        for reader in READERS:
            found = reader(raw)
            assert isinstance(found, TYPES)
            if found is not None and not isinstance(found, UnreadableInstruction):
                assert reader(found.to_wire()) == found


@pytest.mark.promise(31)
@given(NEAR_MISSES)
@settings(max_examples=300)
def test_an_instruction_with_version_and_id_is_always_owed_an_answer_that_can_be_sent(fields: dict[str, Any]) -> None:
    known = {key: value for key, value in fields.items() if key not in ("protocol_version", "instruction_id")}
    found = read_instruction(json.dumps({**PLAIN, **known}))
    assert isinstance(found, Instruction | UnreadableInstruction)
    assert found.instruction_id == "i"
    answer = Result(instruction_id=found.instruction_id, agent_name="claude", skipped=True, reason="invalid")
    assert read_result(answer.to_wire()) == answer
