"""Validate and run the tool calls of an answer concurrently, each call once per turn, with limits of time and size.

A failing tool doesn't end a turn: a model that reads the error may correct its call. An unknown name, invalid
arguments, and a tool that fails or hangs give a result of one line. Tracebacks only go to the log.

Arguments are validated against the tool's JSON schema, which may come from another program. References aren't fetched,
and an unresolvable reference accepts anything. Regular expressions aren't run, because a match can take forever. An
invalid schema, or a schema with endless references, accepts anything too: the tool checks its own arguments. `oneOf`
is read as `anyOf`, which is what other programs mean by it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from agentic.llm.turns import RAW
from agentic.llm.types import Picture, ToolCall, ToolResult
from agentic.net.addresses import FetchRefused
from agentic.net.images import as_picture
from agentic.tools.call_log import ToolRecord
from agentic.tools.tool import Toolbox, ToolContext, ToolOutput

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MAX_REFERENCES = 10_000  # followed for one call: a few references can expand exponentially
_WITH_PATTERNS = ("pattern", "patternProperties", "unevaluatedProperties")
_WORDS: Mapping[str, Callable[[Any], str]] = {
    "type": lambda kinds: f"must be {kinds if isinstance(kinds, str) else ' or '.join(kinds)}",
    "const": lambda value: f"must be {value!r}",
    "enum": lambda choices: f"must be one of {', '.join(map(repr, choices[:20]))}",
    "minimum": "must be at least {}".format,
    "maximum": "must be at most {}".format,
    "exclusiveMinimum": "must be more than {}".format,
    "exclusiveMaximum": "must be less than {}".format,
    "minLength": "must be at least {} characters".format,
    "maxLength": "must be at most {} characters".format,
    "minItems": "must be at least {} items".format,
    "maxItems": "must be at most {} items".format,
    "anyOf": lambda _: "fits none of its allowed forms",
    "oneOf": lambda _: "fits none of its allowed forms",
}
_references_left: ContextVar[list[int]] = ContextVar("references_left")

AGAIN = "[You already made this call in this turn. It is not run again. Its result was:]\n"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """Limits of a turn's tools.

    `call_seconds`: for a call. `answer_seconds`: reserved for the model's last answer. `calls`: per answer, `at_once`
    of them concurrently. `characters`: of a result; `turn_characters`: of all results. `pictures`: per result, of at
    most `picture_bytes` each. `idle`: after this many answers in a row without a new call, the loop ends.
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
    """A call that starts, or its result. `people` and `messages` are from ToolOutput."""

    kind: Literal["call", "result"]
    record: ToolRecord
    people: frozenset[int] = frozenset()
    messages: tuple[int, ...] = ()


@dataclass(slots=True)
class CallRunner:
    """Runs and remembers the calls of one turn. `ends` and `clock` are in unix seconds.

    `earlier`: the turn's calls before a crash of the program; successful calls aren't run again.
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
            _key(record): ToolOutput(record.output)  # pictures aren't recorded
            for record in self.earlier
            if record.output is not None and not record.is_error
        }

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Return one result for each call, in order. Raises nothing but CancelledError."""
        calls = list(calls)
        for place, call in enumerate(calls):
            try:
                _key(call)
            except (ValueError, RecursionError):  # too deep, or a number too long, to be written as JSON
                calls[place] = replace(call, arguments={RAW: ""})
        new: dict[str, ToolCall] = {}
        for call in calls[: self.limits.calls]:
            key = _key(call)
            if key not in self._done:
                new.setdefault(key, call)
        room = asyncio.Semaphore(self.limits.at_once)

        async def run(key: str, call: ToolCall) -> None:
            async with room:
                known = self._known.get(key)
                self._done[key] = known if known is not None else await self._run_recorded(call)

        async with asyncio.TaskGroup() as group:
            for key, call in new.items():
                group.create_task(run(key, call), name=f"tool {call.name}")
        is_idle = all(self._done[key].was_refused for key in new)
        self.idle = self.idle + 1 if is_idle else 0
        first = {id(call) for call in new.values()}
        results = []
        for call in calls:
            output = self._done.get(_key(call))
            if output is None:
                output = ToolOutput.failed("too many calls at once: make this call again")
            elif id(call) not in first:
                output = ToolOutput(AGAIN + output.text, is_error=output.is_error)
            results.append(ToolResult(call.id, call.name, output.text, output.pictures, output.is_error))
            self.characters += len(output.text)
        return tuple(results)

    def refuse(self, call: ToolCall, problem: str) -> ToolResult:
        """Return the result of an unreadable call."""
        self.idle += 1
        return ToolResult(call.id, call.name, problem, is_error=True)

    async def _run_recorded(self, call: ToolCall) -> ToolOutput:
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
        output = await self._output(call)
        fit, limit = context.fit, self.limits.pictures
        if fit is not None and output.pictures:
            # If a picture can't be scaled, limit_output checks the original.
            scaled = [await fit(picture) or picture for picture in output.pictures[:limit]]
            output = replace(output, pictures=(*scaled, *output.pictures[limit:]))
        output = limit_output(output, self.limits)
        self.ended = self.ended or output.ends_turn
        record = self.records[place] = replace(record, output=output.text, is_error=output.is_error)
        self.seen(ToolEvent("result", record, output.people, output.messages))
        return output

    async def _output(self, call: ToolCall) -> ToolOutput:
        tool = self.box.get(call.name)
        if tool is None:
            return ToolOutput.refused(f"unknown tool; the tools are: {', '.join(self.box)}")
        problem = problem_with(call.arguments, tool.spec.parameters)
        if problem is not None:
            return ToolOutput.refused(f"invalid arguments: {problem}")
        seconds = min(self.limits.call_seconds, self.ends - self.limits.answer_seconds - self.clock())
        if seconds <= 0:
            return ToolOutput.refused("this turn has no time left")
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await tool.execute(call.arguments, self.context)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log.exception("tool %s canceled itself", call.name)
        except TimeoutError:
            if limit.expired():
                return ToolOutput.failed(f"the tool took longer than {seconds:.0f} s")
            log.exception("tool %s failed", call.name)
        except Exception:
            # The outermost edge of code that may be another program's: the model must get a result.
            log.exception("tool %s failed", call.name)
        return ToolOutput.failed("the tool failed")


