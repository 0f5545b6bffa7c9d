"""A REST request with its bot, path and body, and rate limits like Discord's.

Handlers take a RestCall and return JSON. A rate limit is a window for each bucket, and one over all routes of a bot; a
bucket's window opens with its first request and permits a number of them until it ends.

https://discord.com/developers/docs/topics/rate-limits
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import BodyPartReader, web

from agentic.local.discord.backend import Backend
from agentic.local.discord.messages import Draft, Upload
from agentic.local.discord.world import (
    ApiError,
    BotApplication,
    Channel,
    Guild,
    Message,
    User,
    guild_permissions,
    invalid_form,
    missing_permissions,
    unknown,
)

T = TypeVar("T")


class RestCall:
    """A request to a handler. payload is the JSON body, None before it was read."""

    def __init__(self, backend: Backend, request: web.Request, app: BotApplication | None) -> None:
        self.backend, self.world = backend, backend.world
        self.request = request
        self._app = app
        self.payload: Any = None

    @property
    def app(self) -> BotApplication:
        if self._app is None:
            raise ApiError(401, 0, "401: Unauthorized")
        return self._app

    @property
    def me(self) -> User:
        return self.app.user

    def id(self, name: str) -> int:
        """A snowflake in the path."""
        return snowflake(name, self.request.match_info[name])

    def query_id(self, name: str) -> int | None:
        text = self.request.query.get(name)
        return None if text is None else snowflake(name, text)

    def limit(self, default: int, most: int) -> int:
        """The query's limit. Raises the API's error outside 1 to most."""
        text = self.request.query.get("limit", str(default))
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise invalid_form("limit", "NUMBER_TYPE_RANGE", f"Value must be between 1 and {most}.")
        return int(text)

    def channel(self, needed: int = 0) -> Channel:
        """The channel in the path. Raises 404 if it does not exist, 403 if the bot cannot see it or lacks a bit."""
        channel = self.world.find_channel(self.id("channel_id"))
        if channel is None:
            raise unknown("Channel")
        self.require(channel, needed)
        return channel

    def require(self, channel: Channel, needed: int) -> None:
        """Raise Discord's 403 if the bot cannot see the channel or lacks a needed bit."""
        self.world.require(self.me.id, channel, needed)

    def message(self, channel: Channel) -> Message:
        message = channel.messages.get(self.id("message_id"))
        if message is None:
            raise unknown("Message")
        return message

    def guild(self, needed: int = 0) -> Guild:
        """The guild in the path. Raises 404 if the bot is not in it, 403 if the bot's roles lack a needed bit."""
        guild = self.world.guilds.get(self.id("guild_id"))
        if guild is None or self.me.id not in guild.members:
            raise unknown("Guild")
        if guild_permissions(guild, self.me.id) & needed != needed:
            raise missing_permissions()
        return guild

    def may(self, channel: Channel, bits: int) -> bool:
        return self.world.permissions_of(self.me.id, channel) & bits == bits

    async def json(self) -> dict[str, Any]:
        """The body as an object; an empty body is an empty object."""
        if self.request.content_type.startswith("multipart/"):
            return (await self.form())[0]
        if self.request.content_type == "application/x-www-form-urlencoded":  # a form that has no files
            return self._decode(str((await self.request.post()).get("payload_json", "{}")).encode(), dict)
        raw = await self.request.read()
        return self._decode(raw, dict) if raw else {}

    async def json_list(self) -> list[Any]:
        return self._decode(await self.request.read(), list)

    async def form(self) -> tuple[dict[str, Any], list[Upload]]:
        """The body and its files, sent as JSON or as multipart with payload_json and files[n]."""
        if not self.request.content_type.startswith("multipart/"):
            return await self.json(), []
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


def snowflake(name: str, text: str) -> int:
    if not text.isdecimal():
        raise invalid_form(name, "NUMBER_TYPE_COERCE", f'Value "{text}" is not snowflake.')
    return int(text)


