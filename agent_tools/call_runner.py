"""The calls of one answer, run: checked, side by side, in bounded time, with bounded results, each one once a turn.

A model reads an error and may do better, so nothing that goes wrong with a tool ends a turn: an unknown name, arguments
that do not fit, a tool that fails or hangs are results too, of one line. What is not known to be harmless is not shown:
the traceback goes to the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agent_llm.types import Picture, ToolCall, ToolResult
from agent_net.addresses import FetchRefused
from agent_net.picture_fetcher import as_picture
from agent_tools.arguments import RAW, problem_with
from agent_tools.call_log.record import ToolRecord
from agent_tools.protocol import RunnableTool, ToolContext, ToolOutput
from agent_tools.toolbox import Toolbox

AGAIN = "[This call was made before in this turn and is not run again; its result was:]\n"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """What a turn's tools may take.

    `call_seconds` for one call; `answer_seconds` are left to the model for its last words. `calls` of one answer, of
    which `at_once` run side by side. `characters` of one result, `turn_characters` of all. `pictures` of one result,
    `picture_bytes` each. `idle` answers that ask for nothing new, one after the other, end the loop.
    """

    call_seconds: float = 30.0
    answer_seconds: float = 12.0
    calls: int = 16
    at_once: int = 4
    characters: int = 16_000
    turn_characters: int = 200_000
    pictures: int = 4
    picture_bytes: int = 4_000_000
    idle: int = 3


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """A call that begins, or has its result."""

    kind: Literal["call", "result"]
    record: ToolRecord


@dataclass(slots=True)
class CallRunner:
    """Runs the calls of one turn and remembers them. `ends` and `clock` in unix seconds.

    `earlier` are those of the same turn in a run of the program that was cut off: what went well is not run again.
    """

    box: Toolbox
    context: ToolContext
    limits: LoopLimits
    seen: Callable[[ToolEvent], None]
    clock: Callable[[], float]
    ends: float
    earlier: Sequence[ToolRecord] = ()
    records: list[ToolRecord] = field(default_factory=list)
    characters: int = 0
    idle: int = 0
    ended: bool = False
    _done: dict[str, ToolOutput] = field(default_factory=dict)
    _known: dict[str, ToolOutput] = field(init=False)

    def __post_init__(self) -> None:
        self._known = {
            _key(record): ToolOutput(record.output)  # pictures are not kept
            for record in self.earlier
            if record.output is not None and not record.is_error
        }

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """One result for each call, in their order. Raises nothing but CancelledError."""
        calls = [_sound(call) for call in calls]
        new: dict[str, ToolCall] = {}
        for call in calls[: self.limits.calls]:
            key = _key(call)
            if key not in self._done:
                new.setdefault(key, call)
        await self._run_all(new)
        self.idle = 0 if new else self.idle + 1
        first = {id(call) for call in new.values()}
        results = tuple(self._result(call, id(call) in first) for call in calls)
        self.characters += sum(len(result.text) for result in results)
        return results

    def refuse(self, call: ToolCall, problem: str) -> ToolResult:
        """The result of a call that cannot be read."""
        self.idle += 1
        return ToolResult(call.id, call.name, problem, is_error=True)

    async def _run_all(self, calls: dict[str, ToolCall]) -> None:
        room = asyncio.Semaphore(self.limits.at_once)

        async def run(key: str, call: ToolCall) -> None:
            async with room:
                known = self._known.get(key)
                self._done[key] = known if known is not None else await self._recorded(call)

        async with asyncio.TaskGroup() as group:
            for key, call in calls.items():
                group.create_task(run(key, call), name=f"tool {call.name}")

    def _result(self, call: ToolCall, is_first: bool) -> ToolResult:
        output = self._done.get(_key(call))
        if output is None:
            return ToolResult(call.id, call.name, "too many calls at once: ask again for this one", is_error=True)
        if is_first:
            return ToolResult(call.id, call.name, output.text, output.pictures, output.is_error)
        return ToolResult(call.id, call.name, AGAIN + output.text, is_error=output.is_error)

    async def _recorded(self, call: ToolCall) -> ToolOutput:
        """Runs a call and tells of it before and after."""
        context, place = self.context, len(self.records)
        record = ToolRecord(
            id=f"{context.turn_id}:{len(self.earlier) + place + 1}",
            agent=context.agent,
            channel_id=context.channel_id,
            turn_id=context.turn_id,
            after_message_id=context.after_message_id,
            name=call.name[:100],
            arguments=call.arguments,
            at=self.clock(),
            asked_by=context.asked_by,
        )
        self.records.append(record)
        self.seen(ToolEvent("call", record))
        output = bounded(await self._fitted(await self._output(call)), self.limits)
        self.ended = self.ended or output.ends_turn
        record = self.records[place] = replace(record, output=output.text, is_error=output.is_error)
        self.seen(ToolEvent("result", record))
        return output

    async def _fitted(self, output: ToolOutput) -> ToolOutput:
        """Its pictures as the model takes them; what cannot be made so is judged as it is."""
        fit = self.context.fit
        if fit is None or not output.pictures:
            return output
        pictures = [await fit(picture) or picture for picture in output.pictures[: self.limits.pictures]]
        return replace(output, pictures=(*pictures, *output.pictures[self.limits.pictures :]))

    async def _output(self, call: ToolCall) -> ToolOutput:
        tool = self.box.get(call.name)
        if tool is None:
            return ToolOutput.failed(f"there is no such tool; there are: {', '.join(self.box.names)}")
        problem = problem_with(call.arguments, tool.spec.parameters)
        if problem is not None:
            return ToolOutput.failed(f"the arguments do not fit: {problem}")
        seconds = min(self.limits.call_seconds, self.ends - self.limits.answer_seconds - self.clock())
        if seconds <= 0:
            return ToolOutput.failed("there is no time left in this turn")
        return await self._within(seconds, tool, call)

    async def _within(self, seconds: float, tool: RunnableTool, call: ToolCall) -> ToolOutput:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await tool.execute(call.arguments, self.context)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log.exception("the tool %s cancelled itself", call.name)
        except TimeoutError:
            if limit.expired():
                return ToolOutput.failed(f"it took too long, over {seconds:.0f} s")
            log.exception("the tool %s failed", call.name)
        except Exception:
            # The outermost edge of what may be another maker's code: the model is owed a result.
            log.exception("the tool %s failed", call.name)
        return ToolOutput.failed("the tool failed")


def bounded(output: ToolOutput, limits: LoopLimits) -> ToolOutput:
    """The output without what breaks encodings, and not larger than a result may be."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", output.text)
    if len(text) > limits.characters:
        text = f"{text[: limits.characters]}\n[cut here; it has {len(text)} characters]"
    usable = (_usable(picture, limits.picture_bytes) for picture in output.pictures)
    pictures = tuple(picture for picture in usable if picture is not None)[: limits.pictures]
    lost = len(output.pictures) - len(pictures)
    if lost:
        text = f"{text}\n[{lost} of {len(output.pictures)} pictures left out: too many, too large or none]".lstrip()
    return replace(output, text=text or "(nothing)", pictures=pictures)


def _usable(picture: Picture, most: int) -> Picture | None:
    """The picture as what its bytes are; one that providers refuse would fail the whole request."""
    if len(picture.data) > most:
        return None
    try:
        return Picture(picture.data, as_picture(picture.data).media_type)
    except FetchRefused:
        return None


def _sound(call: ToolCall) -> ToolCall:
    """The call, without arguments that no JSON can be made of: too deep, or a number too long."""
    try:
        _key(call)
    except (ValueError, RecursionError):
        return replace(call, arguments={RAW: ""})
    return call


def _key(call: ToolCall | ToolRecord) -> str:
    """The same for calls that ask the same."""
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True, default=str)}"
