"""Chat Completions: https://platform.openai.com/docs/api-reference/chat. Pure functions.

Content is a plain string if it is only text, since many servers take nothing else. `tool_calls.py` describes how
unparsable arguments of calls are kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from agentic.llm import turns as stop_sequences
from agentic.llm.errors import BadAnswer, error_of_body
from agentic.llm.markup import strip_reasoning
from agentic.llm.profiles import Endpoint, Prefill, Profile
from agentic.llm.schemas import number, part, parts, schema_of, text, wants_schema
from agentic.llm.turns import (
    Part,
    Turn,
    arguments_of,
    cache_marks,
    calls_with_results,
    data_url,
    parameters_of,
    system_parts,
    turns_of,
    without_pictures,
    written,
)
from agentic.llm.types import Message, Prompt, Reply, StopReason, Tool, ToolCall, ToolResult, ToolRound, Usage

_STOPS: Mapping[str, StopReason] = {
    "stop": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "length",
    "content_filter": "refusal",
}
# Fields that a reasoning model needs back beside its calls, as OpenRouter, DeepSeek and vLLM name them.
_REASONING = ("reasoning_details", "reasoning_content", "reasoning")
_BEGINNING_MARK: Mapping[Prefill, str] = {"prefix": "prefix", "partial": "partial"}


# --- requests -------------------------------------------------------------------------------------------------------


def request_of(
    prompt: Prompt, history: Sequence[Message], model: str, profile: Profile, *, prefill: Prefill, asked_by: str
) -> dict[str, Any]:
    """Return the body of POST /chat/completions. `asked_by`: the provider that recognises its own echoes."""
    turns = turns_of(prompt, history, profile)
    marks = cache_marks(turns, profile.cache_marks - len(system_parts(prompt)))
    mark = {"type": "ephemeral"} if prompt.cache_ttl == "5m" else {"type": "ephemeral", "ttl": prompt.cache_ttl}
    between = "\n\n" if prompt.prefill is None else ""
    messages = [_system(prompt, mark if profile.cache_marks else None)] if prompt.system else []
    messages += [_message(turn, marks, mark, between) for turn in turns]
    if prompt.prefill is None:
        messages += [
            message for at, step in enumerate(prompt.rounds) for message in _round(step, at, asked_by, profile)
        ]
    elif prefill in _BEGINNING_MARK:
        messages[-1][_BEGINNING_MARK[prefill]] = True
    request = {"model": model, "messages": messages, **_limits(prompt, profile)}
    if prompt.prefill is not None and prefill == "continue":
        request |= {"add_generation_prompt": False, "continue_final_message": True}
    if prompt.tools:
        request["tools"] = [_tool(tool, profile) for tool in prompt.tools]
    if prompt.schema is not None and wants_schema(prompt, profile):
        wanted = {"name": prompt.schema_name, "schema": schema_of(prompt.schema, profile), "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return request


def body_for(
    endpoint: Endpoint, prompt: Prompt, history: Sequence[Message], model: str, profile: Profile
) -> tuple[dict[str, Any], bool]:
    """The request for an endpoint, and whether it is for plain text, as a base model continues it."""
    if prompt.prefill is not None and endpoint.prefill == "completions":
        one_text = replace(profile, alternate=False)
        return completion_of(*without_pictures(prompt, history), model, one_text), True
    return request_of(prompt, history, model, profile, prefill=endpoint.prefill, asked_by=endpoint.name), False


def _tool(tool: Tool, profile: Profile) -> dict[str, Any]:
    parameters = parameters_of(tool.parameters, profile)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def completion_of(prompt: Prompt, history: Sequence[Message], model: str, profile: Profile) -> dict[str, Any]:
    """Return the body of POST /completions: system, history and the prefilled answer as one text, with blank lines
    between roles."""
    texts = ((turn.role, "".join(piece.text for piece in turn.parts)) for turn in turns_of(prompt, history, profile))
    by_role = groupby(((role, said) for role, said in texts if said), key=lambda turn: turn[0])
    said = ["".join(words for _, words in same) for _, same in by_role]  # joins the parts of a prefilled answer
    return {
        "model": model,
        "prompt": "\n\n".join(piece for piece in (prompt.system, *said) if piece),
        **_limits(prompt, profile),
    }


def _limits(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    limits: dict[str, Any] = {"max_tokens": prompt.max_output_tokens}
    if wanted := stop_sequences.for_request(prompt.stop, profile.max_stops):
        limits["stop"] = wanted
    if prompt.temperature is not None:
        limits["temperature"] = prompt.temperature
    return limits


def _system(prompt: Prompt, mark: Mapping[str, str] | None) -> dict[str, Any]:
    if mark is None:
        return {"role": "system", "content": prompt.system}
    pieces = [{"type": "text", "text": piece, "cache_control": mark} for piece in system_parts(prompt)]
    return {"role": "system", "content": pieces}


def _message(turn: Turn, marks: Container[int], mark: Mapping[str, str], between: str) -> dict[str, Any]:
    if all(piece.picture is None and id(piece) not in marks for piece in turn.parts):
        return {"role": turn.role, "content": between.join(piece.text for piece in turn.parts)}
    return {
        "role": turn.role,
        "content": [_content(piece) | ({"cache_control": mark} if id(piece) in marks else {}) for piece in turn.parts],
    }


def _content(piece: Part) -> dict[str, Any]:
    if piece.picture is None:
        return {"type": "text", "text": piece.text}
    return {"type": "image_url", "image_url": {"url": data_url(piece.picture)}}


def _round(step: ToolRound, place: int, asked_by: str, profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield the model's calls, their results, and the results' pictures, which a result cannot carry."""
    own = step.echo if isinstance(step.echo, Mapping) and step.echo.get("by") == asked_by else {}
    pairs = calls_with_results(step, place, own=bool(own))
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": written(call.arguments)},
        }
        for call, _ in pairs
    ]
    yield {"role": "assistant", "content": step.text, "tool_calls": calls, **part(own, "reasoning")}
    for _, result in pairs:
        said = f"Error: {result.text}" if result.is_error else result.text
        yield {"role": "tool", "tool_call_id": result.call_id, "content": said}
    yield from _pictures(step.results, profile)


