"""How many requests the process sends, and when it must stop sending.

Discord allows 50 requests a second, which RequestWindow keeps to.

10,000 invalid requests (401, 403, 429) in ten minutes ban the machine's address for every program on it
(discord.com/developers/docs/topics/rate-limits), and all bots of a process share it. A request that was refused a
thousand times will be refused again; so RefusedRequests, far below the ban, first lets pass only what people wait for,
and then nothing until the ten minutes have moved on. Discord does not count a 429 of scope "shared", so neither is it
counted here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
import discord
from yarl import URL

WINDOW_REQUESTS = 50
WINDOW_SECONDS = 1.05  # Discord's second, and the time by which one request may travel longer than a later one

UNAUTHORIZED = 401
INVALID = frozenset({UNAUTHORIZED, 403, 429})
WINDOW = 600.0  # seconds in which refused requests are counted
NARROW_AT = 1_000  # from here on only what answers a person passes
CLOSE_AT = 3_000  # from here on nothing passes

State = Literal["open", "narrow", "closed"]

log = logging.getLogger(__name__)


class RequestWindow:
    """A sliding window: at most `limit` requests in any `seconds`. They pass in the order in which they came."""

    def __init__(self, limit: int = WINDOW_REQUESTS, seconds: float = WINDOW_SECONDS) -> None:
        self.limit, self.seconds = limit, seconds
        self._passed: deque[float] = deque()
        self._turnstile = asyncio.Lock()

    def _forget_old(self, now: float) -> None:
        while self._passed and self._passed[0] <= now - self.seconds:
            self._passed.popleft()

    async def enter(self) -> None:
        """Returns when one more request may be sent."""
        loop = asyncio.get_running_loop()
        async with self._turnstile:
            self._forget_old(loop.time())
            while len(self._passed) >= self.limit:
                await asyncio.sleep(self._passed[0] + self.seconds - loop.time())
                self._forget_old(loop.time())
            self._passed.append(loop.time())

    def is_quiet(self, share: float) -> bool:
        """Whether less than `share` of the window is used and nothing waits."""
        self._forget_old(asyncio.get_running_loop().time())
        return not self._turnstile.locked() and len(self._passed) < self.limit * share

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
            self._log(state, refused)
        return state

    def may_pass(self, *, answers: bool) -> bool:
        """`answers`: a person waits for it."""
        state = self.state()
        return state == "open" or (state == "narrow" and answers)

    def _log(self, state: State, refused: int) -> None:
        passing = {"narrow": "only answers to people are posted", "closed": "nothing is sent"}
        if state == "open":
            log.warning("Discord refuses fewer requests again: everything is sent")
        else:
            text = (
                "DISCORD REFUSED %d REQUESTS (401, 403, 429) IN TEN MINUTES: %s until they are fewer, or Discord bans"
            )
            log.error(text + " this machine. Look for a wrong token or a missing permission", refused, passing[state])


def count_refusals(
    client: discord.Client, refused: RefusedRequests, on_unauthorized: Callable[[], None] = lambda: None
) -> None:
    """Counts every answer to this client, also those after which py-cord waits and tries again by itself.

    `on_unauthorized` is called when a request under the bot's own token is answered with 401: no other one will
    succeed. py-cord has no hook for answers and creates its HTTP session at login, so each request first makes sure
    that the session is watched.
    """
    trace = _counting(refused, lambda _: True)
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


def count_webhooks(session: aiohttp.ClientSession, refused: RefusedRequests) -> None:
    """Counts the answers to webhooks over a session that is used for other requests too."""
    session.trace_configs.append(_counting(refused, lambda url: "/webhooks/" in url.path))


def _counting(refused: RefusedRequests, concerns: Callable[[URL], bool]) -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()

    async def ended(_: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        if concerns(params.url):
            refused.count(params.response.status, params.response.headers.get("X-RateLimit-Scope"))

    trace.on_request_end.append(ended)
    trace.freeze()
    return trace
