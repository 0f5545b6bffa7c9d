"""Google by google-genai's client: https://ai.google.dev/api/generate-content

Requests and answers are plain JSON: the request goes as the SDK's `extra_body`, the answer is its raw response. The
SDK's models cost 0.2 ms for each part of a history and fail on odd answers, so only its transport is used: address,
authentication, connections and errors.

The SDK uses aiohttp if it is installed, so connection errors are aiohttp's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from agentic.llm import http as sdk_http
from agentic.llm.errors import BadAnswer, ModelError, QuotaUsedUp, error_of_status
from agentic.llm.http import bound_middleware
from agentic.llm.model import KEEP_ALIVE_SECONDS, Access, ProviderModel, StreamListener
from agentic.llm.providers import gemini_stream
from agentic.llm.providers.gemini_wire import drawing_of, reply_of, request_of, usage_of
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object
from agentic.llm.types import Drawing, Message, Prompt, Reply

if TYPE_CHECKING:
    import aiohttp
    from google.genai import errors, types

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
            answer = await gemini_stream.gathered(response.content.iter_any(), on_usage, listener)
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
    return (errors.APIError, gemini_stream.ErrorWithin, *sdk_http.transport_errors(), *odd_answers)


def _explained(error: Exception) -> ModelError:
    from google.genai import errors

    if isinstance(error, gemini_stream.ErrorWithin):
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
