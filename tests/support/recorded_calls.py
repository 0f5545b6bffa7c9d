"""Recorded calls, as a turn leaves them, without a turn."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentic.llm.types import Message, Prompt, ToolRound
from agentic.record.database import connect_blocking, migrate
from agentic.wire.entries import CallRecord, CallWords, HistoryMessage
from tests.support.records import Rows, insert

PERSONA = "# Personality\n\nYou are a careful one."
SYSTEM = f"You are Claude, an AI member.\n\n{PERSONA}\n\n# The channel #debate\n\nIts theme is debate."
SKIPPED = '{"skip": true}'


def recorded_call(
    completion: str = SKIPPED,
    *,
    n: int = 0,
    prompt: Prompt | None = None,
    history: Sequence[Message] = (Message("user", "[msg:1] Ada: tea or coffee?"),),
    agent: str = "claude",
    model: str = "llamacpp/local",
    **more: Any,
) -> CallWords:
    prompt = prompt or Prompt(text="It is your turn.", system=SYSTEM, stable=len(SYSTEM))
    options = {
        "max_output_tokens": prompt.max_output_tokens,
        "tools": [{**asdict(tool), "parameters": dict(tool.parameters)} for tool in prompt.tools],
        "rounds": [_round(each) for each in prompt.rounds],
        "stop": list(prompt.stop),
        "labels": dict(prompt.labels),
    }
    fields = {
        "agent": agent,
        "turn_id": "i1",
        "n": n,
        "channel_id": 5,
        "at": 1.8e9,
        "model": model,
        "system": prompt.system,
        "stable": prompt.stable,
        "persona": PERSONA,
        "history": tuple(
            HistoryMessage(role=each.role, text=each.text, pictures=len(each.pictures), cache=each.cache)
            for each in history
        ),
        "text": prompt.text,
        "prefill": prompt.prefill,
        "options": options,
        "completion": completion,
    }
    return CallWords.model_validate_json(CallWords(**{**fields, **more}).to_json())


def _round(step: ToolRound) -> dict[str, Any]:
    calls = [{"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in step.calls]
    results = [
        {"call_id": each.call_id, "name": each.name, "text": each.text, "is_error": each.is_error}
        for each in step.results
    ]
    return {"calls": calls, "results": results, "text": step.text}


def write_record(path: Path, conversation_id: str, *turns: Sequence[CallWords]) -> None:
    """Make the file of a record, with a conversation of these turns."""
    migrate(path)
    rows = Rows()
    rows.conversations.append({"id": conversation_id, "channel_id": 5, "theme": "debate", "started_at": 1})
    for words in turns:
        last = words[-1]
        own = {"agent": last.agent, "turn_id": last.turn_id, "at": last.at}
        turn = {"kind": "instruction", "trigger": "round", "outcome": "posted", "day": "2027-01-15", "round": 1}
        turn |= {"conversation_id": conversation_id, "channel_id": 5, "model": last.model}
        rows.turns.append({"agent": last.agent, "id": last.turn_id, "at": last.at, **turn})
        for each in words:
            call = CallRecord(
                n=each.n, model=each.model, at=each.at, input_tokens=100, output_tokens=20, cost_usd=0.001
            )
            rows.calls.append({**own, "day": "2027-01-15", **call.model_dump()})
            rows.words.append({**own, "n": each.n, "data": zlib.compress(each.to_json().encode())})
    with closing(connect_blocking(path, writable=True)) as connection:
        insert(connection, rows)
