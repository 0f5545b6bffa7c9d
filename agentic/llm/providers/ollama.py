"""Ollama's own API by its official client: https://github.com/ollama/ollama-python.

The client has no retries, no limit of an answer's size and no time limit of its own; here its HTTP client gets the
limit, and `base.py` the time. Two things that its typed requests drop are carried otherwise: keywords of a tool's
parameters stand in their descriptions (agentic.llm.providers.wire_ollama), and fields of the owner's that `chat` does
not take are left out with a warning. Its errors have no headers, so a `retry-after` cannot be honoured.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentic.llm import http as sdk_http
from agentic.llm.embeddings import Embedded, vectors_of
from agentic.llm.errors import (
    BadAnswer,
    BadRequest,
    ConnectionFailed,
    ModelError,
    ServerFailed,
    TimedOut,
    error_of_status,
    not_made,
)
from agentic.llm.http import ENCODINGS, TooLong, bound_httpx_response
from agentic.llm.model import CONNECT_SECONDS, KEEP_ALIVE_SECONDS, Access, ProviderModel, StreamListener
from agentic.llm.pricing import input_tokens
from agentic.llm.profiles import profile_at
from agentic.llm.providers import chat_completions
from agentic.llm.providers.compatible_stream import gathered
from agentic.llm.providers.wire_ollama import (
    answer_of,
    context_for,
    pieces_of,
    plain_request_of,
    request_of,
    with_fields,
)
from agentic.llm.retry import Retrier
from agentic.llm.types import Message, Prompt, Reply, Usage

if TYPE_CHECKING:
    import httpx
    import pydantic
    from ollama import AsyncClient

log = logging.getLogger(__name__)

WITHIN = "an error within the answer"
ODD_ANSWERS = (TypeError, AttributeError)
"""What the client raises for an answer that is JSON, but no object."""


@dataclass(frozen=True, slots=True)
class OllamaCall:
    """The arguments of the client's `chat`, or of its `generate` for a plain text that the model continues."""

    arguments: Mapping[str, Any]
    plain: bool = False


def load() -> None:
    """Import what the first call needs."""
    import ollama  # noqa: F401

    sdk_http.ssl_context()


def client_of(access: Access) -> AsyncClient:
    """Build the official client. Only the owner's key is sent: the client would send OLLAMA_API_KEY of the environment
    to any address."""
    import httpx
    import ollama

    address = root_of(access)
    parts = urlsplit(address)
    on_request = [] if access.api_key or parts.username else [_without_key]
    return ollama.AsyncClient(
        host=address,
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        headers={
            "accept-encoding": ENCODINGS,
            "authorization": f"Bearer {access.api_key}" if access.api_key else None,
        },
        auth=None if access.api_key or not parts.username else (parts.username, parts.password or ""),
        verify=sdk_http.ssl_context(),
        trust_env=not sdk_http.on_loopback(address),
        limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_SECONDS),
        event_hooks={"request": on_request, "response": [bound_httpx_response]},
    )


async def _without_key(request: httpx.Request) -> None:
    """Remove the authorization header, which can only be that of OLLAMA_API_KEY."""
    request.headers.pop("authorization", None)


def root_of(access: Access) -> str:
    """The address of Ollama's own API: that of its OpenAI-compatible one without /v1."""
    address = access.base_url or (access.endpoint.base_url if access.endpoint else "")
    return address.rstrip("/").removesuffix("/v1")


