"""A model server on loopback, as llama.cpp or vLLM are: /v1/chat/completions, /v1/completions, /v1/models. It speaks
Ollama's own API too: /api/chat, /api/generate, /api/embed, /api/tags, /api/show.

    async with ChatServer(lambda request: ChatAnswer(text="hello")) as server:
        model = build_model("llamacpp", model="llama3", api_key="", base_url=server.base_url)

Every request is answered by one function and kept. Where a request asks for a stream the answer comes in small pieces,
with a comment between them as gateways send to keep a connection alive.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

LARGEST_REQUEST = 64 * 1024 * 1024
OLLAMA_PATHS = ("/api/chat", "/api/generate", "/api/embed")
PIECE = 5  # characters in a streamed piece


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What to answer. `calls` are (name, arguments as they are written); `extra` are further fields of the message.

    `status` other than 200 sends an error that says `error`. `usage` None tells none. `cut` ends the connection after
    so many bytes of the body. `body` replaces all of it. `after` is awaited before the answer of a chat is sent.
    """

    text: str = "ok"
    calls: Sequence[tuple[str, str]] = ()
    finish: str = "stop"
    extra: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 20})
    status: int = 200
    error: str = "as asked for"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    body: bytes | None = None
    after: Callable[[], Awaitable[object]] | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request as it came. `path` is "/chat/completions", "/completions", "/api/chat" or "/api/generate"."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        return list(self.body.get("messages", ()))


def letters(text: str) -> list[float]:
    """A vector by the letters of a text: texts of the same words are near each other."""
    return [text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"]


AnswerFunction = Callable[[ChatRequest], "ChatAnswer | str"]


class ChatServer:
    """Runs while its `async with` block does. `requests` are all that came, in order."""

    def __init__(
        self,
        answer: AnswerFunction,
        *,
        models: Sequence[str] = ("local",),
        parameters: int | None = None,
        vector: Callable[[str], Sequence[float]] = letters,
    ) -> None:
        self.answer, self.models, self.parameters, self.vector = answer, tuple(models), parameters, vector
        self.requests: list[ChatRequest] = []
        self._port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> ChatServer:
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._chat),
                web.get("/v1/models", self._listed),
                web.post("/api/chat", self._chat),
                web.post("/api/generate", self._chat),
                web.post("/api/embed", self._embedded),
                web.post("/v1/embeddings", self._embedded),
                web.get("/api/tags", self._tagged),
                web.post("/api/show", self._shown),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def _listed(self, _http: web.Request) -> web.Response:
        about = {"meta": {"n_params": self.parameters, "n_ctx": 32_768}} if self.parameters else {}
        return web.json_response({"object": "list", "data": [{"id": model, **about} for model in self.models]})

    async def _tagged(self, _http: web.Request) -> web.Response:
        listed = [{"name": model, "model": model, "details": {"family": "llama"}} for model in self.models]
        return web.json_response({"models": listed})

    async def _shown(self, http: web.Request) -> web.Response:
        known = (await http.json())["model"] in self.models
        shown = {"details": {}, "model_info": {}} if known else {"error": "model not found"}
        return web.json_response(shown, status=200 if known else 404)

    async def _embedded(self, http: web.Request) -> web.Response:
        request = ChatRequest(http.path.removeprefix("/v1"), await http.json(), dict(http.headers))
        self.requests.append(request)
        given = self.answer(request)
        if isinstance(given, ChatAnswer) and (given.status != 200 or given.body is not None):
            body, kind = written(request, given)
            return web.Response(status=given.status, body=body, content_type=kind)
        vectors = [list(self.vector(text)) for text in request.body["input"]]
        tokens = sum(map(len, request.body["input"]))
        if request.path == "/api/embed":
            return web.json_response({"embeddings": vectors, "prompt_eval_count": tokens})
        data = [{"object": "embedding", "index": place, "embedding": each} for place, each in enumerate(vectors)]
        return web.json_response({"data": data[::-1], "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        request = ChatRequest(http.path.removeprefix("/v1"), await http.json(), dict(http.headers))
        self.requests.append(request)
        given = self.answer(request)
        answer = ChatAnswer(text=given) if isinstance(given, str) else given
        if answer.after is not None:
            await answer.after()
        body, kind = written(request, answer)
        headers = {"x-request-id": f"req-{len(self.requests)}", **answer.headers}
        if answer.cut is not None:
            return await _cut(http, body[: answer.cut], len(body), headers | {"content-type": kind})
        return web.Response(status=answer.status, body=body, headers=headers, content_type=kind)


async def _cut(http: web.Request, body: bytes, promised: int, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, "content-length": str(promised)})
    await response.prepare(http)
    await response.write(body)
    if http.transport is not None:
        http.transport.close()
    return response


def written(request: ChatRequest, answer: ChatAnswer) -> tuple[bytes, str]:
    """The body of an answer and its content type."""
    if answer.body is not None:
        return answer.body, "application/json"
    if answer.status != 200 and request.path in OLLAMA_PATHS:
        return json.dumps({"error": answer.error}).encode(), "application/json"
    if answer.status != 200:
        return json.dumps(
            {"error": {"message": answer.error, "type": "error", "code": None}}
        ).encode(), "application/json"
    if request.path in OLLAMA_PATHS:
        objects = list(native(request, answer))
        return "".join(f"{json.dumps(each)}\n" for each in objects).encode(), "application/x-ndjson"
    if request.body.get("stream"):
        events = "".join(f": keep-alive\n\ndata: {json.dumps(piece)}\n\n" for piece in pieces(request, answer))
        return f"{events}data: [DONE]\n\n".encode(), "text/event-stream"
    return json.dumps(whole(request, answer)).encode(), "application/json"


def whole(request: ChatRequest, answer: ChatAnswer) -> dict[str, Any]:
    """An answer in one piece."""
    usage = {} if answer.usage is None else {"usage": answer.usage}
    if request.path == "/completions":
        choice: dict[str, Any] = {"index": 0, "text": answer.text, "finish_reason": answer.finish}
        return {"id": "cmpl-1", "object": "text_completion", "choices": [choice], **usage}
    message = {"role": "assistant", "content": answer.text, **answer.extra}
    if answer.calls:
        message["tool_calls"] = [_call(place, *call) for place, call in enumerate(answer.calls)]
    choice = {"index": 0, "message": message, "finish_reason": answer.finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], **usage}


