"""Serves the Live page: channels, messages, pictures, the stream of events, and in local mode a person's messages."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from typing import TypeVar

import aiosqlite
from aiohttp import web
from pydantic import Base64Bytes, BaseModel, Field

from agentic.console.api.live_feed import LiveFeed, TooManyReaders
from agentic.console.json_values import add_names, message_json, turn_json
from agentic.console.parts import PICTURE_TYPES, ConsoleContext, People, Upload
from agentic.console.requests import Refused, query_id, query_text, read_body, snowflake
from agentic.policies import POLICY_TEXTS
from agentic.record.queries.posts import conversation_of, picture_of
from agentic.record.queries.turns import turn_of_message

PAGE = 100  # messages
KEEP_ALIVE = 15.0  # seconds between two keep-alive comments
WRITE_SECONDS = 30.0  # for a reader to accept data
SEND_BUFFER = 65_536  # bytes; the kernel would otherwise buffer megabytes for a page that doesn't read
MAX_FILE = 8_000_000  # bytes of a file that a person attaches
MAX_BODY = MAX_FILE * 4 // 3 + 20_000  # bytes of the request with the file
MAX_CHARACTERS = 2000  # of a message, as in Discord
READ_ONLY = "This page is read-only. Write in Discord to join the conversation."

T = TypeVar("T")
K = TypeVar("K", int, str)


class AttachedFile(BaseModel):
    name: str = Field(min_length=1, max_length=200)
    data: Base64Bytes


class MessageRequest(BaseModel):
    text: str = ""
    reply_to: str | None = None
    file: AttachedFile | None = None


class CommandRequest(BaseModel):
    line: str = Field(max_length=MAX_CHARACTERS, pattern=r"^/\S")


class FormRequest(BaseModel):
    values: list[list[str]]


class ReactionRequest(BaseModel):
    emoji: str
    given: bool = True


class VoteRequest(BaseModel):
    answer: str
    given: bool = True


def reading_routes(parts: ConsoleContext, feed: LiveFeed) -> web.RouteTableDef:
    table = web.RouteTableDef()

    async def ask_record(query: Callable[[aiosqlite.Connection, K], Awaitable[T | None]], key: K) -> T | None:
        with suppress(Refused):  # nothing is recorded
            return await query(await parts.store.open(), key)
        return None

    @table.get("/api/live/channels")
    async def list_channels(_: web.Request) -> web.Response:
        cursor = feed.hub.cursor  # before reading: an event may come twice, but none is missed
        people = parts.people
        person = people and {
            "name": people.name,
            "mentions": list(people.mentions()),
            "commands": [{"name": name, "about": about} for name, about in people.commands()],
        }
        return web.json_response(
            {
                "items": [channel.to_json() for channel in parts.live.channels()],
                "next": None,
                "cursor": cursor,
                "situation": feed.situation(),
                "person": person,
                "read_only": None if people is not None else READ_ONLY,
                "most_rounds": parts.settings.max_rounds,
            }
        )

    @table.get("/api/live/channels/{channel}")
    async def list_messages(request: web.Request) -> web.Response:
        """Show messages of a channel. `first` is the first channel, for a page that doesn't know its id yet."""
        name, before = request.match_info["channel"], query_id(request, "before")
        cursor = feed.hub.cursor
        if name == "first":
            name = next((str(channel.id) for channel in parts.live.channels()), "")
            if not name:
                return web.json_response({"items": [], "next": None, "cursor": cursor, "channel": None})
        channel_id = snowflake(name)
        found = parts.live.messages(channel_id, PAGE + 1, before)
        if found is None:
            raise Refused(404, "None of the bots here can see this channel.")
        page = found[-PAGE:]
        more = str(page[0].id) if len(found) > PAGE else None
        items = [message_json(parts, channel_id, entry) for entry in page]
        return web.json_response({"items": items, "next": more, "cursor": cursor, "channel": name})

    @table.get("/api/live/events")
    async def stream_events(request: web.Request) -> web.StreamResponse:
        return await _stream(feed, request)

    @table.get("/api/files/{message}/{file}")
    async def show_picture(request: web.Request) -> web.Response:
        message_id, file_id = (snowflake(request.match_info[name]) for name in ("message", "file"))
        found = await parts.live.picture(message_id, file_id) or await ask_record(picture_of, message_id)
        if found is None or found.media_type not in PICTURE_TYPES:
            raise Refused(404, "This picture is no longer available.")
        return web.Response(body=found.data, headers={"Content-Type": found.media_type})

    @table.get("/api/live/why/{message}")
    async def find_turn_of_message(request: web.Request) -> web.Response:
        """Show the turn that posted a message, and why the agent had it: `policy` and, if it was chosen by scores,
        `scores`. `has_page`: whether the turn has a page of its own."""
        message_id = snowflake(request.match_info["message"])
        turn = await parts.state.turns.records.of_message(message_id, parts.names)
        turn = turn or await ask_record(turn_of_message, message_id)
        if turn is None:
            raise Refused(404, "No turn is recorded for this message.")
        choice, policy = await parts.state.coordination.scores.of_turn(turn), None
        if turn.conversation_id is not None:
            talk = await ask_record(conversation_of, turn.conversation_id)
            policy = POLICY_TEXTS.get(talk.policy) if talk is not None else None
        scores = [] if choice is None else [score.model_dump(mode="json") for score in choice.pulls]
        why = {"policy": policy, "scores": scores, "has_page": parts.store.path is not None}
        shown = {**turn_json(parts, turn), **why}
        await add_names(parts, [shown])
        return web.json_response(shown)

    return table


