"""A REST request with its bot, path and body. Handlers take one and return JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from aiohttp import BodyPartReader, web

from agentic.local.discord.messages import Draft, Upload
from agentic.local.discord.world import ApiError, BotApplication, Channel, Guild, Message, User, World, unknown

T = TypeVar("T")


class RestCall:
    """A request to a handler. `payload` is the JSON body, None until it was read."""

    def __init__(self, world: World, request: web.Request, app: BotApplication | None) -> None:
        self.world = world
        self.request = request
        self._app = app
        self.payload: Any = None
        self._form: tuple[dict[str, Any], list[Upload]] | None = None

    @property
    def app(self) -> BotApplication:
        if self._app is None:
            raise ApiError(401, 0, "401: Unauthorized")
        return self._app

    @property
    def me(self) -> User:
        return self.app.user

    def id(self, name: str) -> int:
        """Return a snowflake in the path."""
        return int(self.request.match_info[name])

    def query_id(self, name: str) -> int | None:
        text = self.request.query.get(name)
        return None if text is None else int(text)

    def limit(self, default: int) -> int:
        return int(self.request.query.get("limit", default))

    def channel(self) -> Channel:
        """Return the channel in the path. Raises ApiError 404 if it doesn't exist."""
        channel = self.world.find_channel(self.id("channel_id"))
        if channel is None:
            raise unknown("Channel")
        return channel

    def message(self, channel: Channel) -> Message:
        message = channel.messages.get(self.id("message_id"))
        if message is None:
            raise unknown("Message")
        return message

    def guild(self) -> Guild:
        """Return the guild in the path. Raises ApiError 404 if the bot isn't in it."""
        guild = self.world.guilds.get(self.id("guild_id"))
        if guild is None or self.me.id not in guild.members:
            raise unknown("Guild")
        return guild

    async def json(self) -> dict[str, Any]:
        """Return the body as an object, {} if it's empty."""
        return (await self.form())[0]

    async def json_list(self) -> list[Any]:
        return self._decode(await self.request.read(), list)

    async def form(self) -> tuple[dict[str, Any], list[Upload]]:
        """Return the body and its files, sent as JSON or as a form with payload_json and files[n]."""
        if self._form is None:
            self._form = await self._read_form()
        return self._form

    async def _read_form(self) -> tuple[dict[str, Any], list[Upload]]:
        if self.request.content_type == "application/x-www-form-urlencoded":  # a form that has no files
            return self._decode(str((await self.request.post()).get("payload_json", "{}")).encode(), dict), []
        if not self.request.content_type.startswith("multipart/"):
            raw = await self.request.read()
            return self._decode(raw, dict) if raw else {}, []
        body: dict[str, Any] = {}
        files: dict[int, Upload] = {}
        async for part in await self.request.multipart():
            if not isinstance(part, BodyPartReader):
                raise ApiError(400, 50035, "Invalid Form Body")
            content = bytes(await part.read(decode=False))
            if part.name == "payload_json":
                body = self._decode(content, dict)
            elif part.name is not None and part.name.startswith("files["):
                files[int(part.name[6:-1])] = Upload(part.filename or "file", content)
        for meta in body.get("attachments") or ():
            if (upload := files.get(int(meta["id"]))) is not None:
                upload.filename = meta.get("filename") or upload.filename
                upload.description = meta.get("description")
        return body, [files[number] for number in sorted(files)]

    def _decode(self, raw: bytes, kind: type[T]) -> T:
        with suppress(ValueError):
            self.payload = json.loads(raw)
            if isinstance(self.payload, kind):
                return self.payload
        raise ApiError(400, 50109, "The request body contains invalid JSON.")


def draft_of(body: dict[str, Any], uploads: list[Upload]) -> Draft:
    """Return a request's body as a Draft, without message_reference: webhooks and interactions can't reply."""
    return Draft(
        content=str(body.get("content") or ""),
        uploads=uploads,
        embeds=list(body.get("embeds") or ()),
        components=list(body.get("components") or ()),
        allowed_mentions=body.get("allowed_mentions"),
        nonce=body.get("nonce"),
        tts=bool(body.get("tts")),
        flags=int(body.get("flags") or 0),
    )


def json_response(status: int, body: Any = None, headers: Mapping[str, str] = MappingProxyType({})) -> web.Response:
    """Return JSON without a charset in its content type, and a Via header: py-cord checks for both."""
    sent = {"Via": "1.1 google", **headers}
    if body is None:
        return web.Response(status=status, headers=sent)
    sent["Content-Type"] = "application/json"
    return web.Response(status=status, headers=sent, body=json.dumps(body).encode())


@dataclass(frozen=True, slots=True)
class RestEndpoint:
    """A route. path begins after /api/v10.

    open routes need no bot token: theirs is in the path. The handler may be async. It returns JSON data (200), None
    (204) or a whole response.
    """

    method: str
    path: str
    handler: Callable[[RestCall], Any]
    open: bool = False
