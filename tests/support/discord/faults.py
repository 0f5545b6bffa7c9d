"""Faults of the stand-in on demand: slow answers, errors, cut connections, a gateway that repeats itself.

The tests' gateway is also stricter than local mode's: it obeys intents and permissions to view, refuses frames that
make no sense, and keeps the events of a session, which outlives its connection. A resume replays those after the
client's last number.

https://discord.com/developers/docs/events/gateway#list-of-intents
"""

from __future__ import annotations

import json
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from agentic.local.discord.gateway import HEARTBEAT, IDENTIFY, RESUME, Gateway, GatewaySocket, Session
from agentic.local.discord.world import VIEW_CHANNEL, BotApplication, Event, World


@dataclass(slots=True)
class RequestInfo:
    """A request as seen by hooks and faults. path begins after /api/v10; route is its pattern; bot is a key or None.

    status, time, and payload (the JSON body if the handler read one) are set once it is answered.
    """

    method: str
    path: str
    route: str
    bot: str | None
    headers: dict[str, str]
    status: int = 0
    time: float = 0.0
    payload: Any = None


@dataclass(slots=True)
class RestFault:
    """A fault of requests with this method ("*" for any), path (a regular expression, searched) and bot.

    status None leaves the answer unchanged (for a delay alone). times is how often it still happens, None for always.
    delay in seconds. cut drops the connection instead of answering: "before" the request is carried out (also True), or
    "after" it. late: the request is carried out, and still answered with the status.
    """

    method: str = "*"
    path: str = ""
    status: int | None = 500
    times: int | None = 1
    body: Any = None
    delay: float = 0.0
    cut: Literal["before", "after"] | bool = False
    late: bool = False
    bot: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    hits: int = 0


Hook = Callable[[RequestInfo], "web.Response | Awaitable[web.Response | None] | None"]


@dataclass(slots=True)
class Faults:
    """The faults that are active.

    rest_delay (seconds) delays every REST answer, half of it before the request is carried out. rules are tried in
    order; on_request may answer requests that fit none of them. duplicate_events sends each event twice. replayed is
    how many events that a client has received already each resume sends again. close_gateway is the code with which
    each new gateway connection is closed immediately. cut_resumes cuts each connection that would resume a session,
    without an answer. altered replaces the first events of a session (READY,
    GUILD_CREATE) by name.
    """

    rest_delay: float = 0.0
    on_request: Hook | None = None
    rules: list[RestFault] = field(default_factory=list)
    duplicate_events: bool = False
    replayed: int = 0
    close_gateway: int | None = None
    cut_resumes: bool = False
    altered: dict[str, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)

    def add(self, fault: RestFault) -> RestFault:
        self.rules.append(fault)
        return fault

    def take(self, info: RequestInfo) -> RestFault | None:
        """Find the first rule that fits, and count its use."""
        for fault in self.rules:
            method, bot = fault.method in ("*", info.method), fault.bot in (None, info.bot)
            if fault.times != 0 and method and bot and re.search(fault.path, info.path):
                fault.hits += 1
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def clear(self) -> None:
        self.rest_delay, self.on_request, self.duplicate_events, self.replayed = 0.0, None, False, 0
        self.close_gateway, self.cut_resumes = None, False
        self.altered.clear()
        self.rules.clear()


GUILDS, GUILD_MEMBERS, GUILD_MODERATION, GUILD_WEBHOOKS = 1 << 0, 1 << 1, 1 << 2, 1 << 5
GUILD_MESSAGES, GUILD_REACTIONS, GUILD_TYPING = 1 << 9, 1 << 10, 1 << 11
DIRECT_MESSAGES, DIRECT_REACTIONS, DIRECT_TYPING = 1 << 12, 1 << 13, 1 << 14
MESSAGE_CONTENT = 1 << 15

_INTENTS = (  # (beginning of the event's name, intent in a guild, intent in a DM); the first that fits counts
    ("MESSAGE_REACTION_", GUILD_REACTIONS, DIRECT_REACTIONS),
    ("MESSAGE_", GUILD_MESSAGES, DIRECT_MESSAGES),
    ("TYPING_START", GUILD_TYPING, DIRECT_TYPING),
    ("CHANNEL_PINS_UPDATE", GUILDS, DIRECT_MESSAGES),
    ("GUILD_MEMBER_", GUILD_MEMBERS, 0),
    ("THREAD_MEMBERS_UPDATE", GUILD_MEMBERS, 0),  # about others than the bot itself
    ("GUILD_BAN_", GUILD_MODERATION, 0),
    ("WEBHOOKS_UPDATE", GUILD_WEBHOOKS, 0),
    ("INTERACTION_CREATE", 0, 0),
    ("", GUILDS, 0),
)
_FOR_ALL_MEMBERS = ("GUILD_", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "WEBHOOKS_UPDATE")

