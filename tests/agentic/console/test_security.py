"""The console's door: names, origins, tokens, guesses, sizes. The browser tests have what runs in a page."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import logging
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from support.console import NOWHERE, console_client, console_parts, csrf

from agent_config import SettingsError, load_settings
from agentic.console.app import MAX_BYTES, console_app, free_port, serve_app
from agentic.console.security import COOKIE, CSP, HEADERS, MAX_ADDRESSES, SESSION_SECONDS, LoginThrottle
from agentic.net.http_server import Connections
from agentic.wire.connection import RedisConnection

ANYWHERE = "0.0.0.0"  # noqa: S104 - an address of the settings
TOKEN = "a-token-of-24-characters"
WITH_TOKEN = {"CONSOLE_TOKEN": TOKEN}


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def sign_in(client: TestClient[Any, Any], token: str = TOKEN) -> int:
    return (await client.post("/api/login", json={"token": token})).status


# --- every response -------------------------------------------------------------------------------------------------


@pytest.mark.promise(141)
@pytest.mark.parametrize("path", ["/js/main.js", "/app.css", "/api/me", "/api/nothing", "/nothing", "/api/login"])
async def test_every_response_has_the_security_headers_and_hides_the_server(path: str) -> None:
    async with console_client() as client:
        response = await client.get(path)
        for name, value in HEADERS.items():
            assert response.headers.getall(name) == [value], name
        assert response.headers["Cache-Control"] == (
            "no-store" if response.status != 200 or "api" in path else "no-cache"
        )


@pytest.mark.promise(142)
@pytest.mark.parametrize(
    "path",
    [
        "/../../.env",
        "/js/../../app.py",
        "/%2e%2e/app.py",
        "/..%2f..%2f.env",
        "/js/%2e%2e/%2e%2e/security.py",
        "//etc/passwd",
        "/app.css%00.py",
        "/index.html/../../app.py",
        "/C:\\.env",
    ],
)
async def test_no_address_leads_out_of_the_folder_of_the_page(path: str) -> None:
    async with console_client() as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port or 0)  # sends the path as it is

        def ask() -> tuple[int, bytes]:
            connection.putrequest("GET", path)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read()

        status, body = await asyncio.to_thread(ask)
        connection.close()
        assert status in (400, 404)
        assert b"import" not in body


# --- names and origins ----------------------------------------------------------------------------------------------


@pytest.mark.promise(139)
@pytest.mark.parametrize(
    ("host", "environ", "status"),
    [
        ("127.0.0.1:8888", {}, 200),
        ("localhost:9999", {}, 200),  # an SSH tunnel has a port of its own
        ("[::1]:8888", {}, 200),
        ("LOCALHOST", {}, 200),
        ("evil.example:8888", {}, 403),
        ("localhost.evil.example", {}, 403),
        ("127.0.0.1.evil.example", {}, 403),
        ("192.168.1.5:8888", {}, 403),
        ("user@localhost", {}, 403),
        ("localhost:99999999", {}, 403),
        ("", {}, 403),
        ("bots.example.org", {"CONSOLE_URL": "https://bots.example.org"}, 200),
        ("evil.example", {"CONSOLE_URL": "https://bots.example.org"}, 403),
        ("192.168.1.5:8888", {"CONSOLE_HOST": ANYWHERE, **WITH_TOKEN}, 200),
        ("evil.example", {"CONSOLE_HOST": ANYWHERE, **WITH_TOKEN}, 403),
    ],
)
async def test_a_name_that_is_not_the_consoles_is_refused(host: str, environ: Mapping[str, str], status: int) -> None:
    """A page elsewhere may have a name that leads to this machine: DNS rebinding."""
    async with console_client(environ) as client:
        assert (await client.get("/", headers={"Host": host})).status == status


@pytest.mark.promise(139)
@pytest.mark.parametrize(
    ("headers", "environ", "status"),
    [
        ({}, {}, 200),
        ({"Origin": "http://localhost:8888"}, {}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, {}, 200),
        ({"Sec-Fetch-Site": "none"}, {}, 200),
        ({"Origin": "http://evil.example"}, {}, 403),
        ({"Origin": "http://localhost:8889"}, {}, 403),
        ({"Origin": "null"}, {}, 403),
        ({"Origin": "file://localhost:8888"}, {}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, {}, 403),
        ({"Sec-Fetch-Site": "same-site"}, {}, 403),
        ({"Origin": "https://bots.example.org"}, {"CONSOLE_URL": "https://bots.example.org"}, 200),
        ({"Origin": "http://bots.example.org"}, {"CONSOLE_URL": "https://bots.example.org"}, 403),
    ],
)
async def test_a_request_that_another_page_caused_is_refused(
    headers: dict[str, str], environ: Mapping[str, str], status: int
) -> None:
    async with console_client(environ) as client:
        assert (await client.get("/api/me", headers={"Host": "localhost:8888", **headers})).status == status


@pytest.mark.promise(139)
async def test_an_action_needs_the_sessions_own_token_on_loopback_too() -> None:
    async with console_client() as client:
        assert (await client.post("/api/logout")).status == 403
        assert (await client.post("/api/logout", headers={"X-CSRF-Token": "x" * 32})).status == 403
        assert (await client.post("/api/logout", headers=await csrf(client))).status == 200


# --- tokens ---------------------------------------------------------------------------------------------------------


@pytest.mark.promise(140)
@pytest.mark.parametrize("path", ["/api/me", "/%61pi/me", "/api/turns?agent=claude", "/metrics"])
async def test_without_signing_in_nothing_but_the_page_itself_is_shown(path: str) -> None:
    async with console_client(WITH_TOKEN) as client:
        response = await client.get(path)
        assert (response.status, await response.json()) == (401, {"error": "Sign in first."})
        assert (await client.get("/")).status == 200


async def test_a_person_signs_in_and_out() -> None:
    async with console_client(WITH_TOKEN) as client:
        assert await sign_in(client, "wrong") == 401
        assert await sign_in(client) == 200
        token = await csrf(client)
        (cookie,) = client.session.cookie_jar
        assert (cookie["httponly"], cookie["samesite"], cookie["secure"]) == (True, "Strict", "")
        assert (await client.post("/api/logout", headers=token)).status == 200
        client.session.cookie_jar.update_cookies({COOKIE: cookie.value})  # somebody kept it
        assert (await client.get("/api/me")).status == 401


async def test_the_cookie_stays_on_https_where_the_console_is_reached_by_it() -> None:
    async with console_client({**WITH_TOKEN, "CONSOLE_URL": "https://bots.example.org"}) as client:
        response = await client.post("/api/login", json={"token": TOKEN})
        assert response.cookies[COOKIE]["secure"] is True


async def test_a_session_ends_after_a_week() -> None:
    clock = Clock()
    async with console_client(WITH_TOKEN, monotonic=clock) as client:
        await sign_in(client)
        clock.now += SESSION_SECONDS - 1
        assert (await client.get("/api/me")).status == 200
        clock.now += 1
        assert (await client.get("/api/me")).status == 401


async def test_a_script_shows_the_token_in_a_header_and_needs_no_other() -> None:
    async with console_client(WITH_TOKEN) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/api/me", headers=headers)).status == 200
        assert (await client.post("/api/logout", headers=headers)).status == 200
        assert (await client.get("/api/me", headers={"Authorization": f"Bearer {TOKEN}x"})).status == 401
        assert (await client.get("/api/me", headers={"Authorization": "Basic eDp5"})).status == 401


@pytest.mark.promise(140)
async def test_guesses_are_slowed_down_and_said_in_the_log_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with console_client(WITH_TOKEN, monotonic=clock) as client:
        with caplog.at_level(logging.WARNING):
            assert [await sign_in(client, f"guess-{n}") for n in range(7)] == [401] * 5 + [429] * 2
        clock.now += 11
        assert await sign_in(client, "guess") == 401
    assert "127.0.0.1" in caplog.text
    assert "guess" not in caplog.text


@pytest.mark.promise(140)
@pytest.mark.parametrize("guesses", [0, 4, 5, 6, 40])
async def test_wrong_tokens_never_lock_out_the_right_one(guesses: int) -> None:
    async with console_client(WITH_TOKEN) as client:
        for number in range(guesses):
            assert await sign_in(client, f"guess-{number}") in (401, 429)
        for path in ("/api/me", "/metrics"):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            assert (await client.get(path, headers=headers)).status in (200, 404)
        assert await sign_in(client) == 200
        assert (await client.get("/api/me")).status == 200


@pytest.mark.promise(140)
def test_many_addresses_guess_no_faster_and_do_not_lock_out_this_machine() -> None:
    clock = Clock()
    throttle = LoginThrottle(clock)
    tried = 0
    for n in range(3 * MAX_ADDRESSES):
        address = f"2001:db8:{n:x}::{n % 7 + 1:x}"
        if not throttle.wait(address):
            tried += 1
            throttle.wrong(address)
    assert tried == 20
    assert len(throttle._each) <= MAX_ADDRESSES
    assert throttle.wait("127.0.0.1") == throttle.wait("::1") == 0
    clock.now += 3600
    assert throttle.wait("2001:db8:1::1") == 0


def test_the_addresses_of_one_network_are_one_guesser() -> None:
    throttle = LoginThrottle(Clock())
    for n in range(5):
        throttle.wrong(f"2001:db8::{n + 1:x}")
    assert throttle.wait("2001:db8::ffff") > 0
    assert throttle.wait("2001:db8:0:1::1") == 0


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.promise(142)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"token": "' + b"x" * MAX_BYTES + b'"}', 413),
        (b'{"token": "' + b"x" * 2_000 + b'"}', 400),
        (b'{"token": 1e999}', 400),
        (b'{"token": ["x"]}', 400),
        (b'{"token": "\xff"}', 400),
        (b"[" * 60_000, 400),
        (b"null", 400),
        (b"", 400),
    ],
)
async def test_a_huge_or_odd_value_is_refused_in_one_line(body: bytes, status: int) -> None:
    async with console_client(WITH_TOKEN) as client:
        response = await client.post("/api/login", data=body, headers={"Content-Type": "application/json"})
        assert response.status == status
        (line,) = (await response.json()).values()
        assert "\n" not in line
        assert len(line) < 100


@pytest.mark.promise(139)
async def test_a_form_of_another_page_cannot_be_read_as_json() -> None:
    async with console_client(WITH_TOKEN) as client:
        response = await client.post("/api/login", data='{"token": "x"}', headers={"Content-Type": "text/plain"})
        assert response.status == 415


@pytest.mark.promise(142)
@pytest.mark.parametrize(
    ("failure", "status", "line"),
    [
        (RuntimeError("/srv/bots/.env"), 500, "Something went wrong. The log says why."),
        (sqlite3.DatabaseError("/srv/bots/.env"), 503, "The history can't be read now. The log says why."),
    ],
)
async def test_a_failure_shows_nothing_of_the_inside(
    failure: Exception, status: int, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with RedisConnection(NOWHERE) as link:
        app = console_app(console_parts(link))

        async def fails(_: web.Request) -> web.Response:
            raise failure

        app.router.add_get("/api/fails", fails)
        async with TestClient(TestServer(app)) as client:
            response = await client.get("/api/fails")
            assert (response.status, await response.json()) == (status, {"error": line})
    assert "/srv/bots/.env" in caplog.text


# --- the start ------------------------------------------------------------------------------------------------------


@pytest.mark.promise(140)
@pytest.mark.parametrize("host", [ANYWHERE, "::", "192.168.1.5", "bots.example.org"])
def test_beyond_this_machine_it_does_not_start_without_a_token(host: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings({"CONSOLE": "true", "CONSOLE_HOST": host}, None)
    assert raised.value.problems == [
        "CONSOLE_HOST: expected CONSOLE_TOKEN, too: other machines can reach that address (127.0.0.1 needs none)"
    ]
    assert load_settings({"CONSOLE": "true", "CONSOLE_HOST": host, **WITH_TOKEN}, None).console_is_public
    assert not load_settings({"CONSOLE_HOST": host}, None).console


@pytest.mark.parametrize("token", ["short", "two words of a token", "x" * 15])
def test_a_short_token_or_several_words_are_refused(token: str) -> None:
    with pytest.raises(SettingsError, match="CONSOLE_TOKEN: expected one word"):
        load_settings({"CONSOLE_TOKEN": token}, None)


@pytest.mark.parametrize(
    ("environ", "link"),
    [
        ({}, None),
        ({"CONSOLE": "true"}, "http://127.0.0.1:8888"),
        ({"CONSOLE": "on", "CONSOLE_HOST": "::1", "CONSOLE_PORT": "9000"}, "http://[::1]:9000"),
        ({"CONSOLE": "true", "CONSOLE_HOST": ANYWHERE, **WITH_TOKEN}, "http://127.0.0.1:8888"),
        ({"CONSOLE": "true", "CONSOLE_URL": "https://bots.example.org/console/"}, "https://bots.example.org/console"),
    ],
)
def test_links_lead_to_where_a_browser_reaches_it(environ: Mapping[str, str], link: str | None) -> None:
    assert load_settings(environ, None).console_link == link


async def test_a_page_may_run_its_own_scripts_as_it_is_served_and_no_other() -> None:
    async with RedisConnection(NOWHERE) as link:
        port = str(free_port("127.0.0.1", 8890))
        parts = console_parts(link, {"CONSOLE_PORT": port})
        async with serve_app(console_app(parts), parts.settings, Connections()) as served:
            assert served
            async with ClientSession() as client, client.get(f"http://127.0.0.1:{port}/") as response:
                headers, page = response.headers, await response.text()
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = CSP.replace("script-src 'self'", f"script-src 'self' 'sha256-{digest}'")
    assert {name: headers.getall(name) for name in HEADERS} == {
        name: [value] for name, value in {**HEADERS, "Content-Security-Policy": policy}.items()
    }


@pytest.mark.promise(143)
async def test_a_port_in_use_is_one_warning_and_local_mode_takes_the_next(caplog: pytest.LogCaptureFixture) -> None:
    async with console_client() as other:
        port = str(other.port)
        async with RedisConnection(NOWHERE) as link:
            parts = console_parts(link, {"CONSOLE_PORT": port})
            async with serve_app(console_app(parts), parts.settings, Connections()) as served:
                assert not served
        assert [line.getMessage() for line in caplog.records] == [
            f"CONSOLE_PORT {port} is in use by another program, so the console is off; choose another port"
        ]
        assert free_port("127.0.0.1", int(port)) > int(port)
