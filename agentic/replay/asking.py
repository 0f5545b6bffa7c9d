"""Ask a model again what it was asked in a recorded turn.

    recorded words ─ prompt ─ model ─┬─ an answer ─ decision
                       ▲             └─ tool calls ─ recorded results ─┐
                       └───────────────────────────────────────────────┘

A call whose result is not recorded ends the replay: no tool is run. A turn's second attempt after an unreadable answer
(agentic.turn.decide) is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agentic.llm.errors import ModelError
from agentic.llm.turns import cut
from agentic.llm.types import Message, Model, Prompt, Reply, ToolResult, Usage
from agentic.replay.prompts import inputs_of
from agentic.replay.tool_results import RecordedResults
from agentic.tools.prefill_tools import TextCall, call_in, spoken, went_on
from agentic.turn.decision import Decision, UnreadableDecision, parse_decision
from agentic.turn.prefill_mode import SYSTEM_SPEAKS, Actions, ActionTool
from agentic.wire.entries import CallWords

FORCED = ("mention", "continue", "call")  # triggers of a person who waits for words


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAnswer:
    """`text` is the whole completion. `decision` is None where there is none, and `problem` then says why in one
    line."""

    model: str
    usage: Usage
    text: str = ""
    decision: Decision | None = None
    problem: str = ""


@dataclass(slots=True)
class Replaying:
    """A turn that is made again. `recorded`: the words of its calls, in order. `usage` grows with each call that has
    answered; `asking`: one is under way."""

    model: Model
    recorded: Sequence[CallWords]
    redact: Callable[[str], str]
    least_seconds: float
    usage: Usage = field(default_factory=Usage, init=False)
    asking: bool = field(default=False, init=False)

    async def answer(self) -> NewAnswer:
        """Raises NotReplayable. Where it is cancelled during a call, that call's cost is not in `usage`."""
        inputs = inputs_of(self.recorded[0], least_seconds=self.least_seconds)
        results = RecordedResults(self.recorded)
        try:
            if inputs.prompt.prefill is None:
                return await self._chat(inputs.prompt, inputs.history, results)
            return await self._prefilled(inputs.prompt, inputs.history, results)
        except ModelError as error:
            self.asking = False
            self.usage += error.usage or Usage()
            status = f" ({error.status})" if error.status else ""
            return self._ended(problem=f"{error.kind}{status}")

    async def _chat(self, prompt: Prompt, history: Sequence[Message], results: RecordedResults) -> NewAnswer:
        while True:
            reply = await self._ask(prompt, history)
            if not reply.tool_calls:
                return self._read(reply)
            step = results.round_of(reply.tool_calls, reply.text, reply.echo)
            if step is None:
                return self._ended(reply.text, problem=_wants(results.lacks(reply.tool_calls) or ["a tool twice"]))
            prompt = replace(prompt, rounds=(*prompt.rounds, step))

    def _read(self, reply: Reply) -> NewAnswer:
        try:
            return self._ended(reply.text, parse_decision(reply.text))
        except UnreadableDecision as error:
            return self._ended(reply.text, problem=f"the answer cannot be read: {error.reason}")

    async def _prefilled(self, prompt: Prompt, history: Sequence[Message], results: RecordedResults) -> NewAnswer:
        actions = Actions(forced=prompt.labels.get("trigger") in FORCED, can_draw=True, in_conversation=True)
        known = {tool.spec.name: tool for tool in actions.tools}  # each once
        speaker, parts, whole = prompt.labels.get("display_name", ""), list[str](), ""
        while True:
            reply = await self._ask(prompt, history)
            text = cut(reply.text, (SYSTEM_SPEAKS, *prompt.stop))
            whole += text
            call = call_in(text)
            parts.append(call.before if call else text)
            action = known.pop(call.name, None) if call else None
            if call is not None and action is not None:
                action.note(call.arguments or {})
            if call is None or (action is not None and action.ends_turn):
                return self._ended(whole, actions.decision(spoken(parts, speaker)))
            prefill = _after(prompt.prefill or "", call, action, results)
            if prefill is None:
                return self._ended(whole, problem=_wants([call.name or "a tool"]))
            prompt = replace(prompt, prefill=prefill)

    async def _ask(self, prompt: Prompt, history: Sequence[Message]) -> Reply:
        self.asking = True
        reply = await self.model.complete(prompt, history)
        self.asking = False
        self.usage += reply.usage
        return replace(reply, text=self.redact(reply.text))

    def _ended(self, text: str = "", decision: Decision | None = None, problem: str = "") -> NewAnswer:
        model = self.usage.model or self.model.name
        return NewAnswer(model=model, text=text, decision=decision, usage=self.usage, problem=problem)


def _after(prefill: str, call: TextCall, action: ActionTool | None, results: RecordedResults) -> str | None:
    """The text to continue from; None where the call's result is not recorded."""
    if action is None:
        return results.prefill_after(prefill, call)
    return went_on(prefill, call, ToolResult("", call.name, "done"))


def _wants(names: Sequence[str]) -> str:
    return f"it wants {', '.join(dict.fromkeys(names))}, and no such call is recorded; tools are not run"