PRESENCE, RECONNECT, REQUEST_MEMBERS = 3, 7, 8
DECODE_ERROR, NOT_AUTHENTICATED, DISALLOWED_INTENTS = 4002, 4003, 4014
_MAX_SESSIONS = 64
_MAX_EVENTS = 2000  # of a session


@dataclass(eq=False)
class KeptSession(Session):
    """A session that can be resumed. intents are those that the bot asked for."""

    intents: int = 0
    _kept: deque[tuple[int, str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_EVENTS))
    """Number, name, and data, which sessions share."""

    def send(self, name: str, data_json: str) -> None:
        super().send(name, data_json)
        self._kept.append((self.seq, name, data_json))

    def can_resume_from(self, seq: int) -> bool:
        first_kept = self._kept[0][0] if self._kept else self.seq + 1
        return first_kept - 1 <= seq <= self.seq

    def resume(self, connection: GatewaySocket, seq: int) -> None:
        """Continue over a new connection: replay the events after seq, then send RESUMED."""
        self.connection = connection
        for number, name, data_json in self._kept:
            if number > seq:
                connection.send(f'{{"t":"{name}","s":{number},"op":0,"d":{data_json}}}')
        self.send("RESUMED", '{"_trace":["stand-in"]}')


class FaultyGateway(Gateway):
    """`presences` are the bots' by key, as they sent them."""

    def __init__(self, world: World, faults: Faults) -> None:
        super().__init__(world)
        self._faults = faults
        self.presences: dict[str, dict[str, Any]] = {}

    def publish(self, event: Event) -> None:
        super().publish(event)
        if self._faults.duplicate_events:
            super().publish(event)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        if self._faults.close_gateway is None:
            return await super().serve(request)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.close(code=self._faults.close_gateway)
        return ws

    async def _on_frame(self, connection: GatewaySocket, text: str) -> None:
        frame = _parse_frame(text)
        if frame is None:
            await connection.close(DECODE_ERROR, "Error while decoding payload.")
        elif connection.session is None and frame["op"] not in (HEARTBEAT, IDENTIFY, RESUME):
            await connection.close(NOT_AUTHENTICATED, "Not authenticated.")
        elif self._faults.cut_resumes and frame["op"] == RESUME:
            connection.abort()
        else:
            await super()._on_frame(connection, text)
            if connection.session is not None and frame["op"] == PRESENCE:
                self.presences[connection.session.app.key] = frame["d"]

    async def _identify(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        app = self._world.app_by_token(str(data.get("token", "")))
        if app is not None and int(data.get("intents", 0)) & MESSAGE_CONTENT and not app.message_content:
            await connection.close(DISALLOWED_INTENTS, "Disallowed intent(s).")
            return
        await super()._identify(connection, data)
        if connection.session is not None and "presence" in data:
            self.presences[connection.session.app.key] = data["presence"]

    def _new_session(self, app: BotApplication, connection: GatewaySocket, data: dict[str, Any]) -> KeptSession:
        stale = [session.id for session in self.sessions.values() if session.connection is None]
        for session_id in stale[: max(0, len(self.sessions) + 1 - _MAX_SESSIONS)]:
            del self.sessions[session_id]
        return KeptSession(secrets.token_hex(16), app, connection, intents=int(data.get("intents", 0)))

    def _leave(self, session: Session, connection: GatewaySocket) -> None:
        if session.connection is connection:
            session.connection = None

    def _is_for(self, session: Session, event: Event) -> bool:
        """Whether the event is for this bot: intents, membership, and permission to view the channel."""
        assert isinstance(session, KeptSession)
        me, channel = session.app.user.id, event.channel
        guild_intent, direct_intent = next(bits for start, *bits in _INTENTS if event.name.startswith(start))
        needed = direct_intent if event.guild_id is None else guild_intent
        if event.only is None and needed and not needed & session.intents:
            return False
        if event.only is None and channel is not None and not event.name.startswith(_FOR_ALL_MEMBERS):
            return bool(self._world.permissions_of(me, channel) & VIEW_CHANNEL)
        return super()._is_for(session, event)

    def _first_events(self, session: Session) -> Iterator[tuple[str, dict[str, Any]]]:
        assert isinstance(session, KeptSession)
        for name, body in super()._first_events(session):
            if name == "READY" or session.intents & GUILDS:
                yield name, self._faults.altered.get(name, dict)(body)

    def _resume(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        session = self.sessions.get(str(data.get("session_id")))
        seq = max(0, int(data.get("seq") or 0) - self._faults.replayed)
        if (
            not isinstance(session, KeptSession)
            or session.app.token != data.get("token")
            or not session.can_resume_from(seq)
        ):
            super()._resume(connection, data)
        else:
            if session.connection is not None:
                session.connection.abort()
            connection.session = session
            session.resume(connection, seq)


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
