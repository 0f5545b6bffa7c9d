"""The stand-in for Discord: one HTTP server on loopback for REST, gateway and files, and the actions of people.

A REST request passes, in this order: faults (delays, errors, cut connections), authentication, rate limits, its handler
in one of the modules beside this one. Then its answer gets Discord's headers and the request is recorded. Errors become
Discord's error bodies.
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
from typing import Any, Self, TypeVar

from aiohttp import web

from agentic.local.discord import channels, interactions, messages, payloads, rest_channels, rest_guilds
from agentic.local.discord.backend import (
    Backend,
    Event,
    Faults,
    Filled,
    Interaction,
    RequestInfo,
    RestFault,
    form_data,
    menu_data,
)
from agentic.local.discord.gateway import Gateway
from agentic.local.discord.interactions import Options
from agentic.local.discord.messages import Draft, Upload
from agentic.local.discord.rest import Limiter, RateLimits, RestAnswer, RestCall, RestEndpoint
from agentic.local.discord.world import ApiError, BotApplication, Channel, Message, World, invalid_form
from agentic.net.http_server import Connections, connection_limit, serve_http

log = logging.getLogger(__name__)

T = TypeVar("T")

File = tuple[str, bytes, str]
"""(file name, content, media type)"""
MessageRef = int | str | dict[str, Any]
Subscriber = Callable[[str, dict[str, Any]], None]

LOOPBACK = "127.0.0.1"
PREFIX = "/api/v10"
ENDPOINTS: list[RestEndpoint] = [*rest_channels.ENDPOINTS, *interactions.ENDPOINTS, *rest_guilds.ENDPOINTS]
_MAX_REQUEST_BYTES = 64 * 1024 * 1024
_MAX_RECORDS = 5000


class DiscordStandIn:
    """Serves a world on loopback while entered. port 0 takes any free one; limits None enforces none.

    faults may be changed at any time. What people do is called in the same process, by the terminal and by benchmarks:
    authors and channels are given by name or id, messages by id or by the dict that an earlier call returned; methods
    that post return the message as a dict, as REST shows it. No permission of people is checked, but Manage Threads in
    a locked thread. These methods raise KeyError for what does not exist, and ValueError with Discord's words for what
    it would refuse.
    """

    def __init__(
        self, world: World, *, port: int = 0, limits: RateLimits | None = None, history_limit: int = 2000
    ) -> None:
        self.world = world
        self.backend = Backend(world, history_limit=history_limit)
        self.faults = Faults()
        self.gateway = Gateway(self.backend, self.faults)
        self.rest = RestApi(self.backend, Limiter(limits, world.clock), self.faults)
        self.counts = self.rest.counts
        self.extra_routes: list[web.RouteDef] = []  # added when the server starts
        self.port = port
        self._subscribers: list[Subscriber] = []
        self._serving = AsyncExitStack()
        self.backend.listeners.append(self._notify_subscribers)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        self.rest.add_to(app)
        app.router.add_routes(self.extra_routes)
        app.router.add_get("/gateway", self.gateway.serve)
        app.router.add_get("/gateway/", self.gateway.serve)
        app.router.add_get("/attachments/{channel_id}/{attachment_id}/{filename}", self._serve_attachment)
        # Of its own: all bots of the process are its clients.
        connections = Connections(2 * connection_limit())
        self.port = await self._serving.enter_async_context(serve_http(app, LOOPBACK, self.port, connections))
        self.world.cdn = f"http://{LOOPBACK}:{self.port}"
        self.gateway.url = self.rest.gateway_url = f"ws://{LOOPBACK}:{self.port}/gateway"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gateway.close()
        await self._serving.aclose()

    async def _serve_attachment(self, request: web.Request) -> web.Response:
        number = request.match_info["attachment_id"]
        found = self.backend.attachments.get(int(number)) if number.isdecimal() else None
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=found.content, headers={"Content-Type": found.media_type})

    @property
    def api_base(self) -> str:
        """The value for py-cord's Route.API_BASE_URL, with its literal placeholder."""
        return f"http://{LOOPBACK}:{self.port}/api/v{{API_VERSION}}"

    @property
    def online(self) -> set[str]:
        """Keys of the bots that are connected to the gateway and identified."""
        return {s.app.key for s in self.gateway.sessions.values() if s.connection is not None}

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call callback(event name, data) from the loop, soon after each event; return a function that ends this."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _notify_subscribers(self, event: Event) -> None:
        for callback in self._subscribers:
            asyncio.get_running_loop().call_soon(callback, event.name, event.data)

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30) -> T:  # noqa: ASYNC109
        """Return the predicate's first truthy value.

        It is evaluated now, after each event and request, and every 10 ms, so that it may also depend on things outside
        of the server. Its errors are raised here. Raises TimeoutError after timeout seconds, with a description of the
        situation.
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

        async def tick() -> None:
            while True:
                await asyncio.sleep(0.01)
                evaluate()

        self.backend.watchers.append(evaluate)
        ticking = asyncio.create_task(tick(), name="discord stand-in: wait_for")
        try:
            evaluate()
            return await asyncio.wait_for(done, timeout)
        except TimeoutError:
            if done.done() and not done.cancelled():
                raise  # the predicate's own
            recent = "; ".join(f"{r.bot} {r.method} {r.path} {r.status}" for r in list(self.rest.requests)[-8:])
            newest = [m for c in self.world.channels() for m in list(c.messages.values())[-3:]]
            said = "; ".join(f"{m.author.display_name}: {m.content[:60]!r}" for m in newest[-8:])
            online = f"Online: {sorted(self.online) or 'none'}. Last requests: {recent or 'none'}"
            raise TimeoutError(f"not within {timeout:g} s. {online}. Messages: {said or 'none'}") from None
        finally:
            self.backend.watchers.remove(evaluate)
            ticking.cancel()

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
            channels.require_post(self.world, who.id, place)
            return self._payload(messages.post(self.backend, place, who, draft))

    async def react(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> bool:
        """Add a reaction; False if it was there before."""
        place, who = self.world.channel(channel), self.world.user(author).id
        target = self._message(place, message)
        with _as_value_error():
            kind = messages.parse_emoji(self.world, emoji)
            new = who not in target.reactions.get(kind, ())
            messages.add_reaction(self.backend, place, target, who, kind)
        return new

    async def unreact(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> None:
        """Remove a reaction."""
        place = self.world.channel(channel)
        with _as_value_error():
            kind = messages.parse_emoji(self.world, emoji)
            target, who = self._message(place, message), self.world.user(author).id
            messages.remove_reaction(self.backend, place, target, who, kind)

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
        return self._use(author, place, app, interactions.slash_data(self.world, place, app, command, options))

    async def fill_in(self, shown: Interaction, *values: Filled) -> Interaction:
        """Submit the form that answered a command, its fields filled in order."""
        if shown.form is None:
            raise KeyError("no form was shown")
        place, app = self.world.channel(shown.channel_id), self.world.app(shown.application_id)
        return self._use(shown.user_id, place, app, form_data(shown.form, values), interactions.MODAL_SUBMIT)

    async def choose(self, shown: Interaction, *values: str, author: int | str | None = None) -> Interaction:
        """Choose from the menu that answered a command, by default as the person who used it."""
        if shown.menu is None:
            raise KeyError("no menu was shown")
        place, app = self.world.channel(shown.channel_id), self.world.app(shown.application_id)
        who, data = shown.user_id if author is None else author, menu_data(shown.menu, values)
        source = shown.answers[-1]
        more = {"source": source, "original_id": int(source["id"]), "hidden": shown.hidden}
        return self._use(who, place, app, data, interactions.COMPONENT, **more)

    def _use(
        self,
        author: int | str,
        place: Channel,
        app: BotApplication,
        data: dict[str, Any],
        kind: int = interactions.COMMAND,
        **more: Any,
    ) -> Interaction:
        """`more` are further fields of the interaction."""
        sub_commands = [o["name"] for o in data.get("options", ()) if o["type"] == interactions.SUB_COMMAND]
        interaction = Interaction(
            id=self.world.new_id(),
            token=secrets.token_urlsafe(48),
            application_id=app.id,
            user_id=self.world.user(author).id,
            channel_id=place.id,
            created=self.backend.clock(),
            command=" ".join([data.get("name", ""), *sub_commands]),  # "bots status"; "" for a form
            **more,
        )
        self.backend.remember_interaction(interaction)
        body = interactions.build_payload(self.world, place, interaction, data, kind)
        self.backend.emit("INTERACTION_CREATE", body, place, only=app.user.id)
        return interaction

    def messages(self, channel: int | str) -> list[dict[str, Any]]:
        """The messages of a channel, oldest first, including system messages."""
        return [self._payload(m) for m in self.world.channel(channel).messages.values()]

    def _message(self, channel: Channel, which: MessageRef) -> Message:
        message_id = int(which["id"] if isinstance(which, dict) else which)
        return channel.messages[message_id]

    def _payload(self, message: Message) -> dict[str, Any]:
        return payloads.message(self.world, message)


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Let a person read Discord's words."""
    try:
        yield
    except ApiError as error:
        raise ValueError(error.body["message"]) from error


