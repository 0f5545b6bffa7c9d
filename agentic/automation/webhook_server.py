"""Webhook events from outside: POST /events/{agent}, if EVENTS_PORT is set, for build results, alerts, feeds.

    {"channel_id": 123, "name": "build", "text": "main is red"}        a JSON object, 32 KiB at most
    X-Timestamp: 1800000000                                            unix seconds, five minutes from now at most
    X-Signature: v2=<HMAC-SHA256 of "v2:timestamp:POST:/events/agent:body", in hex>   by EVENTS_SECRET

The signature covers the agent, so that a request to one cannot be sent to another. Before it is checked, nothing in a
request is trusted and nothing about this program is revealed. A request is taken once; its text is data in the prompt.

    202 taken   400 no such object   401 not signed, or too old   404 no such agent or channel   408 too slow
    409 taken before   413 too long   429 too many events wait: send it again   503 not here, not now
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentic.net.http_server import Connections, is_same_secret, read_body, serve_if_free
from agentic.state.posts import ReplayGuard

MAX_BYTES = 32_768
GOOD_FOR = 300.0  # seconds that a timestamp may be off, either way
LOG_EVERY = 60.0  # seconds between two log lines about refused requests
PATH = "/events/{agent}"
OLD_SCHEME = "signed by the old scheme (sha256=): sign method, path and agent too (v2=), as docs/automation.md shows"

Outcome = Literal["taken", "known", "full", "no_channel", "standby"]
_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_ANSWERS: dict[Outcome, tuple[int, str]] = {
    "taken": (202, "taken"),
    "known": (409, "taken before"),
    "full": (429, "too many events wait, send it again in a minute"),
    "no_channel": (404, "no such agent or channel"),
    "standby": (503, "not here, not now"),
}

log = logging.getLogger(__name__)


class WebhookPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    channel_id: int = Field(gt=0, lt=2**63)
    name: str = Field(min_length=1, max_length=100)
    text: str = Field(min_length=1, max_length=8_000)


Receive = Callable[[str, WebhookPayload], Awaitable[Outcome]]  # with an id, made from the signature


def sign(secret: str, timestamp: str, agent: str, body: bytes) -> str:
    signed = f"v2:{timestamp}:POST:{PATH.format(agent=agent)}:".encode() + body
    return "v2=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


class WebhookServer:
    """Serves the requests. `receiver` returns what takes an agent's events, or None if the agent doesn't run here."""

    def __init__(
        self, secret: str, receiver: Callable[[str], Receive | None], replays: ReplayGuard, clock: Callable[[], float]
    ) -> None:
        self._secret, self._receiver, self._replays, self._clock = secret, receiver, replays, clock
        self._logged_at, self._unlogged = -math.inf, 0  # of refused requests

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BYTES)
        app.router.add_post(PATH, self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            status, text = await self._judge(request, await read_body(request))
        except web.HTTPRequestEntityTooLarge:
            status, text = 413, "too long"
        except web.HTTPRequestTimeout as error:
            status, text = error.status, error.text or error.reason
        if status in (401, 408, 413):
            self._log_refusal(text)
        return web.json_response({"status": text}, status=status)

    def _log_refusal(self, reason: str) -> None:
        """Log refused requests at most once a minute: anyone who finds the port can send them."""
        now = self._clock()
        if abs(now - self._logged_at) < LOG_EVERY:
            self._unlogged += 1
            return
        before = f" ({self._unlogged} more were refused before it)" if self._unlogged else ""
        log.warning("refused a webhook request: %s%s", reason, before)
        self._logged_at, self._unlogged = now, 0

    async def _judge(self, request: web.Request, body: bytes) -> tuple[int, str]:
        agent, signature = request.match_info["agent"], request.headers.get("X-Signature", "")
        if (refused := self._refused(agent, signature, request.headers.get("X-Timestamp", ""), body)) is not None:
            return 401, refused
        # The request is signed: its sender may know what is wrong with it, but not what a field contains.
        try:
            said = WebhookPayload.model_validate_json(body)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            fields = sorted({str(one["loc"][0]) for one in errors if one["loc"]})
            return 400, f"cannot be read: {', '.join(fields) or 'it is no JSON object'}"
        if (receive := self._receiver(agent)) is None:
            return _ANSWERS["no_channel"]
        digest = hashlib.sha256(signature.encode()).hexdigest()[:32]
        if not await self._replays.first(digest, 2 * GOOD_FOR):
            return _ANSWERS["known"]
        outcome = await receive(f"event-{digest}", said)
        if outcome not in ("taken", "known"):
            await self._replays.forget(digest)  # it may be sent again as it is
        log.info("%s: event %.100r for channel %d: %s", agent, said.name, said.channel_id, outcome)
        return _ANSWERS[outcome]

    def _refused(self, agent: str, signature: str, timestamp: str, body: bytes) -> str | None:
        """Return the reason for refusing a signature; None if it is right."""
        if _TIMESTAMP.fullmatch(timestamp) and abs(self._clock() - int(timestamp)) <= GOOD_FOR:
            if is_same_secret(sign(self._secret, timestamp, agent, body), signature):
                return None
            # The first scheme, which left the agent out: refused, with a hint for its senders.
            signed = timestamp.encode() + b"." + body
            old = "sha256=" + hmac.new(self._secret.encode(), signed, hashlib.sha256).hexdigest()
            if is_same_secret(old, signature):
                return OLD_SCHEME
        return "not signed, or too old"


@asynccontextmanager
async def serve_webhooks(server: WebhookServer, host: str, port: int, connections: Connections) -> AsyncIterator[None]:
    """Serve on the port while entered."""
    about = {"setting": "EVENTS_PORT", "consequence": "webhook events are not taken"}
    async with serve_if_free(server.app(), host, port, connections, **about) as is_served:
        if is_served:
            log.info("webhook events are taken at http://%s:%d/events/", host, port)
        yield
