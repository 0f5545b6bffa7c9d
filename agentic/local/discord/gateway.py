"""The gateway: HELLO, IDENTIFY, then a bot's events, until one side closes.

Connections on loopback don't break, so a session ends with its connection, and a bot that resumes gets a new session.

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
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from agentic.local.discord import payloads
from agentic.local.discord.world import BotApplication, Event, Guild, World

HEARTBEAT, IDENTIFY, RESUME = 1, 2, 6
INVALID_SESSION, HELLO, HEARTBEAT_ACK = 9, 10, 11
AUTHENTICATION_FAILED = 4004

HEARTBEAT_MS = 41_250
# py-cord's heartbeat thread notes late, on a busy machine, that it sent a request. It would measure an acknowledgment
# that comes earlier from the request before, 41 s ago, and warn that it can't keep up.
ACK_SECONDS = 0.5


class Gateway:
    """All sessions of all bots. `url` is the address that bots get, even for a resume."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._connections: set[GatewaySocket] = set()
        self.url = ""
        self.sessions: dict[str, Session] = {}

    def describe(self) -> dict[str, Any]:
        """Return what a bot reads before it connects."""
        limit = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
        return {"url": self.url, "shards": 1, "session_start_limit": limit}

    def publish(self, event: Event) -> None:
        text = json.dumps(event.data, separators=(",", ":"))
        for session in self.sessions.values():
            if self._is_for(session, event):
                session.send(event.name, text)

    def _is_for(self, session: Session, event: Event) -> bool:
        me = session.app.user.id
        if event.only is not None:
            return event.only == me
        return event.guild_id is not None and me in self._world.guilds[event.guild_id].members

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
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
            if connection.session is not None:
                self._leave(connection.session, connection)
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer
        return ws

    async def _on_frame(self, connection: GatewaySocket, text: str) -> None:
        frame = json.loads(text)
        if frame["op"] == HEARTBEAT:
            asyncio.get_running_loop().call_later(ACK_SECONDS, connection.send_op, HEARTBEAT_ACK)
        elif frame["op"] == IDENTIFY:
            await self._identify(connection, frame["d"])
        elif frame["op"] == RESUME:
            self._resume(connection, frame["d"])

    async def _identify(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        app = self._world.app_by_token(str(data.get("token", "")).removeprefix("Bot "))
        if app is None:
            await connection.close(AUTHENTICATION_FAILED, "Authentication failed.")
            return
        session = connection.session = self._new_session(app, connection, data)
        self.sessions[session.id] = session
        for name, body in self._first_events(session):
            session.send(name, json.dumps(body))

    def _new_session(self, app: BotApplication, connection: GatewaySocket, data: dict[str, Any]) -> Session:
        return Session(secrets.token_hex(16), app, connection)

    def _resume(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        connection.send_op(INVALID_SESSION, False)

    def _leave(self, session: Session, connection: GatewaySocket) -> None:
        del self.sessions[session.id]

    def _first_events(self, session: Session) -> Iterator[tuple[str, dict[str, Any]]]:
        guilds = [g for g in self._world.guilds.values() if session.app.user.id in g.members]
        yield (
            "READY",
            {
                "v": 10,
                "user": payloads.user(session.app.user),
                "guilds": [{"id": str(g.id), "unavailable": True} for g in guilds],
                "session_id": session.id,
                "resume_gateway_url": self.url,
                "application": {"id": str(session.app.id), "flags": payloads.application_flags(session.app)},
                "private_channels": [],
                "shard": [0, 1],
            },
        )
        for guild in guilds:
            yield "GUILD_CREATE", self._guild_create(session, guild)

    def _guild_create(self, session: Session, guild: Guild) -> dict[str, Any]:
        """Return GUILD_CREATE, with the bot as the only member, as in Discord without the presences intent."""
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
        }

    def close(self) -> None:
        for connection in list(self._connections):
            connection.abort()


@dataclass(eq=False)
class Session:
    """The events of an identified bot; `seq` is the newest one's number."""

    id: str
    app: BotApplication
    connection: GatewaySocket | None
    seq: int = 0

    def send(self, name: str, data_json: str) -> None:
        """Number the event, and send it if there is a connection."""
        self.seq += 1
        if self.connection is not None:
            self.connection.send(f'{{"t":"{name}","s":{self.seq},"op":0,"d":{data_json}}}')


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
        """Send the outbox in order, until canceled or the websocket is closed."""
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
                    self._outbox.clear()

    async def close(self, code: int, message: str = "") -> None:
        await self._ws.close(code=code, message=message.encode())

    def abort(self) -> None:
        """Cut the connection without a close frame, like a broken network."""
        if self._request.transport is not None:
            self._request.transport.abort()
