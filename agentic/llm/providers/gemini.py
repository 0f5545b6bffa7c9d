"""Gemini.

A streamed answer of Gemini's: each event is an answer of its own with the next parts of the one candidate.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent

Google's requests and answers: https://ai.google.dev/api/generate-content. Pure functions.

Parts marked `thought` are reasoning. A blocked prompt has no candidates. The provider counts thinking beside the
candidates' tokens; our output tokens include it. A call's part carries the model's signature, which is sent back in the
same place: https://ai.google.dev/gemini-api/docs/thought-signatures

Google by google-genai's client: https://ai.google.dev/api/generate-content

Requests and answers are plain JSON: the request goes as the SDK's `extra_body`, the answer is its raw response. The
SDK's models cost 0.2 ms for each part of a history and fail on odd answers, so only its transport is used: address,
authentication, connections and errors.

The SDK uses aiohttp if it is installed, so connection errors are aiohttp's.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from agentic.llm import http as sdk_http
from agentic.llm import http as sse
from agentic.llm import turns as stop_sequences
from agentic.llm.errors import BadAnswer, ConnectionFailed, ModelError, QuotaUsedUp, Refused, error_of_status
from agentic.llm.http import bound_middleware
from agentic.llm.model import KEEP_ALIVE_SECONDS, Access, ProviderModel, StreamListener
from agentic.llm.profiles import Profile
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, picture_of, schema_of, text, wants_schema
from agentic.llm.turns import (
    Part,
    Turn,
    arguments_of,
    base64_of,
    calls_with_results,
    echo_of,
    own_echo,
    parameters_of,
    shown,
    turns_of,
    unique_sources,
)
from agentic.llm.types import Drawing, Message, Prompt, Reply, Source, StopReason, Tool, ToolCall, ToolRound, Usage

if TYPE_CHECKING:
    import aiohttp
    from google.genai import errors, types


class ErrorWithin(Exception):
    """An error that came as an event. `details` is its object, in Google's usual shape."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        super().__init__("an error within the stream")
        self.details = details


class StreamedAnswer:
    """Collects the events. `answer` has the shape of a whole one, `said` is its text, `ended` says whether it is
    complete."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._pieces: list[dict[str, Any]] = []
        self.said = ""
        self.ended = False

    @property
    def answer(self) -> dict[str, Any]:
        """The answer. It has no candidate if none has come, as for a blocked prompt."""
        if not self._candidate:
            return self._answer
        content = {"role": "model", "parts": self._pieces}
        return {**self._answer, "candidates": [{**self._candidate, "content": content}]}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add one event. Counts of tokens are totals, so the last ones are kept."""
        if "error" in event:
            raise ErrorWithin(part(event, "error"))
        self._answer |= {key: value for key, value in event.items() if key != "candidates"}
        for candidate in parts(event, "candidates")[:1]:
            self._candidate |= {key: value for key, value in candidate.items() if key != "content"}
            for piece in parts(part(candidate, "content"), "parts"):
                self._append(piece)
        self.ended = "finishReason" in self._candidate or bool(text(part(event, "promptFeedback"), "blockReason"))

    def _append(self, piece: Mapping[str, Any]) -> None:
        """Add a part. Consecutive texts become one part, unless one of them carries further fields."""
        if not piece.get("thought"):
            self.said += text(piece, "text")
        last = self._pieces[-1] if self._pieces else {}
        plain = {"text", "thought"}
        if last.keys() == piece.keys() and "text" in piece and piece.keys() <= plain:
            self._pieces[-1] = {**last, "text": text(last, "text") + text(piece, "text")}
        else:
            self._pieces.append(dict(piece))


async def gathered(
    chunks: AsyncIterator[bytes], on_usage: Callable[[Mapping[str, Any]], None], listener: StreamListener
) -> Mapping[str, Any]:
    """Return the whole answer. `on_usage` gets the answer each time new counts come.

    After the end the stream is read for another moment, since counts and sources may come last. Raises ConnectionFailed
    if the stream ends before the answer does, and ErrorWithin.
    """
    streamed = StreamedAnswer()
    try:
        async with aclosing(sse.objects_in(chunks)) as events, asyncio.timeout(None) as rest:
            async for event in events:
                streamed.add(event)
                if "usageMetadata" in event:
                    on_usage(streamed.answer)
                listener(streamed.said)
                if streamed.ended and rest.when() is None:
                    rest.reschedule(asyncio.get_running_loop().time() + sse.REST_SECONDS)
    except TimeoutError:
        if not streamed.ended:
            raise
    if not streamed.ended:
        raise ConnectionFailed("cut in mid-answer")
    return streamed.answer


