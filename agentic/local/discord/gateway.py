"""The gateway: HELLO, IDENTIFY or RESUME, then a bot's events, until one side goes.

A session outlives its connection. Its events are numbered and kept meanwhile; a resume replays those after the client's
last number.

https://discord.com/developers/docs/events/gateway#connection-lifecycle
"""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from agentic.local.discord import payloads
from agentic.local.discord.world import GUILDS, MESSAGE_CONTENT, BotApplication, Event, Guild, World

HEARTBEAT, IDENTIFY, PRESENCE, RESUME, RECONNECT = 1, 2, 3, 6, 7
REQUEST_MEMBERS, INVALID_SESSION, HELLO, HEARTBEAT_ACK = 8, 9, 10, 11
DECODE_ERROR, NOT_AUTHENTICATED, AUTHENTICATION_FAILED, DISALLOWED_INTENTS = 4002, 4003, 4004, 4014

HEARTBEAT_MS = 41_250
# py-cord's heartbeat thread notes when it has sent a request only after the loop has told it so. On a busy machine that
# thread may get its turn late: an acknowledgment that comes earlier is measured from the request before, 41 s ago, and
# py-cord warns that it can't keep up.
ACK_SECONDS = 0.5
_MAX_SESSIONS = 64
_MAX_EVENTS = 2000  # of a session


