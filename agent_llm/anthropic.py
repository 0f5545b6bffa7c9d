"""Anthropic by its Messages API: https://docs.claude.com/en/api/messages

The answer is a list of blocks: thinking, text, server tool uses and their results. What is said before the last search
is about searching; the answer is the text after it. A turn may pause in the middle of searching and is then sent back
as it is, to go on. The provider counts cached tokens beside the input tokens; ours include them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_llm import stainless, stops
from agent_llm.base import Access, ProviderModel
from agent_llm.errors import ModelError
from agent_llm.profiles import Profile
from agent_llm.reading import json_object, number, parts, text
from agent_llm.retry import Retrier
from agent_llm.shaping import Part, Turn, base64_of, cache_marks, schema_of, turns_of, unique_sources, wants_schema
from agent_llm.types import CacheTtl, Message, Prompt, Reply, Source, StopReason, Usage

if TYPE_CHECKING:
    import anthropic
    import httpx2

    Client = anthropic.AsyncAnthropic | anthropic.AsyncAnthropicBedrock | anthropic.AsyncAnthropicBedrockMantle

# Each continuation is a whole call with the whole prompt.
MOST_CONTINUATIONS = 3

# How long a mark of ours keeps its part: five minutes are the default, an hour costs twice the input to write.
_EPHEMERAL: Mapping[CacheTtl, Mapping[str, str]] = {
    "5m": {"type": "ephemeral"},
    "1h": {"type": "ephemeral", "ttl": "1h"},
}
_STOPS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def load() -> None:
    """Import the SDK and what its first call would import; takes about a second."""
    import anthropic  # noqa: F401

    stainless.load()


class AnthropicModel(ProviderModel):
    """A Claude model. It draws nothing."""

    provider = "anthropic"

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        import anthropic

        self._sdk_errors = (anthropic.AnthropicError, *stainless.transport_errors())
        transport = anthropic.DefaultAsyncHttpxClient(**stainless.http_options())
        self._client = self._connected(access, transport)

    def _connected(self, access: Access, transport: httpx2.AsyncClient) -> Client:
        """The SDK's client; Bedrock has another."""
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
        return request_of(prompt, history, self.access.model, self.profile)

    async def _ask(self, request: Mapping[str, Any], seconds: float) -> Reply:
        """One call, and more while the turn pauses; what was said so far is one message of the assistant's."""
        spent, asked = Usage(), request
        said: list[Mapping[str, Any]] = []
        for left in range(MOST_CONTINUATIONS, -1, -1):
            answer, request_id = await self._send(asked, seconds)
            spent += _usage(answer)
            said += parts(answer, "content")
            if answer.get("stop_reason") != "pause_turn" or not said or not left:
                break
            asked = {**request, "messages": [*request["messages"], {"role": "assistant", "content": said}]}
        return reply_of({**answer, "content": said}, spent, request_id)

    async def _send(self, request: Mapping[str, Any], seconds: float) -> tuple[Mapping[str, Any], str | None]:
        response = await stainless.post(self._client, "/v1/messages", request, seconds)
        return json_object(response.content), response.headers.get("request-id")

    async def _look(self, seconds: float) -> None:
        await stainless.get(self._client, f"/v1/models/{self.access.model}", seconds)

    def _explain(self, error: Exception) -> ModelError:
        return stainless.explain(error, "request-id")


def request_of(prompt: Prompt, history: Sequence[Message], model: str, profile: Profile) -> dict[str, Any]:
    """The fields of POST /v1/messages. One of the cache marks is the system prompt's."""
    turns = turns_of(prompt, history, profile)
    marks = cache_marks(turns, profile.cache_marks - bool(prompt.system))
    mark = _EPHEMERAL[prompt.cache_ttl]
    request: dict[str, Any] = {
        "model": model,
        "max_tokens": prompt.max_output_tokens,
        "messages": [_message(turn, marks, mark) for turn in turns],
    }
    if prompt.system:
        request["system"] = [{"type": "text", "text": prompt.system, "cache_control": mark}]
    if wanted := stops.for_request(prompt.stop, profile.max_stops):
        request["stop_sequences"] = wanted
    if prompt.temperature is not None:
        request["temperature"] = prompt.temperature
    if prompt.search:
        request |= {"tools": [dict(profile.search)], **profile.search_extra}
    if prompt.schema is not None and wants_schema(prompt, profile):
        request["output_config"] = {"format": {"type": "json_schema", "schema": schema_of(prompt.schema, profile)}}
    return request


def _message(turn: Turn, marks: Container[int], mark: Mapping[str, str]) -> dict[str, Any]:
    return {"role": turn.role, "content": [_block(piece, mark if id(piece) in marks else None) for piece in turn.parts]}


def _block(piece: Part, mark: Mapping[str, str] | None) -> dict[str, Any]:
    if piece.picture is None:
        block: dict[str, Any] = {"type": "text", "text": piece.text}
    else:
        source = {"type": "base64", "media_type": piece.picture.media_type, "data": base64_of(piece.picture)}
        block = {"type": "image", "source": source}
    return block | {"cache_control": mark} if mark else block


def reply_of(answer: Mapping[str, Any], usage: Usage, request_id: str | None) -> Reply:
    """The Reply in a message; `usage` is that of all calls it took."""
    blocks = parts(answer, "content")
    last_tool = max((at for at, block in enumerate(blocks) if "tool" in text(block, "type")), default=-1)
    said = _texts(blocks[last_tool + 1 :])
    if not said and answer.get("stop_reason") != "pause_turn":
        said = _texts(blocks)
    cited = (note for block in said for note in parts(block, "citations"))
    return Reply(
        text="".join(text(block, "text") for block in said),
        usage=usage,
        request_id=request_id,
        stop=_STOPS.get(text(answer, "stop_reason"), "other"),
        sources=unique_sources(Source(text(note, "title"), text(note, "url")) for note in cited),
    )


def _texts(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == "text" and text(block, "text")]


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
