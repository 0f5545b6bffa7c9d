"""How many requests the process sends, when it must stop sending, and how failed requests and logins are retried.

Discord allows 50 requests a second, which RequestWindow keeps to.

10,000 invalid requests (401, 403, 429) in ten minutes ban the machine's address for every program on it
(discord.com/developers/docs/topics/rate-limits), and all bots of a process share it. A request that was refused a
thousand times will be refused again; so RefusedRequests, far below the ban, first lets pass only what people wait for,
and then nothing until the ten minutes have moved on. Discord does not count a 429 of scope "shared", so neither is it
counted here.

py-cord retries a request that Discord failed on (HTTP 5xx) four times, after 1, 3, 5 and 7 seconds in which nothing
else passes on that route, and offers no choice. Here the first failure ends py-cord's own tries. The request is retried
as often as the owner set, after pauses that double, half of each by chance; other requests pass meanwhile. A rate limit
(429) stays with py-cord, which waits as long as Discord says, and so do answers to commands, which it sends another
way. A webhook's post is not retried here: it has no nonce, so it might be posted twice.
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
WINDOW_SECONDS = 1.05  # Discord's second, and the time by which one request may travel longer than a later one

UNAUTHORIZED = 401
INVALID = frozenset({UNAUTHORIZED, 403, 429})
WINDOW = 600.0  # seconds in which refused requests are counted
NARROW_AT = 1_000  # from here on only what answers a person passes
CLOSE_AT = 3_000  # from here on nothing passes
FIRST_PAUSE = 0.5  # seconds at least, before the first retry of a request
SHORTEST, LONGEST = 1.0, 30.0  # seconds between two tries to reach Discord
STEADY_SECONDS = 60.0  # a connection that held for so long begins with the shortest pause again
_UNREADABLE = (LookupError, TypeError, ValueError)
_FAILURES = (aiohttp.ClientError, OSError, *_UNREADABLE)

State = Literal["open", "narrow", "closed"]


class RequestWindow:
    """A sliding window: at most `limit` requests in any `seconds`. They pass in the order in which they came."""

    def __init__(self, limit: int = WINDOW_REQUESTS, seconds: float = WINDOW_SECONDS) -> None:
        self.limit, self.seconds = limit, seconds
        self._passed: deque[float] = deque()
        self._turnstile, self._waiting = asyncio.Lock(), 0

    def _forget_old(self, now: float) -> None:
        while self._passed and self._passed[0] <= now - self.seconds:
            self._passed.popleft()

    async def enter(self) -> bool:
        """Return when the request may pass: False if it passes immediately, True if it had to wait."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._forget_old(now)
        if len(self._passed) < self.limit and not self._waiting:
            self._passed.append(now)
            return False
        self._waiting += 1
        try:
            await self._wait(loop)
        finally:
            self._waiting -= 1
        return True

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        async with self._turnstile:
            self._forget_old(loop.time())
            while len(self._passed) >= self.limit:
                await asyncio.sleep(self._passed[0] + self.seconds - loop.time())
                self._forget_old(loop.time())
            self._passed.append(loop.time())

    def is_quiet(self, share: float) -> bool:
        """Whether less than `share` of the window is used and nothing waits."""
        self._forget_old(asyncio.get_running_loop().time())
        return not self._waiting and len(self._passed) < self.limit * share

    def enter_if_quiet(self, share: float) -> bool:
        """Passes immediately if it is quiet, else not at all."""
        quiet = self.is_quiet(share)
        if quiet:
            self._passed.append(asyncio.get_running_loop().time())
        return quiet


