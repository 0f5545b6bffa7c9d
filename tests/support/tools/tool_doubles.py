"""Tools, contexts and a model for the tests of the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentic.llm.types import Prompt, Reply, Tool, ToolCall, Usage
from agentic.tools.call_log import ToolRecord
from agentic.tools.call_runner import CallRunner, LoopLimits, ToolEvent
from agentic.tools.loop import ToolLoop
from agentic.tools.tool import Toolbox, ToolContext, ToolOutput

CONTEXT = ToolContext(
    agent="claude", channel_id=7, guild_id=1, asked_by=42, deadline=1000.0, turn_id="m5", after_message_id=5
)
ANY = {"type": "object"}


class FakeTool:
    """Answers with what `answer` makes of the arguments: a text, an output, or an error that it raises."""

    def __init__(self, name: str, answer: Callable[[Mapping[str, Any]], object], parameters: Any = ANY) -> None:
        self.spec = Tool(name, f"does {name}", parameters)
        self.answer = answer
        self.ran: list[Mapping[str, Any]] = []

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        self.ran.append(arguments)
        found = self.answer(arguments)
        if asyncio.iscoroutine(found):
            found = await found
        if isinstance(found, BaseException):
            raise found
        return found if isinstance(found, ToolOutput) else ToolOutput(str(found))


class FakeModel:
    """Answers in order; keeps the prompts that it was given. A list of calls is an answer that asks for them."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.prompts: list[Prompt] = []

    async def __call__(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        usage = Usage(calls=1, input_tokens=10, output_tokens=1)
        if isinstance(answer, list):
            return Reply(text="", tool_calls=tuple(answer), usage=usage, echo=f"echo{len(self.prompts)}")
        assert isinstance(answer, str)
        if prompt.on_text is not None:
            for end in range(1, len(answer) + 1):
                prompt.on_text(answer[:end])
        return Reply(text=answer, usage=usage)


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, arguments)


@dataclass(frozen=True)
class LoopOutcome:
    """The last answer, and the calls that were run."""

    reply: Reply
    records: tuple[ToolRecord, ...]


def ignore_event(event: ToolEvent) -> None:
    del event


async def always() -> bool:
    return True


async def run_tools(
    ask: Callable[[Prompt], Awaitable[Reply]],
    prompt: Prompt,
    box: Toolbox,
    *,
    context: ToolContext,
    seen: Callable[[ToolEvent], None] = ignore_event,
    clock: Callable[[], float] = time.time,
    limits: LoopLimits | None = None,
    may_go_on: Callable[[], Awaitable[bool]] = always,
    earlier: Sequence[ToolRecord] = (),
    **more: Any,
) -> LoopOutcome:
    """Ask the model and run its calls until it has answered, as a turn does."""
    ends = min(context.deadline, clock() + prompt.timeout)
    runner = CallRunner(box, context, limits or LoopLimits(), seen, clock, ends, earlier)
    loop = ToolLoop(prompt, runner, **more)
    prompt = loop.first_prompt()
    while await loop.take(await ask(prompt)):
        prompt = loop.next_prompt(with_tools=loop.has_rounds_left and await may_go_on())
    return LoopOutcome(loop.answer, tuple(runner.records))