def _pictures(results: Sequence[ToolResult], profile: Profile) -> Iterator[dict[str, Any]]:
    shown = Message("user", "", tuple(picture for result in results for picture in result.pictures))
    for turn in turns_of(Prompt(text=""), [shown], profile):
        yield {"role": "user", "content": [_content(piece) for piece in turn.parts]}


# --- answers --------------------------------------------------------------------------------------------------------


def reply_of(answer: Mapping[str, Any], asked_by: str, request_id: str | None = None) -> Reply:
    """Return the Reply in an answer of either API, with the usage that it reports. Raises an error reported with status
    200."""
    _raise_if_failed(answer, request_id)
    choices = parts(answer, "choices")
    if not choices:
        raise BadAnswer("empty", request_id=request_id)
    choice = choices[0]
    _raise_if_failed(choice, request_id)
    message = part(choice, "message") or choice  # plain completions have their text in the choice
    said = strip_reasoning(said_in(message))
    calls = calls_of(message)
    refused = not said and not calls and bool(text(message, "refusal"))
    reasoning = {key: message[key] for key in _REASONING if message.get(key)}
    return Reply(
        text=said,
        usage=usage_of(answer),
        request_id=request_id or text(answer, "id") or None,
        stop="refusal" if refused else _STOPS.get(text(choice, "finish_reason"), "other"),
        tool_calls=calls,
        echo={"by": asked_by, "reasoning": reasoning} if calls else None,
    )


def _raise_if_failed(answer: Mapping[str, Any], request_id: str | None) -> None:
    """Raise the error in an answer: gateways send 200 before they know that a model's server fails."""
    if answer.get("error"):
        raise error_of_body(answer["error"], request_id)


def said_in(message: Mapping[str, Any]) -> str:
    """Return a message's text: a string, or the texts of its parts. Plain completions call it `text`."""
    listed = "".join(text(piece, "text") for piece in parts(message, "content"))
    return listed or text(message, "content") or text(message, "text")


def calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the calls in a message. An id may be missing, or there twice."""
    return tuple(
        ToolCall(
            text(call, "id"),
            text(part(call, "function"), "name"),
            arguments_of(part(call, "function").get("arguments")),
        )
        for call in parts(message, "tool_calls")
    )


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """Return the usage. DeepSeek reports cached tokens in a field of its own."""
    cached = number(answer, "usage", "prompt_tokens_details", "cached_tokens")
    return Usage(
        calls=1,
        input_tokens=number(answer, "usage", "prompt_tokens"),
        cached_tokens=cached or number(answer, "usage", "prompt_cache_hit_tokens"),
        cache_write_tokens=number(answer, "usage", "prompt_tokens_details", "cache_write_tokens"),
        output_tokens=number(answer, "usage", "completion_tokens"),
        reasoning_tokens=number(answer, "usage", "completion_tokens_details", "reasoning_tokens"),
    )