class RefusedRequests:
    """Counts refused requests in a sliding window and decides which others may pass. `clock` is monotonic, in
    seconds."""

    def __init__(
        self, *, narrow_at: int = NARROW_AT, close_at: int = CLOSE_AT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._narrow_at, self._close_at, self._clock = narrow_at, close_at, clock
        self._times: deque[float] = deque(maxlen=close_at)  # more of them change nothing
        self._logged: State = "open"

    def count(self, status: int, scope: str | None = None) -> None:
        """Counts an answer of Discord's; `scope` is its X-RateLimit-Scope."""
        if status in INVALID and scope != "shared":
            self._times.append(self._clock())
            self.state()

    def recent(self) -> int:
        """The refused requests of the last ten minutes, at most `close_at`."""
        oldest = self._clock() - WINDOW
        while self._times and self._times[0] <= oldest:
            self._times.popleft()
        return len(self._times)

    def state(self) -> State:
        """The state now; a change is logged."""
        refused = self.recent()
        state: State = "closed" if refused >= self._close_at else "narrow" if refused >= self._narrow_at else "open"
        if state != self._logged:
            self._logged = state
            passing = {"narrow": "only answers to people are posted", "closed": "nothing is sent"}
            if state == "open":
                log.warning("Discord refuses fewer requests again: everything is sent")
            else:
                text = "DISCORD REFUSED %d REQUESTS (401, 403, 429) IN TEN MINUTES: %s until they are fewer, or Discord"
                text += " bans this machine. Look for a wrong token or a missing permission"
                log.error(text, refused, passing[state])
        return state

    def may_pass(self, *, answers: bool) -> bool:
        """`answers`: a person waits for it."""
        state = self.state()
        return state == "open" or (state == "narrow" and answers)


def count_refusals(
    client: discord.Client, refused: RefusedRequests, on_unauthorized: Callable[[], None] = lambda: None
) -> None:
    """Counts every answer to this client, also those after which py-cord waits and tries again by itself.

    `on_unauthorized` is called when a request under the bot's own token is answered with 401: no other one will
    succeed. py-cord has no hook for answers and creates its HTTP session at login, so each request first makes sure
    that the session is watched.
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
    """Return a trace that counts each answer over a session."""
    trace = aiohttp.TraceConfig()

    async def ended(_: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        refused.count(params.response.status, params.response.headers.get("X-RateLimit-Scope"))

    trace.on_request_end.append(ended)
    trace.freeze()
    return trace


def backoff(rng: random.Random, least: float = SHORTEST) -> Iterator[float]:
    """Seconds before each further try, never fewer than `least` nor more than LONGEST."""
    while True:
        yield rng.uniform(least, min(2 * least, LONGEST))
        least = min(2 * least, LONGEST / 2)


def retry_requests(client: discord.Client, retries: int, rng: random.Random) -> None:
    """Makes the client retry failed requests up to `retries` times. Then they raise discord.DiscordServerError."""
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
    """A session for webhooks, over which py-cord does not repeat what Discord failed on."""
    return aiohttp.ClientSession(middlewares=(_fail_on_first,))


async def _fail_on_first(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """An aiohttp middleware that makes a failed request's first try look like py-cord's last one."""
    response = await handler(request)
    if response.status < 500:
        return response
    response.release()
    raise discord.DiscordServerError(response, None)


async def log_in(client: discord.Client, token: str, name: str, rng: random.Random, delayed: asyncio.Event) -> None:
    """Returns when Discord has accepted the token; sets `delayed` when the first try fails. py-cord tries it once.

    Raises discord.LoginFailure for a refused token, discord.HTTPException for any other refusal.
    """
    for pause in backoff(rng):
        try:
            await client.login(token)
            return
        except (discord.HTTPException, *_FAILURES) as error:
            if isinstance(error, discord.HTTPException) and not is_temporary(error):
                raise
            # Without the error's own text, which may hold what was sent.
            if isinstance(error, discord.HTTPException):
                why = f"Discord answers {error.status}"
            elif isinstance(error, _UNREADABLE):
                why = f"the answer cannot be read, is there a proxy in between? ({type(error).__name__})"
            else:
                why = f"Discord cannot be reached, is this machine online? ({type(error).__name__})"
            log.warning("%s cannot log in yet: %s, next try in %.0f s", name, why, pause)
        delayed.set()
        await client.http.close()  # each login makes a session of its own
        await asyncio.sleep(pause)


def is_temporary(error: discord.HTTPException) -> bool:
    """Whether another try may succeed: a fault of Discord's, or too many requests."""
    return error.status >= 500 or error.status == 429