class Gateway:
    """All sessions of all bots. url is the address that bots get, also for a resume."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._connections: set[GatewaySocket] = set()
        self.url = ""
        self.sessions: dict[str, Session] = {}

    def describe(self) -> dict[str, Any]:
        """What a bot reads before it connects."""
        limit = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
        return {"url": self.url, "shards": 1, "session_start_limit": limit}

    def publish(self, event: Event) -> None:
        text = json.dumps(event.data, separators=(",", ":"))
        for session in self.sessions.values():
            if session.wants(self._world, event):
                session.send(event.name, text)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve a websocket until it is closed."""
        ws = web.WebSocketResponse(max_msg_size=1 << 20)
        await ws.prepare(request)
        connection = GatewaySocket(ws, request, compressed=request.query.get("compress") == "zlib-stream")
        self._connections.add(connection)
        writer = asyncio.create_task(connection.write(), name="discord stand-in: gateway writer")
        connection.send_op(HELLO, {"heartbeat_interval": HEARTBEAT_MS, "_trace": ["stand-in"]})
        try:
            async for frame in ws:
                if frame.type is WSMsgType.TEXT:
                    await self._on_frame(connection, frame.data)
        finally:
            self._connections.discard(connection)
            if connection.session is not None and connection.session.connection is connection:
                connection.session.connection = None
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer
        return ws

    async def _on_frame(self, connection: GatewaySocket, text: str) -> None:
        frame = _parse_frame(text)
        if frame is None:
            await connection.close(DECODE_ERROR, "Error while decoding payload.")
            return
        op, data = frame["op"], frame.get("d") or {}
        if op == HEARTBEAT:
            asyncio.get_running_loop().call_later(ACK_SECONDS, connection.send_op, HEARTBEAT_ACK)
        elif op == IDENTIFY:
            await self._identify(connection, data)
        elif op == RESUME:
            self._resume(connection, data)
        elif connection.session is None:
            await connection.close(NOT_AUTHENTICATED, "Not authenticated.")

    async def _identify(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        app = self._world.app_by_token(str(data.get("token", "")).removeprefix("Bot "))
        if app is None:
            await connection.close(AUTHENTICATION_FAILED, "Authentication failed.")
            return
        intents = int(data.get("intents", 0))
        if intents & MESSAGE_CONTENT and not app.message_content:
            await connection.close(DISALLOWED_INTENTS, "Disallowed intent(s).")
            return
        session = Session(secrets.token_hex(16), app, intents, connection)
        self.sessions[session.id] = session
        stale = [s.id for s in self.sessions.values() if s.connection is None]
        for session_id in stale[: max(0, len(self.sessions) - _MAX_SESSIONS)]:
            del self.sessions[session_id]
        connection.session = session
        for name, body in self._first_events(session):
            session.send(name, json.dumps(body))

    def _first_events(self, session: Session) -> Iterator[tuple[str, dict[str, Any]]]:
        guilds = [g for g in self._world.guilds.values() if session.app.user.id in g.members]
        yield (
            "READY",
            {
                "v": 10,
                "user": payloads.own_user(session.app.user),
                "guilds": [{"id": str(g.id), "unavailable": True} for g in guilds],
                "session_id": session.id,
                "session_type": "normal",
                "resume_gateway_url": self.url,
                "application": {"id": str(session.app.id), "flags": payloads.application_flags(session.app)},
                "private_channels": [],
                "shard": [0, 1],
                "_trace": ["stand-in"],
            },
        )
        if session.intents & GUILDS:
            for guild in guilds:
                yield "GUILD_CREATE", self._guild_create(session, guild)

    def _guild_create(self, session: Session, guild: Guild) -> dict[str, Any]:
        """The only member is the bot, as with Discord without the presences intent."""
        world, me = self._world, payloads.member(guild.members[session.app.user.id])
        return {
            **payloads.guild(guild),
            "unavailable": False,
            "large": False,
            "member_count": len(guild.members),
            "joined_at": me["joined_at"],
            "members": [me],
            "channels": [payloads.channel(world, c) for c in guild.channels.values() if not c.is_thread],
            "threads": [payloads.channel(world, c) for c in guild.channels.values() if c.is_thread and not c.archived],
            "presences": [],
            "voice_states": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }

    def _resume(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        session = self.sessions.get(str(data.get("session_id")))
        seq = int(data.get("seq") or 0)
        if session is None or session.app.token != data.get("token") or not session.can_resume_from(seq):
            connection.send_op(INVALID_SESSION, False)
            return
        if session.connection is not None:
            session.connection.abort()
        connection.session = session
        session.resume(connection, seq)

    def close(self) -> None:
        for connection in list(self._connections):
            connection.abort()


def _parse_frame(text: str) -> dict[str, Any] | None:
    """The frame, or None if it is invalid: not JSON, no op, or data that should be an object and is not."""
    try:
        frame = json.loads(text)
    except ValueError:
        return None
    if not isinstance(frame, dict) or "op" not in frame:
        return None
    needs_object = frame["op"] in (IDENTIFY, RESUME, PRESENCE, REQUEST_MEMBERS)
    return None if needs_object and not isinstance(frame.get("d"), dict) else frame


@dataclass(eq=False)
class Session:
    """The events of an identified bot. intents are those that it asked for."""

    id: str
    app: BotApplication
    intents: int
    connection: GatewaySocket | None
    _seq: int = 0
    _kept: deque[tuple[int, str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_EVENTS))
    """Number, name, and data, which sessions share."""

    def wants(self, world: World, event: Event) -> bool:
        """Whether the event is for this bot: intents, membership, and permission to view the channel."""
        me = self.app.user.id
        if event.only is not None:
            return event.only == me
        if event.intent and not event.intent & self.intents:
            return False
        if event.guild_id is None:
            return event.channel is not None and me in event.channel.recipients
        if event.needs_view and event.channel is not None:
            return world.may_view(me, event.channel)
        return me in world.guilds[event.guild_id].members

    def send(self, name: str, data_json: str) -> None:
        """Number the event, keep it, and send it if there is a connection."""
        self._seq += 1
        self._kept.append((self._seq, name, data_json))
        if self.connection is not None:
            self.connection.send(_dispatch(self._seq, name, data_json))

    def can_resume_from(self, seq: int) -> bool:
        first_kept = self._kept[0][0] if self._kept else self._seq + 1
        return first_kept - 1 <= seq <= self._seq

    def resume(self, connection: GatewaySocket, seq: int) -> None:
        """Continue over a new connection: replay the events after seq, then send RESUMED."""
        self.connection = connection
        for number, name, data_json in self._kept:
            if number > seq:
                connection.send(_dispatch(number, name, data_json))
        self.send("RESUMED", '{"_trace":["stand-in"]}')


def _dispatch(number: int, name: str, data_json: str) -> str:
    return f'{{"t":"{name}","s":{number},"op":0,"d":{data_json}}}'


class GatewaySocket:
    """A websocket with its own writer, so that sending an event never waits for a slow reader."""

    def __init__(self, ws: web.WebSocketResponse, request: web.Request, compressed: bool) -> None:
        self._ws = ws
        self._request = request
        self._zlib = zlib.compressobj(1) if compressed else None
        self._outbox: deque[str] = deque()
        self._wake = asyncio.Event()
        self.session: Session | None = None

    def send(self, text: str) -> None:
        self._outbox.append(text)
        self._wake.set()

    def send_op(self, op: int, data: Any = None) -> None:
        self.send(json.dumps({"op": op, "d": data, "s": None, "t": None}))

    async def write(self) -> None:
        """Send the outbox in order, until cancelled or the websocket is closed."""
        while not self._ws.closed:
            await self._wake.wait()
            self._wake.clear()
            while self._outbox:
                text = self._outbox.popleft()
                try:
                    if self._zlib is None:
                        await self._ws.send_str(text)
                    else:
                        data = self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
                        await self._ws.send_bytes(data)
                except ConnectionError:
                    self._outbox.clear()  # the session keeps the events for a resume

    async def close(self, code: int, message: str = "") -> None:
        await self._ws.close(code=code, message=message.encode())

    def abort(self) -> None:
        """Cut the connection without a close frame, like a broken network."""
        if self._request.transport is not None:
            self._request.transport.abort()
