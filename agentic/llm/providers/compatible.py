"""OpenAI-compatible endpoints: format, stream, client.

Chat Completions: https://platform.openai.com/docs/api-reference/chat. Pure functions.

Content is a plain string if it is only text, since many servers take nothing else. `tool_calls.py` describes how
unparsable arguments of calls are kept.

A streamed chat completion, put together into the answer as it would have come in one piece.

Any address that speaks OpenAI's Chat Completions: gateways, and model servers on the owner's machines.

OpenAI's SDK provides authentication and errors. Such servers agree on little beyond the shape. What one lacks is in its
`Endpoint`, in the profile "compatible", or learnt when it refuses (structured output).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentic.llm import http as sdk_http
from agentic.llm import http as sse
from agentic.llm import turns as stop_sequences
from agentic.llm.embeddings import Embedded
from agentic.llm.errors import BadAnswer, ConnectionFailed, ModelError, error_of_body
from agentic.llm.markup import strip_reasoning
from agentic.llm.model import Access, ProviderModel, StreamListener
from agentic.llm.profiles import Endpoint, Prefill, Profile, profile_at
from agentic.llm.providers.openai import embedded
from agentic.llm.providers.openai import load as load
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, schema_of, text, wants_schema
from agentic.llm.turns import (
    RAW,
    Part,
    Turn,
    arguments_of,
    cache_marks,
    calls_with_results,
    data_url,
    parameters_of,
    system_parts,
    turns_of,
    without_pictures,
    written,
)
from agentic.llm.types import Message, Prompt, Reply, StopReason, Tool, ToolCall, ToolResult, ToolRound, Usage

if TYPE_CHECKING:
    import httpx2
    import openai


_STOPS: Mapping[str, StopReason] = {
    "stop": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "length",
    "content_filter": "refusal",
}
# Fields that a reasoning model needs back beside its calls, as OpenRouter, DeepSeek and vLLM name them.
_REASONING = ("reasoning_details", "reasoning_content", "reasoning")
_BEGINNING_MARK: Mapping[Prefill, str] = {"prefix": "prefix", "partial": "partial"}


# --- requests -------------------------------------------------------------------------------------------------------


def request_of(
    prompt: Prompt, history: Sequence[Message], model: str, profile: Profile, *, prefill: Prefill, asked_by: str
) -> dict[str, Any]:
    """Return the body of POST /chat/completions. `asked_by`: the provider that recognises its own echoes."""
    turns = turns_of(prompt, history, profile)
    marks = cache_marks(turns, profile.cache_marks - len(system_parts(prompt)))
    mark = {"type": "ephemeral"} if prompt.cache_ttl == "5m" else {"type": "ephemeral", "ttl": prompt.cache_ttl}
    between = "\n\n" if prompt.prefill is None else ""
    messages = [_system(prompt, mark if profile.cache_marks else None)] if prompt.system else []
    messages += [_message(turn, marks, mark, between) for turn in turns]
    if prompt.prefill is None:
        messages += [
            message for at, step in enumerate(prompt.rounds) for message in _round(step, at, asked_by, profile)
        ]
    elif prefill in _BEGINNING_MARK:
        messages[-1][_BEGINNING_MARK[prefill]] = True
    request = {"model": model, "messages": messages, **_limits(prompt, profile)}
    if prompt.prefill is not None and prefill == "continue":
        request |= {"add_generation_prompt": False, "continue_final_message": True}
    if prompt.tools:
        request["tools"] = [_tool(tool, profile) for tool in prompt.tools]
    if prompt.schema is not None and wants_schema(prompt, profile):
        wanted = {"name": prompt.schema_name, "schema": schema_of(prompt.schema, profile), "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return request


def body_for(
    endpoint: Endpoint, prompt: Prompt, history: Sequence[Message], model: str, profile: Profile
) -> tuple[dict[str, Any], bool]:
    """The request for an endpoint, and whether it is for plain text, as a base model continues it."""
    if prompt.prefill is not None and endpoint.prefill == "completions":
        one_text = replace(profile, alternate=False)
        return completion_of(*without_pictures(prompt, history), model, one_text), True
    return request_of(prompt, history, model, profile, prefill=endpoint.prefill, asked_by=endpoint.name), False


def _tool(tool: Tool, profile: Profile) -> dict[str, Any]:
    parameters = parameters_of(tool.parameters, profile)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def completion_of(prompt: Prompt, history: Sequence[Message], model: str, profile: Profile) -> dict[str, Any]:
    """Return the body of POST /completions: system, history and the prefilled answer as one text, with blank lines
    between roles."""
    texts = ((turn.role, "".join(piece.text for piece in turn.parts)) for turn in turns_of(prompt, history, profile))
    by_role = groupby(((role, said) for role, said in texts if said), key=lambda turn: turn[0])
    said = ["".join(words for _, words in same) for _, same in by_role]  # joins the parts of a prefilled answer
    return {
        "model": model,
        "prompt": "\n\n".join(piece for piece in (prompt.system, *said) if piece),
        **_limits(prompt, profile),
    }


def _limits(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    limits: dict[str, Any] = {"max_tokens": prompt.max_output_tokens}
    if wanted := stop_sequences.for_request(prompt.stop, profile.max_stops):
        limits["stop"] = wanted
    if prompt.temperature is not None:
        limits["temperature"] = prompt.temperature
    return limits


def _system(prompt: Prompt, mark: Mapping[str, str] | None) -> dict[str, Any]:
    if mark is None:
        return {"role": "system", "content": prompt.system}
    pieces = [{"type": "text", "text": piece, "cache_control": mark} for piece in system_parts(prompt)]
    return {"role": "system", "content": pieces}


def _message(turn: Turn, marks: Container[int], mark: Mapping[str, str], between: str) -> dict[str, Any]:
    if all(piece.picture is None and id(piece) not in marks for piece in turn.parts):
        return {"role": turn.role, "content": between.join(piece.text for piece in turn.parts)}
    return {
        "role": turn.role,
        "content": [_content(piece) | ({"cache_control": mark} if id(piece) in marks else {}) for piece in turn.parts],
    }


def _content(piece: Part) -> dict[str, Any]:
    if piece.picture is None:
        return {"type": "text", "text": piece.text}
    return {"type": "image_url", "image_url": {"url": data_url(piece.picture)}}


def _round(step: ToolRound, place: int, asked_by: str, profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield the model's calls, their results, and the results' pictures, which a result cannot carry."""
    own = step.echo if isinstance(step.echo, Mapping) and step.echo.get("by") == asked_by else {}
    pairs = calls_with_results(step, place, own=bool(own))
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": written(call.arguments)},
        }
        for call, _ in pairs
    ]
    yield {"role": "assistant", "content": step.text, "tool_calls": calls, **part(own, "reasoning")}
    for _, result in pairs:
        said = f"Error: {result.text}" if result.is_error else result.text
        yield {"role": "tool", "tool_call_id": result.call_id, "content": said}
    yield from _pictures(step.results, profile)


