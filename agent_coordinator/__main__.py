"""`python -m agent_coordinator`: the coordinator alone. The bots run elsewhere on the same Redis.

    settings → Redis → bus, ledger, stops → coordinator

Exit codes as everywhere: 0 ended as asked, 1 something essential failed, 2 the settings are wrong.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from agent_config import Settings, SettingsError, load_settings, process_environment
from agent_coordinator.config import from_settings
from agent_coordinator.coordinator import Coordinator
from agent_protocol import keys
from agent_protocol.bus import Bus
from agent_protocol.connection import RedisAddressError, RedisAway, RedisLink, RedisStartError
from agent_protocol.embedded import locate_redis
from agent_protocol.leases import Lease
from agent_protocol.ledger import Ledger
from agent_protocol.stops import Stops

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

log = logging.getLogger(__name__)


def main() -> int:
    """The exit code of a run until a signal or a failure."""
    try:
        settings = load_settings(process_environment())
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    for warning in settings.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    logging.basicConfig(level=settings.log_level, format=FORMAT)
    if not settings.channels:
        print("AGENT_CHANNEL_IDS, CHANNEL_THEME_MAP: neither names a channel to converse in", file=sys.stderr)
        return 2
    try:
        if settings.redis_url is None:
            settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return asyncio.run(serve(settings))
    except RedisAddressError as error:
        print(f"REDIS_URL: {error}", file=sys.stderr)
        return 2
    except (RedisStartError, OSError) as error:
        print(f"It cannot start: {error}", file=sys.stderr)
        return 1


async def serve(settings: Settings) -> int:
    """Coordinates until a signal ends it in order (0), or the bus or the coordinator fails (1).

    Raises RedisAddressError, RedisStartError.
    """
    async with AsyncExitStack() as stack:
        redis = locate_redis(settings.redis_url, settings.data_dir, runtime_dir=settings.runtime_dir)
        place = await stack.enter_async_context(redis)
        log.info("Redis: %s", place.description)
        link = await stack.enter_async_context(RedisLink(place.address))
        bus = Bus(link)
        stops = Stops(link, bus)
        stops.start()
        with suppress(RedisAway):  # they are read when Redis is there
            await stops.read()
        coordinator = Coordinator(
            from_settings(settings, tuple(settings.agents)),
            bus,
            Ledger(link),
            lease=Lease(link, keys.COORDINATOR_OWNER, holder=_holder()),
            stops=stops,
        )
        return await _run_until_told({"bus": bus.run(), "stops": stops.run(), "coordinator": coordinator.run()})


async def _run_until_told(works: Mapping[str, Coroutine[Any, Any, None]]) -> int:
    """Each work by its name; they are ended in the opposite order, since the later ones need the earlier ones."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told.set)
    signals = asyncio.create_task(told.wait(), name="signals")
    tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
    await asyncio.wait([signals, *tasks], return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done()]
    for task in (signals, *reversed(tasks)):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for task in failed:
        error = None if task.cancelled() else task.exception()
        log.error("the %s ended by itself", task.get_name(), exc_info=error)
    return 1 if failed else 0


def _holder() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


if __name__ == "__main__":
    sys.exit(main())
