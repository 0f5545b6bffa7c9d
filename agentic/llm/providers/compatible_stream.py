"""A streamed chat completion, put together into the answer as it would have come in one piece."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any

from agentic.llm.errors import ConnectionFailed, error_of_body
from agentic.llm.markup import strip_reasoning
from agentic.llm.providers.chat_completions import said_in
from agentic.llm.schemas import part, parts, text
from agentic.llm.turns import RAW, arguments_of

MOST_CHARACTERS = 100_000  # a server that ignores its limit is cut here, with the same outcome
STEPS = 50  # a growing text is read again when it is longer by this part
# Lists and texts that grow from piece to piece, besides the calls.
_GROWING = ("content", "refusal", "reasoning_content", "reasoning", "reasoning_details", "text")


class StreamedCompletion:
    """Collects the pieces. `answer` has the shape of a whole answer; `said` is the part of it that may be shown."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[object, dict[str, Any]] = {}  # an index → its newest call
        self._rest: dict[str, Any] = {}
        self.characters = 0  # everything that was written, with the reasoning in it
        self.finish: str | None = None

    @property
    def said(self) -> str:
        return strip_reasoning(said_in(self._message), growing=True)

    @property
    def answer(self) -> dict[str, Any]:
        message = self._message | ({"tool_calls": self._calls} if self._calls else {})
        return {**self._rest, "choices": [{"message": message, "finish_reason": self.finish}]}

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add one event. Raises the error that it reports."""
        if piece.get("error"):
            raise error_of_body(piece["error"])
        for key in ("id", "usage"):
            if piece.get(key):
                self._rest[key] = piece[key]
        for choice in parts(piece, "choices")[:1]:
            self._grow(part(choice, "delta") or choice)
            self.finish = text(choice, "finish_reason") or self.finish

    def _grow(self, delta: Mapping[str, Any]) -> None:
        self.characters += len(said_in(delta))
        for key in _GROWING:
            more, so_far = delta.get(key), self._message.get(key)
            if isinstance(more, str):
                self._message[key] = (so_far if isinstance(so_far, str) else "") + more
            elif isinstance(more, list):
                self._message[key] = so_far if isinstance(so_far, list) else []
                self._message[key] += more
        for call in parts(delta, "tool_calls"):
            self._grow_call(call)

    def _grow_call(self, call: Mapping[str, Any]) -> None:
        """Add a piece of a call, by its index. Servers without indices send each call with its id; a piece without
        either belongs to the last call. Some servers send every call with the index 0."""
        function = part(call, "function")
        place: object = call.get("index", text(call, "id"))
        so_far = self._places.get(place)
        if place == "" and self._calls:
            so_far = self._calls[-1]
        if so_far is None or _begins_another(call, so_far):
            so_far = {"id": "", "function": {"name": "", "arguments": ""}}
            self._calls.append(so_far)
            self._places[place] = so_far
        so_far["id"] = so_far["id"] or text(call, "id")
        so_far["function"]["name"] = so_far["function"]["name"] or text(function, "name")
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):
            so_far["function"]["arguments"] = arguments
        elif isinstance(arguments, str) and isinstance(so_far["function"]["arguments"], str):
            so_far["function"]["arguments"] += arguments


def _begins_another(call: Mapping[str, Any], so_far: Mapping[str, Any]) -> bool:
    """Whether a piece at the place of a call is not a part of it: it has another id, or a name and arguments although
    the call is complete."""
    named, before = text(call, "id"), text(so_far, "id")
    if named and before:
        return named != before
    function, written = part(call, "function"), part(so_far, "function").get("arguments")
    if not text(function, "name") or not function.get("arguments") or not written:
        return False
    return isinstance(written, Mapping) or RAW not in arguments_of(written)


async def gathered(pieces: AsyncIterable[Mapping[str, Any]], on_text: Callable[[str], None]) -> dict[str, Any]:
    """Return the whole answer. `on_text` gets the whole text so far as it grows: a long one in larger steps, since it
    is read again each time.

    Raises ConnectionFailed if the stream ends before the answer does.
    """
    completion, said, read = StreamedCompletion(), "", 0
    async for piece in pieces:
        completion.add(piece)
        if completion.characters > read + read // STEPS:
            before, said, read = said, completion.said, completion.characters
            if said != before:
                on_text(said)
        if completion.characters > MOST_CHARACTERS:
            completion.finish = "length"
            break
    if completion.finish is None:
        raise ConnectionFailed("cut in mid-answer")
    return completion.answer