def _pictures(results: Sequence[ToolResult], profile: Profile) -> Iterator[dict[str, Any]]:
    shown = Message("user", "", tuple(picture for result in results for picture in result.pictures))
    for turn in turns_of(Prompt(text=""), [shown], profile):
        yield {"role": "user", "content": [_content(piece) for piece in turn.parts]}


# --- answers --------------------------------------------------------------------------------------------------------


def reply_of(answer: Mapping[str, Any], asked_by: str, request_id: str | None = None) -> Reply:
    """Return the Reply in an answer of either API, with the usage that it reports. Raises an error reported with status
    200."""
    _raise_if_failed(answer, request_id)
    choices = parts(answer, "choices")
    if not choices:
        raise BadAnswer("empty", request_id=request_id)
    choice = choices[0]
    _raise_if_failed(choice, request_id)
    message = part(choice, "message") or choice  # plain completions have their text in the choice
    said = strip_reasoning(said_in(message))
    calls = calls_of(message)
    refused = not said and not calls and bool(text(message, "refusal"))
    reasoning = {key: message[key] for key in _REASONING if message.get(key)}
    return Reply(
        text=said,
        usage=usage_of(answer),
        request_id=request_id or text(answer, "id") or None,
        stop="refusal" if refused else _STOPS.get(text(choice, "finish_reason"), "other"),
        tool_calls=calls,
        echo={"by": asked_by, "reasoning": reasoning} if calls else None,
    )


