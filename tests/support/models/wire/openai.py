"""OpenAI's and xAI's: Responses, Chat Completions, Images, Models."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.models.wire.values import Answer, ModelRequest

_TEXT_KINDS = ("text", "input_text", "output_text")


def read_responses(provider: str, body: Mapping[str, Any]) -> ModelRequest:
    """POST /v1/responses."""
    sent = body["input"]
    items = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
    return _read(provider, body, items, str(body.get("instructions") or ""), "format" in body.get("text", {}))


def read_chat(provider: str, body: Mapping[str, Any]) -> ModelRequest:
    """POST /v1/chat/completions."""
    return _read(provider, body, body["messages"], "", "response_format" in body)


def read_images(provider: str, body: Mapping[str, Any]) -> ModelRequest:
    """POST /v1/images/generations."""
    return ModelRequest(
        provider=provider, model=body["model"], kind="picture", texts=(body["prompt"],), roles=("user",), raw=body
    )


def _read(
    provider: str, body: Mapping[str, Any], items: Iterable[Mapping[str, Any]], system: str, has_schema: bool
) -> ModelRequest:
    items = list(items)
    said = [(item["role"], part) for item in items if "role" in item for part in _parts(item["content"])]
    outputs = [(item["call_id"], item["output"]) for item in items if item.get("type") == "function_call_output"]
    in_outputs = [part for _, output in outputs for part in _parts(output)]
    texts = [(role, part["text"]) for role, part in said if part["type"] in _TEXT_KINDS]
    systems = [text for role, text in texts if role in ("system", "developer")]
    talk = [(role, text) for role, text in texts if role not in ("system", "developer")]
    return ModelRequest(
        provider=provider,
        model=body["model"],
        system="\n\n".join([system, *systems] if system else systems),
        texts=tuple(text for _, text in talk),
        roles=tuple(role for role, _ in talk),
        pictures=sum(part["type"] not in _TEXT_KINDS for part in [*in_outputs, *(part for _, part in said)]),
        has_schema=has_schema,
        tools=tuple(tool.get("name", tool["type"]) for tool in body.get("tools", ())),
        results=tuple((call, "".join(part.get("text", "") for part in _parts(output))) for call, output in outputs),
        raw=body,
    )


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def write_responses(request: ModelRequest, answer: Answer, number: int) -> dict[str, Any]:
    """A response object: reasoning, searches, then the message."""
    output: list[dict[str, Any]] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        sealed = {"encrypted_content": "c2VhbGVk"} if _wants_sealed(request) else {}
        output.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary, **sealed})
    for search in range(answer.searches):
        action = {"type": "search", "query": "something", "queries": ["something"]}
        output.append({"type": "web_search_call", "id": f"ws_{search}", "status": "completed", "action": action})
    if answer.text or not answer.calls:
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [_content(answer)]})
    for place, (name, arguments) in enumerate(answer.calls):
        call = {"id": f"fc_{number}_{place}", "call_id": f"call_{number}_{place}", "status": "completed"}
        output.append({"type": "function_call", **call, "name": name, "arguments": arguments})
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if answer.stop == "length" else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if answer.stop == "length" else None,
        "model": request.model,
        "output": output,
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {
                "cached_tokens": answer.cached_tokens,
                "cache_write_tokens": answer.cache_write_tokens,
            },
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }


def _wants_sealed(request: ModelRequest) -> bool:
    return "reasoning.encrypted_content" in request.raw.get("include", ())


def _content(answer: Answer) -> dict[str, Any]:
    if answer.stop == "refusal":
        return {"type": "refusal", "refusal": answer.text}
    notes = [
        {"type": "url_citation", "title": title, "url": url, "start_index": 0, "end_index": 1}
        for title, url in answer.sources
    ]
    return {"type": "output_text", "text": answer.text, "annotations": notes}


def write_chat(request: ModelRequest, answer: Answer, number: int) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.stop}],
        "usage": {
            "prompt_tokens": answer.input_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
            "completion_tokens": answer.output_tokens,
            "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }


def write_images(request: ModelRequest, answer: Answer, number: int) -> dict[str, Any]:
    """An images response; xAI's does not count tokens."""
    written: dict[str, Any] = {
        "created": number,
        "data": [{"b64_json": base64.b64encode(answer.picture).decode("ascii")}],
    }
    if request.provider == "openai":
        written["usage"] = {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"text_tokens": answer.input_tokens, "image_tokens": 0},
            "output_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
        }
    return written


def write_error(answer: Answer) -> dict[str, Any]:
    return {
        "error": {
            "message": answer.error_message,
            "type": answer.error_code or "error",
            "param": None,
            "code": answer.error_code or None,
        }
    }


def write_model(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": 0, "owned_by": "local"}


def write_models(models: Iterable[str]) -> dict[str, Any]:
    return {"object": "list", "data": [write_model(model) for model in models]}
