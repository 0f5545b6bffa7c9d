"""Ollama.

Ollama's own API, as a dialect of Chat Completions: requests and answers are translated. Pure functions.

Its OpenAI-compatible address has no field for the context size, and the default of 4,096 tokens is less than a prompt
of ours: what does not fit is cut off silently. Thinking is off, or as short as the model allows, unless the owner's
fields say otherwise, since it takes minutes on a small machine.

Of a tool's parameters the official client sends type, items, description and enum of each property; the other keywords
(a nested object's properties, anyOf, $ref) are added to the description as JSON, which models read as well.
https://docs.ollama.com/api/chat, https://docs.ollama.com/api/openai-compatibility

Ollama's own API by its official client: https://github.com/ollama/ollama-python.

The client has no retries, no limit of an answer's size and no time limit of its own; here its HTTP client gets the
limit, and `base.py` the time. Two things that its typed requests drop are carried otherwise: keywords of a tool's
parameters stand in their descriptions (agentic.llm.providers.ollama), and fields of the owner's that `chat` does
not take are left out with a warning. Its errors have no headers, so a `retry-after` cannot be honoured.
"""

from __future__ import annotations

import inspect
import json
import logging
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
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
from agentic.llm.providers import compatible as chat_completions
from agentic.llm.providers.compatible import gathered
from agentic.llm.retry import Retrier
from agentic.llm.schemas import number, part, parts, text
from agentic.llm.turns import arguments_of
from agentic.llm.types import Message, Prompt, Reply, Usage

if TYPE_CHECKING:
    import httpx
    import pydantic
    from ollama import AsyncClient

log = logging.getLogger(__name__)


LEAST_CONTEXT = 8_192  # tokens
MOST_CONTEXT = 131_072
ANSWER = 1_024  # tokens kept free for the answer; few are longer

_SENT = ("type", "items", "description", "enum")

Json = Mapping[str, Any]


def context_for(input_tokens: int, least: int = LEAST_CONTEXT) -> int:
    """The context size for an input of so many tokens, one of few steps: Ollama loads the model again for each size."""
    size = max(least, LEAST_CONTEXT)
    while size < min(input_tokens + ANSWER, MOST_CONTEXT):
        size *= 2
    return size


# --- requests -------------------------------------------------------------------------------------------------------


def request_of(body: Json, context: int) -> dict[str, Any]:
    """Translate the body of POST /chat/completions into the arguments of the client's `chat`. Pictures are bytes: the
    client would take a text for a file's path."""
    request = {"model": body["model"], "messages": _messages(body["messages"]), "options": _options(body, context)}
    if "tools" in body:
        request["tools"] = [_tool(tool) for tool in body["tools"]]
    if "response_format" in body:
        request["format"] = body["response_format"]["json_schema"]["schema"]
    return {**request, "think": _least_thinking(body["model"])}


def plain_request_of(body: Json, context: int) -> dict[str, Any]:
    """Translate the body of POST /completions into the arguments of the client's `generate`: a text that the model
    continues, without a template."""
    return {"model": body["model"], "prompt": body["prompt"], "raw": True, "options": _options(body, context)}


def _options(body: Json, context: int) -> dict[str, Any]:
    options = {"num_ctx": context, "num_predict": body["max_tokens"]}
    return options | {key: body[key] for key in ("stop", "temperature") if key in body}


def _least_thinking(model: str) -> bool | str:
    """gpt-oss always thinks, and takes the length instead: https://docs.ollama.com/capabilities/thinking"""
    return "low" if "gpt-oss" in model else False


def with_fields(request: Json, *fields: Json) -> dict[str, Any]:
    """The request with the owner's fields; `options` are merged one by one."""
    merged = dict(request)
    for own in fields:
        merged |= {**own, "options": {**part(merged, "options"), **part(own, "options")}}
    return merged


def _messages(messages: Sequence[Json]) -> list[dict[str, Any]]:
    calls = (call for each in messages for call in parts(each, "tool_calls"))
    names = {text(call, "id"): text(part(call, "function"), "name") for call in calls}
    return [_message(each, names) for each in messages]


def _message(message: Json, names: Json) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message["role"], "content": _text(message.get("content"))}
    if images := [_picture(piece) for piece in parts(message, "content") if "image_url" in piece]:
        written["images"] = images
    if calls := parts(message, "tool_calls"):
        written["tool_calls"] = [{"function": _function(part(call, "function"))} for call in calls]
    if message["role"] == "tool":
        written["tool_name"] = names.get(message["tool_call_id"], "")
    if thought := text(message, "reasoning"):
        written["thinking"] = thought
    return written


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n\n".join(piece["text"] for piece in content if "text" in piece)


def _picture(piece: Json) -> bytes:
    return b64decode(text(part(piece, "image_url"), "url").partition(",")[2])


def _function(function: Json) -> dict[str, Any]:
    return {"name": function["name"], "arguments": arguments_of(function["arguments"])}


def _tool(tool: Json) -> dict[str, Any]:
    function = part(tool, "function")
    parameters = dict(part(function, "parameters"))
    properties = {name: _property(schema) for name, schema in part(parameters, "properties").items()}
    return {**tool, "function": {**function, "parameters": {**parameters, "properties": properties}}}


def _property(schema: Any) -> dict[str, Any]:
    """Return a property's schema with what the client drops written into its description."""
    if not isinstance(schema, Mapping):
        return {}  # true: anything
    kept = {key: schema[key] for key in _SENT if key in schema}
    dropped = {key: value for key, value in schema.items() if key not in _SENT}
    if not dropped:
        return kept
    said = json.dumps(dropped, ensure_ascii=False, default=str)
    return {**kept, "description": "\n".join(filter(None, (text(schema, "description"), f"JSON schema: {said}")))}


# --- answers --------------------------------------------------------------------------------------------------------


def answer_of(native: Json) -> Json:
    """Translate an answer in one piece into one of /chat/completions."""
    choice = {"message": _said(native, 0), "finish_reason": _finish(native)}
    return {"choices": [choice], "usage": _usage(native)}


async def pieces_of(objects: AsyncIterator[Json]) -> AsyncGenerator[Json]:
    """Translate the objects of a streamed answer. Calls are numbered, since each comes whole and without a number."""
    calls = 0
    async for native in objects:
        said = _said(native, calls)
        calls += len(said.get("tool_calls", ()))
        done = {"usage": _usage(native)} if native.get("done") else {}
        yield {"choices": [{"delta": said, "finish_reason": _finish(native) if done else None}], **done}


def _said(native: Json, calls_before: int) -> dict[str, Any]:
    message = part(native, "message")
    said: dict[str, Any] = {"content": text(message, "content") or text(native, "response")}
    if thought := text(message, "thinking"):
        said["reasoning"] = thought
    if calls := parts(message, "tool_calls"):
        said["tool_calls"] = [{**call, "index": place} for place, call in enumerate(calls, calls_before)]
    return said


def _finish(native: Json) -> str:
    return text(native, "done_reason") or "stop"


def _usage(native: Json) -> dict[str, int]:
    return {
        "prompt_tokens": number(native, "prompt_eval_count"),
        "completion_tokens": number(native, "eval_count"),
    }


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
