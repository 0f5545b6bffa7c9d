"""Google by google-genai's generate_content: https://ai.google.dev/api/generate-content

Requests and answers are plain JSON: the request goes as the SDK's `extra_body`, the answer comes as its raw response.
Its own way through its models costs 0.2 ms for each part of a history, and it stumbles over odd answers.

The SDK uses aiohttp where it is installed, so its connection errors are aiohttp's (or httpx2's where it is not). Parts
marked `thought` are reasoning. A prompt that is blocked has no candidates. The provider counts thinking beside the
candidates' tokens; our output tokens include it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_llm import stainless, stops
from agent_llm.base import Access, ProviderModel
from agent_llm.bounded import TooLong, bound_middleware, bound_response
from agent_llm.errors import BadAnswer, ConnectionFailed, ModelError, QuotaUsedUp, Refused, TimedOut
from agent_llm.failures import error_of_status
from agent_llm.profiles import Profile
from agent_llm.reading import json_object, number, part, parts, picture_of, text
from agent_llm.retry import Retrier
from agent_llm.shaping import Part, Turn, base64_of, schema_of, turns_of, unique_sources, wants_schema
from agent_llm.types import Drawing, Message, Prompt, Reply, Source, StopReason, Usage

if TYPE_CHECKING:
    from google.genai import errors, types

# What a model or its filter declined; the names are those of FinishReason and BlockedReason.
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
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"(\d{1,6}(?:\.\d{1,9})?)s"')


def load() -> None:
    """Import the SDK and have its models built, which it puts off to their first use; takes a third of a second."""
    from google.genai import types

    _config({}, 1.0)
    types.GenerateContentResponse()
    stainless.load()


class GeminiModel(ProviderModel):
    """A Gemini model, and its sibling that draws."""

    provider = "google"

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        from google import genai
        from google.genai import types

        self._sdk_errors = _sdk_errors()
        tls = {"ssl": stainless.ssl_context(), "verify": stainless.ssl_context()}
        bounds = {"middlewares": (bound_middleware,), "event_hooks": {"response": [bound_response]}}
        # One attempt: without retry options the SDK tries once more by itself after a lost connection.
        options = types.HttpOptions(
            base_url=access.base_url,
            retry_options=types.HttpRetryOptions(attempts=1),
            client_args={"verify": tls["verify"]},
            async_client_args={**tls, **bounds},
        )
        self._client = genai.Client(vertexai=False, api_key=access.api_key, http_options=options)

    async def aclose(self) -> None:
        await self._client.aio.aclose()
        self._client.close()

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        return request_of(prompt, history, self.profile)

    async def _ask(self, request: Mapping[str, Any], seconds: float) -> Reply:
        return reply_of(await self._generate(self.access.model, request, seconds))

    async def _paint(self, prompt: str, seconds: float) -> Drawing:
        request = {
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "generationConfig": {"responseModalities": ["IMAGE"], **self.profile.image},
        }
        return drawing_of(await self._generate(self.access.image_model, request, seconds))

    async def _generate(self, model: str, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        # The contents are those of the extra body; the SDK only wants some.
        answer = await self._client.aio.models.generate_content(
            model=model, contents="-", config=_config(request, seconds)
        )
        body = answer.sdk_http_response.body if answer.sdk_http_response else None
        return json_object(body or "")

    async def _look(self, seconds: float) -> None:
        from google.genai import types

        options = types.HttpOptions(timeout=max(1, round(seconds * 1000)))
        await self._client.aio.models.get(model=self.access.model, config=types.GetModelConfig(http_options=options))

    def _explain(self, error: Exception) -> ModelError:
        return _explained(error)


def _config(request: Mapping[str, Any], seconds: float) -> types.GenerateContentConfig:
    from google.genai import types

    return types.GenerateContentConfig(
        http_options=types.HttpOptions(timeout=max(1, round(seconds * 1000)), extra_body=dict(request)),
        should_return_http_response=True,
        # The SDK would look for functions of ours to call, and go on by itself where an answer is long.
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )


def request_of(prompt: Prompt, history: Sequence[Message], profile: Profile) -> dict[str, Any]:
    """The body of POST /v1beta/models/{model}:generateContent."""
    config: dict[str, Any] = {"maxOutputTokens": prompt.max_output_tokens}
    if profile.effort:
        config["thinkingConfig"] = {"thinkingLevel": profile.effort}
    if prompt.schema is not None and wants_schema(prompt, profile):
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = schema_of(prompt.schema, profile)
    if wanted := stops.for_request(prompt.stop, profile.max_stops):
        config["stopSequences"] = wanted
    if prompt.temperature is not None:
        config["temperature"] = prompt.temperature
    request: dict[str, Any] = {
        "contents": [_content(turn) for turn in turns_of(prompt, history, profile)],
        "generationConfig": config,
    }
    if prompt.system:
        request["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    if prompt.search:
        request["tools"] = [dict(profile.search)]
    return request


def _content(turn: Turn) -> dict[str, Any]:
    return {"role": "model" if turn.role == "assistant" else "user", "parts": [_part(piece) for piece in turn.parts]}


def _part(piece: Part) -> dict[str, Any]:
    if piece.picture is None:
        return {"text": piece.text}
    return {"inlineData": {"mimeType": piece.picture.media_type, "data": base64_of(piece.picture)}}


def reply_of(answer: Mapping[str, Any]) -> Reply:
    """The Reply in an answer; Refused where the prompt was blocked."""
    candidate = _candidate(answer)
    said = [piece for piece in parts(part(candidate, "content"), "parts") if not piece.get("thought")]
    return Reply(
        text="".join(text(piece, "text") for piece in said),
        usage=_usage(answer, candidate),
        request_id=_request_id(answer),
        stop=_stop(candidate),
        sources=unique_sources(_sources(candidate)),
    )


def drawing_of(answer: Mapping[str, Any]) -> Drawing:
    """The picture in an answer; Refused where there is none because of a filter."""
    candidate = _candidate(answer)
    usage = _usage(answer, candidate)
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


def _usage(answer: Mapping[str, Any], candidate: Mapping[str, Any]) -> Usage:
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


def _sdk_errors() -> tuple[type[Exception], ...]:
    """aiohttp's too where the SDK uses it."""
    from google.genai import errors

    found: tuple[type[Exception], ...] = (
        errors.APIError,
        *stainless.transport_errors(),
        AttributeError,
        KeyError,
        TypeError,
    )
    try:
        import aiohttp
    except ImportError:
        return found
    return (*found, aiohttp.ClientError)


def _explained(error: Exception) -> ModelError:
    from google.genai import errors

    if isinstance(error, errors.APIError):
        return _of_status(error)
    if isinstance(error, TimeoutError):
        return TimedOut()
    if isinstance(error, TooLong):
        return BadAnswer("too long")
    if isinstance(error, (ValueError, RecursionError)):
        return BadAnswer("not what the API promises")
    if type(error).__module__.startswith("httpx2"):
        return stainless.explain(error, "")
    return ConnectionFailed(type(error).__name__)


def _of_status(error: errors.APIError) -> ModelError:
    """Google's 429 says "exceeded your quota" for a minute's and a day's limit alike; only the limit's id tells."""
    said = json.dumps(error.details, default=str)
    headers = getattr(error.response, "headers", None) or {}
    wait = _RETRY_DELAY.search(said)
    if error.code == 429 and "PerDay" in said:
        return QuotaUsedUp(error.status or "", status=429)
    return error_of_status(
        int(error.code or 0),
        said,
        code=error.status or "",
        headers=headers,
        request_id=headers.get("x-request-id"),
        retry_after=float(wait[1]) if wait else None,
    )
