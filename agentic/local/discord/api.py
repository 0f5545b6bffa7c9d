"""REST: every request passes here.

A request passes, in this order: faults (delays, errors, cut connections), authentication, rate limits, its handler in
one of the modules beside this one. Then its answer gets Discord's headers and the request is recorded. Errors become
Discord's error bodies.
"""

import asyncio
import inspect
import json
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from agentic.local.discord import apps as rest_apps
from agentic.local.discord import errors
from agentic.local.discord import guilds as rest_guilds
from agentic.local.discord import interactions as rest_interactions
from agentic.local.discord import rest_channels as rest_channels
from agentic.local.discord import rest_messages as rest_messages
from agentic.local.discord import rest_reactions as rest_reactions
from agentic.local.discord import webhooks as rest_webhooks
from agentic.local.discord.backend import Backend
from agentic.local.discord.calls import RestAnswer, RestCall, RestEndpoint
from agentic.local.discord.faults import Faults, RequestInfo, RestFault
from agentic.local.discord.limits import LimitCheck, Limiter
from agentic.local.discord.world import BotApplication

PREFIX = "/api/v10"
ENDPOINTS: list[RestEndpoint] = [
    *rest_messages.ENDPOINTS,
    *rest_reactions.ENDPOINTS,
    *rest_channels.ENDPOINTS,
    *rest_webhooks.ENDPOINTS,
    *rest_interactions.ENDPOINTS,
    *rest_apps.ENDPOINTS,
    *rest_guilds.ENDPOINTS,
]
_MAJORS = ("channel_id", "guild_id", "webhook_id")
_KEPT_REQUESTS = 5000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """path begins after /api/v10, route is its pattern, bot a key or None, payload the JSON body if the handler read
    one."""

    method: str
    path: str
    route: str
    bot: str | None
    status: int
    time: float
    payload: Any


class RestApi:
    """requests is the log, bounded; counts has "requests", each status as text ("429"), and each "METHOD route"."""

    def __init__(self, backend: Backend, limiter: Limiter, faults: Faults) -> None:
        self._backend = backend
        self.limiter = limiter
        self._faults = faults
        self.requests: deque[RequestRecord] = deque(maxlen=_KEPT_REQUESTS)
        self.unknown_requests: list[tuple[str, str]] = []
        self.counts: Counter[str] = Counter()
        self.gateway_url = ""

    def add_to(self, app: web.Application) -> None:
        gateway = [RestEndpoint("GET", path, self._gateway) for path in ("/gateway", "/gateway/bot")]
        for endpoint in [*gateway, *ENDPOINTS]:
            app.router.add_route(endpoint.method, PREFIX + endpoint.path, self._serving(endpoint))
        unknown = RestEndpoint("*", "/{tail:.*}", self._unknown, open=True)
        app.router.add_route("*", "/api/{tail:.*}", self._serving(unknown))

    async def _gateway(self, call: RestCall) -> Any:
        limit = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
        return {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}

    async def _unknown(self, call: RestCall) -> Any:
        self.unknown_requests.append((call.request.method, call.request.path))
        raise errors.not_found()

    def _serving(self, endpoint: RestEndpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            app = self._app_of(request)
            call = RestCall(self._backend, request, app)
            info = RequestInfo(
                method=request.method,
                path=request.path.removeprefix(PREFIX),
                route=endpoint.path,
                bot=app.key if app else None,
                headers=dict(request.headers),
            )
            response = await self._with_faults(call, endpoint, info)
            self._record(info, response.status, call.payload)
            return response

        return serve

    def _app_of(self, request: web.Request) -> BotApplication | None:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        return self._backend.world.app_by_token(token) if kind == "Bot" else None

    async def _with_faults(self, call: RestCall, endpoint: RestEndpoint, info: RequestInfo) -> web.StreamResponse:
        half_way = self._faults.rest_delay / 2
        if half_way:
            await asyncio.sleep(half_way)
        response = await self._faulty(call, info, self._faults.take(info), lambda: self._limited(call, endpoint))
        if half_way:
            await asyncio.sleep(half_way)
        return response

    async def _faulty(
        self, call: RestCall, info: RequestInfo, fault: RestFault | None, work: Callable[[], Awaitable[web.Response]]
    ) -> web.StreamResponse:
        if fault is None:
            return await self._hooked(call, info) or await work()
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.cut:
            response = await work() if fault.cut == "after" else _response(500)
            if call.request.transport is not None:
                call.request.transport.abort()
            return response
        if fault.status is None:
            return await work()
        if fault.late:
            await work()
        body = {"message": "made to fail", "code": 0} if fault.body is None else fault.body
        return _response(fault.status, body, fault.headers)

    async def _hooked(self, call: RestCall, info: RequestInfo) -> web.Response | None:
        if self._faults.on_request is None:
            return None
        if not call.request.content_type.startswith("multipart/"):
            await call.request.read()  # a hook may hold the request until its sender is gone
        answer = self._faults.on_request(info)
        return await answer if inspect.isawaitable(answer) else answer

    async def _limited(self, call: RestCall, endpoint: RestEndpoint) -> web.Response:
        """Authenticate first: a request without a valid token does not count against a limit."""
        if not endpoint.open:
            try:
                call.app  # noqa: B018 - raises when there is none
            except errors.ApiError as error:
                return _response(error.status, error.body)
        verdict = self._verdict(call, endpoint)
        if verdict.retry_after is not None:
            body = {
                "message": "You are being rate limited.",
                "retry_after": verdict.retry_after,
                "global": verdict.is_global,
            }
            return _response(429, body, verdict.headers)
        return await self._worked(call, endpoint, verdict.headers)

    def _verdict(self, call: RestCall, endpoint: RestEndpoint) -> LimitCheck:
        path = call.request.match_info
        major = next((path[name] for name in _MAJORS if name in path), "")
        caller = major if endpoint.open else call.app.key
        return self.limiter.check(caller, endpoint.bucket, major, counts_globally=not endpoint.open)

    async def _worked(self, call: RestCall, endpoint: RestEndpoint, headers: dict[str, str]) -> web.Response:
        try:
            result = await endpoint.handler(call)
        except errors.ApiError as error:
            return _response(error.status, error.body, headers)
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("%s %s: a body that could not be used", endpoint.method, call.request.path, exc_info=True)
            refusal = errors.invalid_form("body", "BASE_TYPE_REQUIRED", repr(error))
            return _response(refusal.status, refusal.body, headers)
        if isinstance(result, RestAnswer):
            return _response(result.status, result.body, headers)
        return _response(204 if result is None else 200, result, headers)

    def _record(self, info: RequestInfo, status: int, payload: Any) -> None:
        now = self._backend.clock()
        self.requests.append(RequestRecord(info.method, info.path, info.route, info.bot, status, now, payload))
        self.counts["requests"] += 1
        self.counts[str(status)] += 1
        self.counts[f"{info.method} {info.route}"] += 1
        self._backend.changed()


def _response(status: int, body: Any = None, headers: dict[str, str] | None = None) -> web.Response:
    """JSON without a charset in its content type, and a Via header: py-cord checks for exactly these."""
    sent = {"Via": "1.1 google", **(headers or {})}
    if body is None:
        return web.Response(status=status, headers=sent)
    sent["Content-Type"] = "application/json"
    return web.Response(status=status, headers=sent, body=json.dumps(body).encode())
