"""The results of a recorded turn's tool calls, given back to a model that makes the same calls. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from agentic.llm.types import ToolCall, ToolResult, ToolRound
from agentic.replay.prompts import inputs_of
from agentic.tools.prefill_tools import CALL_STOP, TextCall, call_in
from agentic.wire.entries import CallWords

Key = tuple[str, str]  # a tool's name, its arguments as JSON


class RecordedResults:
    """The results by their calls. Each is given once, so a replay makes at most one call of the model more than there
    are results."""

    def __init__(self, recorded: Sequence[CallWords]) -> None:
        """`recorded`: the turn's calls of a model, in order. Raises NotReplayable."""
        self._results: dict[Key, ToolResult] = {}
        self._blocks: dict[Key, str] = {}  # of prefill mode, where calls and results are text
        for words in recorded:
            for step in inputs_of(words, least_seconds=0.0).prompt.rounds:
                for call, result in zip(step.calls, step.results, strict=False):
                    self._results[_key(call.name, call.arguments)] = result
        for words, following in pairwise(recorded):
            self._note_block(words, following)

    def __len__(self) -> int:
        return len(self._results) + len(self._blocks)

    def round_of(self, calls: Sequence[ToolCall], text: str, echo: object) -> ToolRound | None:
        """The step in which these calls got their results; None where one of them is not recorded."""
        wanted = [_key(call.name, call.arguments) for call in calls]
        if not self._results.keys() >= set(wanted) or len(set(wanted)) < len(wanted):
            return None
        found = [self._results.pop(key) for key in wanted]
        results = (
            ToolResult(call.id, call.name, result.text, is_error=result.is_error)
            for call, result in zip(calls, found, strict=True)
        )
        return ToolRound(tuple(calls), tuple(results), text, echo)

    def lacks(self, calls: Sequence[ToolCall]) -> list[str]:
        """The names of the tools whose results are not recorded for these calls, or were given before."""
        return [call.name for call in calls if _key(call.name, call.arguments) not in self._results]

    def prefill_after(self, prefill: str, call: TextCall) -> str | None:
        """The text from which the model continues after the call's result; None where it is not recorded."""
        block = self._blocks.pop(_key(call.name, call.arguments or {}), None)
        return None if block is None else f"{_up_to(prefill, call)}{block}"

    def _note_block(self, words: CallWords, following: CallWords) -> None:
        call = call_in(words.completion) if words.prefill is not None else None
        if call is None or following.prefill is None:
            return
        start = _up_to(words.prefill or "", call)
        if following.prefill.startswith(start):
            self._blocks[_key(call.name, call.arguments or {})] = following.prefill[len(start) :]


def _up_to(prefill: str, call: TextCall) -> str:
    """As agentic.tools.prefill_tools.went_on begins."""
    return f"{prefill}{call.before}{call.text}{CALL_STOP}\n"


def _key(name: str, arguments: Mapping[str, Any]) -> Key:
    return name, json.dumps(arguments, sort_keys=True, default=str)
