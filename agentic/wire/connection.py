"""RedisConnection: clients, circuit breaker, Sentinel, and what stores do during an outage.

A Redis address has three connections and one circuit breaker. Commands must never delay a turn: they share a connection
(agentic/wire/pipe.py) and have a short timeout and no retry. Once a command has failed, the next ones fail immediately,
until a background probe gets an answer. Only the bus and large commands, which have connections of their own, may wait
long. Whatever the cause (refused, reset, timed out, still loading, full, read-only), callers see one exception,
`StateUnavailable`.

Each store method's definition says what it does during an outage: `or_default` returns a default, `when_back` writes
later, and a method without either raises. Money and leases raise; memory, notices, and marks have a policy. Each policy
writes one log line per outage.

With an address `redis+sentinel://[user:password@]host:26379,host:26379/name/0` (TLS: `rediss+sentinel`), the Sentinels
say which server is the master of that name. All Sentinels are asked at each new connection, and the first answer with a
healthy master is used, so a Sentinel that hangs costs nothing. User, password, and the options after the ? are the
server's; the Sentinels' own are `sentinel_username` and `sentinel_password`. Certificates are used for both.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, InvalidResponse, NoScriptError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.maint_notifications import MaintNotificationsConfig

from agentic.process.tasks import cancel_and_wait
from agentic.text import explain_failure
from agentic.wire.pipe import CommandClient

D = TypeVar("D")
P = ParamSpec("P")
S = TypeVar("S", bound="Store")
T = TypeVar("T")
Method = Callable[P, Coroutine[Any, Any, T]]
Write = Callable[Concatenate[S, P], Coroutine[Any, Any, None]]  # a method of a store

COMMAND_TIMEOUT = 0.3
CONNECT_TIMEOUT = 2.0
SLOW_TIMEOUT = 10.0  # without a reply to a large command
PROBE_EVERY = 0.25
SCAN_COUNT = 1000
REDIS_RETRY_SECONDS = 1.0  # between two attempts of a task that waits for Redis
MAX_QUEUED = 1000  # waiting writes per method
LAST_WAIT = 2.0  # seconds to wait for Redis at the end of the process
SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
SENTINEL_PORT = 26379
# Errors of a server that answers but accepts no writes. In a script's error, the code is in the middle.
REFUSALS = ("OOM ", "READONLY ", "MISCONF ", "NOREPLICAS ", "MASTERDOWN ", "CLUSTERDOWN ")

OUTAGES = (RedisConnectionError, RedisTimeoutError, InvalidResponse, OSError)

log = logging.getLogger(__name__)


class StateUnavailable(Exception):
    """Redis can't be used now: it doesn't answer, or refuses writes. Raised only by methods without a policy.

    The command may have run anyway, and its reply was lost. That's why counters are written by scripts that may run
    twice. `logged`: what was already logged about this outage.
    """

    def __init__(self, reason: str = "", logged: set[str] | None = None) -> None:
        super().__init__(reason)
        self.logged: set[str] = set() if logged is None else logged


class RedisAddressError(Exception):
    """The address is invalid. The text doesn't quote it, since it may contain a password."""


