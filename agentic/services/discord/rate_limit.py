"""Limits the requests that the process sends, stops them if Discord refuses too many, and retries failed ones.

Discord allows 50 requests per second; RequestWindow enforces that.

10,000 invalid requests (401, 403, 429) in ten minutes ban the machine's IP address for every program on it
(discord.com/developers/docs/topics/rate-limits), and all bots of a process share the address. So far below the ban,
RefusedRequests first lets only requests pass that people are waiting for, and then none, until the last ten minutes
have fewer refusals. Discord doesn't count a 429 of scope "shared", and neither does this.

py-cord retries a failed request (HTTP 5xx) four times, after 1, 3, 5, and 7 seconds in which it blocks the route, and
this can't be configured. Here the first failure ends py-cord's own retries. The request is retried as often as the
owner configured, after doubling pauses with jitter, and other requests pass meanwhile. Rate limits (429) stay with
py-cord, which waits as long as Discord says; so do answers to commands, which it sends differently. A webhook's post
isn't retried here: it has no nonce, so it might be posted twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
import discord

log = logging.getLogger(__name__)

WINDOW_REQUESTS = 50
WINDOW_SECONDS = 1.05  # Discord's second, plus the variation of requests' travel times

UNAUTHORIZED = 401
INVALID = frozenset({UNAUTHORIZED, 403, 429})
WINDOW = 600.0  # seconds in which refused requests are counted
NARROW_AT = 1_000  # from here on only answers to people pass
CLOSE_AT = 3_000  # from here on nothing passes
FIRST_PAUSE = 0.5  # seconds, at least, before the first retry of a request
SHORTEST, LONGEST = 1.0, 30.0  # seconds between two tries to reach Discord
STEADY_SECONDS = 60.0  # after a connection of this length the pauses start over
_UNREADABLE = (LookupError, TypeError, ValueError)
_FAILURES = (aiohttp.ClientError, OSError, *_UNREADABLE)

State = Literal["open", "narrow", "closed"]


class RequestWindow:
    """A sliding window: at most `limit` requests in any `seconds`. Requests pass in order."""

    def __init__(self, limit: int = WINDOW_REQUESTS, seconds: float = WINDOW_SECONDS) -> None:
        self.limit, self.seconds = limit, seconds
        self._passed: deque[float] = deque()
        self._turnstile, self._waiting = asyncio.Lock(), 0

    def _forget_old(self, now: float) -> None:
        while self._passed and self._passed[0] <= now - self.seconds:
            self._passed.popleft()

    async def enter(self) -> bool:
        """Wait until the request may pass. Return whether it had to wait."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._forget_old(now)
        if len(self._passed) < self.limit and not self._waiting:
            self._passed.append(now)
            return False
        self._waiting += 1
        try:
            async with self._turnstile:
                self._forget_old(loop.time())
                while len(self._passed) >= self.limit:
                    await asyncio.sleep(self._passed[0] + self.seconds - loop.time())
                    self._forget_old(loop.time())
                self._passed.append(loop.time())
        finally:
            self._waiting -= 1
        return True

    def is_quiet(self, share: float) -> bool:
        """Return whether less than `share` of the window is used and nothing waits."""
        self._forget_old(asyncio.get_running_loop().time())
        return not self._waiting and len(self._passed) < self.limit * share

    def enter_if_quiet(self, share: float) -> bool:
        """Pass if less than `share` of the window is used and nothing waits. Return whether it passed."""
        if quiet := self.is_quiet(share):
            self._passed.append(asyncio.get_running_loop().time())
        return quiet


