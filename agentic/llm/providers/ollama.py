"""Ollama's own API with its official client: https://github.com/ollama/ollama-python.

Ollama's OpenAI-compatible address has no field for the context size, and the default of 4,096 tokens is shorter than
our prompts, whose rest would be cut off silently. So this module translates the requests and answers of compatible.py.
Thinking is off, or as short as the model allows, unless the owner's fields say otherwise, because it takes minutes on a
small machine. https://docs.ollama.com/api/chat, https://docs.ollama.com/api/openai-compatibility

The client has no retries, no limit on an answer's size, and no time limit; here its HTTP client gets a size limit, and
model.py limits the time. Its typed requests drop two things. Of a tool's parameters they only send each property's
type, items, description, and enum; other keywords (a nested object's properties, anyOf, $ref) are added to the
description as JSON, which models can read. The owner's fields that `chat` doesn't accept are left out with a warning.
Its errors have no headers, so a `retry-after` can't be honored.
"""

from __future__ import annotations

import inspect
import json
import logging
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentic.llm import errors, http
from agentic.llm.embeddings import Embedded, vectors_of
from agentic.llm.errors import ModelError
from agentic.llm.model import CONNECT_SECONDS, KEEP_ALIVE_SECONDS, Access, ProviderModel, StreamListener
from agentic.llm.pricing import input_tokens
from agentic.llm.providers import compatible
from agentic.llm.retry import Retrier
from agentic.llm.schemas import number, part, parts, text
from agentic.llm.turns import arguments_of
from agentic.llm.types import Message, Prompt, Reply, Usage

if TYPE_CHECKING:
    import httpx

Json = Mapping[str, Any]

MIN_CONTEXT = 8_192  # tokens
MAX_CONTEXT = 131_072
ANSWER_TOKENS = 1_024  # kept free for the answer; few are longer
WITHIN = "an error within the answer"
_SENT = ("type", "items", "description", "enum")

log = logging.getLogger(__name__)


