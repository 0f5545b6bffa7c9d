"""The stand-in for Discord: one HTTP server on loopback for REST, gateway and files, and the actions of people.

The modules next to this file handle REST requests. Errors become Discord's error bodies.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Self, TypeVar

from aiohttp import web

from agentic.local.discord import interactions, messages, payloads, polls, rest_channels, rest_guilds
from agentic.local.discord.dialogs import Filled, Interaction, check_value, form_data
from agentic.local.discord.gateway import Gateway
from agentic.local.discord.interactions import Options
from agentic.local.discord.messages import Draft, Upload
from agentic.local.discord.rest import RestCall, RestEndpoint, json_response
from agentic.local.discord.world import ApiError, BotApplication, Channel, Event, Message, World
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


class DiscordStandIn:
    """Serves a world on loopback while entered, at a free port, the same each time.

    The terminal and benchmarks call the actions of people in the same process. They give authors and channels by name
    or id, and messages by id or by the dict that an earlier call returned. Methods that post return the message as REST
    shows it. People need no permissions, except Manage Threads in a locked thread. These methods raise KeyError for
    unknown records, and ValueError with Discord's words if it would refuse.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.gateway = Gateway(self.world)
        self.port = 0
        self._subscribers: list[Subscriber] = []
        self._serving = AsyncExitStack()
        self.world.listeners.append(self._publish)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        self._add_routes(app.router)
        # A limit of its own, because all bots of the process are its clients.
        connections = Connections(2 * connection_limit())
        self.port = await self._serving.enter_async_context(serve_http(app, LOOPBACK, self.port, connections))
        self.world.cdn = f"http://{LOOPBACK}:{self.port}"
        self.gateway.url = f"ws://{LOOPBACK}:{self.port}/gateway"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gateway.close()
        await self._serving.aclose()

    def _add_routes(self, router: web.UrlDispatcher) -> None:
        gateway = RestEndpoint("GET", "/gateway", lambda _: self.gateway.describe())
        for endpoint in (gateway, *ENDPOINTS):
            router.add_route(endpoint.method, PREFIX + endpoint.path, self._handler_of(endpoint))
        router.add_get("/gateway", self.gateway.serve)
        router.add_get("/gateway/", self.gateway.serve)
        router.add_get("/attachments/{channel_id}/{attachment_id}/{filename}", self._serve_attachment)

    def _handler_of(self, endpoint: RestEndpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            kind, _, token = request.headers.get("Authorization", "").partition(" ")
            app = self.world.app_by_token(token) if kind == "Bot" else None
            return await self._respond(RestCall(self.world, request, app), endpoint)

        return handle

    async def _respond(self, call: RestCall, endpoint: RestEndpoint) -> web.Response:
        try:
            if not endpoint.open:
                _ = call.app  # raises without a valid token
            result = endpoint.handler(call)
            if inspect.isawaitable(result):
                result = await result
        except ApiError as error:
            return json_response(error.status, error.body)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("%s %s: a body that could not be used", endpoint.method, call.request.path, exc_info=True)
            return json_response(400, {"code": 50035, "message": f"Invalid Form Body: {error!r}"})
        if isinstance(result, web.Response):
            return result
        return json_response(204 if result is None else 200, result)

    async def _serve_attachment(self, request: web.Request) -> web.Response:
        number = request.match_info["attachment_id"]
        found = self.world.attachments.get(int(number)) if number.isdecimal() else None
        if found is None or int(request.query.get("ex", "7fffffff"), 16) <= time.time():
            raise web.HTTPNotFound
        return web.Response(body=found.content, headers={"Content-Type": found.media_type})

    @property
    def api_base(self) -> str:
        """Return the value for py-cord's Route.API_BASE_URL, with its literal placeholder."""
        return f"http://{LOOPBACK}:{self.port}/api/v{{API_VERSION}}"

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call callback(event name, data) from the loop, soon after each event; return a function that ends this."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _publish(self, event: Event) -> None:
        self.gateway.publish(event)
        for callback in self._subscribers:
            asyncio.get_running_loop().call_soon(callback, event.name, event.data)

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30) -> T:  # noqa: ASYNC109
        """Return the predicate's first truthy value; it is evaluated every 10 ms. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not (value := predicate()):  # noqa: ASYNC110 - any state, also outside of the server
                await asyncio.sleep(0.01)
            return value

    async def say(
        self,
        author: int | str,
        channel: int | str,
        text: str,
        *,
        reply_to: MessageRef | None = None,
        attachments: Sequence[File] = (),
    ) -> dict[str, Any]:
        """Post as a person (or as a bot user, without its program). Mentions are written <@id>."""
        place, who = self.world.channel(channel), self.world.user(author)
        draft = draft_of_text(text, attachments)
        if reply_to is not None:
            draft.reference = messages.reference(place, self._message(place, reply_to))
        with _as_value_error():
            return self._payload(messages.post(self.world, place, who, draft))

    async def react(
        self,
        author: int | str,
        channel: int | str,
        message: MessageRef,
        emoji: str,
        given: bool = True,
        *,
        burst: bool = False,
    ) -> bool:
        """Add a reaction (`burst`: a super reaction) or remove one; return False if that changed nothing."""
        place, who = self.world.channel(channel), self.world.user(author).id
        target = self._message(place, message)
        with _as_value_error():
            kind = messages.parse_emoji(self.world, emoji)
        had = who in target.reactions.get(kind, ())
        if given:
            messages.add_reaction(self.world, place, target, who, kind, burst=burst)
        else:
            messages.remove_reaction(self.world, place, target, who, kind)
        return had != given

    async def vote(
        self, author: int | str, channel: int | str, message: MessageRef, answer: str, given: bool = True
    ) -> None:
        """Answer a poll as a person, or take an answer back."""
        place = self.world.channel(channel)
        with _as_value_error():
            polls.vote(self.world, place, self._message(place, message), self.world.user(author).id, answer, given)

    async def pin(self, author: int | str, channel: int | str, message: MessageRef, pinned: bool = True) -> bool:
        """Pin or unpin a message; return False if that changed nothing."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        new = (target.pinned_at is not None) != pinned
        with _as_value_error():
            messages.pin(self.world, place, target, self.world.user(author), pinned)
        return new

    async def interact(
        self, author: int | str, channel: int | str, bot: str, command: str, options: Options = ()
    ) -> Interaction:
        """Use a slash command of a bot, "hello" or "bots status". The answers appear in what is returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        return self._use(author, place, app, interactions.slash_data(self.world, place, app, command, options))

    async def use_command(self, author: int | str, channel: int | str, command: str, options: Options) -> Interaction:
        """Use a slash command of the first bot that has registered its commands. Raises TimeoutError if none has."""
        bots, guild_id = self.world.apps.values(), self.world.guild.id
        bot = await self.wait_for(lambda: next((app for app in bots if app.commands.get(guild_id)), None))
        assert bot is not None
        return await self.interact(author, channel, bot.key, command, options)

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
        check_value(shown.menu, values)
        about = {"custom_id": shown.menu["custom_id"], "component_type": shown.menu["type"]}
        who, data = shown.user_id if author is None else author, {**about, "values": list(values)}
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
        sub_commands = [o["name"] for o in data.get("options", ()) if o["type"] == interactions.SUB_COMMAND]
        interaction = Interaction(
            id=self.world.new_id(),
            token=secrets.token_urlsafe(48),
            application_id=app.id,
            user_id=self.world.user(author).id,
            channel_id=place.id,
            created=self.world.clock(),
            command=" ".join([data.get("name", ""), *sub_commands]),  # "bots status"; "" for a form
            **more,
        )
        self.world.remember_interaction(interaction)
        body = interactions.build_payload(self.world, place, interaction, data, kind)
        self.world.emit("INTERACTION_CREATE", body, place, only=app.user.id)
        return interaction

    def messages(self, channel: int | str) -> list[dict[str, Any]]:
        """Return the messages of a channel, oldest first, including system messages."""
        return [self._payload(m) for m in self.world.channel(channel).messages.values()]

    def _message(self, channel: Channel, which: MessageRef) -> Message:
        message_id = int(which["id"] if isinstance(which, dict) else which)
        return channel.messages[message_id]

    def _payload(self, message: Message) -> dict[str, Any]:
        return payloads.message(self.world, message)


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Raise an ApiError as a ValueError with Discord's words."""
    try:
        yield
    except ApiError as error:
        raise ValueError(error.body["message"]) from error


def draft_of_text(text: str, attachments: Sequence[File]) -> Draft:
    return Draft(text, [Upload(name, content, media_type) for name, content, media_type in attachments])


@contextmanager
def routed_to(server: DiscordStandIn) -> Iterator[None]:
    """Point py-cord at the server, for the whole process, while entered."""
    from discord.http import Route

    before = Route.API_BASE_URL
    Route.API_BASE_URL = server.api_base
    try:
        yield
    finally:
        Route.API_BASE_URL = before
