"""Redis behind Sentinels: `redis+sentinel://[user:password@]host:26379,host:26379/name/0`, with TLS `rediss+sentinel`.

The Sentinels know which server is the master of that name. They are asked at each new connection, all at the same time,
and the first that knows a healthy master counts: one that hangs costs nothing. During a failover none knows one, which
is like any other outage to the link. User, password and the options after the ? are the server's; the Sentinels' own
are `sentinel_username` and `sentinel_password`. Certificates are for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.exceptions import RedisError

SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
SENTINEL_PORT = 26379


def is_sentinel_address(address: str) -> bool:
    return urlsplit(address).scheme in SCHEMES


def sentinel_client(address: str, options: Mapping[str, Any]) -> Redis:
    """Make a client of the master. `options` are redis-py's, for each connection. Raises ValueError, TypeError."""
    parts = urlsplit(address)
    login, _, places = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    plain = f"{SCHEMES[parts.scheme]}://{login and login + '@'}master/{database}?{parts.query}"
    server: dict[str, Any] = {**parse_url(plain), **options, "ssl": parts.scheme == "rediss+sentinel"}
    for each in ("host", "connection_class"):
        server.pop(each, None)
    own = {name: server.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    tls = {name: value for name, value in server.items() if name.startswith("ssl")}
    sentinels = [_place(each) for each in places.split(",")]
    manager = _Sentinels(sentinels, sentinel_kwargs={**options, **own, **tls})  # type: ignore[no-untyped-call]
    return cast(Redis, manager.master_for(service, redis_class=_Master, **server))


def _place(text: str) -> tuple[str, int]:
    """ "host:26380" → ("host", 26380)."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a Sentinel without a host")
    return parts.hostname, parts.port or SENTINEL_PORT


class _Master(Redis):
    """A client of the master, which owns those of the Sentinels."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await cast(SentinelConnectionPool, self.connection_pool).sentinel_manager.aclose()


class _Sentinels(Sentinel):
    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the first answer. Raises MasterNotFoundError."""
        asked = [asyncio.create_task(self._master_by(each, service_name)) for each in self.sentinels]
        problem: Exception | None = None
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    return await answer
                except (RedisError, OSError) as error:
                    problem = error
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        raise MasterNotFoundError(f"no Sentinel has a master {service_name!r} ({problem})")

    async def _master_by(self, sentinel: Redis, service_name: str) -> tuple[str, int]:
        state = cast(dict[str, Any], await sentinel.sentinel_masters()).get(service_name)
        if not state or not self.check_master_state(state, service_name):
            raise MasterNotFoundError("it is down" if state else "it is unknown")
        return state["ip"], state["port"]
