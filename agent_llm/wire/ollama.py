"""Ollama's own API, as a dialect of Chat Completions: requests and answers are translated. Pure functions.

Its OpenAI-compatible address has no field for the context size, and the default of 4,096 tokens is less than a prompt
of ours: what does not fit is cut off silently. Thinking is off unless the owner's fields say otherwise, since it takes
minutes on a small machine.
https://docs.ollama.com/api/chat, https://docs.ollama.com/api/openai-compatibility
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from agent_llm.wire.lenient_json import number, part, parts, text
from agent_llm.wire.tool_calls import arguments_of

PATH = "/api/chat"
LEAST_CONTEXT = 8_192  # tokens
MOST_CONTEXT = 131_072
ANSWER = 1_024  # tokens kept free for the answer; few are longer

Json = Mapping[str, Any]


def context_for(input_tokens: int, least: int = LEAST_CONTEXT) -> int:
    """The context size for an input of so many tokens, one of few steps: Ollama loads the model again for each size."""
    size = max(least, LEAST_CONTEXT)
    while size < min(input_tokens + ANSWER, MOST_CONTEXT):
        size *= 2
    return size


# --- requests -------------------------------------------------------------------------------------------------------


def request_of(body: Json, context: int) -> dict[str, Any]:
    """Translate the body of POST /chat/completions into that of POST /api/chat."""
    options = {"num_ctx": context, "num_predict": body["max_tokens"]}
    options |= {key: body[key] for key in ("stop", "temperature") if key in body}
    request = {"model": body["model"], "messages": _messages(body["messages"]), "options": options}
    if "tools" in body:
        request["tools"] = body["tools"]
    if "response_format" in body:
        request["format"] = body["response_format"]["json_schema"]["schema"]
    return {**request, "stream": False, "think": False}


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
    if images := [_base64(piece) for piece in parts(message, "content") if "image_url" in piece]:
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


def _base64(piece: Json) -> str:
    return text(part(piece, "image_url"), "url").partition(",")[2]


def _function(function: Json) -> dict[str, Any]:
    return {"name": function["name"], "arguments": arguments_of(function["arguments"])}


# --- answers --------------------------------------------------------------------------------------------------------


def answer_of(native: Json) -> Json:
    """Translate an answer in one piece into one of /chat/completions."""
    if native.get("error"):
        return native
    choice = {"message": _said(native, 0), "finish_reason": _finish(native)}
    return {"choices": [choice], "usage": _usage(native)}


async def pieces_of(objects: AsyncIterator[Json]) -> AsyncGenerator[Json]:
    """Translate the objects of a streamed answer. Calls are numbered, since each comes whole and without a number."""
    calls = 0
    async for native in objects:
        if native.get("error"):
            yield native
            continue
        said = _said(native, calls)
        calls += len(said.get("tool_calls", ()))
        done = {"usage": _usage(native)} if native.get("done") else {}
        yield {"choices": [{"delta": said, "finish_reason": _finish(native) if done else None}], **done}


def _said(native: Json, calls_before: int) -> dict[str, Any]:
    message = part(native, "message")
    said: dict[str, Any] = {"content": text(message, "content")}
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
