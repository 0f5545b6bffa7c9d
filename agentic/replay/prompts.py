"""From the words of a recorded call to the prompt and history that it was made with. Pure, but for a persona's files.

A prompt is what it was to the byte, without its pictures: those are not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from agentic.agent.persona import Persona
from agentic.llm.types import Message, Prompt, Role, Tool, ToolCall, ToolResult, ToolRound
from agentic.personas.prompt import preamble
from agentic.tools.memory import NAME as MEMORY
from agentic.wire.entries import CallWords

SAME = (
    *("schema", "schema_name", "search", "max_output_tokens", "cache_key", "since", "cache_ttl", "temperature"),
    *("fields", "labels"),
)
"""Options that are recorded as a Prompt has them. Its conversation is left out: a replay joins no model's session. It
is not retried either, since each attempt may cost as much as the first."""


class NotReplayable(Exception):
    """The turn cannot be made again. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """`pictures_missing`: how many pictures the call had."""

    prompt: Prompt
    history: tuple[Message, ...]
    pictures_missing: int


def inputs_of(words: CallWords, *, least_seconds: float) -> Inputs:
    """The inputs of a call, with as much time as it had and at least so many seconds. Raises NotReplayable."""
    options = words.options
    try:
        history = tuple(Message(_role(message.role), message.text, cache=message.cache) for message in words.history)
        prompt = Prompt(
            text=words.text,
            system=words.system,
            stable=words.stable,
            prefill=words.prefill,
            retries=0,
            timeout=max(least_seconds, float(options.get("timeout", 0.0))),
            tools=tuple(Tool(**tool) for tool in options.get("tools", ())),
            rounds=tuple(map(_round, options.get("rounds", ()))),
            stop=tuple(options.get("stop", ())),
            **{name: options[name] for name in SAME if name in options},
        )
    except (TypeError, ValueError, KeyError) as error:
        raise NotReplayable("its prompt was recorded in a form that this version cannot read") from error
    pictures = sum(message.pictures for message in words.history) + int(options.get("pictures", 0))
    return Inputs(prompt, history, pictures)


def _role(name: str) -> Role:
    return get_args(Role)[get_args(Role).index(name)]  # type: ignore[no-any-return]


def _round(step: Mapping[str, Any]) -> ToolRound:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in step["calls"])
    results = tuple(
        ToolResult(result["call_id"], result["name"], result["text"], is_error=bool(result.get("is_error")))
        for result in step["results"]
    )
    return ToolRound(calls, results, step.get("text", ""))


def persona_in(folder: Path, recorded: Sequence[CallWords]) -> str:
    """The persona of these files as turns show it, with the memory tool where the recorded turn had it. Raises
    NotReplayable for a folder without any."""
    if not folder.is_dir():
        raise NotReplayable(f"there is no folder {folder.name}")
    writes = any(preamble(MEMORY).strip() in words.persona for words in recorded)
    persona = Persona(folder.name, folder).system(memory_tool=MEMORY if writes else None).stable.strip()
    if not persona:
        raise NotReplayable(f"{folder.name} has no file of a persona, such as soul.md")
    return persona


def with_persona(words: CallWords, persona: str) -> CallWords:
    """The call with another persona in the place of its own; all else is the same, the agent's notes too. Raises
    NotReplayable."""
    if not words.persona or words.persona not in words.system:
        raise NotReplayable("its prompt has no persona to replace")
    longer = len(persona) - len(words.persona)
    system = words.system.replace(words.persona, persona, 1)
    stable = words.stable + longer if words.stable else 0
    return words.model_copy(update={"system": system, "stable": stable, "persona": persona})
