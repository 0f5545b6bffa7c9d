"""Run the coordinator in its own process, and the recorder of all bots on this Redis beside it.

settings → Redis → bus, ledger, stops → coordinator
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

from agent_config import Settings
from agent_coordinator.coordinator import Coordinator
from agentic.agent.side_calls import meaning_of
from agentic.process.redaction import Redactor
from agentic.process.tasks import restart_on_failure
from agentic.record.recorder import ReadState, recording
from agentic.runtime.coordinating import caps_of, coordinator_config, idle_memory
from agentic.runtime.models import embedder_of
from agentic.state.leases import Lease
from agentic.state.shared_state import Ledger
from agentic.state.stops import Stops
from agentic.state.writer import RecordWriter
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.link import RedisAway, RedisLink
from agentic.wire.locate import locate_redis

Watch = Callable[[Callable[[], bool], ReadState], AbstractAsyncContextManager[object]]

log = logging.getLogger(__name__)


async def serve(settings: Settings, stop: asyncio.Event, watched: Watch) -> int:
    """Run the coordinator until `stop` is set (returns 0) or one of its tasks fails (returns 1). `watched` is entered
    around it with functions that say whether the bus is connected, and how the record goes.

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
        with suppress(RedisAway):  # read again when Redis is back
            await stops.read()
        ledger = Ledger(link, caps=caps_of(settings))  # one alone: it pays what is owed when Redis is back
        meaning = meaning_of(settings, embedder_of(settings), ledger.replay_costs)
        if meaning is not None:
            stack.push_async_callback(meaning.aclose)
        record = recording(settings, link, bus, holder=_holder(), meaning=meaning)
        read_record = await stack.enter_async_context(record)
        writer = RecordWriter(link, Redactor(settings.secrets()).secrets) if settings.records else None
        if writer is not None:
            stack.push_async_callback(writer.aclose)
        memory = idle_memory(settings)
        if memory is not None:
            stack.push_async_callback(memory.aclose)
        coordinator = Coordinator(
            coordinator_config(settings),
            bus,
            ledger,
            lease=Lease(link, keys.COORDINATOR_OWNER, holder=_holder()),
            stops=stops,
            record=writer,
            idle_store=memory,
        )
        await stack.enter_async_context(watched(bus.ready.is_set, read_record))
        tasks = {"bus": bus.run(), "stops": restart_on_failure(stops.run, "stops"), "coordinator": coordinator.run()}
        if writer is not None:
            tasks["record"] = restart_on_failure(writer.run, "record")
        return await _run_until(stop, tasks)


async def _run_until(stop: asyncio.Event, works: Mapping[str, Coroutine[Any, Any, None]]) -> int:
    """Run `works`, by name, until `stop`; cancel them in reverse order, since later ones need earlier ones."""
    stopped = asyncio.create_task(stop.wait(), name="stop")
    tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
    await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    failed = [task for task in tasks if task.done()]
    for task in (stopped, *reversed(tasks)):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for task in failed:
        error = None if task.cancelled() else task.exception()
        log.error("%s failed; the coordinator stops", task.get_name(), exc_info=error)
    return 1 if failed else 0


def _holder() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