def draft_of(body: dict[str, Any], uploads: list[Upload]) -> Draft:
    """A request's body as a Draft, without its message_reference: webhooks and interactions cannot reply."""
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


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """An answer other than 200 with JSON. body None: no body is sent."""

    status: int
    body: Any = None


@dataclass(frozen=True, slots=True)
class RestEndpoint:
    """A route. path begins after /api/v10, bucket is a field of RateLimits.

    open routes need no bot token: theirs is in the path. The handler may be async. It returns JSON data (200), None
    (204) or a RestAnswer.
    """

    method: str
    path: str
    handler: Callable[[RestCall], Any]
    bucket: str = "other"
    open: bool = False


Window = tuple[int, float]
"""(requests, seconds)"""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """One window for each kind of route, per bot and channel (or webhook, or guild).

    None: unlimited. Discord's own numbers vary and are not documented; these are close to what bots observe.
    """

    messages_per_channel: Window | None = (5, 5.0)
    edits: Window | None = (5, 5.0)
    deletes: Window | None = (5, 1.0)
    reactions: Window | None = (1, 0.25)
    typing: Window | None = (5, 5.0)
    history: Window | None = (50, 5.0)
    webhooks: Window | None = (5, 2.0)
    other: Window | None = None
    global_per_second: int | None = 50


@dataclass(slots=True)
class _Bucket:
    left: int
    ends: float


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """retry_after is None for a permitted request, else seconds. headers are sent in either case."""

    headers: dict[str, str]
    retry_after: float | None = None
    is_global: bool = False


class Limiter:
    """Count requests against limits; with limits None all are permitted. clock returns seconds."""

    def __init__(self, limits: RateLimits | None, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        self._buckets: dict[tuple[str, ...], _Bucket] = {}

    def check(self, bot: str, kind: str, major: str, *, counts_globally: bool) -> LimitCheck:
        """kind is a field of RateLimits, major the id that the bucket belongs to."""
        now = self._clock()
        limits = self.limits
        if limits is not None and limits.global_per_second and counts_globally:
            over_all = self._take(("global", bot), (limits.global_per_second, 1.0), now)
            headers = {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"}
            if over_all.left < 0:
                return _refused(headers, over_all.ends - now, True)
        window = None if limits is None else getattr(limits, kind)
        if window is None:
            return LimitCheck(_headers(kind, (1000, 1.0), 999, now + 1.0, now))
        bucket = self._take((kind, bot, major), window, now)
        headers = _headers(kind, window, max(bucket.left, 0), bucket.ends, now)
        if bucket.left < 0:
            return _refused({**headers, "X-RateLimit-Scope": "user"}, bucket.ends - now, False)
        return LimitCheck(headers)

    def _take(self, key: tuple[str, ...], window: Window, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None or bucket.ends <= now:
            bucket = self._buckets[key] = _Bucket(window[0], now + window[1])
            if len(self._buckets) > 5000:
                self._buckets = {key: b for key, b in self._buckets.items() if b.ends > now}
        bucket.left = max(bucket.left - 1, -1)
        return bucket


def _headers(kind: str, window: Window, left: int, ends: float, now: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(window[0]),
        "X-RateLimit-Remaining": str(left),
        "X-RateLimit-Reset": f"{ends:.3f}",
        "X-RateLimit-Reset-After": f"{_up(ends - now):.3f}",
        "X-RateLimit-Bucket": f"{zlib.crc32(kind.encode()):08x}",
    }


def _refused(headers: dict[str, str], wait: float, is_global: bool) -> LimitCheck:
    wait = _up(wait)
    return LimitCheck({**headers, "Retry-After": str(math.ceil(wait))}, wait, is_global)


def _up(seconds: float) -> float:
    """Round up to whole milliseconds, so that the window is open after that time."""
    return math.ceil(max(seconds, 0.0) * 1000) / 1000
