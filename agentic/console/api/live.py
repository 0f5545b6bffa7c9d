"""The Live page: channels, messages, pictures, the stream of events; in local mode also what a person writes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import aiosqlite
from aiohttp import web
from pydantic import Base64Bytes, BaseModel, Field

from agentic.console.api.live_feed import LiveFeed, Reader, TooManyReaders
from agentic.console.parts import PICTURE_TYPES, ConsoleParts, NotSaid, People, Picture, Upload
from agentic.console.requests import Refused, query_id, query_text, read_body, snowflake
from agentic.record.queries.posts import picture_of, turn_of_post

PAGE = 100  # messages
KEEP_ALIVE = 15.0  # seconds between two signs of life
WRITE_SECONDS = 30.0  # for a reader to take what it was sent
SEND_BUFFER = 65_536  # bytes
MOST_FILE = 8_000_000  # bytes of a file that a person attaches
MOST_SAID = MOST_FILE * 4 // 3 + 20_000  # bytes of the request that has it
MOST_CHARACTERS = 2000  # of a message, as in Discord
READ_ONLY = "Write in Discord to join them: this page only reads."

T = TypeVar("T")


class Attached(BaseModel):
    name: str = Field(min_length=1, max_length=200)
    data: Base64Bytes


class Said(BaseModel):
    text: str = ""
    reply_to: str | None = None
    file: Attached | None = None


class Reacted(BaseModel):
    emoji: str
    given: bool = True


class _Live:
    """The answers of the Live page's addresses."""

    def __init__(self, parts: ConsoleParts, feed: LiveFeed) -> None:
        self._parts, self._feed = parts, feed

    async def channels(self, _: web.Request) -> web.Response:
        cursor = self._feed.hub.cursor  # before what is read: an event may come twice, and none is missed
        listed = [channel.to_json() for channel in self._parts.live.channels()]
        return web.json_response(
            {
                "items": listed,
                "next": None,
                "cursor": cursor,
                "situation": self._feed.situation(),
                "person": _person(self._parts.people),
                "read_only": None if self._parts.people is not None else READ_ONLY,
                "most_rounds": self._parts.settings.max_rounds,
            }
        )

    async def messages(self, request: web.Request) -> web.Response:
        channel_id, before = snowflake(request.match_info["channel"]), query_id(request, "before")
        cursor = self._feed.hub.cursor
        found = self._parts.live.messages(channel_id, PAGE + 1, before)
        if found is None:
            raise Refused(404, "no bot of this process sees this channel")
        page = found[-PAGE:]
        more = str(page[0].id) if len(found) > PAGE else None
        return web.json_response({"items": [one.to_json() for one in page], "next": more, "cursor": cursor})

    async def events(self, request: web.Request) -> web.StreamResponse:
        after = request.headers.get("Last-Event-ID") or query_text(request, "after") or ""
        try:
            reader = self._feed.hub.open(after, _cutting(request), ("situation", self._feed.situation()))
        except TooManyReaders:
            raise Refused(503, "too many pages of the console are open; close some", {"Retry-After": "10"}) from None
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        _bound_send_buffer(request)
        try:
            await response.prepare(request)
            await _stream(response, reader)
        except (ConnectionResetError, TimeoutError):  # the page is gone, or does not read
            _cutting(request)()
        finally:
            self._feed.hub.leave(reader)
        return response

    async def picture(self, request: web.Request) -> web.Response:
        message_id, file_id = (snowflake(request.match_info[name]) for name in ("message", "file"))
        found = await self._parts.live.picture(message_id, file_id)
        if found is None and (kept := await _recorded(self._parts, picture_of, message_id)) is not None:
            found = Picture(kept.data, kept.media_type)
        if found is None or found.media_type not in PICTURE_TYPES:
            raise Refused(404, "this picture cannot be read any more")
        return web.Response(body=found.data, headers={"Content-Type": found.media_type})

    async def why(self, request: web.Request) -> web.Response:
        message_id = snowflake(request.match_info["message"])
        record = await self._parts.ledger.records.of_message(message_id, self._parts.names)
        found = (record.agent, record.id) if record else await _recorded(self._parts, turn_of_post, message_id)
        if found is None:
            raise Refused(404, "no turn is recorded for this message")
        return web.json_response({"agent": found[0], "id": found[1]})

    async def say(self, request: web.Request) -> web.Response:
        people = _people(self._parts)
        said = await read_body(request.clone(client_max_size=MOST_SAID), Said)
        channel_id, text = snowflake(request.match_info["channel"]), said.text.strip()
        upload = Upload(said.file.name, said.file.data) if said.file else None
        if not text and upload is None:
            raise Refused(400, "there is nothing to post")
        if len(text) > MOST_CHARACTERS:
            raise Refused(400, f"that is {len(text):,} characters, a message has at most {MOST_CHARACTERS:,}")
        try:
            reply_to = snowflake(said.reply_to) if said.reply_to else None
            posted = await people.say(channel_id, text, reply_to, upload)
        except NotSaid as refused:
            raise Refused(400, str(refused)) from None
        return web.json_response({"id": str(posted)})

    async def react(self, request: web.Request) -> web.Response:
        people, reacted = _people(self._parts), await read_body(request, Reacted)
        channel_id, message_id = (snowflake(request.match_info[name]) for name in ("channel", "message"))
        try:
            await people.react(channel_id, message_id, reacted.emoji, reacted.given)
        except NotSaid as refused:
            raise Refused(400, str(refused)) from None
        return web.json_response({})


async def _recorded(
    parts: ConsoleParts, query: Callable[[aiosqlite.Connection, int], Awaitable[T | None]], message_id: int
) -> T | None:
    """Ask the record about a message; None where there is no record."""
    try:
        return await query(await parts.store.open(), message_id)
    except Refused:
        return None


async def _stream(response: web.StreamResponse, reader: Reader) -> None:
    """Until the reader is ended. Raises TimeoutError where nobody reads."""
    await response.write(b"retry: 1000\n\n")
    while (chunk := await reader.next(KEEP_ALIVE)) is not None:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(chunk or b": still here\n\n")


def _bound_send_buffer(request: web.Request) -> None:
    """The kernel would otherwise keep megabytes for a page that does not read."""
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)


def _cutting(request: web.Request) -> Callable[[], None]:
    """A function that ends the connection at once, with what waits to be sent."""

    def cut() -> None:
        if request.transport is not None:
            request.transport.abort()

    return cut


def _person(people: People | None) -> dict[str, Any] | None:
    return None if people is None else {"name": people.name, "mentions": list(people.mentions())}


def _people(parts: ConsoleParts) -> People:
    if parts.people is None:
        raise Refused(403, READ_ONLY)
    return parts.people


def live_routes(parts: ConsoleParts, feed: LiveFeed) -> Iterable[web.RouteDef]:
    live = _Live(parts, feed)
    return [
        web.get("/api/live/channels", live.channels),
        web.get("/api/live/channels/{channel}", live.messages),
        web.get("/api/live/events", live.events),
        web.get("/api/live/why/{message}", live.why),
        web.get("/api/files/{message}/{file}", live.picture),
        web.post("/api/live/channels/{channel}/messages", live.say),
        web.post("/api/live/channels/{channel}/messages/{message}/reactions", live.react),
    ]