def person_routes(parts: ConsoleContext, feed: LiveFeed) -> web.RouteTableDef:
    """Write, react, vote, and use commands, as the person of local mode."""
    table = web.RouteTableDef()

    def person() -> People:
        if parts.people is None:
            raise Refused(403, READ_ONLY)
        return parts.people

    @table.post("/api/live/channels/{channel}/messages")
    async def post_message(request: web.Request) -> web.Response:
        people = person()
        said = await read_body(request.clone(client_max_size=MAX_BODY), MessageRequest)
        channel_id, text = snowflake(request.match_info["channel"]), said.text.strip()
        upload = Upload(said.file.name, said.file.data) if said.file else None
        if not text and upload is None:
            raise Refused(400, "There is nothing to post.")
        if len(text) > MAX_CHARACTERS:
            raise Refused(400, f"That's {len(text):,} characters. A message has at most {MAX_CHARACTERS:,}.")
        reply_to = snowflake(said.reply_to) if said.reply_to else None
        return web.json_response({"id": str(await people.say(channel_id, text, reply_to, upload))})

    @table.post("/api/live/channels/{channel}/commands")
    async def use_command(request: web.Request) -> web.Response:
        people, typed = person(), await read_body(request, CommandRequest)
        return web.json_response(asdict(await people.use(snowflake(request.match_info["channel"]), typed.line)))

    @table.post("/api/live/forms/{form}")
    async def fill_in_form(request: web.Request) -> web.Response:
        people, filled = person(), await read_body(request, FormRequest)
        return web.json_response(asdict(await people.fill_in(request.match_info["form"], filled.values)))

    @table.post("/api/live/channels/{channel}/messages/{message}/reactions")
    async def react(request: web.Request) -> web.Response:
        people, reaction = person(), await read_body(request, ReactionRequest)
        channel_id, message_id = (snowflake(request.match_info[name]) for name in ("channel", "message"))
        await people.react(channel_id, message_id, reaction.emoji, reaction.given)
        return web.json_response({})

    @table.post("/api/live/channels/{channel}/messages/{message}/votes")
    async def vote(request: web.Request) -> web.Response:
        people, said = person(), await read_body(request, VoteRequest)
        channel_id, message_id = (snowflake(request.match_info[name]) for name in ("channel", "message"))
        await people.vote(channel_id, message_id, said.answer, said.given)
        feed.on_change(channel_id, message_id)  # the bots don't follow votes: they read them at the end
        return web.json_response({})

    return table


async def _stream(feed: LiveFeed, request: web.Request) -> web.StreamResponse:
    """Send events until the page is gone. Raises Refused if too many pages are open."""

    def cut() -> None:
        """Close the connection immediately and drop unsent data."""
        if request.transport is not None:
            request.transport.abort()

    after = request.headers.get("Last-Event-ID") or query_text(request, "after") or ""
    try:
        reader = feed.hub.open(after, cut, ("situation", feed.situation()), ("turns", feed.newest()))
    except TooManyReaders:
        raise Refused(503, "Too many console pages are open. Close some.", {"Retry-After": "10"}) from None
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    response = web.StreamResponse(headers=headers)
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    try:
        await response.prepare(request)
        await response.write(b"retry: 1000\n\n")
        while (chunk := await reader.next(KEEP_ALIVE)) is not None:
            async with asyncio.timeout(WRITE_SECONDS):
                await response.write(chunk or b": still here\n\n")
    except (ConnectionResetError, TimeoutError):  # the page is gone or doesn't read
        cut()
    finally:
        feed.hub.leave(reader)
    return response
