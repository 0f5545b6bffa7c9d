"""Run a process: its bots, its coordinator, and their side tasks.

If a bot fails, the others keep running; if a watcher fails, it starts again. If the bus or the coordinator fails, the
process stops.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from agent_config import AgentSettings, Settings
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agentic.agent.services import Services
from agentic.automation.webhook_server import Receive
from agentic.inbox.host import AgentHost, PersonaHosts
from agentic.net.http_server import Connections
from agentic.process.logs import program_version
from agentic.process.redaction import Redactor
from agentic.process.tasks import Shutdown, last_turns, restart_on_failure
from agentic.record.idle_queries import IdleMemory
from agentic.record.notes import TurnWatchers
from agentic.record.recorder import OFF, ReadState
from agentic.runtime.bot import BotSupervisor, cancel
from agentic.runtime.health import Health
from agentic.runtime.services import (
    ProcessConfig,
    coordinator_config,
    idle_memory,
    make_guild_models,
    stay_known,
)
from agentic.services.context import HostedService
from agentic.state.leases import DEAD_HOLDER_SECONDS, AnyLease, ConditionalLease, Lease, describe_process
from agentic.state.record_stream import NoRecord, Notes, RecordWriter
from agentic.telemetry.spans import MISSING, Spans, http_exporter
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, wait_for_redis

if TYPE_CHECKING:
    from agentic.telemetry.metrics import Metrics, Readings

log = logging.getLogger(__name__)

REDIS_START_SECONDS = 4.0  # to wait for a Redis that is starting, or on a machine that is busy with our own start
REDIS_PAUSE_SECONDS = 0.2
PING_SECONDS = 2.0


class Runtime:
    """A running process. `stop` ends it. `exit_code`: 1 if an essential task ended, 2 if Discord rejects every bot."""

    def __init__(
        self, setup: ProcessConfig, services: Services, chats: Sequence[HostedService], link: RedisConnection
    ) -> None:
        self.setup, self.services, self.chats = setup, services, chats
        self.bots: dict[str, BotSupervisor] = {}
        self.coordinator: Coordinator | None = None
        self.personas: PersonaHosts | None = None  # if personas without a bot are hosted
        self.metrics: Metrics | None = None  # if they are served
        self.failing: set[str] = set()  # watchers that failed and will start again
        self.connections = Connections()  # from clients, on all ports
        self.stopping = Shutdown()
        self.stop = self.stopping.stop
        self.exit_code = 0
        self.read_record: ReadState = lambda: OFF
        self.console: str | None = None  # its address while it is served
        self._bots_started = False
        self._link = link
        self._holder = services.state.turns.holder
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle_memory: IdleMemory | None = None

    def start(self, work: Coroutine[Any, Any, None], name: str, *, essential: bool = True) -> asyncio.Task[None]:
        """Start a task and own it. If an essential task ends on its own, the process stops."""
        task = asyncio.create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(self.essential_ended if essential else self._report)
        return task

    def watch(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Start a task that starts again if it fails, so that its failure doesn't end the bots."""
        self.start(restart_on_failure(work, name, failing=self.failing), name, essential=False)

    def essential_ended(self, task: asyncio.Task[None]) -> None:
        self._report(task)
        if not task.cancelled() and not self.stop.is_set():
            self.exit_code = 1
            self.stop.set()

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)

    # Chat services

    @property
    def accounts(self) -> tuple[str, ...]:
        return self.setup.accounts

    async def open_chats(self, stack: AsyncExitStack) -> None:
        for service in self.chats:
            stack.push_async_callback(service.aclose)
            await service.open(self)

    def listen(self) -> None:
        """Receive messages from the services, and keep the time since when agents without a bot exist."""
        for agent in self.accounts:
            self.watch(partial(stay_known, agent, self.services.state.coordination.presence), f"{agent}: since when")
        for service in self.chats:
            service.listen()

    def lease_of(self, agent: str) -> AnyLease:
        return ConditionalLease(lambda: (host := self.host_of(agent)) is not None and host.holds_lease)

    # Bots

    async def start_bots(self) -> None:
        """Start the chosen bots that no other process runs on this Redis; with STANDBY, stand by for the others."""
        chosen = [self.setup.settings.agents[name] for name in self.setup.agents]
        await asyncio.gather(*(self._start_bot(agent) for agent in chosen))
        self._bots_started = True
        self._stop_without_bots()

    async def _start_bot(self, agent: AgentSettings) -> None:
        lease, make = self.lease(keys.owner(agent.spec.name)), self.setup.models.make
        # During a start the machine is busy, and Redis may be starting, too.
        patiently = partial(wait_for_redis, every=REDIS_PAUSE_SECONDS, seconds=REDIS_START_SECONDS)
        if not await patiently(lambda: self._may_start(agent.spec.name, lease)):
            return
        await patiently(lambda: self.prepare(agent.spec.name))
        elsewhere = [service.info.name for service in self.chats if service.channels_for(agent.name) is not None]
        name, others = agent.spec.name, elsewhere if agent.name in self.accounts else ()
        bot = BotSupervisor(agent, self.services, lease, make(agent), make_guild_models(agent, make), others=others)
        self.bots[name] = bot
        self.start(bot.run(), name, essential=False).add_done_callback(self._stop_without_bots)

    def lease(self, key: str) -> Lease:
        return Lease(self._link, key, holder=self._holder)

    async def prepare(self, agent: str) -> None:
        """Drop an earlier run's unfinished turns and coding sessions unless they resume. Raises StateUnavailable."""
        if self.setup.resumes:
            return
        state = self.services.state
        for turn_id in await state.turns.open_ids(agent):
            await state.turns.drop(agent, turn_id)
        for channel_id in self.setup.settings.channels:
            await state.context.sessions.drop(agent, channel_id)

    async def _may_start(self, name: str, lease: Lease) -> bool:
        """Whether to run a bot here: no other process runs it, or this process may stand by."""
        standby = self.setup.settings.standby
        try:
            if await lease.acquire():
                return True
            holder = describe_process(await lease.current_holder())
            if not standby:
                log.warning(
                    "%s already runs on this Redis (%s); waiting %.0f s in case that process has ended",
                    name,
                    holder,
                    DEAD_HOLDER_SECONDS,
                )
                if await lease.acquire(wait=DEAD_HOLDER_SECONDS):
                    return True
        except StateUnavailable:
            raise
        except Exception as error:  # such as another value under its key: the bot's run retries and reports it
            log.error("%s: acquiring the lease failed: %s; retrying", name, type(error).__name__)
            return True
        if standby:
            log.info("%s already runs on this Redis (%s); this process waits to take over", name, holder)
        else:
            log.warning("%s: not started here, because it runs in that process", name)
        return standby

    def _stop_without_bots(self, _: object = None) -> None:
        if not self._bots_started or self.stop.is_set() or not all(self._tasks[name].done() for name in self.bots):
            return
        if self.accounts:  # they keep running without bots
            if self.setup.agents:
                log.error(
                    "no bot is online in Discord (see above for the reasons); agents on other services keep running"
                )
            return
        self.exit_code = 1
        if not self.bots:
            log.error("no bot to start: all of them already run on this Redis; stop the other process first")
        elif any(bot.was_online for bot in self.bots.values()):
            log.error("no bot is running anymore (see above for the reasons); stopping")
        else:
            log.error("no bot could log in (see above for the reasons); stopping")
            self.exit_code = 2 if all(bot.failure for bot in self.bots.values()) else 1
        self.stop.set()

    async def wait_online(self) -> set[str]:
        """Wait until every active bot is online and subscribed, has failed, or can't reach Discord yet. Returns the
        names of the bots that are online."""
        await asyncio.gather(*(self._settled(bot) for bot in self.bots.values() if bot.lease.taken.is_set()))
        await self.services.bus.ready.wait()
        expected = set(self.setup.settings.bot_ids)
        for name in self.bots:
            user_id = self.services.chats.directory.id_of(name)
            if expected and user_id is not None and user_id not in expected:
                log.warning("BOT_IDS doesn't list %s; add its user id %d", name, user_id)
        return {name for name, bot in self.bots.items() if bot.cog.host.ready.is_set() and not bot.failure}

    async def wait_connected(self) -> None:
        """Wait until every active bot is connected to Discord, has failed, or can't reach it yet."""

        async def connected(bot: BotSupervisor) -> None:
            waits = (asyncio.create_task(bot.client.wait_for("connect")), asyncio.create_task(self._settled(bot)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel(waits)

        await asyncio.gather(*(connected(bot) for bot in self.bots.values() if bot.lease.taken.is_set()))

    async def _settled(self, bot: BotSupervisor) -> None:
        task = self._tasks.get(bot.agent.spec.name)
        if task is None:  # already closing
            return
        settled = asyncio.create_task(bot.settled.wait())
        try:
            await asyncio.wait((settled, task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()

    def webhook_receiver(self, agent: str) -> Receive | None:
        """Return the function that accepts an agent's webhook events, or None while it is offline."""
        bot = self.bots.get(agent)
        if bot is not None and bot.failure:
            return None
        host = self.host_of(agent)
        return host.automation.receive if host is not None else None

    def host_of(self, agent: str) -> AgentHost | None:
        """Return the host of an agent in this process, with or without a bot."""
        bot = self.bots.get(agent)
        if bot is not None:
            return bot.cog.host
        return self.personas.host_of(agent) if self.personas is not None else None

    def health(self) -> Health:
        online = tuple(name for name, bot in self.bots.items() if bot.online)
        offline = {name: bot.failure for name, bot in self.bots.items() if bot.failure}
        return Health(
            online,
            self.services.bus.ready.is_set(),
            stopping=self.stop.is_set(),
            offline=offline,
            record=self.read_record(),
            needs_bots=self.setup.has_agents,
            accounts={service.info.key: service.health() for service in self.chats if service.health()},
            failing=tuple(sorted(self.failing)),
        )

    # Coordinator and end

    def start_coordinator(self) -> None:
        config = self.setup.coordinator_config or coordinator_config(self.setup.settings)
        config = config if self.setup.resumes else replace(config, resumes=False)
        self._idle_memory = idle_memory(self.setup.settings)
        context = CoordinatorContext(
            config,
            self.services.bus,
            self.services.state,
            lease=self.lease(keys.COORDINATOR_OWNER),
            clock=self.setup.clock,
            rng=self.setup.rng,
            silence=self.services.silence,
            record=self.services.record.notes,
        )
        self.coordinator = Coordinator(context, self._idle_memory)
        self.start(self.coordinator.run(), "coordinator")

    async def drain(self) -> None:
        """Start no more turns, and give running turns SHUTDOWN_GRACE_SECONDS to finish.

        Waiting instructions are dropped: the coordinator sends them to the next process. People's messages are received
        until the end: a service may deliver each message only to open connections.
        """
        self.stop.set()
        for bot in self.bots.values():  # first: stopping the coordinator may take a moment
            bot.cog.host.stop_listening()
        if self.personas is not None:
            self.personas.stop_listening()
        await self._end_coordinator()
        turns = {name: bot.cog.host.drain() for name, bot in self.bots.items()}
        turns |= self.personas.drains() if self.personas is not None else {}
        await last_turns(turns, self.setup.settings.shutdown_grace_seconds, self.stopping.hurry)
        for service in self.chats:
            await service.stop_listening()

    async def _end_coordinator(self) -> None:
        coordinator = self._tasks.pop("coordinator", None)
        if coordinator is not None:
            await cancel([coordinator])
        if self._idle_memory is not None:
            await self._idle_memory.aclose()
            self._idle_memory = None

    async def aclose(self) -> None:
        self.stop.set()
        await self._end_coordinator()
        closing = [bot.aclose(self._tasks.pop(name)) for name, bot in self.bots.items()]
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("closing a bot failed", exc_info=outcome)
        await self.services.state.turns.finish()
        await cancel(list(self._tasks.values()))


class Watching:
    """The watchers of this process's turns: the record's writer (None if nothing is recorded) and telemetry."""

    def __init__(self, settings: Settings, link: RedisConnection, redact: Redactor) -> None:
        self.watcher, self._link = TurnWatchers(), link
        self._writer: RecordWriter | None = None
        if settings.records:
            self._writer = RecordWriter(link, redact, prompts=settings.records_prompts)
        self.record: Notes = self._writer or NoRecord()

    def start(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        """Start the watchers before the bots. The stack closes them after the bots and writes the last turns."""
        if self._writer is not None:
            self.watcher.add(self._writer)
            stack.push_async_callback(self._writer.aclose)
            runtime.watch(self._writer.run, "record")
        settings = runtime.setup.settings
        if settings.otel_endpoint is not None and (spans := spans_to(settings.otel_endpoint, settings)) is not None:
            self.watcher.add(spans)
            stack.push_async_callback(spans.aclose)
        if settings.health_port or settings.console:
            from agentic.telemetry.metrics import Metrics

            async def ping() -> None:
                await self._link.call_slowly(lambda redis: redis.ping(), PING_SECONDS)

            runtime.metrics = Metrics(lambda: self._readings(runtime), ping)
            self.watcher.add(runtime.metrics)
            runtime.watch(runtime.metrics.run, "metrics")

    def _readings(self, runtime: Runtime) -> Readings:
        from agentic.telemetry.metrics import Readings

        bots = runtime.bots
        return Readings(
            queues={name: bot.cog.host.queue.inbox.size() for name, bot in bots.items()},
            gateway={
                name: bot.client.latency
                for name, bot in bots.items()
                if bot.online and math.isfinite(bot.client.latency)
            },
            online={name: bot.online for name, bot in bots.items()},
            dropped=self._writer.dropped if self._writer is not None else 0,
        )


def spans_to(endpoint: str, settings: Settings) -> Spans | None:
    """Return spans that are sent to this address. Returns None, with a log line, if packages are missing."""
    headers = settings.otel_headers.get_secret_value() if settings.otel_headers is not None else ""
    redact = Redactor(settings.secrets()).secrets
    try:
        exporter = http_exporter(endpoint, headers)
        spans = Spans(exporter, redact, version=program_version(), words=settings.otel_capture_content)
    except ImportError:
        log.warning("%s", MISSING)
        return None
    log.info("sending traces to %s, %s message text", endpoint, "with" if settings.otel_capture_content else "without")
    return spans


def metrics_routes(runtime: Runtime) -> Sequence[web.RouteDef]:
    return (runtime.metrics.route(),) if runtime.metrics is not None else ()
