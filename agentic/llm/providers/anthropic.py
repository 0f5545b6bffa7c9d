"""Messages API.

A streamed message of Claude's: https://docs.claude.com/en/docs/build-with-claude/streaming

Blocks begin, grow by deltas and end; a call's arguments come as pieces of JSON. Counts of tokens are totals, sent at
the beginning and again at the end.

Anthropic by its Messages API: https://docs.claude.com/en/api/messages

The answer is a list of blocks: thinking, text, server tool uses and their results. Text before the last search is about
searching; the text after it is the answer. A turn may pause in the middle of searching and is then sent back unchanged
to continue. The provider counts cached tokens beside the input tokens; our input tokens include them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentic.llm import http as sdk_http
from agentic.llm import http as sse
from agentic.llm import turns as stop_sequences
from agentic.llm.errors import ConnectionFailed, ModelError, error_of_status
from agentic.llm.model import Access, ProviderModel, StreamListener
from agentic.llm.profiles import Profile, with_most_searches
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, schema_of, text, wants_schema
from agentic.llm.turns import (
    RAW,
    Part,
    Turn,
    arguments_of,
    base64_of,
    cache_marks,
    calls_with_results,
    echo_of,
    own_echo,
    parameters_of,
    shown,
    system_parts,
    turns_of,
    unique_sources,
    with_ids,
)
from agentic.llm.types import (
    CacheTtl,
    Message,
    Prompt,
    Reply,
    Source,
    StopReason,
    ToolCall,
    ToolResult,
    ToolRound,
    Usage,
)

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


if TYPE_CHECKING:
    import anthropic
    import httpx2

    Client = anthropic.AsyncAnthropic | anthropic.AsyncAnthropicBedrock | anthropic.AsyncAnthropicBedrockMantle

# Each continuation is a whole call with the whole prompt.
MOST_CONTINUATIONS = 3

# How long a cache mark keeps its part: five minutes by default; an hour costs twice the input to write.
_EPHEMERAL: Mapping[CacheTtl, Mapping[str, str]] = {
    "5m": {"type": "ephemeral"},
    "1h": {"type": "ephemeral", "ttl": "1h"},
}
_STOPS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def load() -> None:
    """Import the SDK and what its first call would import. Takes about a second."""
    import anthropic  # noqa: F401

    sdk_http.load()


class AnthropicModel(ProviderModel):
    """A Claude model. It draws nothing."""

    provider = "anthropic"

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        import anthropic

        self._sdk_errors = (anthropic.AnthropicError, *sdk_http.transport_errors())
        transport = anthropic.DefaultAioHttpClient(**sdk_http.http_options(access.base_url))
        self._client = self._connected(access, transport)

    def _connected(self, access: Access, transport: httpx2.AsyncClient) -> Client:
        """Create the SDK's client. Bedrock overrides this."""
        import anthropic

        return anthropic.AsyncAnthropic(
            api_key=access.api_key, base_url=access.base_url, max_retries=0, http_client=transport
        )

    @property
    def can_draw(self) -> bool:
        return False

    async def aclose(self) -> None:
        await self._client.close()

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        return request_of(prompt, history, self.access.model, self.profile, asked_by=self.name)

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        """Make one call, and more while the turn pauses. The answers so far are sent back as one assistant message."""
        spent, asked = Usage(), request
        said: list[Mapping[str, Any]] = []
        for left in range(MOST_CONTINUATIONS, -1, -1):
            if listener is None:
                answer, request_id = await self._send(asked, seconds)
            else:
                answer, request_id = await self._stream(asked, seconds, listener, said, spent)
            spent += _usage(answer)
            said += parts(answer, "content")
            if answer.get("stop_reason") != "pause_turn" or not said or not left:
                break
            asked = {**request, "messages": [*request["messages"], {"role": "assistant", "content": said}]}
        return reply_of({**answer, "content": said}, spent, request_id, self.name)

    async def _send(self, request: Mapping[str, Any], seconds: float) -> tuple[Mapping[str, Any], str | None]:
        response = await sdk_http.post(self._client, "/v1/messages", request, seconds)
        return json_object(response.content), response.headers.get("request-id")

    async def _stream(
        self,
        request: Mapping[str, Any],
        seconds: float,
        listener: StreamListener,
        before: Sequence[Mapping[str, Any]],
        spent: Usage,
    ) -> tuple[Mapping[str, Any], str | None]:
        """Make one streamed call. `before` and `spent`: the answer and its usage before the turn paused."""

        def on_usage(answer: Mapping[str, Any]) -> None:
            listener.billed = spent + _usage(answer)

        def on_blocks(blocks: Sequence[Mapping[str, Any]]) -> None:
            listener(_joined(_last_said([*before, *blocks])))

        response = await sdk_http.begin(self._client, "/v1/messages", request, seconds)
        try:
            answer = await gathered(response.aiter_bytes(), on_usage, on_blocks)
        finally:
            await response.aclose()
        return answer, response.headers.get("request-id")

    async def _look(self, seconds: float) -> None:
        await sdk_http.get(self._client, f"/v1/models/{self.access.model}", seconds)

    def _explain(self, error: Exception) -> ModelError:
        return sdk_http.explain(error, "request-id")


