"""OpenAI Responses API; xAI on top of it.

A streamed response of OpenAI's or xAI's: https://platform.openai.com/docs/api-reference/responses-streaming

The last event carries the whole response. The events before it are only needed to follow the growing text.

OpenAI by its Responses API: https://platform.openai.com/docs/api-reference/responses

The answer is a list of output items (reasoning, web searches, messages). Only messages that are not commentary are the
answer. Requests and answers are plain JSON, see `sdk_http.post`.

xAI: https://docs.x.ai/docs/api-reference. It speaks OpenAI's Responses and Images APIs, so that SDK is used.

The differences are in its profile: the system prompt is a message, searches leave no marks in the text, pictures take
no size.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentic.llm import http as sdk_http
from agentic.llm import http as sse
from agentic.llm.embeddings import Embedded, openai_vectors
from agentic.llm.errors import (
    BadAnswer,
    ConnectionFailed,
    ModelError,
    QuotaUsedUp,
    RateLimited,
    Refused,
    ServerFailed,
    error_of_status,
)
from agentic.llm.model import Access, ProviderModel, StreamListener
from agentic.llm.profiles import Profile, with_most_searches
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, picture_of, schema_of, text, wants_schema
from agentic.llm.turns import (
    Part,
    Turn,
    arguments_of,
    cache_marks,
    calls_with_results,
    data_url,
    echo_of,
    is_strict,
    own_echo,
    parameters_of,
    shown,
    turns_of,
    unique_sources,
    with_ids,
    written,
)
from agentic.llm.types import Drawing, Message, Prompt, Reply, Source, StopReason, Tool, ToolCall, ToolRound, Usage

if TYPE_CHECKING:
    import openai


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


_EXPLICIT = {"mode": "explicit"}
_STOPS: Mapping[str, StopReason] = {"max_output_tokens": "length", "content_filter": "refusal"}


def load() -> None:
    """Import the SDK and what its first call would import. Takes a third of a second."""
    import openai  # noqa: F401

    sdk_http.load()


class OpenAIModel(ProviderModel):
    """A model behind the Responses API, and its image model."""

    provider = "openai"
    home: str | None = None  # the SDK knows its own address

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        import openai

        self._sdk_errors = (openai.OpenAIError, *sdk_http.transport_errors())
        self._client: openai.AsyncOpenAI = openai.AsyncOpenAI(
            api_key=access.api_key,
            base_url=access.base_url or self.home,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(**sdk_http.http_options(access.base_url or self.home)),
            default_headers=self._headers(),
        )

    async def aclose(self) -> None:
        await self._client.close()

    def _headers(self) -> dict[str, Any]:
        return {}

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        return request_of(prompt, history, self.access.model, self.profile, asked_by=self.name)

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        if listener is None:
            response = await sdk_http.post(self._client, "/responses", request, seconds)
            answer = json_object(response.content)
        else:
            response = await sdk_http.begin(self._client, "/responses", request, seconds)
            try:
                answer = await gathered(response.aiter_bytes(), listener)
            finally:
                await response.aclose()
        return reply_of(answer, response.headers.get("x-request-id"), self.name)

    async def _look(self, seconds: float) -> None:
        await sdk_http.get(self._client, f"/models/{self.access.model}", seconds)

    async def _paint(self, prompt: str, seconds: float) -> Drawing:
        wanted: dict[str, Any] = {"model": self.access.image_model, "prompt": prompt, "n": 1, **self.profile.image}
        response = await sdk_http.post(self._client, "/images/generations", wanted, seconds)
        return drawing_of(json_object(response.content))

    async def _embed(self, texts: Sequence[str], seconds: float) -> Embedded:
        return await embedded(self._client, self.access.model, texts, seconds)

    def _explain(self, error: Exception) -> ModelError:
        return sdk_http.explain(error, "x-request-id")


async def embedded(client: openai.AsyncOpenAI, model: str, texts: Sequence[str], seconds: float) -> Embedded:
    """POST /embeddings, here and at compatible addresses: https://platform.openai.com/docs/api-reference/embeddings"""
    request = {"model": model, "input": texts, "encoding_format": "float"}
    answer = json_object((await sdk_http.post(client, "/embeddings", request, seconds)).content)
    vectors = openai_vectors(answer, len(texts))
    return Embedded(vectors, Usage(calls=1, input_tokens=number(answer, "usage", "prompt_tokens")))