class OllamaModel(ProviderModel):
    """A model of an `Endpoint` with `api` "ollama", whose name is its provider. It draws nothing and has no search of
    its own."""

    provider = "ollama"
    doubts_schema = True

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        if access.endpoint is None:
            raise ValueError("ollama: no endpoint is given")
        super().__init__(access, retrier)
        self.endpoint = access.endpoint
        self.provider = self.endpoint.name
        self.profile = profile_at(self.endpoint, access.model)
        self._sdk_errors = client_errors()
        self._context = 0  # tokens that were asked for so far
        self._left_out: set[str] = set()
        self._client = client_of(access)

    @property
    def can_draw(self) -> bool:
        return False

    async def aclose(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def pulled(self, seconds: float = 10.0) -> tuple[str, ...]:
        """Return the names of the models that this server has. Raises ModelError only."""
        return await self._run(self.access.model, seconds, self._listed)

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        self._context = context_for(input_tokens(prompt, history), self._context)
        body, plain = chat_completions.body_for(self.endpoint, prompt, history, self.access.model, self.profile)
        request = (plain_request_of if plain else request_of)(body, self._context)
        merged = with_fields(request, self.endpoint.fields, prompt.fields)
        return {"call": OllamaCall(self._taken(merged, "generate" if plain else "chat"), plain)}

    def _taken(self, request: Mapping[str, Any], method: str) -> dict[str, Any]:
        """The arguments for the client's method. Of the owner's fields a sampling parameter (top_k) belongs to the
        options; one that the client does not take is named in the log, once."""
        known, options = _arguments(method)
        given = {name: value for name, value in request.items() if name not in known}
        for name in given.keys() - options - self._left_out:
            log.warning("%s: the field %r is left out: Ollama's client does not take it", self.name, name[:40])
            self._left_out.add(name)
        sampling = {name: value for name, value in given.items() if name in options}
        taken = {name: value for name, value in request.items() if name in known}
        return {**taken, "options": {**sampling, **taken["options"]}}

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        call: OllamaCall = request["call"]
        ask = self._client.generate if call.plain else self._client.chat
        arguments = {**call.arguments, "stream": listener is not None}
        with odd_answers():
            answered: Any = await ask(**arguments)
        if listener is None:
            answer = answer_of(answered.model_dump(exclude_none=True))
        else:
            async with aclosing(_objects(answered)) as objects:
                answer = await gathered(pieces_of(objects), listener)
        return chat_completions.reply_of(answer, self.provider)

    async def _look(self, seconds: float) -> None:
        """Ask for the model's description."""
        import pydantic

        try:
            with odd_answers():
                await self._client.show(self.access.model)
        except pydantic.ValidationError:
            return  # described, in the shape of another version

    async def _listed(self, seconds: float) -> tuple[str, ...]:
        with odd_answers():
            listed = await self._client.list()
        return tuple(model.model for model in listed.models if model.model)

    async def _embed(self, texts: Sequence[str], seconds: float) -> Embedded:
        with odd_answers():
            answered = await self._client.embed(self.access.model, texts, truncate=True)
        vectors = vectors_of(answered.embeddings, len(texts))
        return Embedded(vectors, Usage(calls=1, input_tokens=answered.prompt_eval_count or 0))

    def _explain(self, error: Exception) -> ModelError:
        return explain(error, self.access.model, root_of(self.access))


async def _objects(stream: AsyncGenerator[Any]) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the objects of a streamed answer. Closing this ends the request, and Ollama stops."""
    async with aclosing(stream):
        with odd_answers():
            async for piece in stream:
                yield piece.model_dump(exclude_none=True)


@contextmanager
def odd_answers() -> Iterator[None]:
    try:
        yield
    except ODD_ANSWERS:
        raise BadAnswer("not what the API promises") from None


@cache
def _arguments(method: str) -> tuple[frozenset[str], frozenset[str]]:
    """The arguments of a method of the client, and the options that it names."""
    import ollama

    taken = inspect.signature(getattr(ollama.AsyncClient, method)).parameters
    return frozenset(taken) - {"self"}, frozenset(ollama.Options.model_fields)


def client_errors() -> tuple[type[Exception], ...]:
    """The errors that the client raises: its own, httpx's, the socket's, and what odd answers cause in it."""
    import httpx
    import ollama

    own = (ollama.ResponseError, ollama.RequestError, httpx.HTTPError, httpx.StreamError, httpx.InvalidURL)
    return (*own, OSError, ValueError, RecursionError)


def explain(error: Exception, model: str, address: str) -> ModelError:
    """Return our error for one of `client_errors`."""
    import httpx
    import ollama
    import pydantic

    if isinstance(error, pydantic.ValidationError):
        return ServerFailed(WITHIN) if _reports_error(error) else BadAnswer("not what the API promises")
    if isinstance(error, ollama.ResponseError):
        return _of_response(error.status_code, str(error.error), model)
    if isinstance(error, TooLong):
        answer = BadAnswer("too long")
        answer.made = True
        return answer
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return not_made(ConnectionFailed("no answer to the connection"))
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return TimedOut()
    if type(error) is ConnectionError:  # the client's own, for a connection that was not made
        place = urlsplit(address)
        return not_made(ConnectionFailed(f"nothing answers at {place.hostname}:{place.port}; start it: ollama serve"))
    if isinstance(error, httpx.DecodingError) or not isinstance(error, httpx.HTTPError | httpx.StreamError | OSError):
        return BadAnswer("not JSON")
    return ConnectionFailed()


def _reports_error(invalid: pydantic.ValidationError) -> bool:
    """Whether the answer that does not fit is an error with status 200, as gateways send it."""
    answers = (problem["input"] for problem in invalid.errors(include_url=False) if problem["type"] == "missing")
    return any(isinstance(answer, dict) and answer.get("error") for answer in answers)


def _of_response(status: int, said: str, model: str) -> ModelError:
    if status < 300:
        return ServerFailed(WITHIN)
    error = error_of_status(status, said)
    if status == 404 and type(error) is BadRequest and "not found" in said.lower():
        return BadRequest(f"the model is not pulled; run: ollama pull {model}", status=status)
    return error
