"""Anthropic's Messages API: https://docs.claude.com/en/api/messages

The answer is a list of blocks: thinking, text, server tool uses, and their results. Text before the last search is
about searching; the text after it is the answer. A turn may pause in the middle of searching, and continues when it is
sent back unchanged. The provider's input tokens exclude cached tokens; our input tokens include them.

In a stream, blocks begin, grow by deltas, and end; a call's arguments come as pieces of JSON. Token counts are totals,
sent at the beginning and again at the end. https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from agentic.llm import http, turns
from agentic.llm.errors import ConnectionFailed, ModelError, error_of_status
from agentic.llm.model import Access, ProviderModel, StreamListener
from agentic.llm.profiles import Profile, with_max_searches
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, schema_for, text
from agentic.llm.turns import Part, build_turns
from agentic.llm.types import CacheTtl, Message, Prompt, Reply, Source, StopReason, ToolCall, ToolRound, Usage

if TYPE_CHECKING:
    import anthropic
    import httpx2

    Client = anthropic.AsyncAnthropic | anthropic.AsyncAnthropicBedrock | anthropic.AsyncAnthropicBedrockMantle

Block = Mapping[str, Any]

# Each continuation is a whole call with the whole prompt.
MAX_CONTINUATIONS = 3

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


class AnthropicModel(ProviderModel):
    """A Claude model. It can't draw."""

    provider = "anthropic"

    _takes_text = True  # its client does: Bedrock's puts some of the fields into the address

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        import anthropic

        self._sdk_errors = (anthropic.AnthropicError, *http.transport_errors())
        transport = anthropic.DefaultAioHttpClient(**http.http_options(access.base_url))
        self._client = self._connected(access, transport)

    def _connected(self, access: Access, transport: httpx2.AsyncClient) -> Client:
        """Create the SDK's client. Bedrock overrides this."""
        import anthropic

        return anthropic.AsyncAnthropic(
            api_key=access.api_key,
            base_url=access.base_url,
            max_retries=0,
            http_client=transport,
            default_headers=http.platform_headers(anthropic.Omit()),
        )

    async def aclose(self) -> None:
        await self._client.close()

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        """Return the fields of POST /v1/messages. The system prompt, which follows the tools, gets the first cache
        marks."""
        profile = with_max_searches(self.profile, prompt.max_searches)
        built = build_turns(prompt, history, profile)
        system = turns.system_parts(prompt)
        marks = turns.cache_marks(built, profile.cache_marks - len(system))
        mark = _EPHEMERAL[prompt.cache_ttl]
        messages: list[dict[str, Any]] = [
            {"role": turn.role, "content": [_block(piece, marks, mark) for piece in turn.parts]} for turn in built
        ]
        for place, step in enumerate(prompt.rounds):
            messages += _round(step, place, profile, self.name)
        request: dict[str, Any] = {"model": self.access.model, "max_tokens": prompt.max_output_tokens}
        request["messages"] = messages
        if system:
            request["system"] = [{"type": "text", "text": piece, "cache_control": mark} for piece in system]
        request |= turns.sampling_of(prompt, profile, "stop_sequences")
        tools: list[dict[str, Any]] = [dict(profile.search)] if prompt.search else []
        tools += [turns.function_of(tool, profile, "input_schema") for tool in prompt.tools]
        if tools:
            request["tools"] = tools
        request |= {**(profile.search_extra if prompt.search else {}), **(profile.tool_extra if prompt.tools else {})}
        if (schema := schema_for(prompt, profile)) is not None:
            request["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if prompt.thinking == "none":
            request["thinking"] = {"type": "disabled"}
        elif effort := turns.effort_of(prompt, profile):
            request["thinking"] = {"type": "adaptive", "display": "summarized"}
            request["output_config"] = {**request.get("output_config", {}), "effort": effort}
        return request

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        """Make one call, and more if the turn pauses. The previous answers are sent back as one assistant message."""
        spent = Usage()
        said: list[Block] = []

        for left in range(MAX_CONTINUATIONS, -1, -1):
            before: list[Any] = [{"role": "assistant", "content": [*said]}] if said else []
            asked = {**request, "messages": [*request["messages"], *before]}
            if listener is None:
                response = await http.post(self._client, "/v1/messages", asked, seconds, as_text=self._takes_text)
                answer = json_object(response.content)
            else:
                async with http.stream(self._client, "/v1/messages", asked, seconds) as response:
                    answer = await gather(response.aiter_bytes(), listener, spent, said)
            spent += usage_of(answer)
            said += parts(answer, "content")
            if answer.get("stop_reason") != "pause_turn" or not said or not left:
                break
        return _reply({**answer, "content": said}, spent, response.headers.get("request-id"), self.name)

    async def _look(self, seconds: float) -> None:
        await http.get(self._client, f"/v1/models/{self.access.model}", seconds)

    def _explain(self, error: Exception) -> ModelError:
        return http.explain(error, "request-id")


# --- requests -------------------------------------------------------------------------------------------------------


def _block(piece: Part, marks: Container[int] = (), mark: Mapping[str, str] | None = None) -> dict[str, Any]:
    if piece.picture is None:
        block: dict[str, Any] = {"type": "text", "text": piece.text}
    else:
        source = {"type": "base64", "media_type": piece.picture.media_type, "data": turns.base64_of(piece.picture)}
        block = {"type": "image", "source": source}
    return block | {"cache_control": mark} if id(piece) in marks else block


def _round(step: ToolRound, place: int, profile: Profile, asked_by: str) -> list[dict[str, Any]]:
    """Return the assistant's text and calls, then the user's results."""
    own, pairs = turns.own_round(step, place, asked_by)
    said: list[dict[str, Any]] = turns.with_ids(own, "tool_use", "id", step.calls)
    if not own:
        said += [{"type": "text", "text": step.text}] if step.text.strip() else []
        for call, _ in pairs:
            said.append({"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)})
    results: list[dict[str, Any]] = []
    for _, result in pairs:
        shown, pictures = turns.visible_result(result, profile)
        content = [_block(Part(shown))] if shown.strip() else []  # no part may be empty
        content += [_block(Part(picture=picture)) for picture in pictures]
        results.append({"type": "tool_result", "tool_use_id": result.call_id})
        results[-1] |= ({"content": content} if content else {}) | ({"is_error": True} if result.is_error else {})
    return [{"role": "assistant", "content": said}, {"role": "user", "content": results}]


# --- answers --------------------------------------------------------------------------------------------------------


class StreamedMessage:
    """Collects the events. `answer` has the shape of a whole message; `ended` says whether it is complete."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, str] = {}
        self.ended = False

    @property
    def answer(self) -> dict[str, Any]:
        return {**self._message, "content": [self._blocks[place] for place in sorted(self._blocks)]}

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
            written = self._pieces.pop(place, "")
            if written.strip():
                self._blocks[place]["input"] = turns.arguments_of(written)
        elif kind == "message_delta":  # null means unchanged
            self._message |= {key: value for key, value in part(event, "delta").items() if value is not None}
            counted = {key: value for key, value in part(event, "usage").items() if value is not None}
            self._message["usage"] = {**part(self._message, "usage"), **counted}
        elif kind == "message_stop":
            self.ended = True

    def _grow(self, place: int, delta: Mapping[str, Any]) -> None:
        block, kind = self._blocks.setdefault(place, {}), text(delta, "type")
        if kind in _GROWING:
            key = _GROWING[kind]
            block[key] = text(block, key) + text(delta, key)
        elif kind == "input_json_delta":
            self._pieces[place] = self._pieces.get(place, "") + text(delta, "partial_json")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), part(delta, "citation")]


async def gather(
    chunks: AsyncIterator[bytes], listener: StreamListener, spent: Usage, said: Sequence[Block]
) -> Mapping[str, Any]:
    """Return the whole message. `spent` and `said` are the turn's usage and blocks before it.

    Raises ConnectionFailed if the stream ends before the message does, and the error that an event reports.
    """
    message = StreamedMessage()
    async with aclosing(http.objects_in(chunks)) as events:
        async for event in events:
            message.add(event)
            if text(event, "type") in ("message_start", "message_delta"):
                listener.billed = spent + usage_of(message.answer)
            if message.ended:
                await http.read_rest(events)
                return message.answer
            listener(_join(_find_answer([*said, *message.answer["content"]])))
    raise ConnectionFailed("cut in mid-answer")


def _reply(answer: Mapping[str, Any], usage: Usage, request_id: str | None, asked_by: str) -> Reply:
    """Return the Reply in a message. `usage` is the usage of all its calls."""
    stop = text(answer, "stop_reason")
    blocks = parts(answer, "content")
    if stop == "max_tokens" and blocks and blocks[-1].get("type") == "tool_use":
        blocks.pop()  # a call that was cut
    said = _find_answer(blocks)
    if not said and stop != "pause_turn":
        said = _texts(blocks)
    cited = (note for block in said for note in parts(block, "citations"))
    calls = tuple(
        ToolCall(text(block, "id"), text(block, "name"), turns.arguments_of(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    # Blank text is sent by the provider but not accepted back.
    kept = [block for block in blocks if block.get("type") != "text" or text(block, "text").strip()]
    return Reply(
        text=_join(said),
        usage=usage,
        request_id=request_id,
        stop=_STOPS.get(stop, "other"),
        sources=turns.unique_sources(Source(text(note, "title"), text(note, "url")) for note in cited),
        tool_calls=calls,
        reasoning=turns.join_thoughts(text(block, "thinking") for block in blocks),
        echo=turns.echo_of(asked_by, kept) if calls else None,
    )


def _find_answer(blocks: Sequence[Block]) -> list[Block]:
    """Return the texts after the last search. Text next to our own tool calls is kept."""
    searching = (at for at, block in enumerate(blocks) if "tool" in text(block, "type") and block["type"] != "tool_use")
    return _texts(blocks[max(searching, default=-1) + 1 :])


def _texts(blocks: Sequence[Block]) -> list[Block]:
    return [block for block in blocks if block.get("type") == "text" and text(block, "text")]


def _join(said: Sequence[Block]) -> str:
    return "".join(text(block, "text") for block in said)


def usage_of(answer: Mapping[str, Any], calls: int = 1) -> Usage:
    count = partial(number, part(answer, "usage"), calls=calls)
    cached, written = count("cache_read_input_tokens"), count("cache_creation_input_tokens")
    return Usage(
        calls=calls,
        input_tokens=count("input_tokens") + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        hour_write_tokens=count("cache_creation", "ephemeral_1h_input_tokens"),
        output_tokens=count("output_tokens"),
        reasoning_tokens=count("output_tokens_details", "thinking_tokens"),
        searches=count("server_tool_use", "web_search_requests"),
    )