def _raise_if_failed(answer: Mapping[str, Any], request_id: str | None) -> None:
    """Raise the error in an answer: gateways send 200 before they know that a model's server fails."""
    if answer.get("error"):
        raise error_of_body(answer["error"], request_id)


def said_in(message: Mapping[str, Any]) -> str:
    """Return a message's text: a string, or the texts of its parts. Plain completions call it `text`."""
    listed = "".join(text(piece, "text") for piece in parts(message, "content"))
    return listed or text(message, "content") or text(message, "text")


def calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the calls in a message. An id may be missing, or there twice."""
    return tuple(
        ToolCall(
            text(call, "id"),
            text(part(call, "function"), "name"),
            arguments_of(part(call, "function").get("arguments")),
        )
        for call in parts(message, "tool_calls")
    )


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """Return the usage. DeepSeek reports cached tokens in a field of its own."""
    cached = number(answer, "usage", "prompt_tokens_details", "cached_tokens")
    return Usage(
        calls=1,
        input_tokens=number(answer, "usage", "prompt_tokens"),
        cached_tokens=cached or number(answer, "usage", "prompt_cache_hit_tokens"),
        cache_write_tokens=number(answer, "usage", "prompt_tokens_details", "cache_write_tokens"),
        output_tokens=number(answer, "usage", "completion_tokens"),
        reasoning_tokens=number(answer, "usage", "completion_tokens_details", "reasoning_tokens"),
    )


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


@dataclass(frozen=True, slots=True)
class EndpointCall:
    """A request and its path."""

    path: str
    body: Mapping[str, Any]


class CompatibleModel(ProviderModel):
    """A model behind an `Endpoint`, whose name is its provider. It draws nothing and has no search of its own."""

    provider = "compatible"
    doubts_schema = True
    no_such_model = frozenset()  # OpenRouter also answers 404 for a model that sees no pictures

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        if access.endpoint is None:
            raise ValueError("compatible: no endpoint is given")
        super().__init__(access, retrier)
        import openai

        self.endpoint = access.endpoint
        self.provider = self.endpoint.name
        self.profile = profile_at(self.endpoint, access.model)
        self._sdk_errors = (openai.OpenAIError, *sdk_http.transport_errors())
        address = (access.base_url or self.endpoint.base_url).rstrip("/")
        unsigned = () if access.api_key else (_without_key,)
        self._client: openai.AsyncOpenAI = openai.AsyncOpenAI(
            api_key=access.api_key or "none",
            base_url=access.base_url or self.endpoint.base_url,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(**sdk_http.http_options(address, *unsigned)),
            default_headers=_others_left_out(),
        )

    @property
    def can_draw(self) -> bool:
        return False

    async def aclose(self) -> None:
        await self._client.close()

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        body, plain = body_for(self.endpoint, prompt, history, self.access.model, self.profile)
        path = "/completions" if plain else "/chat/completions"
        if prompt.on_text and self.endpoint.stream_usage:
            body["stream_options"] = {"include_usage": True}
        return {"call": EndpointCall(path, body | dict(self.endpoint.fields) | dict(prompt.fields))}

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        call: EndpointCall = request["call"]
        if listener is None:
            response = await sdk_http.post(self._client, call.path, call.body, seconds)
            answer, request_id = json_object(response.content), response.headers.get("x-request-id")
        else:
            async with aclosing(sse.objects(self._client, call.path, call.body, seconds)) as pieces:
                answer, request_id = await gathered(pieces, listener), None
        return reply_of(answer, self.provider, request_id)

    async def _embed(self, texts: Sequence[str], seconds: float) -> Embedded:
        return await embedded(self._client, self.access.model, texts, seconds)

    async def _look(self, seconds: float) -> None:
        """List the models, since not every server describes a single one."""
        await sdk_http.get(self._client, "/models", seconds)

    def _explain(self, error: Exception) -> ModelError:
        return sdk_http.explain(error, "x-request-id")


def _others_left_out() -> dict[str, Any]:
    """Omit OPENAI_ORG_ID and OPENAI_PROJECT_ID, which the SDK reads from the environment: other providers must not get
    them."""
    import openai

    return {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}


async def _without_key(request: httpx2.Request) -> None:
    """Remove the authorization header: the SDK insists on a key, and a server on this machine needs none."""
    del request.headers["Authorization"]