def request_of(
    prompt: Prompt, history: Sequence[Message], model: str, profile: Profile, *, asked_by: str = ""
) -> dict[str, Any]:
    """Return the fields of POST /v1/responses. `asked_by`: the model's `provider/model`, which recognises its own
    echoes."""
    profile = with_most_searches(profile, prompt.max_searches)
    turns = turns_of(prompt, history, profile)
    marks = cache_marks(turns, profile.cache_marks, roles=("user",))
    items = [_item(turn, marks) for turn in turns]
    items += [item for place, step in enumerate(prompt.rounds) for item in _round(step, place, profile, asked_by)]
    request: dict[str, Any] = {
        "model": model,
        "input": items,
        "max_output_tokens": prompt.max_output_tokens,
        "store": False,
    }
    if prompt.system and profile.system_as_message:
        items.insert(0, {"role": "system", "content": prompt.system})
    elif prompt.system:
        request["instructions"] = prompt.system
    if profile.effort:
        request["reasoning"] = {"effort": profile.effort}
    if prompt.temperature is not None:
        request["temperature"] = prompt.temperature
    if prompt.cache_key:
        request["prompt_cache_key"] = prompt.cache_key
    if marks:
        request["prompt_cache_options"] = _EXPLICIT
    request |= _tools(prompt, profile)
    if prompt.schema is not None and wants_schema(prompt, profile):
        wanted = {"name": prompt.schema_name, "schema": schema_of(prompt.schema, profile), "strict": True}
        request["text"] = {"format": {"type": "json_schema", **wanted}}
    return request


def _tools(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    """Return the fields for search and functions, with both lists of `include` merged."""
    fields: dict[str, Any] = {}
    included: list[str] = []
    for wanted, extra in ((prompt.search, profile.search_extra), (bool(prompt.tools), profile.tool_extra)):
        if wanted:
            fields |= extra
            included += extra.get("include", ())
    tools = ([dict(profile.search)] if prompt.search else []) + [_tool(tool, profile) for tool in prompt.tools]
    return fields | ({"tools": tools} if tools else {}) | ({"include": included} if included else {})


def _tool(tool: Tool, profile: Profile) -> dict[str, Any]:
    """Return a function. Strict mode, the API's default, closes and requires everything: use it only if that changes
    nothing."""
    parameters = parameters_of(tool.parameters, profile)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": is_strict(parameters),
    }


def _round(step: ToolRound, place: int, profile: Profile, asked_by: str) -> list[dict[str, Any]]:
    """Return the model's text and calls, each call's output, and the pictures that an output cannot carry."""
    own = own_echo(step, asked_by)
    pairs = calls_with_results(step, place, own=bool(own))
    answer: list[dict[str, Any]] = with_ids(own, "function_call", "call_id", step.calls)
    if not own:
        answer += [{"role": "assistant", "content": step.text}] if step.text.strip() else []
        answer += [_call(call) for call, _ in pairs]
    outputs: list[dict[str, Any]] = []
    follow: list[dict[str, Any]] = []
    for call, result in pairs:
        said, pictures = shown(result, profile)
        said = f"Error: {said}" if result.is_error else said
        contents = [_input(Part(picture=picture), False) for picture in pictures]
        output: Any = said
        if contents and profile.pictures_in_results:
            output = [{"type": "input_text", "text": said}, *contents]
        elif contents:
            follow += [{"type": "input_text", "text": f"[pictures of {call.name}]"}, *contents]
        outputs.append({"type": "function_call_output", "call_id": call.id, "output": output})
    return answer + outputs + ([{"role": "user", "content": follow}] if follow else [])


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": written(call.arguments),
    }


def _item(turn: Turn, marks: Container[int]) -> dict[str, Any]:
    """Return a turn. The model's own turns are plain text: they take no input parts."""
    if turn.role == "assistant":
        return {"role": "assistant", "content": "\n\n".join(piece.text for piece in turn.parts)}
    return {"role": "user", "content": [_input(piece, id(piece) in marks) for piece in turn.parts]}


