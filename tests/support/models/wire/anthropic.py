"""Anthropic's: Messages, Models."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.models.wire.values import Answer, ModelRequest

_STOPS = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal", "pause": "pause_turn"}


def read_messages(provider: str, body: Mapping[str, Any]) -> ModelRequest:
    """POST /v1/messages. Raises ValueError where two messages of one role follow each other."""
    roles = [message["role"] for message in body["messages"]]
    if any(one == other for one, other in itertools.pairwise(roles)) or roles[:1] != ["user"]:
        raise ValueError("roles must alternate, the user first")
    said = [(message["role"], block) for message in body["messages"] for block in _blocks(message["content"])]
    texts = [(role, block["text"]) for role, block in said if block["type"] == "text"]
    results = [block for _, block in said if block["type"] == "tool_result"]
    in_results = [inner for block in results for inner in _blocks(block.get("content", ()))]
    _check_results(said, results)
    return ModelRequest(
        provider=provider,
        model=body["model"],
        system="\n\n".join(block["text"] for block in _blocks(body.get("system", ""))),
        texts=tuple(text for _, text in texts),
        roles=tuple(role for role, _ in texts),
        pictures=sum(block["type"] == "image" for block in [*in_results, *(block for _, block in said)]),
        has_schema="format" in body.get("output_config", {}),
        tools=tuple(tool.get("name", tool.get("type", "")) for tool in body.get("tools", ())),
        results=tuple((block["tool_use_id"], _text_in(block)) for block in results),
        raw=body,
    )


def _check_results(said: list[tuple[str, Mapping[str, Any]]], results: list[Mapping[str, Any]]) -> None:
    """Raises ValueError where a call has no result, a result no call, or an id comes twice."""
    called = [block["id"] for _, block in said if block["type"] == "tool_use"]
    if sorted(called) != sorted(block["tool_use_id"] for block in results) or len(set(called)) != len(called):
        raise ValueError("each tool_use wants one tool_result")


def _text_in(block: Mapping[str, Any]) -> str:
    return "".join(inner.get("text", "") for inner in _blocks(block.get("content", ())))


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def write_message(request: ModelRequest, answer: Answer, number: int) -> dict[str, Any]:
    """A message: thinking, what is said before searching, searches, the text."""
    fresh = answer.input_tokens - answer.cached_tokens - answer.cache_write_tokens
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [*_content(answer), *_calls(answer, number)],
        "stop_reason": "tool_use" if answer.calls and answer.stop == "stop" else _STOPS[answer.stop],
        "stop_sequence": None,
        "usage": {
            "input_tokens": fresh,
            "cache_read_input_tokens": answer.cached_tokens,
            "cache_creation_input_tokens": answer.cache_write_tokens,
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"thinking_tokens": answer.reasoning_tokens},
            "server_tool_use": {"web_search_requests": answer.searches, "web_fetch_requests": 0},
        },
    }


def _content(answer: Answer) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": "c2ln"})
    if answer.searches:
        content.append({"type": "text", "text": "Let me look that up.", "citations": None})
    for search in range(answer.searches):
        tool = f"srvtoolu_{search}"
        content.append({"type": "server_tool_use", "id": tool, "name": "web_search", "input": {"query": "something"}})
        content.append({"type": "web_search_tool_result", "tool_use_id": tool, "content": []})
    if answer.text and answer.stop != "pause":
        content.append({"type": "text", "text": answer.text, "citations": _citations(answer)})
    return content


def _calls(answer: Answer, number: int) -> list[dict[str, Any]]:
    return [
        {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name, "input": json.loads(arguments)}
        for place, (name, arguments) in enumerate(answer.calls)
    ]


def _citations(answer: Answer) -> list[dict[str, Any]] | None:
    return [
        {
            "type": "web_search_result_location",
            "title": title,
            "url": url,
            "cited_text": "words",
            "encrypted_index": "i",
        }
        for title, url in answer.sources
    ] or None


def write_error(answer: Answer) -> dict[str, Any]:
    return {"type": "error", "error": {"type": answer.error_code or "api_error", "message": answer.error_message}}


def write_model(model: str) -> dict[str, Any]:
    return {"type": "model", "id": model, "display_name": model, "created_at": "2026-01-01T00:00:00Z"}


def write_models(models: Iterable[str]) -> dict[str, Any]:
    listed = [write_model(model) for model in models]
    return {"data": listed, "has_more": False, "first_id": None, "last_id": None}
