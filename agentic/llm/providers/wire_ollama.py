"""Ollama's own API, as a dialect of Chat Completions: requests and answers are translated. Pure functions.

Its OpenAI-compatible address has no field for the context size, and the default of 4,096 tokens is less than a prompt
of ours: what does not fit is cut off silently. Thinking is off, or as short as the model allows, unless the owner's
fields say otherwise, since it takes minutes on a small machine.

Of a tool's parameters the official client sends type, items, description and enum of each property; the other keywords
(a nested object's properties, anyOf, $ref) are added to the description as JSON, which models read as well.
https://docs.ollama.com/api/chat, https://docs.ollama.com/api/openai-compatibility
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from agentic.llm.schemas import number, part, parts, text
from agentic.llm.turns import arguments_of

LEAST_CONTEXT = 8_192  # tokens
MOST_CONTEXT = 131_072
ANSWER = 1_024  # tokens kept free for the answer; few are longer

_SENT = ("type", "items", "description", "enum")

Json = Mapping[str, Any]


def context_for(input_tokens: int, least: int = LEAST_CONTEXT) -> int:
    """The context size for an input of so many tokens, one of few steps: Ollama loads the model again for each size."""
    size = max(least, LEAST_CONTEXT)
    while size < min(input_tokens + ANSWER, MOST_CONTEXT):
        size *= 2
    return size


# --- requests -------------------------------------------------------------------------------------------------------


def request_of(body: Json, context: int) -> dict[str, Any]:
    """Translate the body of POST /chat/completions into the arguments of the client's `chat`. Pictures are bytes: the
    client would take a text for a file's path."""
    request = {"model": body["model"], "messages": _messages(body["messages"]), "options": _options(body, context)}
    if "tools" in body:
        request["tools"] = [_tool(tool) for tool in body["tools"]]
    if "response_format" in body:
        request["format"] = body["response_format"]["json_schema"]["schema"]
    return {**request, "think": _least_thinking(body["model"])}


def plain_request_of(body: Json, context: int) -> dict[str, Any]:
    """Translate the body of POST /completions into the arguments of the client's `generate`: a text that the model
    continues, without a template."""
    return {"model": body["model"], "prompt": body["prompt"], "raw": True, "options": _options(body, context)}


def _options(body: Json, context: int) -> dict[str, Any]:
    options = {"num_ctx": context, "num_predict": body["max_tokens"]}
    return options | {key: body[key] for key in ("stop", "temperature") if key in body}


def _least_thinking(model: str) -> bool | str:
    """gpt-oss always thinks, and takes the length instead: https://docs.ollama.com/capabilities/thinking"""
    return "low" if "gpt-oss" in model else False


def with_fields(request: Json, *fields: Json) -> dict[str, Any]:
    """The request with the owner's fields; `options` are merged one by one."""
    merged = dict(request)
    for own in fields:
        merged |= {**own, "options": {**part(merged, "options"), **part(own, "options")}}
    return merged


def _messages(messages: Sequence[Json]) -> list[dict[str, Any]]:
    calls = (call for each in messages for call in parts(each, "tool_calls"))
    names = {text(call, "id"): text(part(call, "function"), "name") for call in calls}
    return [_message(each, names) for each in messages]


def _message(message: Json, names: Json) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message["role"], "content": _text(message.get("content"))}
    if images := [_picture(piece) for piece in parts(message, "content") if "image_url" in piece]:
        written["images"] = images
    if calls := parts(message, "tool_calls"):
        written["tool_calls"] = [{"function": _function(part(call, "function"))} for call in calls]
    if message["role"] == "tool":
        written["tool_name"] = names.get(message["tool_call_id"], "")
    if thought := text(message, "reasoning"):
        written["thinking"] = thought
    return written


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n\n".join(piece["text"] for piece in content if "text" in piece)


def _picture(piece: Json) -> bytes:
    return b64decode(text(part(piece, "image_url"), "url").partition(",")[2])


def _function(function: Json) -> dict[str, Any]:
    return {"name": function["name"], "arguments": arguments_of(function["arguments"])}


def _tool(tool: Json) -> dict[str, Any]:
    function = part(tool, "function")
    parameters = dict(part(function, "parameters"))
    properties = {name: _property(schema) for name, schema in part(parameters, "properties").items()}
    return {**tool, "function": {**function, "parameters": {**parameters, "properties": properties}}}


def _property(schema: Any) -> dict[str, Any]:
    """Return a property's schema with what the client drops written into its description."""
    if not isinstance(schema, Mapping):
        return {}  # true: anything
    kept = {key: schema[key] for key in _SENT if key in schema}
    dropped = {key: value for key, value in schema.items() if key not in _SENT}
    if not dropped:
        return kept
    said = json.dumps(dropped, ensure_ascii=False, default=str)
    return {**kept, "description": "\n".join(filter(None, (text(schema, "description"), f"JSON schema: {said}")))}


# --- answers --------------------------------------------------------------------------------------------------------


def answer_of(native: Json) -> Json:
    """Translate an answer in one piece into one of /chat/completions."""
    choice = {"message": _said(native, 0), "finish_reason": _finish(native)}
    return {"choices": [choice], "usage": _usage(native)}


async def pieces_of(objects: AsyncIterator[Json]) -> AsyncGenerator[Json]:
    """Translate the objects of a streamed answer. Calls are numbered, since each comes whole and without a number."""
    calls = 0
    async for native in objects:
        said = _said(native, calls)
        calls += len(said.get("tool_calls", ()))
        done = {"usage": _usage(native)} if native.get("done") else {}
        yield {"choices": [{"delta": said, "finish_reason": _finish(native) if done else None}], **done}


def _said(native: Json, calls_before: int) -> dict[str, Any]:
    message = part(native, "message")
    said: dict[str, Any] = {"content": text(message, "content") or text(native, "response")}
    if thought := text(message, "thinking"):
        said["reasoning"] = thought
    if calls := parts(message, "tool_calls"):
        said["tool_calls"] = [{**call, "index": place} for place, call in enumerate(calls, calls_before)]
    return said


def _finish(native: Json) -> str:
    return text(native, "done_reason") or "stop"


def _usage(native: Json) -> dict[str, int]:
    return {
        "prompt_tokens": number(native, "prompt_eval_count"),
        "completion_tokens": number(native, "eval_count"),
    }
