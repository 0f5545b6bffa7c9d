"""OpenAI's Responses API, which xAI uses too.

https://platform.openai.com/docs/api-reference/responses, https://docs.x.ai/docs/api-reference

The answer is a list of output items (reasoning, web searches, messages). Only messages that aren't commentary are the
answer. A stream's last event has the whole response; earlier events only serve to follow the growing text. xAI's
differences are in its profile: the system prompt is a message, searches leave no marks in the text, and pictures have
no size.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentic.llm import errors, http, turns
from agentic.llm.embeddings import Embedded, vectors_of
from agentic.llm.errors import ModelError
from agentic.llm.model import Access, ProviderModel, StreamListener
from agentic.llm.profiles import Profile, with_max_searches
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, picture_of, schema_for, text
from agentic.llm.turns import Part, build_turns
from agentic.llm.types import Drawing, Message, Prompt, Reply, Source, StopReason, ToolCall, ToolRound, Usage

if TYPE_CHECKING:
    import httpx2

_EXPLICIT = {"mode": "explicit"}
_STOPS: Mapping[str, StopReason] = {"max_output_tokens": "length", "content_filter": "refusal"}


class OpenAIModel(ProviderModel):
    """A model behind the Responses API, and its image model."""

    provider = "openai"
    home: str | None = None  # the SDK knows its own address
    draws = True

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        import openai

        self._sdk_errors = (openai.OpenAIError, *http.transport_errors())
        address = access.base_url or self.home
        # The SDK reads OPENAI_ORG_ID and OPENAI_PROJECT_ID from the environment, which other providers must not get.
        omitted: dict[str, Any] = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        unsigned = () if access.api_key else (_remove_key,)
        self._client = openai.AsyncOpenAI(
            api_key=access.api_key or "none",
            base_url=address,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(**http.http_options(address, *unsigned)),
            default_headers={**http.platform_headers(openai.Omit()), **({} if self.home is None else omitted)},
        )

    async def aclose(self) -> None:
        await self._client.close()

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        """Return the fields of POST /v1/responses."""
        profile = with_max_searches(self.profile, prompt.max_searches)
        built = build_turns(prompt, history, profile)
        marks = turns.cache_marks(built, profile.cache_marks, roles=("user",))
        items: list[dict[str, Any]] = []
        for turn in built:
            content: Any = [_input(piece, id(piece) in marks) for piece in turn.parts]
            if turn.role == "assistant":  # the model's own turns are plain text: they take no input parts
                content = "\n\n".join(piece.text for piece in turn.parts)
            items.append({"role": turn.role, "content": content})
        for place, step in enumerate(prompt.rounds):
            items += _round(step, place, profile, self.name)
        request: dict[str, Any] = {
            "model": self.access.model,
            "input": items,
            "max_output_tokens": prompt.max_output_tokens,
            "store": False,
        }
        if prompt.system and profile.system_as_message:
            items.insert(0, {"role": "system", "content": prompt.system})
        elif prompt.system:
            request["instructions"] = prompt.system
        if effort := turns.effort_of(prompt, profile):
            request["reasoning"] = {"effort": effort}
        if prompt.temperature is not None:
            request["temperature"] = prompt.temperature
        if prompt.cache_key:
            request["prompt_cache_key"] = prompt.cache_key
        if marks:
            request["prompt_cache_options"] = _EXPLICIT
        request |= _tools(prompt, profile)
        if (schema := schema_for(prompt, profile)) is not None:
            wanted = {"name": prompt.schema_name, "schema": schema, "strict": True}
            request["text"] = {"format": {"type": "json_schema", **wanted}}
        return request

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        if listener is None:
            response = await http.post(self._client, "/responses", request, seconds)
            answer = json_object(response.content)
        else:
            async with http.stream(self._client, "/responses", request, seconds) as response:
                answer = await gather(response.aiter_bytes(), listener)
        return _reply(answer, response.headers.get("x-request-id"), self.name)

    async def _look(self, seconds: float) -> None:
        await http.get(self._client, f"/models/{self.access.model}", seconds)

    async def _paint(self, prompt: str, seconds: float) -> Drawing:
        request = {"model": self.access.image_model, "prompt": prompt, "n": 1, **self.profile.image}
        answer = json_object((await http.post(self._client, "/images/generations", request, seconds)).content)
        images = parts(answer, "data")
        if not images or not text(images[0], "b64_json"):
            raise errors.BadAnswer("no picture")
        usage = Usage(
            calls=1,
            pictures=1,
            input_tokens=number(answer, "usage", "input_tokens"),
            output_tokens=number(answer, "usage", "output_tokens"),
        )
        return Drawing(picture=picture_of(text(images[0], "b64_json")), usage=usage)

    async def _embed(self, texts: Sequence[str], seconds: float) -> Embedded:
        """POST /embeddings: https://platform.openai.com/docs/api-reference/embeddings. Entries come in any order."""
        request = {"model": self.access.model, "input": texts, "encoding_format": "float"}
        answer = json_object((await http.post(self._client, "/embeddings", request, seconds)).content)
        entries = sorted(parts(answer, "data"), key=lambda entry: number(entry, "index"))
        vectors = vectors_of([entry.get("embedding") for entry in entries], len(texts))
        return Embedded(vectors, Usage(calls=1, input_tokens=number(answer, "usage", "prompt_tokens")))

    def _explain(self, error: Exception) -> ModelError:
        return http.explain(error, "x-request-id")