def limit_output(output: ToolOutput, limits: LoopLimits) -> ToolOutput:
    """Replace control characters and cut the output down to the limits."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", output.text)
    if len(text) > limits.characters:
        text = f"{text[: limits.characters]}\n[cut here; it has {len(text)} characters]"
    pictures: list[Picture] = []
    for picture in output.pictures:
        if len(picture.data) <= limits.picture_bytes:
            # Its bytes say its type. A picture that the provider rejects would fail the whole request.
            with suppress(FetchRefused):
                pictures.append(as_picture(picture.data))
    pictures = pictures[: limits.pictures]
    lost = len(output.pictures) - len(pictures)
    if lost:
        text = f"{text}\n[{lost} of {len(output.pictures)} pictures left out: too many, too large, or broken]".lstrip()
    return replace(output, text=text or "(nothing)", pictures=tuple(pictures))


def _key(call: ToolCall | ToolRecord) -> str:
    """Return a key that is equal for equal calls."""
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True, default=str)}"


def problem_with(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the arguments, in one line that the model can act on; None if they are valid."""
    if set(arguments) == {RAW} and RAW not in (schema.get("properties") or {}):
        return "the arguments are not one JSON object"
    from referencing import Registry  # no registry retrieves by itself
    from referencing.exceptions import Unresolvable

    _references_left.set([MAX_REFERENCES])
    try:
        validator = _validator()({"type": "object", **schema}, registry=Registry())
        error = next(validator.iter_errors(dict(arguments)), None)
        return None if error is None else _describe(error)
    except (Unresolvable, RecursionError, TypeError, ValueError, AttributeError, LookupError):
        return None  # not a valid schema


@cache
def _validator() -> Any:
    """Return a validator class without the keywords that run a schema's regular expressions."""
    from jsonschema import Draft202012Validator, validators  # importing takes 60 ms, and only tool calls need it
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    known = Draft202012Validator.VALIDATORS

    def lenient(keyword: str) -> Any:
        def check(*judged: Any) -> Iterator[ValidationError]:
            left = _references_left.get()
            left[0] -= keyword != "type"
            if left[0] < 0:
                raise RecursionError
            try:
                yield from known[keyword](*judged) or ()
            except (Unresolvable, UnknownType):
                return

        return check

    def others(validator: Any, wanted: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
        if not schema.get("patternProperties"):
            yield from known["additionalProperties"](validator, wanted, value, schema) or ()

    judged = {keyword: check for keyword, check in known.items() if keyword not in _WITH_PATTERNS}
    judged |= {keyword: lenient(keyword) for keyword in ("$ref", "$dynamicRef", "type")}
    return validators.create(
        Draft202012Validator.META_SCHEMA,
        judged | {"additionalProperties": others, "oneOf": known["anyOf"]},
        type_checker=Draft202012Validator.TYPE_CHECKER,
    )


def _describe(error: Any) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)[:200]
    path, keyword, value = place.lstrip("."), str(error.validator), error.instance
    if keyword == "required" and isinstance(value, dict):
        lacking = next(name for name in error.validator_value if name not in value)
        return f"{path}.{lacking} is missing".lstrip(".")
    if keyword == "additionalProperties" and isinstance(value, dict):
        other = next(name for name in value if name not in error.schema.get("properties", {}))
        return f"{path}.{other[:100]} is not one of its arguments".lstrip(".")
    words = _WORDS[keyword](error.validator_value) if keyword in _WORDS else error.message[:200]
    return f"{path or 'the arguments'} {words}"
