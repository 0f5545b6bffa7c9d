"""A streamed response of OpenAI's or xAI's: https://platform.openai.com/docs/api-reference/responses-streaming

The last event carries the whole response. The events before it are only needed to follow the growing text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from agentic.llm import http as sse
from agentic.llm.errors import ConnectionFailed
from agentic.llm.model import StreamListener
from agentic.llm.schemas import number, part, text

_LAST = ("response.completed", "response.incomplete", "response.failed")


class StreamedResponse:
    """Collects the events. `said` is the text so far; `answer` is the whole response, None until it has come."""

    def __init__(self) -> None:
        self._kinds: dict[int, Mapping[str, Any]] = {}
        self._texts: dict[tuple[int, int], str] = {}
        self.answer: Mapping[str, Any] | None = None

    @property
    def said(self) -> str:
        """The texts in order without commentary, joined as `openai.reply_of` joins them."""
        pieces = (self._texts[place] for place in sorted(self._texts) if not self._is_commentary(place[0]))
        return "\n\n".join(pieces)

    def _is_commentary(self, item: int) -> bool:
        return self._kinds.get(item, {}).get("phase") == "commentary"

    def add(self, event: Mapping[str, Any]) -> None:
        kind = text(event, "type")
        place = number(event, "output_index")
        if kind in _LAST:
            self.answer = self._whole(part(event, "response"))
        elif kind == "error":
            self.answer = {"status": "failed", "error": part(event, "error") or event}
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._kinds[place] = part(event, "item")
        elif kind == "response.output_text.delta":
            at = (place, number(event, "content_index"))
            self._texts[at] = self._texts.get(at, "") + text(event, "delta")

    def _whole(self, response: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the response. If its output is missing, it is put together from the item events."""
        if response.get("output"):
            return response
        return {**response, "output": [self._kinds[place] for place in sorted(self._kinds)]}


async def gathered(chunks: AsyncIterator[bytes], listener: StreamListener) -> Mapping[str, Any]:
    """Return the whole response. Raises ConnectionFailed if the stream ends before it has come."""
    response = StreamedResponse()
    async with aclosing(sse.objects_in(chunks)) as events:
        async for event in events:
            response.add(event)
            if response.answer is not None:
                await sse.rest(events)
                return response.answer
            listener(response.said)
    raise ConnectionFailed("cut in mid-answer")