def pieces(request: ChatRequest, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
    """The same as a stream's events."""
    plain = request.path == "/completions"
    for at in range(0, len(answer.text), PIECE):
        said = answer.text[at : at + PIECE]
        yield {"choices": [{"index": 0, **({"text": said} if plain else {"delta": {"content": said}})}]}
    if answer.extra:
        yield {"choices": [{"index": 0, "delta": dict(answer.extra)}]}
    for place, (name, arguments) in enumerate(answer.calls):
        call = {"index": place, **_call(place, name, "")}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
        for at in range(0, len(arguments), PIECE):
            more = {"index": place, "function": {"arguments": arguments[at : at + PIECE]}}
            yield {"choices": [{"index": 0, "delta": {"tool_calls": [more]}}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]}
    if answer.usage is not None:
        yield {"choices": [], "usage": answer.usage}


def native(request: ChatRequest, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
    """The answer as Ollama writes it: in one object, or in pieces with the calls whole. Its stream is on by default."""
    calls = [{"function": {"name": name, "arguments": json.loads(arguments)}} for name, arguments in answer.calls]
    last: dict[str, Any] = {"done": True, "done_reason": answer.finish}
    if answer.usage is not None:
        last |= {
            "prompt_eval_count": answer.usage["prompt_tokens"],
            "eval_count": answer.usage["completion_tokens"],
        }
    if request.path == "/api/generate":
        yield {"model": request.body["model"], "response": answer.text, **last}
        return
    if request.body.get("stream") is False:
        message = {"role": "assistant", "content": answer.text, **answer.extra} | (
            {"tool_calls": calls} if calls else {}
        )
        yield {"model": request.body["model"], "message": message, **last}
        return
    for at in range(0, len(answer.text), PIECE):
        yield {"message": {"role": "assistant", "content": answer.text[at : at + PIECE]}, "done": False}
    for call in calls:
        yield {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False}
    yield {"message": {"role": "assistant", "content": "", **answer.extra}, **last}


def _call(place: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
