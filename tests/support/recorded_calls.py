"""Recorded calls, as a turn leaves them, without a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agent_llm.types import Message, Prompt, ToolRound
from agent_protocol.record.entries import CallRecord, CallWords, HistoryMessage
from agent_replay.comparison import RecordedTurn
from agent_store.queries.turns import Turn

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


def recorded_turn(*words: CallWords, cost_usd: float = 0.001) -> RecordedTurn:
    """The turn of these calls; each has cost so much."""
    calls = tuple(
        CallRecord(n=each.n, model=each.model, input_tokens=100, output_tokens=20, cost_usd=cost_usd) for each in words
    )
    first = words[0]
    known = {
        **dict.fromkeys(Turn.__dataclass_fields__),
        **{"agent": first.agent, "id": first.turn_id, "at": first.at, "trigger": "round", "round": 2},
        **{"outcome": "posted", "model": first.model, "channel_id": first.channel_id},
    }
    return RecordedTurn(Turn(**known), calls, words)
