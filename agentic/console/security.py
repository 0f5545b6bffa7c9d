"""Checks who uses the console, and from where.

    /shared/TOKEN     needs neither: it shows one room's page, without scripts, to anyone with the link
    every response    has a strict Content-Security-Policy: no foreign scripts, styles, or pictures, and no frame; the
                      page's HTML has one script of its own, which is allowed by its hash
    every request     needs one of this console's names as its Host, so that another page can't use a name that leads
                      to this machine (DNS rebinding), and this console as its Origin
    /api and /metrics need, with CONSOLE_TOKEN, a session (a cookie from POST /api/login) or `Authorization: Bearer`
    every POST        needs the session's token in X-CSRF-Token, on loopback too; a bearer request needs none

A wrong token gets a 401, and a 429 after a few from one address, or more from all addresses together. The right token
is always accepted, because a stranger may share the owner's address (a reverse proxy). Sessions and counts are bounded
and only in memory.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import math
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from cachetools import TTLCache
from pydantic import BaseModel, Field, SecretStr

from agent_config import Settings
from agentic.console.requests import Refused, read_body
from agentic.net.addresses import client_network
from agentic.net.http_server import is_same_secret

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"  # a text can't become an element, even by mistake
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
COOKIE = "agentic_console"
CSRF = "X-CSRF-Token"
BEARER = "Bearer "
SESSION_SECONDS = 7 * 86400.0
MAX_SESSIONS = 100
MAX_WRONG_EACH, MAX_WRONG_ALL = 5, 20  # wrong tokens at once
EACH_SECONDS, ALL_SECONDS = 10.0, 3.0  # after which one more is allowed
MAX_ADDRESSES = 1_000
PROTECTED = ("/api/", "/metrics")
LOGIN = "/api/login"
SHARED = "/shared/"
CSRF_TOKEN = web.RequestKey("csrf_token", str)  # which each POST of this session sends in X-CSRF-Token

log = logging.getLogger(__name__)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    own = response.headers.get("Content-Security-Policy")
    response.headers.update(HEADERS)
    if own is not None and (request.path == "/" or request.path.startswith(SHARED)):
        response.headers["Content-Security-Policy"] = own
    response.headers.setdefault("Cache-Control", "no-store")


def hash_source(page: str, tag: str) -> str:
    """Return the policy's source for the contents of the page's one element with this tag, such as style."""
    contents = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(contents.encode()).digest()).decode()}'"


class Login(BaseModel):
    token: str = Field(max_length=1_000)


class LoginThrottle:
    """Limits wrong tokens: after MAX_WRONG_EACH from an address, one more is allowed every EACH_SECONDS. Addresses of
    this machine (an SSH tunnel, a reverse proxy) don't count toward the limit of all addresses."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._each: TTLCache[str, float] = TTLCache(MAX_ADDRESSES, MAX_WRONG_EACH * EACH_SECONDS, timer=clock)
        self._all = 0.0

    def wait(self, address: str) -> float:
        """Return the seconds until another wrong token is allowed."""
        now, key = self._clock(), client_network(address)
        waits = [self._each.get(key, 0.0) - (MAX_WRONG_EACH - 1) * EACH_SECONDS - now]
        if not _is_loopback(address):
            waits.append(self._all - (MAX_WRONG_ALL - 1) * ALL_SECONDS - now)
        return max(0.0, *waits)

    def wrong(self, address: str) -> None:
        now, key = self._clock(), client_network(address)
        self._each[key] = max(now, self._each.get(key, 0.0)) + EACH_SECONDS
        if not _is_loopback(address):
            self._all = max(now, self._all) + ALL_SECONDS


class Security:
    """Checks every request. `clock` is monotonic, in seconds."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._token: SecretStr | None = settings.console_token
        self._url = urlsplit(settings.console_url or "")
        self._names = {"localhost", settings.console_host.lower(), self._url.hostname}
        self._any_address = settings.console_is_public
        self._throttle = LoginThrottle(clock)
        self._sessions: TTLCache[str, str] = TTLCache(MAX_SESSIONS, SESSION_SECONDS, timer=clock)
        self._without_token = secrets.token_urlsafe(24)

    def routes(self) -> Iterable[web.RouteDef]:
        return [web.post(LOGIN, self._login), web.post("/api/logout", self._logout)]

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request that doesn't come from this console or has no token."""
        host = self._check_host(request)
        if request.path.startswith(PROTECTED):
            self._check_origin(request, host)
            if request.path != LOGIN:
                self._check_session(request)
        return await handler(request)

    def _check_host(self, request: web.Request) -> str:
        """Return the request's Host. Raises Refused if it isn't one of this console's."""
        hosts = request.headers.getall("Host", [])
        name = _host_name(hosts[0]) if len(hosts) == 1 else None
        is_known = name in self._names
        if name and not is_known:
            with suppress(ValueError):  # an IP address, which DNS rebinding can't use
                is_known = ip_address(name).is_loopback or self._any_address
        if name is None or not is_known:
            raise Refused(403, "The console doesn't know this address. Set CONSOLE_URL to the address that you use.")
        return hosts[0].lower()

    def _check_origin(self, request: web.Request, host: str) -> None:
        origin = request.headers.get("Origin", "").lower()
        own = {f"http://{host}", f"https://{host}"}
        if self._url.netloc:
            own.add(f"{self._url.scheme}://{self._url.netloc}".lower())
        is_from_here = "Origin" not in request.headers or origin in own
        if not is_from_here or request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Refused(403, "This request came from another page.")

    def _check_session(self, request: web.Request) -> None:
        """Find the session, and check that a POST comes from it. Raises Refused."""
        given = request.headers.get("Authorization", "")
        if given.startswith(BEARER) and self._token is not None:
            self._check_token(request, given.removeprefix(BEARER))
            request[CSRF_TOKEN] = ""
            return
        csrf = self._without_token if self._token is None else self._sessions.get(request.cookies.get(COOKIE, ""))
        if csrf is None:
            raise Refused(401, "Sign in first.", {"WWW-Authenticate": "Bearer"})
        if request.method not in ("GET", "HEAD") and not is_same_secret(csrf, request.headers.get(CSRF, "")):
            raise Refused(403, "This page is out of date. Reload it.")
        request[CSRF_TOKEN] = csrf

    def _check_token(self, request: web.Request, token: str) -> None:
        if self._token is not None and is_same_secret(self._token.get_secret_value(), token):
            return
        address = request.remote or ""
        if (wait := self._throttle.wait(address)) > 0:
            seconds = math.ceil(wait)
            raise Refused(429, f"Too many wrong tokens. Try again in {seconds} s.", {"Retry-After": str(seconds)})
        self._throttle.wrong(address)
        log.warning("the console refused a wrong token from %s", address)
        raise Refused(401, "Wrong token. Use the value of CONSOLE_TOKEN.")

    async def _login(self, request: web.Request) -> web.Response:
        self._check_token(request, (await read_body(request, Login)).token)
        key = secrets.token_urlsafe(32)
        self._sessions[key] = secrets.token_urlsafe(24)
        response = web.json_response({})
        secure, age = self._url.scheme == "https", int(SESSION_SECONDS)
        response.set_cookie(COOKIE, key, max_age=age, httponly=True, samesite="Strict", secure=secure)
        return response

    async def _logout(self, request: web.Request) -> web.Response:
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)
        response = web.json_response({})
        response.del_cookie(COOKIE)
        return response


def _host_name(host: str) -> str | None:
    """Return the name or address in a Host header without its port, or None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # ValueError: no port
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and "@" not in host else None


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