class RedisStartError(Exception):
    """The embedded Redis could not be started, for this reason; `advice` is for the owner."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}. {advice[0].upper()}{advice[1:]}")
        self.reason, self.advice = reason, advice


class RedisConnection:
    """Clients for one address (a `redis://`, `rediss://`, `redis+sentinel://`, `rediss+sentinel://`, or `unix://` URL).

    Use as `async with RedisConnection(address) as link`. Nothing is sent before the first command.
    """

    def __init__(
        self, address: str, *, command_timeout: float = COMMAND_TIMEOUT, probe_every: float = PROBE_EVERY
    ) -> None:
        self._client = _client(address)
        self.pool = self._client.connection_pool
        self.commands = CommandClient(self.pool, command_timeout)
        self.redis = _Commands(self)
        self._slow_commands = CommandClient(self.pool, SLOW_TIMEOUT)
        self.present = asyncio.Event()  # cleared while the circuit breaker is open
        self.present.set()
        self._probe_every = probe_every
        self._next_probe = 0.0  # event loop time
        self._reason = ""
        self._probe: asyncio.Task[None] | None = None
        self.is_read_only = False  # from a refused write until Redis accepts one again
        self._writer: asyncio.Task[bool] | None = None
        self._logged: set[str] = set()  # about this outage
        self._digests: dict[str, str] = {}  # script → its digest, if Redis got it from here
        self._queued: deque[tuple[str, Callable[[], Awaitable[None]]]] = deque()  # (name in the log, write)
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Write what waits for Redis, for at most two seconds, and close the connections."""
        if self._queued:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WAIT):
                    await self.present.wait()
                    await self.write_queued()
        if self._queued:
            what = ", ".join(dict.fromkeys(what for what, _ in self._queued))
            log.error("Redis is unavailable: writes lost with this process: %d (%s)", len(self._queued), what)
        await cancel_and_wait(*filter(None, (self._probe, self._writer)))
        for client in (self.commands, self._slow_commands, self._client):
            await client.aclose()

    @property
    def away(self) -> bool:
        """Whether the circuit breaker is open, so that commands fail immediately."""
        return not self.present.is_set()

    @property
    def has_queued(self) -> bool:
        """Whether writes wait for Redis."""
        return bool(self._queued)

    def queue(self, what: str, run: Callable[[], Awaitable[None]], limit: int) -> None:
        """Run a write when Redis is back, after earlier ones. Of more than `limit` writes with the same name `what`,
        the oldest is lost."""
        same = [write for write in self._queued if write[0] == what]
        if len(same) >= limit:
            self._queued.remove(same[0])
            text = f"{what}: Redis has been unavailable for too long; the oldest writes are lost"
            _log_once(self._logged, logging.ERROR, text)
        self._queued.append((what, run))
        if not (self.away or self.is_read_only):  # Redis is back already
            self._write_soon()

    async def write_queued(self) -> bool:
        """Run the queued writes in order. Returns False if Redis is unavailable."""
        async with self._writing:
            while self._queued:
                what, run = write = self._queued[0]
                try:
                    await run()
                except StateUnavailable:
                    return False
                except Exception:  # the edge of the loop: a bad write must not block the next ones
                    log.exception("%s: a write failed and is lost", what)
                if self._queued and self._queued[0] is write:
                    self._queued.popleft()
        return True

    async def call(self, command: Callable[[CommandClient], Awaitable[T]]) -> T:
        """Run `command` with the client for commands, as the commands of `redis` are run. Raises StateUnavailable
        within about 0.3 s."""
        self._fail_while_away()
        try:
            return await command(self.commands)
        except OUTAGES as error:
            self._note_away(error)
            raise StateUnavailable(cause(error), self._logged) from error
        except ResponseError as error:
            if not _is_refusal(error):
                raise
            # Reads and pub/sub still work on a full server, so the breaker stays closed. Log it once.
            log.log(logging.DEBUG if self.is_read_only else logging.ERROR, "Redis accepts no writes: %s", cause(error))
            self.is_read_only = True
            raise StateUnavailable(cause(error), self._logged) from error

    async def call_slowly(self, command: Callable[[CommandClient], Awaitable[T]], seconds: float) -> T:
        """Run a large command that nobody waits for. Raises StateUnavailable after `seconds`. Its failure says little
        about small commands, so it doesn't open the breaker."""
        self._fail_while_away()
        try:
            async with asyncio.timeout(seconds):
                return await command(self._slow_commands)
        except (*OUTAGES, ResponseError) as error:
            if isinstance(error, ResponseError) and not _is_refusal(error):
                raise
            raise StateUnavailable(cause(error), self._logged) from error

    async def script(
        self, lua: str, keys: Sequence[str], args: Sequence[object] = (), *, seconds: float | None = None
    ) -> Any:
        """Run a Lua script atomically, like `call`, or with `seconds` like `call_slowly`. Its text is sent the first
        time, and again if Redis no longer has it, after a restart, a failover, or a flush."""
        run = self.call if seconds is None else partial(self.call_slowly, seconds=seconds)
        digest = self._digests.get(lua)
        try:
            if digest is None:  # Redis probably doesn't have it
                raise NoScriptError
            outcome = await run(lambda redis: redis.run("EVALSHA", digest, len(keys), *keys, *args))
        except NoScriptError:
            outcome = await run(lambda redis: redis.run("EVAL", lua, len(keys), *keys, *args))
            self._digests[lua] = hashlib.sha1(lua.encode(), usedforsecurity=False).hexdigest()
        if self.is_read_only:  # every script of ours writes
            self.is_read_only = False
            self._note_back()
        return outcome

    async def batch(self, fill: Callable[[Pipeline], object], *, transaction: bool = False) -> list[Any]:
        """Send the commands that `fill` adds to a pipeline together. Returns their replies. Raises StateUnavailable."""
        pipe = self.commands.pipeline(transaction=transaction)
        fill(pipe)
        return await self.call(lambda _: pipe.execute())

    async def scan(self, pattern: str, kind: str | None = None) -> AsyncIterator[list[str]]:
        """Yield the matching keys in pages, so that no command takes long. Raises StateUnavailable."""
        cursor = 0
        while True:
            cursor, page = await self.redis.scan(cursor, match=pattern, count=SCAN_COUNT, _type=kind)
            yield [str(key) for key in page]
            if cursor == 0:
                return

    def _fail_while_away(self) -> None:
        if not self.present.is_set():
            raise StateUnavailable(self._reason, self._logged)

    def _note_away(self, error: Exception) -> None:
        """Let commands fail immediately until Redis answers."""
        self._reason = cause(error)
        self.present.clear()
        if self._probe is None or self._probe.done():
            log.debug("Redis is unavailable (%s): commands fail until it answers", self._reason)
            self._probe = asyncio.create_task(self._probe_until_back(), name="redis-probe")

    async def _probe_until_back(self) -> None:
        loop = asyncio.get_running_loop()
        while self.away:
            await asyncio.sleep(max(0.0, self._next_probe - loop.time()))
            self._next_probe = loop.time() + self._probe_every
            try:
                await self.commands.ping()
            except Exception as error:  # the edge of the loop: without the probe the breaker would never close
                self._reason = cause(error)
            else:
                self.present.set()
                log.debug("commands to Redis work again")
                self._note_back()

    def _note_back(self) -> None:
        """Note that Redis accepts commands again, and write what waits."""
        self._logged = set()
        self._write_soon()

    def _write_soon(self) -> None:
        if self._queued and (self._writer is None or self._writer.done()):
            self._writer = asyncio.create_task(self.write_queued(), name="redis-writer")