class OllamaModel(ProviderModel):
    """A model of an `Endpoint` with `api` "ollama", whose name is its provider. It can't draw or search."""

    provider = "ollama"
    doubts_schema = True

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        assert access.endpoint is not None
        super().__init__(access, retrier)
        import httpx
        import ollama

        self.endpoint = access.endpoint
        self._sdk_errors = (
            *(ollama.ResponseError, ollama.RequestError, httpx.HTTPError, httpx.StreamError, httpx.InvalidURL),
            *(OSError, ValueError, RecursionError),
        )
        self._context = 0  # tokens that were asked for so far
        self._left_out: set[str] = set()
        self._address = (access.base_url or self.endpoint.base_url).rstrip("/").removesuffix("/v1")
        url, key = urlsplit(self._address), access.api_key
        self._client = ollama.AsyncClient(
            host=self._address,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            headers={"accept-encoding": http.ENCODINGS, "authorization": f"Bearer {key}" if key else None},
            auth=None if key or not url.username else (url.username, url.password or ""),
            verify=http.ssl_context(),
            trust_env=not http.on_loopback(self._address),
            limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_SECONDS),
            event_hooks={
                "request": [] if key or url.username else [_remove_key],
                "response": [http.size_limit(httpx.AsyncByteStream)],
            },
        )

    async def aclose(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def pulled(self, seconds: float = 10.0) -> tuple[str, ...]:
        """Return the names of this server's models. Raises only ModelError."""

        async def list_models(seconds: float) -> tuple[str, ...]:
            with _odd_answers():
                listed = await self._client.list()
            return tuple(model.model for model in listed.models if model.model)

        return await self._run(self.access.model, seconds, list_models)

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        """Return the client's method and its arguments. The owner's sampling parameters (top_k) go into the options;
        fields that the client doesn't accept are logged once."""
        self._context = context_for(input_tokens(prompt, history), self._context)
        path, body = compatible.request_of(self.endpoint, prompt, history, self.access.model, self.profile)
        if path == "/completions":  # a text that the model continues, without a template
            method, request = "generate", {"model": body["model"], "prompt": body["prompt"], "raw": True}
        else:
            method, request = "chat", _chat_arguments(body)
        options = {"num_ctx": self._context, "num_predict": body["max_tokens"]}
        options |= {key: body[key] for key in ("stop", "temperature") if key in body}
        for fields in (self.endpoint.fields, prompt.fields):
            request |= fields
            options |= part(fields, "options")
        known, known_options = _parameters(method)
        other = {name: value for name, value in request.items() if name not in known}
        for name in other.keys() - known_options - self._left_out:
            log.warning("%s: the field %r is left out: Ollama's client does not take it", self.name, name[:40])
            self._left_out.add(name)
        sampling = {name: value for name, value in other.items() if name in known_options}
        taken = {name: value for name, value in request.items() if name in known}
        return {"method": method, "arguments": {**taken, "options": {**sampling, **options}}}

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        ask = getattr(self._client, request["method"])
        with _odd_answers():
            answered: Any = await ask(**{**request["arguments"], "stream": listener is not None})
        if listener is None:
            native = answered.model_dump(exclude_none=True)
            finish, usage = _end_of(native)
            answer: Json = {"choices": [{"message": _message_of(native), "finish_reason": finish}], "usage": usage}
        else:
            async with aclosing(_pieces_of(answered)) as pieces:
                answer = await compatible.gather(pieces, listener)
        return compatible.reply_of(answer, self.provider)

    async def _look(self, seconds: float) -> None:
        """Ask for the model's description."""
        import pydantic

        try:
            with _odd_answers():
                await self._client.show(self.access.model)
        except pydantic.ValidationError:
            return  # described, in the shape of another version

    async def _embed(self, texts: Sequence[str], seconds: float) -> Embedded:
        with _odd_answers():
            answered = await self._client.embed(self.access.model, texts, truncate=True)
        vectors = vectors_of(answered.embeddings, len(texts))
        return Embedded(vectors, Usage(calls=1, input_tokens=answered.prompt_eval_count or 0))

    def _explain(self, error: Exception) -> ModelError:
        import ollama
        import pydantic

        if isinstance(error, pydantic.ValidationError):
            # Gateways send errors with status 200.
            answers = (each["input"] for each in error.errors(include_url=False) if each["type"] == "missing")
            if any(isinstance(answer, dict) and answer.get("error") for answer in answers):
                return errors.ServerFailed(WITHIN)
            return errors.BadAnswer("not what the API promises")
        if isinstance(error, ollama.ResponseError):
            status, said = error.status_code, str(error.error)
            if status < 300:
                return errors.ServerFailed(WITHIN)
            ours = errors.error_of_status(status, said)
            if status == 404 and type(ours) is errors.BadRequest and "not found" in said.lower():
                hint = f"the model is not pulled; run: ollama pull {self.access.model}"
                return errors.BadRequest(hint, status=status)
            return ours
        if type(error) is ConnectionError:  # the client's own, for a connection that was not made
            place = urlsplit(self._address)
            hint = f"nothing answers at {place.hostname}:{place.port}; start it: ollama serve"
            return errors.not_made(errors.ConnectionFailed(hint))
        return http.explain_connection(error)


async def _remove_key(request: httpx.Request) -> None:
    """Remove the authorization header. It can only be the environment's OLLAMA_API_KEY, which the client would send to
    any address."""
    request.headers.pop("authorization", None)


@contextmanager
def _odd_answers() -> Iterator[None]:
    """Translate the client's errors for an answer that is JSON but not an object."""
    try:
        yield
    except (TypeError, AttributeError):
        raise errors.BadAnswer("not what the API promises") from None


@cache
def _parameters(method: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the method's parameters, and the options that it names."""
    import ollama

    taken = inspect.signature(getattr(ollama.AsyncClient, method)).parameters
    return frozenset(taken) - {"self"}, frozenset(ollama.Options.model_fields)


# --- requests -------------------------------------------------------------------------------------------------------


def context_for(input_tokens: int, at_least: int = MIN_CONTEXT) -> int:
    """Return the context size for an input of this many tokens. There are only a few sizes, because Ollama reloads the
    model for each."""
    size = max(at_least, MIN_CONTEXT)
    while size < min(input_tokens + ANSWER_TOKENS, MAX_CONTEXT):
        size *= 2
    return size


def _chat_arguments(body: Json) -> dict[str, Any]:
    """Translate the body of POST /chat/completions."""
    calls = (call for each in body["messages"] for call in parts(each, "tool_calls"))
    names = {text(call, "id"): text(part(call, "function"), "name") for call in calls}
    request: dict[str, Any] = {
        "model": body["model"],
        "messages": [_message(each, names) for each in body["messages"]],
        # gpt-oss always thinks, and takes the length instead: https://docs.ollama.com/capabilities/thinking
        "think": body.get("reasoning_effort") or ("low" if "gpt-oss" in body["model"] else False),
    }
    if "tools" in body:
        request["tools"] = [_tool(tool) for tool in body["tools"]]
    if "response_format" in body:
        request["format"] = body["response_format"]["json_schema"]["schema"]
    return request


def _message(message: Json, names: Json) -> dict[str, Any]:
    pieces, said = parts(message, "content"), message.get("content") or ""
    written = {"role": message["role"], "content": said if isinstance(said, str) else ""}
    if pieces:
        written["content"] = "\n\n".join(piece["text"] for piece in pieces if "text" in piece)
    urls = [text(part(piece, "image_url"), "url") for piece in pieces if "image_url" in piece]
    if urls:  # as bytes: the client would take a text for a file's path
        written["images"] = [b64decode(url.partition(",")[2]) for url in urls]
    if calls := [part(call, "function") for call in parts(message, "tool_calls")]:
        read = [{"name": call["name"], "arguments": arguments_of(call["arguments"])} for call in calls]
        written["tool_calls"] = [{"function": function} for function in read]
    if message["role"] == "tool":
        written["tool_name"] = names.get(message["tool_call_id"], "")
    if thought := text(message, "reasoning"):
        written["thinking"] = thought
    return written


def _tool(tool: Json) -> dict[str, Any]:
    function = part(tool, "function")
    parameters = dict(part(function, "parameters"))
    properties = {name: _property(schema) for name, schema in part(parameters, "properties").items()}
    return {**tool, "function": {**function, "parameters": {**parameters, "properties": properties}}}


def _property(schema: Any) -> dict[str, Any]:
    """Return a property's schema, with the keywords that the client drops added to its description."""
    if not isinstance(schema, Mapping):
        return {}  # true: anything
    kept = {key: schema[key] for key in _SENT if key in schema}
    dropped = {key: value for key, value in schema.items() if key not in _SENT}
    if not dropped:
        return kept
    said = json.dumps(dropped, ensure_ascii=False, default=str)
    return {**kept, "description": "\n".join(filter(None, (text(schema, "description"), f"JSON schema: {said}")))}


# --- answers --------------------------------------------------------------------------------------------------------


async def _pieces_of(stream: AsyncGenerator[Any]) -> AsyncGenerator[Json]:
    """Translate the objects of a streamed answer. Calls are numbered, because each comes whole and without a number.
    Closing this ends the request, and Ollama stops."""
    calls = 0
    async with aclosing(stream):
        with _odd_answers():
            async for piece in stream:
                native = piece.model_dump(exclude_none=True)
                said = _message_of(native, calls)
                calls += len(said.get("tool_calls", ()))
                finish, usage = _end_of(native) if native.get("done") else (None, {})
                yield {"choices": [{"delta": said, "finish_reason": finish}], "usage": usage}


def _message_of(native: Json, calls_before: int = 0) -> dict[str, Any]:
    message = part(native, "message")
    said: dict[str, Any] = {"content": text(message, "content") or text(native, "response")}
    if thought := text(message, "thinking"):
        said["reasoning"] = thought
    if calls := parts(message, "tool_calls"):
        said["tool_calls"] = [{**call, "index": place} for place, call in enumerate(calls, calls_before)]
    return said


def _end_of(native: Json) -> tuple[str, dict[str, int]]:
    usage = {"prompt_tokens": number(native, "prompt_eval_count"), "completion_tokens": number(native, "eval_count")}
    return text(native, "done_reason") or "stop", usage
