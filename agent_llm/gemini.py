"""Google by google-genai's generate_content: https://ai.google.dev/api/generate-content

Requests and answers are plain JSON: the request goes as the SDK's `extra_body`, the answer comes as its raw response.
Its own way through its models costs 0.2 ms for each part of a history, and it stumbles over odd answers.

The SDK uses aiohttp where it is installed, so its connection errors are aiohttp's (or httpx2's where it is not).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_llm import gemini_stream, stainless
from agent_llm.base import Access, ProviderModel
from agent_llm.bounded import TooLong, bound_middleware, bound_response
from agent_llm.errors import BadAnswer, ConnectionFailed, ModelError, QuotaUsedUp, TimedOut
from agent_llm.failures import error_of_status
from agent_llm.gemini_wire import drawing_of, reply_of, request_of, usage_of
from agent_llm.hearing import Hearing
from agent_llm.reading import json_object
from agent_llm.retry import Retrier
from agent_llm.types import Drawing, Message, Prompt, Reply

if TYPE_CHECKING:
    from google.genai import errors, types

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
        return request_of(prompt, history, self.profile, asked_by=self.name)

    async def _ask(self, request: Mapping[str, Any], seconds: float, hearing: Hearing | None) -> Reply:
        if hearing is None:
            return reply_of(await self._generate(self.access.model, request, seconds), self.name)

        def told(answer: Mapping[str, Any]) -> None:
            hearing.told = usage_of(answer, {})

        response = await self._begin(request, seconds)
        try:
            answer = await gemini_stream.gathered(_chunks(response), told, hearing)
        finally:
            await _close(response)
        return reply_of(answer, self.name)

    async def _begin(self, request: Mapping[str, Any], seconds: float) -> Any:
        """The aiohttp or httpx2 response to a request for a stream, still to be read. Raises the SDK's errors.

        The SDK's own stream stumbles over comments and has no bound, so only its transport is used: the same two steps
        that its `generate_content_stream` takes.
        """
        api, options = self._client.aio.models._api_client, _config(request, seconds).http_options
        path = f"models/{self.access.model}:streamGenerateContent?alt=sse"
        asked = api._build_request("post", path, {}, options)
        return (await api._async_request(asked, options, stream=True)).response_stream

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
        http_options=types.HttpOptions(timeout=max(1, round(seconds * 1000)), extra_body=_uncopied(request)),
        should_return_http_response=True,
        # The SDK would look for functions of ours to call, and go on by itself where an answer is long.
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )


class _Uncopied(dict[str, Any]):
    """The SDK makes deep copies of its configuration at each call, and the whole conversation goes along in it."""

    def __deepcopy__(self, _: dict[int, Any]) -> _Uncopied:
        return self


def _uncopied(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(map(_Uncopied, value)) if isinstance(value, list) else value for key, value in request.items()}


def _chunks(response: Any) -> AsyncIterator[bytes]:
    chunks: AsyncIterator[bytes] = response.content.iter_any() if _is_of_aiohttp(response) else response.aiter_bytes()
    return chunks


async def _close(response: Any) -> None:
    """aiohttp has given the connection back where all has been read."""
    if _is_of_aiohttp(response):
        response.close()
    else:
        await response.aclose()


def _is_of_aiohttp(response: Any) -> bool:
    return type(response).__module__.startswith("aiohttp")


def _sdk_errors() -> tuple[type[Exception], ...]:
    """aiohttp's too where the SDK uses it."""
    from google.genai import errors

    found: tuple[type[Exception], ...] = (
        errors.APIError,
        gemini_stream.ErrorWithin,
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

    if isinstance(error, gemini_stream.ErrorWithin):
        return _of_status(errors.APIError(0, {"error": error.told}))
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
