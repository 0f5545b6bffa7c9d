"""A streamed message of Claude's: https://docs.claude.com/en/docs/build-with-claude/streaming

Blocks begin, grow by deltas and end; a call's arguments come as pieces of JSON. Counts of tokens are totals, sent at
the beginning and again at the end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from agentic.llm import http as sse
from agentic.llm.errors import ConnectionFailed, error_of_status
from agentic.llm.schemas import number, part, text
from agentic.llm.turns import RAW

Blocks = list[Mapping[str, Any]]

# What an error after a 200 would have been as a status: https://docs.claude.com/en/api/errors
_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# Kinds of deltas, and the fields of a block that grow by them.
_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class StreamedMessage:
    """Collects the events. `answer` has the shape of a whole message; `ended` says whether it is complete."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self.ended = False

    @property
    def blocks(self) -> Blocks:
        return [self._blocks[place] for place in sorted(self._blocks)]

    @property
    def answer(self) -> dict[str, Any]:
        return {**self._message, "content": self.blocks}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add one event. Raises the error that it reports."""
        kind, place = text(event, "type"), number(event, "index")
        if kind == "error":
            code = text(part(event, "error"), "type")
            raise error_of_status(_STATUSES.get(code, 500), text(part(event, "error"), "message"), code=code)
        if kind == "message_start":
            self._message = dict(part(event, "message"))
        elif kind == "content_block_start":
            self._blocks[place] = dict(part(event, "content_block"))
        elif kind == "content_block_delta":
            self._grow(place, part(event, "delta"))
        elif kind == "content_block_stop":
            self._close(place)
        elif kind == "message_delta":
            self._end(event)
        elif kind == "message_stop":
            self.ended = True

    def _grow(self, place: int, delta: Mapping[str, Any]) -> None:
        block, kind = self._blocks.setdefault(place, {}), text(delta, "type")
        if kind in _GROWING:
            key = _GROWING[kind]
            block[key] = text(block, key) + text(delta, key)
        elif kind == "input_json_delta":
            self._pieces.setdefault(place, []).append(text(delta, "partial_json"))
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), part(delta, "citation")]

    def _close(self, place: int) -> None:
        said = "".join(self._pieces.pop(place, ()))
        if not said.strip():
            return
        try:
            read = json.loads(said)
        except (ValueError, RecursionError):
            read = None
        self._blocks[place]["input"] = read if isinstance(read, dict) else {RAW: said}

    def _end(self, event: Mapping[str, Any]) -> None:
        """Merge the final event, in which null means unchanged."""
        self._message |= {key: value for key, value in part(event, "delta").items() if value is not None}
        counted = {key: value for key, value in part(event, "usage").items() if value is not None}
        self._message["usage"] = {**part(self._message, "usage"), **counted}


async def gathered(
    chunks: AsyncIterator[bytes], on_usage: Callable[[Mapping[str, Any]], None], on_blocks: Callable[[Blocks], None]
) -> Mapping[str, Any]:
    """Return the whole message. `on_usage` gets the message each time new counts come, `on_blocks` its blocks as they
    grow.

    Raises ConnectionFailed if the stream ends before the message does, and the error that an event reports.
    """
    message = StreamedMessage()
    async with aclosing(sse.objects_in(chunks)) as events:
        async for event in events:
            message.add(event)
            if text(event, "type") in ("message_start", "message_delta"):
                on_usage(message.answer)
            if message.ended:
                await sse.rest(events)
                return message.answer
            on_blocks(message.blocks)
    raise ConnectionFailed("cut in mid-answer")