class _Commands(Redis):
    """redis-py's commands. They raise StateUnavailable within about 0.3 s."""

    def __init__(self, link: RedisConnection) -> None:
        super().__init__(connection_pool=link.pool)
        self._link = link

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        return await self._link.call(lambda client: client.execute_command(*args, **options))


class Store:
    """Base of stores in Redis. Methods without a policy raise StateUnavailable. `clock` gives unix seconds."""

    def __init__(self, link: RedisConnection, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock

    async def _text(self, key: str) -> str | None:
        text = await self._link.redis.get(key)
        return None if text is None else str(text)

    async def _put(self, key: str, seconds: int, fields: Mapping[str, str | int | float]) -> None:
        """Set fields of a hash, and keep the hash for `seconds`."""
        values: dict[Any, Any] = dict(fields)
        await self._link.batch(
            lambda pipe: (pipe.hset(key, mapping=values), pipe.expire(key, seconds)), transaction=True
        )

    async def _texts(self, key_of: Callable[[str], str], names: Iterable[str]) -> dict[str, str]:
        """Return name → text under its key, for the names that have one."""
        wanted = list(names)
        if not wanted:
            return {}
        found = await self._link.redis.mget(map(key_of, wanted))
        return {name: str(text) for name, text in zip(wanted, found, strict=True) if text is not None}


def cause(error: BaseException) -> str:
    """Return why Redis can't be used, in a few words for the owner and without the address."""
    # redis-py wraps the system's error in a text that repeats the address.
    reason = error.__context__ if isinstance(error.__context__, OSError) else error
    match reason:
        case AuthenticationError() if "HELLO" in str(reason) or "NOAUTH" in str(reason):
            return "it needs a password, as in redis://:password@host:6379/0"
        case AuthenticationError():
            return "it rejects the password"
        case InvalidResponse():
            return "what answers there isn't Redis"
        case ssl.SSLCertVerificationError():
            return f"its certificate can't be verified: {reason.verify_message}"
        case ssl.SSLError():
            not_tls = reason.reason == "WRONG_VERSION_NUMBER"
            return "it doesn't use TLS, which rediss:// asks for" if not_tls else f"TLS failed ({reason.reason})"
        case ResponseError():
            return str(reason).partition(" script: ")[0].strip(" .")[:200]  # without the script that a server names
    return explain_failure(reason)


def _is_refusal(error: ResponseError) -> bool:
    text = f"{getattr(error, 'error_type', '')} {type(error).__name__} {error} "
    return any(code in text for code in REFUSALS) or type(error).__name__ in ("OutOfMemoryError", "ReadOnlyError")


def or_default(value: D, what: str) -> Callable[[Method[P, T]], Method[P, T | D]]:
    """Make a method return `value` while Redis is unavailable. `what`: the consequence, for the log."""

    def decorate(method: Method[P, T]) -> Method[P, T | D]:
        @wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T | D:
            try:
                return await method(*args, **kwargs)
            except StateUnavailable as away:
                _log_once(away.logged, logging.INFO, f"{what}: Redis is unavailable", away)
                return value

        return call

    return decorate


def when_back(what: str, *, limit: int = MAX_QUEUED) -> Callable[[Write[S, P]], Write[S, P]]:
    """Queue a store's write while Redis is unavailable. A connection's writes run in order when Redis is back, before
    the next turn begins, and at the end of the process. `what` names the write in the log.

    A write may run twice if its reply is lost. A write that depends on a lease needs the lease's epoch as an argument.
    """

    def decorate(method: Write[S, P]) -> Write[S, P]:
        @wraps(method)
        async def call(store: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
            link, write = store._link, partial(method, store, *args, **kwargs)
            if not link.has_queued or await link.write_queued():  # it must not overtake them
                try:
                    return await write()
                except StateUnavailable as away:
                    _log_once(away.logged, logging.INFO, f"{what}: will be written when Redis is back", away)
            link.queue(what, write, limit)

        return call

    return decorate


async def wait_for_redis(
    call: Callable[[], Awaitable[T]],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    *,
    every: float = REDIS_RETRY_SECONDS,
    seconds: float = math.inf,
) -> T:
    """Repeat the call until Redis answers. Raises StateUnavailable after `seconds`."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while True:
        try:
            return await call()
        except StateUnavailable:
            if clock() > until:
                raise
            await sleep(every)


def _log_once(logged: set[str], level: int, text: str, cause: object = "") -> None:
    """Log a text once per outage."""
    if text not in logged:
        logged.add(text)
        log.log(level, "%s%s", text, f": {cause}" if cause else "")


def _client(address: str) -> Redis:
    # No socket_timeout: redis-py implements it with asyncio.wait_for, which may swallow a cancellation on Python 3.11.
    # Invalid bytes on a channel are a bad message, not a reason to lose the connection. Without driver_info=None, every
    # connection would read this package's metadata and send it to the server.
    make = sentinel_client if urlsplit(address).scheme in SCHEMES else Redis.from_url
    try:
        client = make(
            address,
            decode_responses=True,
            encoding_errors="replace",
            socket_timeout=None,
            socket_connect_timeout=CONNECT_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
            driver_info=None,
        )
        # so that bad options after the ? fail here, not at first use
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, RedisError):
        raise RedisAddressError("redis-py doesn't know an option after the ? in the address") from None
    return client


def sentinel_client(address: str, **options: Any) -> Redis:
    """Make a client for the master. `options`: redis-py's, for each connection. Raises ValueError, TypeError."""
    parts = urlsplit(address)
    login, _, places = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    plain = f"{SCHEMES[parts.scheme]}://{login and login + '@'}master/{database}?{parts.query}"
    server: dict[str, Any] = {**parse_url(plain), **options, "ssl": parts.scheme == "rediss+sentinel"}
    for each in ("host", "connection_class"):
        server.pop(each, None)
    own = {name: server.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    tls = {name: value for name, value in server.items() if name.startswith("ssl")}
    sentinels = []
    for place in places.split(","):  # "host:26380"
        found = urlsplit(f"//{place}")
        if not found.hostname:
            raise ValueError("a Sentinel without a host")
        sentinels.append((found.hostname, found.port or SENTINEL_PORT))
    manager = _Sentinels(sentinels, sentinel_kwargs={**options, **own, **tls})  # type: ignore[no-untyped-call]
    return cast(Redis, manager.master_for(service, redis_class=_Master, **server))


class _Master(Redis):
    """A client for the master, which owns the Sentinels' clients."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await cast(SentinelConnectionPool, self.connection_pool).sentinel_manager.aclose()


class _Sentinels(Sentinel):
    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address in the first answer. Raises MasterNotFoundError."""
        asked = [asyncio.create_task(self._master_by(each, service_name)) for each in self.sentinels]
        problem: Exception | None = None
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    return await answer
                except (RedisError, OSError) as error:
                    problem = error
        finally:
            await cancel_and_wait(*asked)
        raise MasterNotFoundError(f"no Sentinel has a master {service_name!r} ({problem})")

    async def _master_by(self, sentinel: Redis, service_name: str) -> tuple[str, int]:
        state = cast(dict[str, Any], await sentinel.sentinel_masters()).get(service_name)
        if not state or not self.check_master_state(state, service_name):
            raise MasterNotFoundError("it is down" if state else "it is unknown")
        return state["ip"], state["port"]