# The names of FinishReason and BlockedReason that mean that a model or its filter declined.
_REFUSALS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "JAILBREAK",
        "ESCALATION",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
_STOPS: Mapping[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}


def request_of(prompt: Prompt, history: Sequence[Message], profile: Profile, *, asked_by: str = "") -> dict[str, Any]:
    """Return the body of POST /v1beta/models/{model}:generateContent. `asked_by`: the model that recognises its own
    echoes."""
    config: dict[str, Any] = {"maxOutputTokens": prompt.max_output_tokens}
    if profile.effort:
        config["thinkingConfig"] = {"thinkingLevel": profile.effort}
    if prompt.schema is not None and wants_schema(prompt, profile):
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = schema_of(prompt.schema, profile)
    if wanted := stop_sequences.for_request(prompt.stop, profile.max_stops):
        config["stopSequences"] = wanted
    if prompt.temperature is not None:
        config["temperature"] = prompt.temperature
    contents = [_content(turn) for turn in turns_of(prompt, history, profile)]
    for place, step in enumerate(prompt.rounds):
        contents += _round(step, place, profile, asked_by)
    request: dict[str, Any] = {"contents": contents, "generationConfig": config, **_tools(prompt, profile)}
    if prompt.system:
        request["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    return request


def _tools(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    tools = [dict(profile.search)] if prompt.search else []
    if prompt.tools:
        tools.append({"functionDeclarations": [_function(tool, profile) for tool in prompt.tools]})
    both = profile.tool_and_search_extra if prompt.search and prompt.tools else {}
    return ({"tools": tools} if tools else {}) | dict(both)


def _function(tool: Tool, profile: Profile) -> dict[str, Any]:
    """Declare a function. An object without properties is refused, so parameters are left out if there are none."""
    parameters = parameters_of(tool.parameters, profile)
    declared = {"name": tool.name, "description": tool.description}
    return declared | ({"parametersJsonSchema": parameters} if parameters["properties"] else {})


def _round(step: ToolRound, place: int, profile: Profile, asked_by: str) -> list[dict[str, Any]]:
    """Return the model's text and calls, then the user's responses: as many, in the same order.

    A response has the id of its call, if the call has one.
    """
    own = own_echo(step, asked_by)
    pairs = calls_with_results(step, place, own=bool(own))
    said: list[Mapping[str, Any]] = list(own) or [
        *([{"text": step.text}] if step.text.strip() else []),
        *(_call(call, profile.foreign_signature if at == 0 else "") for at, (call, _) in enumerate(pairs)),
    ]
    ids = [text(part(piece, "functionCall"), "id") for piece in said if part(piece, "functionCall")]
    responses: list[dict[str, Any]] = []
    follow: list[dict[str, Any]] = []
    for at, (call, result) in enumerate(pairs):
        text_shown, pictures = shown(result, profile)
        seen = [_part(Part(picture=picture)) for picture in pictures]
        response: dict[str, Any] = {
            "name": call.name,
            "response": {"error" if result.is_error else "output": text_shown},
        }
        response |= {"id": ids[at]} if at < len(ids) and ids[at] else {}
        if seen and profile.pictures_in_results:
            response["parts"] = seen
        else:
            follow += seen
        responses.append({"functionResponse": response})
    return [{"role": "model", "parts": said}, {"role": "user", "parts": responses + follow}]


def _call(call: ToolCall, signature: str) -> dict[str, Any]:
    said = {"functionCall": {"id": call.id, "name": call.name, "args": dict(call.arguments)}}
    return said | ({"thoughtSignature": signature} if signature else {})


def _content(turn: Turn) -> dict[str, Any]:
    return {"role": "model" if turn.role == "assistant" else "user", "parts": [_part(piece) for piece in turn.parts]}


def _part(piece: Part) -> dict[str, Any]:
    if piece.picture is None:
        return {"text": piece.text}
    return {"inlineData": {"mimeType": piece.picture.media_type, "data": base64_of(piece.picture)}}


def reply_of(answer: Mapping[str, Any], asked_by: str = "") -> Reply:
    """Return the Reply in an answer. Raises Refused for a blocked prompt."""
    candidate = _candidate(answer)
    pieces = parts(part(candidate, "content"), "parts")
    said = [piece for piece in pieces if not piece.get("thought")]
    calls = _calls(pieces)
    return Reply(
        text="".join(text(piece, "text") for piece in said),
        usage=usage_of(answer, candidate),
        request_id=_request_id(answer),
        stop=_stop(candidate),
        sources=unique_sources(_sources(candidate)),
        tool_calls=calls,
        echo=echo_of(asked_by, pieces) if calls else None,
    )


def _calls(pieces: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Return the calls. Older models give them no ids."""
    called = [part(piece, "functionCall") for piece in pieces if part(piece, "functionCall")]
    return tuple(ToolCall(text(call, "id"), text(call, "name"), arguments_of(call.get("args"))) for call in called)


def drawing_of(answer: Mapping[str, Any]) -> Drawing:
    """Return the picture in an answer. Raises Refused if a filter removed it."""
    candidate = _candidate(answer)
    usage = usage_of(answer, candidate)
    for piece in parts(part(candidate, "content"), "parts"):
        data = text(part(piece, "inlineData"), "data")
        if data and not piece.get("thought"):
            counted = Usage(calls=1, pictures=1, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            return Drawing(picture=picture_of(data), usage=counted)
    error = Refused() if _stop(candidate) == "refusal" else BadAnswer("no picture")
    error.usage, error.request_id = usage, _request_id(answer)
    raise error


def _candidate(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    candidates = parts(answer, "candidates")
    if candidates:
        return candidates[0]
    reason = text(part(answer, "promptFeedback"), "blockReason")
    if reason:
        raise Refused(reason, request_id=_request_id(answer))
    raise BadAnswer("empty", request_id=_request_id(answer))


def _stop(candidate: Mapping[str, Any]) -> StopReason:
    reason = text(candidate, "finishReason")
    return "refusal" if reason in _REFUSALS else _STOPS.get(reason, "other")


def _sources(candidate: Mapping[str, Any]) -> Iterator[Source]:
    for chunk in parts(part(candidate, "groundingMetadata"), "groundingChunks"):
        web = part(chunk, "web")
        yield Source(text(web, "title"), text(web, "uri"))


def usage_of(answer: Mapping[str, Any], candidate: Mapping[str, Any]) -> Usage:
    queries = part(candidate, "groundingMetadata").get("webSearchQueries")
    counted = part(answer, "usageMetadata")
    thoughts = number(counted, "thoughtsTokenCount")
    return Usage(
        calls=1,
        input_tokens=number(counted, "promptTokenCount") + number(counted, "toolUsePromptTokenCount"),
        cached_tokens=number(counted, "cachedContentTokenCount"),
        output_tokens=number(counted, "candidatesTokenCount") + thoughts,
        reasoning_tokens=thoughts,
        searches=len(queries) if isinstance(queries, list) else 0,
    )


def _request_id(answer: Mapping[str, Any]) -> str | None:
    return text(answer, "responseId") or None


_RETRY_DELAY = re.compile(r'"retryDelay":\s*"(\d{1,6}(?:\.\d{1,9})?)s"')


def load() -> None:
    """Import the SDK and build its options, which it defers to their first use. Takes a third of a second."""
    from google import genai  # noqa: F401

    _options({}, 1.0)
    sdk_http.load()


class GeminiModel(ProviderModel):
    """A Gemini model, and its image model."""

    provider = "google"

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        from google import genai
        from google.genai import types

        self._sdk_errors = _sdk_errors()
        tls = sdk_http.ssl_context()
        # One attempt: without retry options the SDK itself retries once after a lost connection.
        options = types.HttpOptions(
            base_url=access.base_url,
            retry_options=types.HttpRetryOptions(attempts=1),
            client_args={"verify": tls},
            async_client_args={"ssl": tls, "verify": tls, "middlewares": (bound_middleware,)},
        )
        self._client = genai.Client(vertexai=False, api_key=access.api_key, http_options=options)
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        await self._client.aio.aclose()
        self._client.close()
        if self._session is not None:
            await self._session.close()

    @property
    def _api(self) -> Any:
        """The SDK's sender, with a session of ours: its own asks two threads for proxies and passwords at each
        request."""
        import aiohttp

        api = self._client.aio.models._api_client
        if self._session is None:
            proxies = bool(getproxies()) and not sdk_http.on_loopback(self.access.base_url or "")
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=proxies)
            api._http_options.aiohttp_client = self._session
        return api

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        return request_of(prompt, history, self.profile, asked_by=self.name)

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        if listener is None:
            return reply_of(await self._generate(self.access.model, request, seconds), self.name)

        def on_usage(answer: Mapping[str, Any]) -> None:
            listener.billed = usage_of(answer, {})

        response = await self._begin(request, seconds)
        try:
            answer = await gathered(response.content.iter_any(), on_usage, listener)
        finally:
            response.close()  # a response that was read to its end has released its connection already
        return reply_of(answer, self.name)

    async def _begin(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Return aiohttp's response to a request for a stream, not read yet. Raises the SDK's errors.

        The SDK's own stream fails on comments and has no size limit, so only its transport is used.
        """
        return await self._send(self.access.model, "streamGenerateContent?alt=sse", request, seconds, stream=True)

    async def _send(
        self, model: str, method: str, request: Mapping[str, Any], seconds: float, *, stream: bool = False
    ) -> Any:
        """Do the last two steps of the SDK's `generate_content`, with its authentication and errors. The steps before
        them walk every field of the request by its type."""
        api = self._api
        asked = api._build_request("post", f"{_path(model)}:{method}", {}, _options(request, seconds))
        return (await api._async_request_once(asked, stream, implicit_retry=False)).response_stream

    async def _paint(self, prompt: str, seconds: float) -> Drawing:
        request = {
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "generationConfig": {"responseModalities": ["IMAGE"], **self.profile.image},
        }
        return drawing_of(await self._generate(self.access.image_model, request, seconds))

    async def _generate(self, model: str, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        bodies = await self._send(model, "generateContent", request, seconds)
        return json_object(bodies[0])

    async def _look(self, seconds: float) -> None:
        from google.genai import types

        options = types.HttpOptions(timeout=max(1, round(seconds * 1000)))
        assert self._api is not None  # sets our session, which this call uses too
        await self._client.aio.models.get(model=self.access.model, config=types.GetModelConfig(http_options=options))

    def _explain(self, error: Exception) -> ModelError:
        return _explained(error)


def _path(model: str) -> str:
    return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"


def _options(request: Mapping[str, Any], seconds: float) -> types.HttpOptions:
    from google.genai import types

    return types.HttpOptions(timeout=max(1, round(seconds * 1000)), extra_body=_uncopied(request))


class _Uncopied(dict[str, Any]):
    """A dict that is not copied: the SDK deep-copies its configuration at each call, with the whole conversation in
    it."""

    def __deepcopy__(self, _: dict[int, Any]) -> _Uncopied:
        return self


def _uncopied(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(map(_Uncopied, value)) if isinstance(value, list) else value for key, value in request.items()}


def _sdk_errors() -> tuple[type[Exception], ...]:
    from google.genai import errors

    odd_answers = (AttributeError, KeyError, TypeError)
    return (errors.APIError, ErrorWithin, *sdk_http.transport_errors(), *odd_answers)


def _explained(error: Exception) -> ModelError:
    from google.genai import errors

    if isinstance(error, ErrorWithin):
        return _of_status(errors.APIError(0, {"error": error.details}))
    if isinstance(error, errors.APIError):
        return _of_status(error)
    if isinstance(error, (AttributeError, KeyError, TypeError)):
        return BadAnswer("not what the API promises")
    return sdk_http.explain(error, "")


def _of_status(error: errors.APIError) -> ModelError:
    """Return our error. Google's 429 says "exceeded your quota" for limits of a minute and of a day; only the id
    differs."""
    said = json.dumps(error.details, default=str)
    headers = getattr(error.response, "headers", None) or {}
    wait = _RETRY_DELAY.search(said)
    if error.code == 429 and "PerDay" in said:
        return QuotaUsedUp(error.status or "", status=429)
    return error_of_status(
        int(error.code or 0),
        error.details,
        code=error.status or "",
        headers=headers,
        request_id=headers.get("x-request-id"),
        retry_after=float(wait[1]) if wait else None,
    )