def request_of(
    prompt: Prompt, history: Sequence[Message], model: str, profile: Profile, *, asked_by: str = ""
) -> dict[str, Any]:
    """Return the fields of POST /v1/messages. The system prompt, which tools come before, gets the first cache marks.

    `asked_by`: the model's `provider/model`, which recognises its own echoes.
    """
    profile = with_most_searches(profile, prompt.max_searches)
    turns = turns_of(prompt, history, profile)
    system = system_parts(prompt)
    marks = cache_marks(turns, profile.cache_marks - len(system))
    mark = _EPHEMERAL[prompt.cache_ttl]
    request: dict[str, Any] = {
        "model": model,
        "max_tokens": prompt.max_output_tokens,
        "messages": [_message(turn, marks, mark) for turn in turns],
    }
    for place, step in enumerate(prompt.rounds):
        request["messages"] += _round(step, place, profile, asked_by)
    if system:
        request["system"] = [{"type": "text", "text": piece, "cache_control": mark} for piece in system]
    if wanted := stop_sequences.for_request(prompt.stop, profile.max_stops):
        request["stop_sequences"] = wanted
    if prompt.temperature is not None:
        request["temperature"] = prompt.temperature
    if prompt.search or prompt.tools:
        request |= _tools(prompt, profile)
    if prompt.schema is not None and wants_schema(prompt, profile):
        request["output_config"] = {"format": {"type": "json_schema", "schema": schema_of(prompt.schema, profile)}}
    return request


def _tools(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    tools: list[dict[str, Any]] = [dict(profile.search)] if prompt.search else []
    for tool in prompt.tools:
        parameters = parameters_of(tool.parameters, profile)
        tools.append({"name": tool.name, "description": tool.description, "input_schema": parameters})
    return {
        "tools": tools,
        **(profile.search_extra if prompt.search else {}),
        **(profile.tool_extra if prompt.tools else {}),
    }


def _round(step: ToolRound, place: int, profile: Profile, asked_by: str) -> list[dict[str, Any]]:
    """Return the assistant's text and calls, then the user's results."""
    own = own_echo(step, asked_by)
    pairs = calls_with_results(step, place, own=bool(own))
    said: list[dict[str, Any]] = with_ids(own, "tool_use", "id", step.calls)
    if not own:
        said += [{"type": "text", "text": step.text}] if step.text.strip() else []
        said += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call, _ in pairs
        ]
    results = [_result(result, profile) for _, result in pairs]
    return [{"role": "assistant", "content": said}, {"role": "user", "content": results}]


def _result(result: ToolResult, profile: Profile) -> dict[str, Any]:
    """Return a result block. None of its parts may be empty."""
    said, pictures = shown(result, profile)
    content = [_block(Part(said), None)] if said.strip() else []
    content += [_block(Part(picture=picture), None) for picture in pictures]
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    return block | ({"content": content} if content else {}) | ({"is_error": True} if result.is_error else {})


def _message(turn: Turn, marks: Container[int], mark: Mapping[str, str]) -> dict[str, Any]:
    return {"role": turn.role, "content": [_block(piece, mark if id(piece) in marks else None) for piece in turn.parts]}


def _block(piece: Part, mark: Mapping[str, str] | None) -> dict[str, Any]:
    if piece.picture is None:
        block: dict[str, Any] = {"type": "text", "text": piece.text}
    else:
        source = {"type": "base64", "media_type": piece.picture.media_type, "data": base64_of(piece.picture)}
        block = {"type": "image", "source": source}
    return block | {"cache_control": mark} if mark else block


def reply_of(answer: Mapping[str, Any], usage: Usage, request_id: str | None, asked_by: str = "") -> Reply:
    """Return the Reply in a message. `usage` is that of all the calls it took."""
    stop = text(answer, "stop_reason")
    blocks = parts(answer, "content")
    if stop == "max_tokens" and blocks and blocks[-1].get("type") == "tool_use":
        blocks.pop()  # a call that was cut
    said = _last_said(blocks)
    if not said and stop != "pause_turn":
        said = _texts(blocks)
    cited = (note for block in said for note in parts(block, "citations"))
    calls = tuple(
        ToolCall(text(block, "id"), text(block, "name"), arguments_of(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    return Reply(
        text=_joined(said),
        usage=usage,
        request_id=request_id,
        stop=_STOPS.get(stop, "other"),
        sources=unique_sources(Source(text(note, "title"), text(note, "url")) for note in cited),
        tool_calls=calls,
        echo=echo_of(asked_by, [block for block in blocks if not _is_blank(block)]) if calls else None,
    )


def _last_said(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the texts after the last search. Text beside a call of ours is kept."""
    searching = (at for at, block in enumerate(blocks) if "tool" in text(block, "type") and block["type"] != "tool_use")
    return _texts(blocks[max(searching, default=-1) + 1 :])


def _texts(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == "text" and text(block, "text")]


def _joined(said: Sequence[Mapping[str, Any]]) -> str:
    return "".join(text(block, "text") for block in said)


def _is_blank(block: Mapping[str, Any]) -> bool:
    """Whether a block is empty text, which is sent by the provider but not accepted back."""
    return block.get("type") == "text" and not text(block, "text").strip()


def _usage(answer: Mapping[str, Any]) -> Usage:
    cached = number(answer, "usage", "cache_read_input_tokens")
    written = number(answer, "usage", "cache_creation_input_tokens")
    return Usage(
        calls=1,
        input_tokens=number(answer, "usage", "input_tokens") + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        hour_write_tokens=number(answer, "usage", "cache_creation", "ephemeral_1h_input_tokens"),
        output_tokens=number(answer, "usage", "output_tokens"),
        reasoning_tokens=number(answer, "usage", "output_tokens_details", "thinking_tokens"),
        searches=number(answer, "usage", "server_tool_use", "web_search_requests"),
    )
