"""A whole answer as the events that a provider streams it in. Pure functions.

Texts, thoughts and the JSON of arguments come in small pieces; what a provider tells only at the end comes at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

PIECE = 7  # characters
_KEEP_ALIVE = b": keep-alive\n\n"

Event = Mapping[str, Any]


def encoded(events: Iterable[Event]) -> bytes:
    """Server-sent events, a comment after each as proxies send them; letters stand as they are, in UTF-8."""
    return b"".join(_named(event) + _KEEP_ALIVE for event in events)


def _named(event: Event) -> bytes:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def responses(answer: Mapping[str, Any]) -> Iterator[Event]:
    """OpenAI's and xAI's: the last event has the whole response."""
    bare = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": bare}
    for place, item in enumerate(answer["output"]):
        begun = {**item, "content": []} if item["type"] == "message" else item
        yield {"type": "response.output_item.added", "output_index": place, "item": begun}
        for number, content in enumerate(item.get("content", ())):
            for piece in _pieces(content.get("text", "")):
                at = {"output_index": place, "content_index": number}
                yield {"type": "response.output_text.delta", **at, "delta": piece}
        for piece in _pieces(item.get("arguments", "")):
            yield {"type": "response.function_call_arguments.delta", "output_index": place, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{answer['status']}", "response": answer}


def chat(answer: Mapping[str, Any]) -> Iterator[Event]:
    """A chat completion's: the counts in the last event, without a choice."""
    begun = {key: value for key, value in answer.items() if key != "usage"} | {"object": "chat.completion.chunk"}
    (choice,) = answer["choices"]
    for piece in _pieces(choice["message"]["content"]):
        yield {**begun, "choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]}
    yield {**begun, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**begun, "choices": [], "usage": answer["usage"]}


def message(answer: Mapping[str, Any]) -> Iterator[Event]:
    """Anthropic's: counts of the prompt at the beginning, those of the answer at the end."""
    begun = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for place, block in enumerate(answer["content"]):
        yield {"type": "content_block_start", "index": place, "content_block": _empty(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": place, "delta": delta}
        yield {"type": "content_block_stop", "index": place}
    ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {**answer["usage"], "input_tokens": None}}
    yield {"type": "message_stop"}


def _empty(block: Mapping[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"type": kind, "text": "", "citations": None}
    if kind == "thinking":
        return {"type": kind, "thinking": "", "signature": ""}
    return {**block, "input": {}} if "input" in block else dict(block)


def _deltas(block: Mapping[str, Any]) -> Iterator[Event]:
    for piece in _pieces(block.get("text", "")):
        yield {"type": "text_delta", "text": piece}
    for note in block.get("citations") or ():
        yield {"type": "citations_delta", "citation": note}
    for piece in _pieces(block.get("thinking", "")):
        yield {"type": "thinking_delta", "thinking": piece}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}
    if "input" in block:
        for piece in _pieces(json.dumps(block["input"], ensure_ascii=False)):
            yield {"type": "input_json_delta", "partial_json": piece}


def content(answer: Mapping[str, Any]) -> Iterator[Event]:
    """Google's: each event an answer; counts in each, the end and what was found in the last."""
    (candidate,) = answer["candidates"]
    rest = {key: value for key, value in answer.items() if key != "candidates"}
    for part in candidate["content"]["parts"]:
        texts = _pieces(part["text"]) if "text" in part else ("",)
        for piece in texts:
            shown = {**part, "text": piece} if "text" in part else part
            yield {**rest, "candidates": [{"content": {"role": "model", "parts": [shown]}, "index": 0}]}
    last = {**candidate, "content": {"role": "model", "parts": []}}
    yield {**rest, "candidates": [last]}
