"""The door for signed events, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from agentic.automation.webhook_server import (
    GOOD_FOR,
    LOG_EVERY,
    MAX_BYTES,
    Outcome,
    WebhookPayload,
    WebhookServer,
    serve_webhooks,
    sign,
)
from agentic.net import http_server
from agentic.net.http_server import Connections
from agentic.process.root import ROOT
from tests.support.doubles import Clock
from tests.support.ports import free_port

SHELL = shutil.which("sh")
SECRET = "a-secret-of-some-length"
NEWS = {"channel_id": 5, "name": "build", "text": "main is red"}


class Seen:
    """Requests that were taken, in memory."""

    def __init__(self) -> None:
        self.digests: set[str] = set()

    async def first(self, digest: str, _: float) -> bool:
        new = digest not in self.digests
        self.digests.add(digest)
        return new

    async def forget(self, digest: str) -> None:
        self.digests.discard(digest)


class Door:
    def __init__(self) -> None:
        self.clock, self.taken = Clock(), list[WebhookPayload]()
        self.outcome: Outcome = "taken"
        door = WebhookServer(SECRET, {"claude": self.take}.get, Seen(), self.clock)
        self.client = TestClient(TestServer(door.app()))

    async def take(self, event_id: str, news: WebhookPayload) -> Outcome:
        if self.outcome == "taken":
            self.taken.append(news)
        return self.outcome

    async def post(self, said: Any, *, agent: str = "claude", secret: str = SECRET, **headers: str) -> int:
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        stamp = headers.get("X_Timestamp", str(round(self.clock.now)))
        signed = {"X-Timestamp": stamp, "X-Signature": headers.get("X_Signature", sign(secret, stamp, agent, body))}
        async with self.client.post(f"/events/{agent}", data=body, headers=signed) as answer:
            self.text = await answer.text()
            return answer.status


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    made = Door()
    async with made.client:
        yield made


async def test_a_signed_event_is_taken_once(door: Door) -> None:
    assert await door.post(NEWS) == 202
    assert await door.post(NEWS) == 409
    (news,) = door.taken
    assert (news.channel_id, news.name, news.text) == (5, "build", "main is red")
    assert await door.post({**NEWS, "channel_id": "5"}) == 202, "an id as text, as JavaScript writes it"


@pytest.mark.promise(36)
@pytest.mark.parametrize(
    "headers",
    [
        {"secret": "another-secret-altogether"},
        {"X_Signature": ""},
        {"X_Signature": "sha256="},
        {"X_Signature": "sha1=abc"},
        {"X_Signature": "sha256=ü"},
        {"X_Timestamp": ""},
        {"X_Timestamp": "now"},
        {"X_Timestamp": "-1"},
        {"X_Timestamp": "9" * 40},
    ],
)
async def test_what_is_not_signed_is_not_taken_whatever_it_asks_for(door: Door, headers: dict[str, str]) -> None:
    assert await door.post(NEWS, **headers) == 401
    assert await door.post(b"nonsense", agent="nobody", **headers) == 401, "nor told who is here"
    assert door.taken == []
    assert SECRET not in door.text


@pytest.mark.promise(36)
async def test_a_signature_is_good_for_five_minutes_either_way(door: Door) -> None:
    for seconds, status in ((-GOOD_FOR - 1, 401), (-GOOD_FOR, 202), (GOOD_FOR, 202), (GOOD_FOR + 1, 401)):
        assert await door.post(NEWS, X_Timestamp=str(round(door.clock.now + seconds))) == status


async def test_a_signature_of_another_time_or_body_does_not_fit(door: Door) -> None:
    stamp = str(round(door.clock.now))
    other = sign(SECRET, str(round(door.clock.now) - 1), "claude", json.dumps(NEWS).encode())
    assert await door.post(NEWS, X_Timestamp=stamp, X_Signature=other) == 401
    assert await door.post({**NEWS, "text": "all is well"}, X_Signature=sign(SECRET, stamp, "claude", b"{}")) == 401


@pytest.mark.promise(36)
async def test_a_request_to_one_agent_cannot_be_sent_to_another(door: Door) -> None:
    stamp, body = str(round(door.clock.now)), json.dumps(NEWS).encode()
    assert await door.post(NEWS, X_Signature=sign(SECRET, stamp, "grok", body)) == 401
    assert door.taken == []


async def test_a_signature_of_the_first_scheme_is_refused_and_its_sender_told_what_to_do(door: Door) -> None:
    stamp, body = str(round(door.clock.now)), json.dumps(NEWS).encode()
    old = "sha256=" + hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert await door.post(NEWS, X_Signature=old) == 401
    assert "docs/automation.md" in door.text
    assert door.taken == []
    assert await door.post({**NEWS, "text": "x"}, X_Signature=old) == 401
    assert "docs/automation.md" not in door.text, "nothing is told to who does not know the secret"


@pytest.mark.skipif(not SHELL or not shutil.which("openssl"), reason="no shell or no openssl is installed")
def test_the_example_of_the_docs_makes_this_signature() -> None:
    text = (ROOT / "docs" / "automation.md").read_text(encoding="utf-8")
    example = next(part for part in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "openssl" in part)
    (line,) = (line for line in example.split("\n") if line.startswith("signature="))
    (header,) = re.findall(r"X-Signature: ([^\"]+)", example)
    assert "/events/claude" in example
    script = f'{line}\nprintf %s "{header}"'
    values = {"EVENTS_SECRET": SECRET, "time": "1800000000", "body": json.dumps(NEWS)}
    command = [str(SHELL), "-c", script]
    ran = subprocess.run(command, env={**os.environ, **values}, capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == sign(SECRET, "1800000000", "claude", json.dumps(NEWS).encode())


@pytest.mark.promise(37)
async def test_a_body_that_does_not_come_in_time_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.05)

    async def half() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with asyncio.timeout(30), door.client.post("/events/claude", data=half()) as answer:
        assert answer.status == 408
    assert not door.taken


@pytest.mark.promise(37)
async def test_refused_requests_are_logged_at_most_once_a_minute(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        await door.post(NEWS, secret="another-secret-altogether")
    assert len(caplog.records) == 1
    door.clock.now += LOG_EVERY
    await door.post(NEWS, secret="another-secret-altogether")
    assert len(caplog.records) == 2
    assert "4 more" in caplog.text


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (b"nonsense", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b"\xff", "no JSON object"),
        ({**NEWS, "channel_id": -1}, "channel_id"),
        ({**NEWS, "channel_id": None}, "channel_id"),
        ({**NEWS, "text": ""}, "text"),
        ({**NEWS, "text": "a" * 8_001}, "text"),
        ({"channel_id": 5, "text": "x"}, "name"),
    ],
)
async def test_a_signed_body_that_cannot_be_read_is_told_by_its_fields(door: Door, said: Any, named: str) -> None:
    assert await door.post(said) == 400
    assert named in door.text


@pytest.mark.promise(36)
async def test_too_long_a_body_is_refused_whatever_its_length_says(door: Door) -> None:
    body = b" " * (MAX_BYTES + 1)
    assert await door.post(body) == 413

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * 8192

    async with door.client.post("/events/claude", data=chunks()) as answer:
        assert answer.status == 413


async def test_a_body_is_taken_as_it_came_whatever_coding_it_claims(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    body = zlib.compress(b" " * 30_000_000, 9)[:MAX_BYTES]
    async with (
        serve_webhooks(WebhookServer(SECRET, {}.get, Seen(), Clock()), "127.0.0.1", port, Connections()),
        ClientSession() as client,
    ):
        for data in (b"no gzip", body):
            url, headers = f"http://127.0.0.1:{port}/events/claude", {"Content-Encoding": "gzip"}
            async with client.post(url, data=data, headers=headers) as answer:
                assert answer.status == 401
    assert "Traceback" not in caplog.text, "nobody who only knows the port fills the log"


async def test_an_unknown_agent_and_a_strange_channel_are_404(door: Door) -> None:
    assert await door.post(NEWS, agent="nobody") == 404
    door.outcome = "no_channel"
    assert await door.post(NEWS) == 404


@pytest.mark.parametrize(("outcome", "status"), [("full", 429), ("standby", 503)])
async def test_what_does_not_fit_now_may_be_sent_again_as_it_is(door: Door, outcome: Outcome, status: int) -> None:
    door.outcome = outcome
    assert await door.post(NEWS) == status
    door.outcome = "taken"
    assert await door.post(NEWS) == 202


async def test_there_is_nothing_else_behind_the_port(door: Door) -> None:
    for method, path in (("GET", "/events/claude"), ("POST", "/events"), ("GET", "/"), ("POST", "/events/a/b")):
        async with door.client.request(method, path) as answer:
            assert answer.status in (404, 405)


async def test_a_port_that_somebody_else_has_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    door = WebhookServer(SECRET, {}.get, Seen(), Clock())
    async with server, serve_webhooks(door, "127.0.0.1", port, Connections()):
        assert f"EVENTS_PORT {port} is in use by another program, so webhook events are not taken" in caplog.text


@given(st.binary(max_size=200), st.text("0123456789.", max_size=12), st.text("0123456789.", max_size=12))
def test_a_signature_belongs_to_its_time_and_body(body: bytes, stamp: str, other: str) -> None:
    """A timestamp has digits alone, so its end cannot become the body's beginning."""
    if stamp.isdecimal() and other.isdecimal():
        assert (sign(SECRET, stamp, "a", body) == sign(SECRET, other, "a", body)) == (stamp == other)
    assert sign(SECRET, stamp, "a", body) != sign(SECRET + "x", stamp, "a", body)