class GrokModel(OpenAIModel):
    provider = "xai"
    home = "https://api.x.ai/v1"


async def _remove_key(request: httpx2.Request) -> None:
    """Remove the authorization header: the SDK requires a key, but a server on this machine doesn't."""
    del request.headers["Authorization"]


# --- requests -------------------------------------------------------------------------------------------------------


def _input(piece: Part, marked: bool) -> dict[str, Any]:
    if piece.picture is None:
        content: dict[str, Any] = {"type": "input_text", "text": piece.text}
    else:
        content = {"type": "input_image", "image_url": turns.data_url(piece.picture), "detail": "auto"}
    return content | {"prompt_cache_breakpoint": _EXPLICIT} if marked else content


def _round(step: ToolRound, place: int, profile: Profile, asked_by: str) -> list[dict[str, Any]]:
    """Return the model's text and calls, each call's output, and the pictures that an output can't contain."""
    own, pairs = turns.own_round(step, place, asked_by)
    items: list[dict[str, Any]] = turns.with_ids(own, "function_call", "call_id", step.calls)
    if not own:
        items += [{"role": "assistant", "content": step.text}] if step.text.strip() else []
        for call, _ in pairs:
            written = turns.arguments_text(call.arguments)
            items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": written})
    follow: list[dict[str, Any]] = []
    for call, result in pairs:
        said, pictures = turns.visible_result(result, profile)
        said = f"Error: {said}" if result.is_error else said
        contents = [_input(Part(picture=picture), False) for picture in pictures]
        output: Any = said
        if contents and profile.pictures_in_results:
            output = [{"type": "input_text", "text": said}, *contents]
        elif contents:
            follow += [{"type": "input_text", "text": f"[pictures of {call.name}]"}, *contents]
        items.append({"type": "function_call_output", "call_id": call.id, "output": output})
    return items + ([{"role": "user", "content": follow}] if follow else [])