def _input(piece: Part, marked: bool) -> dict[str, Any]:
    if piece.picture is None:
        content: dict[str, Any] = {"type": "input_text", "text": piece.text}
    else:
        content = {"type": "input_image", "image_url": data_url(piece.picture), "detail": "auto"}
    return content | {"prompt_cache_breakpoint": _EXPLICIT} if marked else content


def reply_of(answer: Mapping[str, Any], request_id: str | None, asked_by: str = "") -> Reply:
    """Return the Reply in a response object. Raises the error of a failed response."""
    _raise_if_failed(answer, request_id)
    output = parts(answer, "output")
    messages = [item for item in output if item.get("type") == "message" and item.get("phase") != "commentary"]
    contents = [content for message in messages for content in parts(message, "content")]
    texts = [content for content in contents if content.get("type") == "output_text"]
    refused = not texts and any(content.get("type") == "refusal" for content in contents)
    cited = (note for content in texts for note in parts(content, "annotations") if note.get("type") == "url_citation")
    calls = _calls(output)
    return Reply(
        text="\n\n".join(text(content, "text") for content in texts),
        usage=_usage(answer, output),
        request_id=request_id,
        stop="refusal" if refused else _stop(answer),
        sources=unique_sources(Source(text(note, "title"), text(note, "url")) for note in cited),
        tool_calls=calls,
        echo=echo_of(asked_by, [item for item in output if not _is_cut(item)]) if calls else None,
    )


def _calls(output: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Return the complete calls. One that the length limit cut is left out."""
    return tuple(
        ToolCall(text(item, "call_id"), text(item, "name"), arguments_of(item.get("arguments")))
        for item in output
        if item.get("type") == "function_call" and not _is_cut(item)
    )


def _is_cut(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call" and item.get("status") == "incomplete"


def _raise_if_failed(answer: Mapping[str, Any], request_id: str | None) -> None:
    error = part(answer, "error")
    if not error and answer.get("status") != "failed":
        return
    code = text(error, "code")
    if code == "insufficient_quota":
        raise QuotaUsedUp(code, request_id=request_id)
    if code == "rate_limit_exceeded":
        raise RateLimited(code, request_id=request_id)
    if "policy" in code:
        raise Refused(code, request_id=request_id)
    if code in ("", "server_error", "vector_store_timeout"):
        raise ServerFailed(code, request_id=request_id)
    raise error_of_status(400, error, code=code, request_id=request_id)


def _stop(answer: Mapping[str, Any]) -> StopReason:
    if answer.get("status") != "incomplete":
        return "stop"
    reason = text(part(answer, "incomplete_details"), "reason")
    return _STOPS.get(reason, "other")


def _usage(answer: Mapping[str, Any], output: Sequence[Mapping[str, Any]]) -> Usage:
    """Return the usage. Only searches are billed as such, not opening a page."""
    calls = [item for item in output if item.get("type") == "web_search_call"]
    searches = sum(part(call, "action").get("type", "search") == "search" for call in calls)
    return Usage(
        calls=1,
        input_tokens=number(answer, "usage", "input_tokens"),
        cached_tokens=number(answer, "usage", "input_tokens_details", "cached_tokens"),
        cache_write_tokens=number(answer, "usage", "input_tokens_details", "cache_write_tokens"),
        output_tokens=number(answer, "usage", "output_tokens"),
        reasoning_tokens=number(answer, "usage", "output_tokens_details", "reasoning_tokens"),
        searches=searches,
    )


def drawing_of(answer: Mapping[str, Any]) -> Drawing:
    """Return the picture in an images response."""
    images = parts(answer, "data")
    if not images or not text(images[0], "b64_json"):
        raise BadAnswer("no picture")
    usage = Usage(
        calls=1,
        pictures=1,
        input_tokens=number(answer, "usage", "input_tokens"),
        output_tokens=number(answer, "usage", "output_tokens"),
    )
    return Drawing(picture=picture_of(text(images[0], "b64_json")), usage=usage)


class GrokModel(OpenAIModel):
    """A Grok model."""

    provider = "xai"
    home = "https://api.x.ai/v1"

    def _headers(self) -> dict[str, Any]:
        """Omit OPENAI_ORG_ID and OPENAI_PROJECT_ID, which the SDK reads from the environment: xAI must not get them."""
        import openai

        return {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
