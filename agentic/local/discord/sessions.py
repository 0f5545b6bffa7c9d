"""Gateway sessions: a bot's events, numbered and kept for a resume, and the connection that they are sent over.

A session outlives its connection. Meanwhile its events are kept; a resume replays those after the client's last number.
"""

import asyncio
import json
import zlib
from collections import deque
from typing import Any

from aiohttp import web

from agentic.local.discord import permissions
from agentic.local.discord.backend import Backend
from agentic.local.discord.events import Event
from agentic.local.discord.world import BotApplication

HEARTBEAT, IDENTIFY, PRESENCE, RESUME, RECONNECT = 1, 2, 3, 6, 7
REQUEST_MEMBERS, INVALID_SESSION, HELLO, HEARTBEAT_ACK = 8, 9, 10, 11

_KEPT_EVENTS = 2000


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
                await self._send_now(self._outbox.popleft())

    async def _send_now(self, text: str) -> None:
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


class Session:
    """The events of an identified bot. intents are those that it asked for."""

    def __init__(self, session_id: str, app: BotApplication, intents: int, connection: GatewaySocket) -> None:
        self.id = session_id
        self.app = app
        self.intents = intents
        self.connection: GatewaySocket | None = connection
        self._seq = 0
        self._kept: deque[tuple[int, str, str]] = deque(maxlen=_KEPT_EVENTS)  # number, name, data that sessions share

    def wants(self, backend: Backend, event: Event) -> bool:
        """Whether the event is for this bot: intents, membership, and permission to view the channel."""
        me = self.app.user.id
        if event.only is not None:
            return event.only == me
        if event.intent and not event.intent & self.intents:
            return False
        if event.guild_id is None:
            return event.channel is not None and me in event.channel.recipients
        if event.needs_view and event.channel is not None:
            return permissions.may_view(backend.world, me, event.channel)
        return me in backend.world.guilds[event.guild_id].members

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