def _tools(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    """Return the fields for search and functions, with both lists of `include` merged."""
    fields: dict[str, Any] = {}
    included: list[str] = []
    for wanted, extra in ((prompt.search, profile.search_extra), (bool(prompt.tools), profile.tool_extra)):
        if wanted:
            fields |= extra
            included += extra.get("include", ())
    tools: list[dict[str, Any]] = [dict(profile.search)] if prompt.search else []
    for tool in prompt.tools:
        function = turns.function_of(tool, profile)
        # Strict mode, the API's default, closes and requires everything: use it only if that changes nothing.
        tools.append({"type": "function", **function, "strict": turns.is_strict(function["parameters"])})
    return fields | ({"tools": tools} if tools else {}) | ({"include": included} if included else {})


# --- answers --------------------------------------------------------------------------------------------------------


async def gather(chunks: AsyncIterator[bytes], listener: StreamListener) -> Mapping[str, Any]:
    """Return the whole response. Raises ConnectionFailed if the stream ends before it."""
    items: dict[int, Mapping[str, Any]] = {}
    texts: dict[tuple[int, int], str] = {}
    answer: Mapping[str, Any] | None = None
    async with aclosing(http.objects_in(chunks)) as events:
        async for event in events:
            kind, place = text(event, "type"), number(event, "output_index")
            if kind in ("response.completed", "response.incomplete", "response.failed"):
                answer = part(event, "response")
                if not answer.get("output"):
                    answer = {**answer, "output": [items[at] for at in sorted(items)]}
            elif kind == "error":
                answer = {"status": "failed", "error": part(event, "error") or event}
            elif kind in ("response.output_item.added", "response.output_item.done"):
                items[place] = part(event, "item")
            elif kind == "response.output_text.delta":
                at_text = (place, number(event, "content_index"))
                texts[at_text] = texts.get(at_text, "") + text(event, "delta")
            if answer is not None:
                await http.read_rest(events)
                return answer
            # The texts in order without commentary, joined as `_reply` joins them.
            commentary = {at for at, item in items.items() if item.get("phase") == "commentary"}
            listener("\n\n".join(texts[at] for at in sorted(texts) if at[0] not in commentary))
    raise errors.ConnectionFailed("cut in mid-answer")


def _reply(answer: Mapping[str, Any], request_id: str | None, asked_by: str) -> Reply:
    """Return the Reply in a response object. Raises the error of a failed response."""
    _raise_if_failed(answer, request_id)
    # A call that the length limit cut is left out.
    output = [
        item
        for item in parts(answer, "output")
        if item.get("type") != "function_call" or item.get("status") != "incomplete"
    ]
    messages = [item for item in output if item.get("type") == "message" and item.get("phase") != "commentary"]
    contents = [content for message in messages for content in parts(message, "content")]
    texts = [content for content in contents if content.get("type") == "output_text"]
    stop: StopReason = "stop"
    if not texts and any(content.get("type") == "refusal" for content in contents):
        stop = "refusal"
    elif answer.get("status") == "incomplete":
        stop = _STOPS.get(text(part(answer, "incomplete_details"), "reason"), "other")
    cited = (note for content in texts for note in parts(content, "annotations") if note.get("type") == "url_citation")
    searched = [item for item in output if item.get("type") == "web_search_call"]
    calls = tuple(
        ToolCall(text(item, "call_id"), text(item, "name"), turns.arguments_of(item.get("arguments")))
        for item in output
        if item.get("type") == "function_call"
    )
    return Reply(
        text="\n\n".join(text(content, "text") for content in texts),
        usage=Usage(
            calls=1,
            input_tokens=number(answer, "usage", "input_tokens"),
            cached_tokens=number(answer, "usage", "input_tokens_details", "cached_tokens"),
            cache_write_tokens=number(answer, "usage", "input_tokens_details", "cache_write_tokens"),
            output_tokens=number(answer, "usage", "output_tokens"),
            reasoning_tokens=number(answer, "usage", "output_tokens_details", "reasoning_tokens"),
            # Only searches are billed as such, not opening a page.
            searches=sum(part(item, "action").get("type", "search") == "search" for item in searched),
        ),
        request_id=request_id,
        stop=stop,
        sources=turns.unique_sources(Source(text(note, "title"), text(note, "url")) for note in cited),
        tool_calls=calls,
        reasoning=turns.join_thoughts(
            text(piece, "text")
            for item in output
            if item.get("type") == "reasoning"
            for piece in (*parts(item, "summary"), *parts(item, "content"))
        ),
        echo=turns.echo_of(asked_by, output) if calls else None,
    )


def _raise_if_failed(answer: Mapping[str, Any], request_id: str | None) -> None:
    error = part(answer, "error")
    if not error and answer.get("status") != "failed":
        return
    code = text(error, "code")
    if code == "insufficient_quota":
        raise errors.QuotaUsedUp(code, request_id=request_id)
    if code == "rate_limit_exceeded":
        raise errors.RateLimited(code, request_id=request_id)
    if "policy" in code:
        raise errors.Refused(code, request_id=request_id)
    if code in ("", "server_error", "vector_store_timeout"):
        raise errors.ServerFailed(code, request_id=request_id)
    raise errors.error_of_status(400, error, code=code, request_id=request_id)
