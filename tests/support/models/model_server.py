"""A local HTTP server that answers as the model providers do, so that the official SDKs run unpatched with no key.

    async with ModelServer(answer=lambda request: "hello") as server:
        model = build_model("openai", api_key="any", base_url=server.base_url("openai"))

Each provider has a path of its own (`/openai/v1/responses`, `/anthropic/v1/messages`, ...), since OpenAI and xAI share
theirs; the plain paths (`/v1/responses`) work too. As a program it answers every request with a decision:

    python -m tests.support.models.model_server --delay 0.5

prints one JSON line with its addresses; GET /_control/requests tells when requests arrived, DELETE forgets them.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from aiohttp import web

from tests.support.models.wire import anthropic, google, openai, streams
from tests.support.models.wire.values import SMALL_PNG, Answer, ModelRequest

__all__ = ["SMALL_PNG", "Answer", "ModelRequest", "ModelServer"]

AnswerFunction = Callable[[ModelRequest], "str | Answer | Awaitable[str | Answer]"]
Read = Callable[[str, Mapping[str, Any]], ModelRequest]
Write = Callable[[ModelRequest, Answer, int], Mapping[str, Any]]
Stream = Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]]

PREFIXES = {"openai": "/openai/v1", "xai": "/xai/v1", "anthropic": "/anthropic", "google": "/google"}
DECISION = json.dumps({"skip": False, "text": "An answer of a local model server."})
MODELS = {
    "openai": ("gpt-6-luna", "gpt-image-2.6-flare"),
    "xai": ("grok-4.7", "grok-imagine-image"),
    "anthropic": ("claude-haiku-5-5",),
    "google": ("gemini-3.8-flash", "gemini-3.1-flash-image"),
}
LARGEST_REQUEST = 64 * 1024 * 1024
BLANKS = b" " * 65536


@dataclass(frozen=True, slots=True)
class Wire:
    """How one kind of request is read and answered, and the answer streamed where that is asked for."""

    read: Read
    write: Write
    error: Callable[[Answer], Mapping[str, Any]]
    request_id: str
    stream: Stream | None = None


_OPENAI_ROUTES = {
    "/responses": Wire(
        openai.read_responses, openai.write_responses, openai.write_error, "x-request-id", streams.responses
    ),
    "/chat/completions": Wire(openai.read_chat, openai.write_chat, openai.write_error, "x-request-id", streams.chat),
    "/images/generations": Wire(openai.read_images, openai.write_images, openai.write_error, "x-request-id"),
}
_MESSAGES = Wire(anthropic.read_messages, anthropic.write_message, anthropic.write_error, "request-id", streams.message)


class ModelServer:
    """Runs while its `async with` block does. `requests` are all that came, in order, models routes left out."""

    def __init__(
        self, answer: AnswerFunction | None = None, *, host: str = "127.0.0.1", port: int = 0, remember: int = 100_000
    ) -> None:
        self.answer: AnswerFunction = answer or (lambda _request: Answer(text=DECISION))
        self.requests: list[ModelRequest] = []
        self._host, self._port, self._remember = host, port, remember
        self._count = 0
        self._arrived = asyncio.Condition()
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> ModelServer:
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.add_routes(self._routes())
        # Requests that hang on purpose are let go by `_closing`; nothing else is worth waiting for.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def address(self) -> str:
        return f"http://{self._host}:{self._port}"

    def base_url(self, provider: str) -> str:
        """What the provider's SDK takes as its base URL."""
        return self.address + PREFIXES[provider]

    async def wait_for(self, count: int) -> list[ModelRequest]:
        """The requests, once there are at least `count`."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    def _routes(self) -> list[web.RouteDef]:
        routes = [web.get("/_control/requests", self._told), web.delete("/_control/requests", self._forgotten)]
        for provider, prefix in (("openai", PREFIXES["openai"]), ("xai", PREFIXES["xai"]), ("", "/v1")):
            routes += [web.post(prefix + path, self._handler(provider, wire)) for path, wire in _OPENAI_ROUTES.items()]
        for prefix in (PREFIXES["anthropic"], ""):
            routes.append(web.post(f"{prefix}/v1/messages", self._handler("anthropic", _MESSAGES)))
        for prefix in (PREFIXES["google"], ""):
            model = prefix + "/{version}/models/{model}:"
            routes.append(web.post(model + "generateContent", self._generate))
            routes.append(web.post(model + "streamGenerateContent", self._generate))
        return routes + self._model_routes()

    def _model_routes(self) -> list[web.RouteDef]:
        paths = {
            "openai": "/openai/v1/models",
            "xai": "/xai/v1/models",
            "anthropic": "/anthropic/v1/models",
            "google": "/google/{version}/models",
        }
        routes = []
        for provider, path in paths.items():
            routes += [web.get(path, _models(provider)), web.get(path + "/{model}", _model(provider))]
        return routes

    def _handler(self, provider: str, wire: Wire) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(http: web.Request) -> web.StreamResponse:
            received_at = time.perf_counter()
            body = await http.json()
            maker = provider or ("xai" if str(body.get("model", "")).startswith("grok") else "openai")
            return await self._handle(http, maker, wire, body, received_at)

        return handle

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        received_at = time.perf_counter()
        model = http.match_info["model"]
        wire = Wire(
            lambda provider, body: google.read_content(provider, model, body),
            google.write_content,
            google.write_error,
            "x-request-id",
            streams.content,
        )
        body = await http.json()
        streamed = {"stream": True} if http.path.endswith("streamGenerateContent") else {}
        return await self._handle(http, "google", wire, {**body, **streamed}, received_at)

    async def _handle(
        self, http: web.Request, provider: str, wire: Wire, body: Mapping[str, Any], received_at: float
    ) -> web.StreamResponse:
        try:
            read = wire.read(provider, body)
        except (KeyError, TypeError, ValueError) as error:
            refused = Answer(status=400, error_code="invalid_request_error", error_message=repr(error))
            return web.json_response(dict(wire.error(refused)), status=400)
        request = replace(read, received_at=received_at, headers=dict(http.headers))
        await self._note(request)
        answer = await self._answer_to(request)
        await self._pause(answer.delay)
        return await self._send(http, wire, request, answer)

    async def _note(self, request: ModelRequest) -> None:
        async with self._arrived:
            self._count += 1
            self.requests.append(request)
            del self.requests[: -self._remember]
            self._arrived.notify_all()

    async def _answer_to(self, request: ModelRequest) -> Answer:
        given = self.answer(request)
        answer = given if isinstance(given, (str, Answer)) else await given
        return Answer(text=answer) if isinstance(answer, str) else answer

    async def _pause(self, seconds: float) -> None:
        if math.isinf(seconds):
            await self._closing.wait()
        elif seconds > 0:
            await asyncio.sleep(seconds)

    async def _send(self, http: web.Request, wire: Wire, request: ModelRequest, answer: Answer) -> web.StreamResponse:
        headers = {wire.request_id: f"req-{self._count}", **answer.headers}
        written = wire.error(answer) if answer.status >= 300 else wire.write(request, answer, self._count)
        shown = dict(written)
        if answer.edit is not None:
            answer.edit(shown)
        body, kind = json.dumps(shown).encode(), answer.media_type
        if wire.stream is not None and request.raw.get("stream") and answer.status < 300:
            body, kind = streams.encoded(wire.stream(shown)), "text/event-stream"
        body = body if answer.body is None else answer.body
        if answer.compressed:
            body, headers["content-encoding"] = gzip.compress(body), "gzip"
        if answer.cut or answer.stalls:
            return await self._begun(http, body, headers, answer)
        if answer.endless:
            return await self._babble(http, body, headers)
        return web.Response(status=answer.status, body=body, headers=headers, content_type=kind)

    async def _begun(
        self, http: web.Request, body: bytes, headers: Mapping[str, str], answer: Answer
    ) -> web.StreamResponse:
        """A part of an answer, then the connection is gone, or silent."""
        after = len(body) // 2 if answer.cut is True else answer.cut or len(body)
        length = {"content-length": str(len(body) + 1), "content-type": "text/json"}
        response = web.StreamResponse(headers={**headers, **length})
        await response.prepare(http)
        await response.write(body[:after])
        if answer.stalls:
            await self._closing.wait()
        if http.transport is not None:
            http.transport.abort()
        return response

    async def _babble(self, http: web.Request, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
        """The answer but for its last byte, then blanks until nobody listens any more."""
        response = web.StreamResponse(headers={**headers, "content-type": "application/json"})
        await response.prepare(http)
        await response.write(body[:-1])
        try:
            while not self._closing.is_set():
                await response.write(BLANKS)
        except ConnectionError:
            pass  # whoever asked has had enough
        return response

    async def _told(self, _http: web.Request) -> web.Response:
        told = [
            {"provider": one.provider, "model": one.model, "received_at": one.received_at, "tail": one.tail[-2000:]}
            for one in self.requests
        ]
        return web.json_response({"now": time.perf_counter(), "count": self._count, "requests": told})

    async def _forgotten(self, _http: web.Request) -> web.Response:
        self.requests.clear()
        return web.json_response({})


_MODEL_WIRES = {"openai": openai, "xai": openai, "anthropic": anthropic, "google": google}


def _models(provider: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_http: web.Request) -> web.Response:
        return web.json_response(_MODEL_WIRES[provider].write_models(MODELS[provider]))

    return handle


def _model(provider: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(http: web.Request) -> web.Response:
        if http.match_info["model"] not in MODELS[provider]:
            unknown = Answer(status=404, error_code="not_found_error", error_message="no such model")
            return web.json_response(_MODEL_WIRES[provider].write_error(unknown), status=404)
        return web.json_response(_MODEL_WIRES[provider].write_model(http.match_info["model"]))

    return handle


async def serve(delay: float, port: int, text: str) -> None:
    """Answer until cancelled; prints the addresses first, as one line of JSON."""
    async with ModelServer(lambda _request: Answer(text=text, delay=delay), port=port) as server:
        base_urls = {provider: server.base_url(provider) for provider in PREFIXES}
        print(json.dumps({"address": server.address, "base_urls": base_urls}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer as the model providers do, on loopback.")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--text", default=DECISION, help="the text of every answer")
    options = parser.parse_args()
    try:
        asyncio.run(serve(options.delay, options.port, options.text))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
