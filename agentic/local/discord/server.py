"""The server, its REST routes, people's actions.

The actions of people in the stand-in: called in the same process, by the terminal and by benchmarks.

Authors and channels are given by name or id, messages by id or by the dict that an earlier call returned. No permission
is checked here, but Manage Threads in a locked thread. Methods raise KeyError for what does not exist, and ValueError
with Discord's words for what it would refuse.

REST: every request passes here.

A request passes, in this order: faults (delays, errors, cut connections), authentication, rate limits, its handler in
one of the modules beside this one. Then its answer gets Discord's headers and the request is recorded. Errors become
Discord's error bodies.

Waiting for a condition instead of for a time.

The stand-in: one HTTP server for REST, gateway and files.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from aiohttp import web

from agentic.local.discord import backend as components
from agentic.local.discord import channels as threads
from agentic.local.discord import interactions as rest_interactions
from agentic.local.discord import interactions as using
from agentic.local.discord import messages
from agentic.local.discord import payloads as message_payloads
from agentic.local.discord import rest_channels as reactions
from agentic.local.discord import rest_channels as rest_channels
from agentic.local.discord import rest_channels as rest_messages
from agentic.local.discord import rest_channels as rest_reactions
from agentic.local.discord import rest_guilds as rest_apps
from agentic.local.discord import rest_guilds as rest_guilds
from agentic.local.discord import rest_guilds as rest_webhooks
from agentic.local.discord import world as errors
from agentic.local.discord.backend import Backend, Event, Faults, Interaction, RequestInfo, RestFault
from agentic.local.discord.gateway import Gateway
from agentic.local.discord.interactions import Options
from agentic.local.discord.messages import Draft, Upload
from agentic.local.discord.rest import LimitCheck, Limiter, RateLimits, RestAnswer, RestCall, RestEndpoint
from agentic.local.discord.world import ApiError, BotApplication, Channel, Message, World
from agentic.net.http_server import Connections, connection_limit, serve_http

File = tuple[str, bytes, str]
"""(file name, content, media type)"""
MessageRef = int | str | dict[str, Any]


class People:
    """The people's side of the stand-in. Methods that post return the message as a dict, as REST shows it."""

    world: World

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    async def say(
        self,
        author: int | str,
        channel: int | str,
        text: str,
        *,
        reply_to: MessageRef | None = None,
        ping_reply: bool = True,
        attachments: Sequence[File] = (),
    ) -> dict[str, Any]:
        """Post as a person (or as a bot user, without its program). Mentions are written <@id>."""
        place, who = self.world.channel(channel), self.world.user(author)
        draft = draft_of_text(text, attachments)
        if reply_to is not None:
            draft.reference = messages.reference(place, self._message(place, reply_to))
            if not ping_reply:
                draft.allowed_mentions = {"parse": ["users", "roles", "everyone"], "replied_user": False}
        with _as_value_error():
            threads.require_post(self.world, who.id, place)
            return self._shown(messages.post(self.backend, place, who, draft))

    async def react(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> bool:
        """Add a reaction; False if it was there before."""
        place, who = self.world.channel(channel), self.world.user(author).id
        target = self._message(place, message)
        with _as_value_error():
            kind = reactions.parse_emoji(self.world, emoji)
            new = who not in target.reactions.get(kind, ())
            reactions.add(self.backend, place, target, who, kind)
        return new

    async def unreact(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> None:
        """Remove a reaction."""
        place = self.world.channel(channel)
        with _as_value_error():
            kind = reactions.parse_emoji(self.world, emoji)
            reactions.world_reactions_remove(
                self.backend, place, self._message(place, message), self.world.user(author).id, kind
            )

    async def pin(self, author: int | str, channel: int | str, message: MessageRef, pinned: bool = True) -> bool:
        """Pin a message, or remove its pin; False if that changed nothing."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        new = (target.pinned_at is not None) != pinned
        with _as_value_error():
            messages.pin(self.backend, place, target, self.world.user(author), pinned)
        return new

    async def interact(
        self, author: int | str, channel: int | str, bot: str, command: str, options: Options = ()
    ) -> Interaction:
        """Use a slash command of a bot, "hello" or "bots status". The answers appear in what is returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        return self._use(author, place, app, using.slash_data(self.world, place, app, command, options))

    async def type_option(
        self, author: int | str, channel: int | str, bot: str, command: str, option: str, typed: str
    ) -> Interaction:
        """Type an option of a slash command. What the bot offers for it appears in what is returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        data = using.typed_data(self.world, place, app, command, option, typed)
        return self._use(author, place, app, data, using.COMPLETION)

    async def fill_in(self, shown: Interaction, *values: components.Filled) -> Interaction:
        """Submit the form that answered a command, its fields filled in order."""
        if shown.form is None:
            raise KeyError("no form was shown")
        place, app = self.world.channel(shown.channel_id), self.world.app(shown.application_id)
        return self._use(shown.user_id, place, app, components.form_data(shown.form, values), using.MODAL_SUBMIT)

    async def choose(self, shown: Interaction, *values: str, author: int | str | None = None) -> Interaction:
        """Choose from the menu that answered a command, by default as the person who used it."""
        if shown.menu is None:
            raise KeyError("no menu was shown")
        place, app = self.world.channel(shown.channel_id), self.world.app(shown.application_id)
        who, data = shown.user_id if author is None else author, components.menu_data(shown.menu, values)
        source = shown.answers[-1]
        more = {"source": source, "original_id": int(source["id"]), "hidden": shown.hidden}
        return self._use(who, place, app, data, using.COMPONENT, **more)

    def _use(
        self,
        author: int | str,
        place: Channel,
        app: BotApplication,
        data: dict[str, Any],
        kind: int = using.COMMAND,
        **more: Any,
    ) -> Interaction:
        """`more` are further fields of the interaction."""
        interaction = Interaction(
            id=self.world.snowflakes.next(),
            token=secrets.token_urlsafe(48),
            application_id=app.id,
            user_id=self.world.user(author).id,
            channel_id=place.id,
            created=self.backend.clock(),
            command=_full_name(data),
            **more,
        )
        self.backend.remember_interaction(interaction)
        body = using.body(self.world, place, interaction, data, kind)
        self.backend.publish(Event("INTERACTION_CREATE", body, place.guild_id, place, only=app.user.id))
        return interaction

    def messages(self, channel: int | str) -> list[dict[str, Any]]:
        """The messages of a channel, oldest first, including system messages."""
        return [self._shown(m) for m in self.world.channel(channel).messages.values()]

    def _message(self, channel: Channel, which: MessageRef) -> Message:
        message_id = int(which["id"] if isinstance(which, dict) else which)
        return channel.messages[message_id]

    def _shown(self, message: Message) -> dict[str, Any]:
        return message_payloads.message(self.world, message)


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Let a person read Discord's words."""
    try:
        yield
    except ApiError as error:
        raise ValueError(error.body["message"]) from error


def _full_name(data: dict[str, Any]) -> str:
    """The command with its sub-command: "bots status"; "" for a form."""
    parts = [option["name"] for option in data.get("options", ()) if option["type"] == using.SUB_COMMAND]
    return " ".join([data.get("name", ""), *parts])


def draft_of_text(text: str, attachments: Sequence[File]) -> Draft:
    return Draft(text, [Upload(name, content, media_type) for name, content, media_type in attachments])


PREFIX = "/api/v10"
ENDPOINTS: list[RestEndpoint] = [
    *rest_messages.REST_MESSAGES_ENDPOINTS,
    *rest_reactions.REST_REACTIONS_ENDPOINTS,
    *rest_channels.ENDPOINTS,
    *rest_webhooks.WEBHOOKS_ENDPOINTS,
    *rest_interactions.ENDPOINTS,
    *rest_apps.ENDPOINTS,
    *rest_guilds.GUILDS_ENDPOINTS,
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


T = TypeVar("T")
_ALSO_EVERY_SECONDS = 0.01


async def wait_for(backend: Backend, predicate: Callable[[], T], seconds: float, describe: Callable[[], str]) -> T:
    """Return the predicate's first truthy value.

    It is evaluated now, after each event and request, and every 10 ms, so that it may also depend on things outside of
    the server. Its errors are raised here. Raises TimeoutError with describe()'s text after that many seconds.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def evaluate() -> None:
        if done.done():
            return
        try:
            value = predicate()
        except Exception as error:  # raised by wait_for, which was given the predicate
            done.set_exception(error)
        else:
            if value:
                done.set_result(value)

    backend.watchers.append(evaluate)
    ticking = asyncio.create_task(_tick(evaluate), name="discord stand-in: wait_for")
    try:
        evaluate()
        return await asyncio.wait_for(done, seconds)
    except TimeoutError:
        if done.done() and not done.cancelled():
            raise  # the predicate's own
        raise TimeoutError(f"not within {seconds:g} s. {describe()}") from None
    finally:
        backend.watchers.remove(evaluate)
        ticking.cancel()


async def _tick(evaluate: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(_ALSO_EVERY_SECONDS)
        evaluate()


Subscriber = Callable[[str, dict[str, Any]], None]

LOOPBACK = "127.0.0.1"
_MAX_REQUEST_BYTES = 64 * 1024 * 1024


class DiscordStandIn(People):
    """Serves a world on loopback while entered. port 0 takes any free one; limits None enforces none.

    faults may be changed at any time. What people do is in People (control.py).
    """

    def __init__(
        self, world: World, *, port: int = 0, limits: RateLimits | None = None, history_limit: int = 2000
    ) -> None:
        super().__init__(Backend(world, history_limit=history_limit))
        self.world = world
        self.faults = Faults()
        self.gateway = Gateway(self.backend, self.faults)
        self.rest = RestApi(self.backend, Limiter(limits, world.clock), self.faults)
        self.extra_routes: list[web.RouteDef] = []  # added when the server starts
        self._port = port
        self._subscribers: list[Subscriber] = []
        self._serving = AsyncExitStack()
        self.backend.listeners.append(self._notify_subscribers)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        self._add_routes(app)
        # Of its own: all bots of the process are its clients.
        connections = Connections(2 * connection_limit())
        self._port = await self._serving.enter_async_context(serve_http(app, LOOPBACK, self._port, connections))
        self.world.cdn = f"http://{LOOPBACK}:{self._port}"
        self.gateway.url = self.rest.gateway_url = f"ws://{LOOPBACK}:{self._port}/gateway"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gateway.close()
        await self._serving.aclose()

    def _add_routes(self, app: web.Application) -> None:
        self.rest.add_to(app)
        app.router.add_routes(self.extra_routes)
        app.router.add_get("/gateway", self.gateway.serve)
        app.router.add_get("/gateway/", self.gateway.serve)
        app.router.add_get("/attachments/{channel_id}/{attachment_id}/{filename}", self._attachment)

    async def _attachment(self, request: web.Request) -> web.Response:
        number = request.match_info["attachment_id"]
        found = self.backend.attachments.get(int(number)) if number.isdecimal() else None
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=found.content, headers={"Content-Type": found.media_type})

    @property
    def port(self) -> int:
        return self._port

    @property
    def api_base(self) -> str:
        """The value for py-cord's Route.API_BASE_URL, with its literal placeholder."""
        return f"http://{LOOPBACK}:{self._port}/api/v{{API_VERSION}}"

    @property
    def counts(self) -> dict[str, int]:
        """Counts so far: "requests", each status ("429"), each "METHOD route"."""
        return self.rest.counts

    @property
    def online(self) -> set[str]:
        """Keys of the bots that are connected to the gateway."""
        return self.gateway.online

    @property
    def limits(self) -> RateLimits | None:
        return self.rest.limiter.limits

    @limits.setter
    def limits(self, limits: RateLimits | None) -> None:
        self.rest.limiter.limits = limits

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call callback(event name, data) for each event, soon after it, from the loop; return a function that ends
        this."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _notify_subscribers(self, event: Event) -> None:
        loop = asyncio.get_running_loop() if self._subscribers else None
        for callback in self._subscribers:
            if loop is not None:
                loop.call_soon(callback, event.name, event.data)

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30) -> T:  # noqa: ASYNC109
        """Wait until the predicate is true and return its value; waiting.py says when it is evaluated.

        Raises TimeoutError after timeout seconds, with a description of the situation.
        """
        return await wait_for(self.backend, predicate, timeout, self._situation)

    def _situation(self) -> str:
        recent = "; ".join(f"{r.bot} {r.method} {r.path} {r.status}" for r in list(self.rest.requests)[-8:])
        newest = [m for c in self.world.channels() for m in list(c.messages.values())[-3:]]
        said = "; ".join(f"{m.author.display_name}: {m.content[:60]!r}" for m in newest[-8:])
        return f"Online: {sorted(self.online) or 'none'}. Last requests: {recent or 'none'}. Messages: {said or 'none'}"


@contextmanager
def routed_to(server: DiscordStandIn) -> Iterator[None]:
    """Point py-cord at the server, for the whole process, and back afterwards."""
    from discord.http import Route

    before = Route.API_BASE_URL
    Route.API_BASE_URL = server.api_base
    try:
        yield
    finally:
        Route.API_BASE_URL = before