class RefusedRequests:
    """Counts refused requests in a sliding window, and decides which requests may pass. `clock` is monotonic, in
    seconds."""

    def __init__(
        self, *, narrow_at: int = NARROW_AT, close_at: int = CLOSE_AT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._narrow_at, self._close_at, self._clock = narrow_at, close_at, clock
        self._times: deque[float] = deque(maxlen=close_at)  # more wouldn't change the state
        self._logged: State = "open"

    def count(self, status: int, scope: str | None = None) -> None:
        """Count one of Discord's answers. `scope` is its X-RateLimit-Scope."""
        if status in INVALID and scope != "shared":
            self._times.append(self._clock())
            self.state()

    def recent(self) -> int:
        """Return the number of refused requests in the last ten minutes, at most `close_at`."""
        oldest = self._clock() - WINDOW
        while self._times and self._times[0] <= oldest:
            self._times.popleft()
        return len(self._times)

    def state(self) -> State:
        """Return the current state. A change is logged."""
        refused = self.recent()
        state: State = "closed" if refused >= self._close_at else "narrow" if refused >= self._narrow_at else "open"
        if state != self._logged:
            self._logged = state
            if state == "open":
                log.warning("Discord refuses fewer requests again; sending everything")
            else:
                passing = "sending only answers to people" if state == "narrow" else "sending nothing"
                text = "DISCORD REFUSED %d REQUESTS (401, 403, 429) IN TEN MINUTES: %s until there are fewer, because "
                text += "Discord would ban this machine. Look for a wrong token or a missing permission"
                log.error(text, refused, passing)
        return state

    def may_pass(self, *, answers: bool) -> bool:
        """Return whether a request may pass. `answers`: a person is waiting for it."""
        state = self.state()
        return state == "open" or (state == "narrow" and answers)


def count_refusals(
    client: discord.Client, refused: RefusedRequests, on_unauthorized: Callable[[], None] = lambda: None
) -> None:
    """Count every answer to this client, including those after which py-cord retries on its own.

    `on_unauthorized` is called if a request with the bot's token is answered with 401: then none will succeed. py-cord
    has no hook for answers and creates its HTTP session at login, so each request first makes sure that the session is
    traced.
    """
    trace = trace_answers(refused)
    http, send = client.http, client.http.request

    async def request(*arguments: Any, **options: Any) -> Any:
        session = getattr(http, "_HTTPClient__session", None)
        if isinstance(session, aiohttp.ClientSession) and trace not in session.trace_configs:
            session.trace_configs.append(trace)
        try:
            return await send(*arguments, **options)
        except discord.HTTPException as error:
            if error.status == UNAUTHORIZED:
                on_unauthorized()
            raise

    http.request = request  # type: ignore[method-assign]


def trace_answers(refused: RefusedRequests) -> aiohttp.TraceConfig:
    """Return a trace that counts each answer of a session."""
    trace = aiohttp.TraceConfig()

    async def ended(_: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        refused.count(params.response.status, params.response.headers.get("X-RateLimit-Scope"))

    trace.on_request_end.append(ended)
    trace.freeze()
    return trace


def backoff(rng: random.Random, least: float = SHORTEST) -> Iterator[float]:
    """Yield the seconds before each retry, between `least` and LONGEST."""
    while True:
        yield rng.uniform(least, min(2 * least, LONGEST))
        least = min(2 * least, LONGEST / 2)


def retry_requests(client: discord.Client, retries: int, rng: random.Random) -> None:
    """Make the client retry failed requests up to `retries` times before they raise discord.DiscordServerError."""
    http, send = client.http, client.http.request

    async def request(route: Any, **options: Any) -> Any:
        for pause in islice(backoff(rng, FIRST_PAUSE), retries):
            try:
                return await send(route, middlewares=(_fail_on_first,), **options)
            except discord.DiscordServerError as error:
                log.info("Discord answered with HTTP %d: retrying the request in %.1f s", error.status, pause)
            await asyncio.sleep(pause)
            for file in options.get("files") or ():
                file.reset()
        return await send(route, middlewares=(_fail_on_first,), **options)

    http.request = request  # type: ignore[method-assign]


def webhook_session() -> aiohttp.ClientSession:
    """Return a session for webhooks on which py-cord doesn't retry failed requests."""
    return aiohttp.ClientSession(middlewares=(_fail_on_first,))


async def _fail_on_first(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raise py-cord's final error at the first failure (an aiohttp middleware)."""
    response = await handler(request)
    if response.status < 500:
        return response
    response.release()
    raise discord.DiscordServerError(response, None)


async def log_in(client: discord.Client, token: str, name: str, rng: random.Random, delayed: asyncio.Event) -> None:
    """Log in, retrying until Discord accepts the token. Sets `delayed` if the first try fails.

    Raises discord.LoginFailure for a wrong token, and discord.HTTPException for any other refusal.
    """
    for pause in backoff(rng):
        try:
            await client.login(token)
            return
        except (discord.HTTPException, *_FAILURES) as error:
            # Without the error's own text, which may contain the request's content.
            if isinstance(error, discord.HTTPException):
                if error.status < 500 and error.status != 429:  # a retry would get the same answer
                    raise
                why = f"Discord answers {error.status}"
            elif isinstance(error, _UNREADABLE):
                why = f"the answer is unreadable; is there a proxy in between? ({type(error).__name__})"
            else:
                why = f"Discord can't be reached; is this machine online? ({type(error).__name__})"
            log.warning("%s can't log in yet: %s; trying again in %.0f s", name, why, pause)
        delayed.set()
        await client.http.close()  # each login creates its own session
        await asyncio.sleep(pause)