def draft_of_text(text: str, attachments: Sequence[File]) -> Draft:
    return Draft(text, [Upload(name, content, media_type) for name, content, media_type in attachments])


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


class RestApi:
    """requests is the log, bounded; counts has "requests", each status as text ("429"), and each "METHOD route"."""

    def __init__(self, backend: Backend, limiter: Limiter, faults: Faults) -> None:
        self._backend = backend
        self.limiter = limiter
        self._faults = faults
        self.requests: deque[RequestInfo] = deque(maxlen=_MAX_RECORDS)
        self.unknown_requests: list[tuple[str, str]] = []
        self.counts: Counter[str] = Counter()
        self.gateway_url = ""

    def add_to(self, app: web.Application) -> None:
        def describe_gateway(_: RestCall) -> Any:
            limit = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
            return {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}

        def refuse_unknown(call: RestCall) -> Any:
            self.unknown_requests.append((call.request.method, call.request.path))
            raise ApiError(404, 0, "404: Not Found")

        gateway = [RestEndpoint("GET", path, describe_gateway) for path in ("/gateway", "/gateway/bot")]
        for endpoint in [*gateway, *ENDPOINTS]:
            app.router.add_route(endpoint.method, PREFIX + endpoint.path, self._server_of(endpoint))
        unknown = RestEndpoint("*", "/{tail:.*}", refuse_unknown, open=True)
        app.router.add_route("*", "/api/{tail:.*}", self._server_of(unknown))

    def _server_of(self, endpoint: RestEndpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            kind, _, token = request.headers.get("Authorization", "").partition(" ")
            app = self._backend.world.app_by_token(token) if kind == "Bot" else None
            call = RestCall(self._backend, request, app)
            info = RequestInfo(
                method=request.method,
                path=request.path.removeprefix(PREFIX),
                route=endpoint.path,
                bot=app.key if app else None,
                headers=dict(request.headers),
            )
            half_way = self._faults.rest_delay / 2
            if half_way:
                await asyncio.sleep(half_way)
            fault = self._faults.take(info)
            response = None
            if fault is not None:
                response = await self._fail(call, endpoint, fault)
            elif self._faults.on_request is not None:
                if not request.content_type.startswith("multipart/"):
                    await request.read()  # a hook may hold the request until its sender is gone
                answer = self._faults.on_request(info)
                response = await answer if inspect.isawaitable(answer) else answer
            if response is None:
                response = await self._answer(call, endpoint)
            if half_way:
                await asyncio.sleep(half_way)
            info.status, info.time, info.payload = response.status, self._backend.clock(), call.payload
            self.requests.append(info)
            self.counts.update(("requests", str(response.status), f"{info.method} {info.route}"))
            self._backend.changed()
            return response

        return serve

    async def _fail(self, call: RestCall, endpoint: RestEndpoint, fault: RestFault) -> web.Response:
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.cut:
            response = await self._answer(call, endpoint) if fault.cut == "after" else _response(500)
            if call.request.transport is not None:
                call.request.transport.abort()
            return response
        if fault.status is None:
            return await self._answer(call, endpoint)
        if fault.late:
            await self._answer(call, endpoint)
        body = {"message": "made to fail", "code": 0} if fault.body is None else fault.body
        return _response(fault.status, body, fault.headers)

    async def _answer(self, call: RestCall, endpoint: RestEndpoint) -> web.Response:
        """Authenticate first: a request without a valid token does not count against a limit."""
        headers: dict[str, str] = {}
        try:
            path = call.request.match_info
            major = next((path[name] for name in ("channel_id", "guild_id", "webhook_id") if name in path), "")
            caller = major if endpoint.open else call.app.key  # raises without a valid token
            check = self.limiter.check(caller, endpoint.bucket, major, counts_globally=not endpoint.open)
            headers = check.headers
            if check.retry_after is not None:
                text = "You are being rate limited."
                body = {"message": text, "retry_after": check.retry_after, "global": check.is_global}
                return _response(429, body, headers)
            result = endpoint.handler(call)
            if inspect.isawaitable(result):
                result = await result
        except ApiError as error:
            return _response(error.status, error.body, headers)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("%s %s: a body that could not be used", endpoint.method, call.request.path, exc_info=True)
            refusal = invalid_form("body", "BASE_TYPE_REQUIRED", repr(error))
            return _response(refusal.status, refusal.body, headers)
        if isinstance(result, RestAnswer):
            return _response(result.status, result.body, headers)
        return _response(204 if result is None else 200, result, headers)


def _response(status: int, body: Any = None, headers: dict[str, str] | None = None) -> web.Response:
    """JSON without a charset in its content type, and a Via header: py-cord checks for exactly these."""
    sent = {"Via": "1.1 google", **(headers or {})}
    if body is None:
        return web.Response(status=status, headers=sent)
    sent["Content-Type"] = "application/json"
    return web.Response(status=status, headers=sent, body=json.dumps(body).encode())
