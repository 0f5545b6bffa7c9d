"""Follows what is in Redis and in the memory of every process, such as stops: a process reads it again where both may
differ."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from agentic.wire.link import RedisAway, RedisLink

RETRY_EVERY = 0.5  # seconds

log = logging.getLogger(__name__)


async def follow(
    link: RedisLink,
    behind: asyncio.Event,
    what: str,
    *,
    check_every: float,
    lost: Callable[[], Awaitable[bool]],
    read: Callable[[], Awaitable[None]],
) -> None:
    """Call `read` whenever `behind` is set, and where Redis `lost` it, which is looked at every `check_every` seconds;
    until cancelled. `what` names it in the log. Both may raise RedisAway."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(check_every):
                await behind.wait()
        await link.present.wait()
        try:
            if behind.is_set() or await lost():
                behind.clear()
                await read()
        except RedisAway as away:
            log.debug("%s cannot be read, will retry: %s", what, away)
            behind.set()
            await asyncio.sleep(RETRY_EVERY)
