"""The composition root: opens every resource, builds the bots and the coordinator, owns start and shutdown.

    settings → Redis → bus, ledger → services → one bot for each agent with a token → coordinator

Everything is opened with `async with` and handed down; nothing below opens its own. A bot's failure is its own; when
the bus or the coordinator fails, the whole stops.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import aiohttp

from agent_cogs.automation.webhook_server import Receive, WebhookServer, serving_events
from agent_cogs.services import AgentServices
from agent_cogs.slash.forget import CompletedRequests
from agent_config import AgentSettings
from agent_coordinator.config import from_settings
from agent_coordinator.coordinator import Coordinator
from agent_discord.rest.outbound import OutboundShared
from agent_llm.fallback import Fallbacks
from agent_llm.lazy import LazyModel, warm_up
from agent_llm.types import Model
from agent_process.redaction import Redactor, own_folders
from agent_process.signals import Shutdown, last_turns
from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.connection.locate import locate_redis
from agent_protocol.coordination.leases import DEAD_HOLDER_SECONDS, Lease
from agent_protocol.wire import keys
from agent_runtime.bot import BotSupervisor
from agent_runtime.bot_run import cancel
from agent_runtime.health import Health, serving_health
from agent_runtime.models import make_guild_models
from agent_runtime.presence import recall_agents
from agent_runtime.services import Setup as Setup
from agent_runtime.services import build_services, tools_for

log = logging.getLogger(__name__)


class Runtime:
    """A running process. `stop` ends it; `failed` says that something essential ended by itself."""

    def __init__(self, setup: Setup, services: AgentServices, link: RedisLink) -> None:
        self.setup, self.services = setup, services
        self.bots: dict[str, BotSupervisor] = {}
        self.coordinator: Coordinator | None = None
        self.stopping = Shutdown()
        self.stop = self.stopping.stop
        self.failed = False
        self._bots_started = False
        self._link = link
        self._holder = services.ledger.turns.holder
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, work: Coroutine[Any, Any, None], name: str, *, essential: bool = True) -> asyncio.Task[None]:
        """Owns a task. An essential one that ends by itself ends the process."""
        task = asyncio.create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(self._ended if essential else self._reported)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._reported(task)
        if not task.cancelled() and not self.stop.is_set():
            self.failed = True
            self.stop.set()

    def _reported(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)

    # -- bots ---------------------------------------------------------------------------------------------------------

    async def start_bots(self) -> None:
        """Starts every bot of the set-up that nobody else runs on this Redis; with STANDBY the others stand by."""
        chosen = [self.setup.settings.agents[name] for name in self.setup.agents]
        await asyncio.gather(*(self._start_bot(agent) for agent in chosen))
        self._bots_started = True
        self._stop_without_bots()

    async def _start_bot(self, agent: AgentSettings) -> None:
        lease, make = Lease(self._link, keys.owner(agent.spec.name), holder=self._holder), self.setup.make_model
        if not await self._may_begin(agent.spec.name, lease):
            return
        if not self.setup.resumes:
            await self._drop_unfinished(agent.spec.name)
        bot = BotSupervisor(agent, self.services, lease, make(agent), make_guild_models(agent, make))
        self.bots[agent.spec.name] = bot
        self.start(bot.run(), agent.spec.name, essential=False).add_done_callback(self._stop_without_bots)

    async def _drop_unfinished(self, agent: str) -> None:
        """Turns of an earlier run, and a coding agent's sessions. Raises RedisAway."""
        ledger = self.services.ledger
        for turn_id in await ledger.turns.open_ids(agent):
            await ledger.turns.drop(agent, turn_id)
        for channel_id in self.setup.settings.channels:
            await ledger.sessions.drop(agent, channel_id)

    async def _may_begin(self, name: str, lease: Lease) -> bool:
        """Whether a bot is to run here: nobody else runs it, or it may stand by."""
        standby = self.setup.settings.standby
        try:
            if await lease.acquire(wait=0.0 if standby else DEAD_HOLDER_SECONDS):
                return True
            holder = await lease.current_holder()
        except RedisAway:
            raise
        except Exception as error:  # a value of another kind under its key, say: the bot's run tries again, and says so
            log.error("%s: its lease could not be taken (%s)", name, type(error).__name__)
            return True
        if standby:
            log.info("%s runs on this Redis (%s): this process stands by", name, holder)
        else:
            log.warning("%s already runs on this Redis (%s): it is not run twice", name, holder)
        return standby

    def _stop_without_bots(self, _: object = None) -> None:
        """A bot that failed leaves the others running; without any there is nothing to run."""
        if not self._bots_started or self.stop.is_set() or not all(self._tasks[name].done() for name in self.bots):
            return
        if not self.bots:
            log.error("every bot already runs on this Redis")
        elif any(bot.was_online for bot in self.bots.values()):
            log.error("no bot is left")
        else:
            log.error("no bot could log in")
        self.failed = True
        self.stop.set()

    async def wait_online(self) -> set[str]:
        """Waits until every bot that acts here is online and subscribed, has failed, or cannot reach Discord yet; the
        names of those online."""
        acting = [bot for bot in self.bots.values() if bot.lease.taken.is_set()]
        waits = [asyncio.create_task(self._settled(bot)) for bot in acting]
        await asyncio.gather(*waits)
        await self.services.bus.ready.wait()
        self._check_bot_ids()
        return {name for name, bot in self.bots.items() if bot.cog.ready.is_set() and not bot.failure}

    async def wait_connected(self) -> None:
        """Waits until every bot that acts here has its connection to Discord, or is waited for no more."""
        acting = [bot for bot in self.bots.values() if bot.lease.taken.is_set()]
        await asyncio.gather(*(self._connected(bot) for bot in acting))

    async def _connected(self, bot: BotSupervisor) -> None:
        waits = (asyncio.create_task(bot.client.wait_for("connect")), asyncio.create_task(self._settled(bot)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(waits)

    async def _settled(self, bot: BotSupervisor) -> None:
        task = self._tasks.get(bot.agent.spec.name)
        if task is None:  # the end has begun
            return
        settled = asyncio.create_task(bot.settled.wait())
        try:
            await asyncio.wait((settled, task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()

    def _check_bot_ids(self) -> None:
        expected = set(self.setup.settings.bot_ids)
        for name in self.bots:
            user_id = self.services.directory.id_of(name)
            if expected and user_id is not None and user_id not in expected:
                log.warning("BOT_IDS does not list %s, whose user id is %d", name, user_id)

    def receiver(self, agent: str) -> Receive | None:
        """What takes the news that come for an agent from outside."""
        bot = self.bots.get(agent)
        return bot.cog.errands.receive if bot is not None and not bot.failure else None

    # -- coordinator --------------------------------------------------------------------------------------------------

    def start_coordinator(self) -> None:
        config = self.setup.coordinator_config or from_settings(self.setup.settings, tuple(self.setup.settings.agents))
        config = config if self.setup.resumes else replace(config, resumes=False)
        self.coordinator = Coordinator(
            config,
            self.services.bus,
            self.services.ledger,
            lease=Lease(self._link, keys.COORDINATOR_OWNER, holder=self._holder),
            clock=self.setup.clock,
            rng=self.setup.rng,
            stops=self.services.stops,
        )
        self.start(self.coordinator.run(), "coordinator")

    async def drain(self) -> None:
        """Begins no turn any more and gives the running ones SHUTDOWN_GRACE_SECONDS.

        What waits is dropped: an instruction is repeated by whoever waits for it, to the next process.
        """
        self.stop.set()
        for bot in self.bots.values():  # at once: the coordinator's end may take a moment
            bot.cog.stop_listening()
        await self._end_coordinator()
        turns = {name: bot.cog.drain() for name, bot in self.bots.items()}
        await last_turns(turns, self.setup.settings.shutdown_grace_seconds, self.stopping.hurry)

    async def _end_coordinator(self) -> None:
        coordinator = self._tasks.pop("coordinator", None)
        if coordinator is not None:
            await cancel([coordinator])

    async def aclose(self) -> None:
        """Coordinator first, then the bots, side by side."""
        self.stop.set()
        await self._end_coordinator()
        goodbyes = [bot.aclose(self._tasks.pop(name)) for name, bot in self.bots.items()]
        for outcome in await asyncio.gather(*goodbyes, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("a bot could not be closed in order", exc_info=outcome)
        await self.services.ledger.finish()
        await cancel(list(self._tasks.values()))


@asynccontextmanager
async def running(setup: Setup) -> AsyncIterator[Runtime]:
    """Opens everything and starts the bots and the coordinator; closes all of it in order."""
    async with AsyncExitStack() as stack:
        link, services = await _opened(setup, stack)
        runtime = Runtime(setup, services, link)
        await _remember(services)
        bus = asyncio.create_task(services.bus.run(), name="bus")
        stack.push_async_callback(cancel, [bus])  # ends after all that publishes
        stack.push_async_callback(runtime.aclose)
        bus.add_done_callback(runtime._ended)
        runtime.start(services.stops.run(), "stops")
        runtime.start(services.ignores.run(), "ignores")
        runtime.start(services.ledger.mutes.run(services.names), "mutes")
        runtime.start(services.forgetting.run(), "forgetting")
        if services.options is not None:
            runtime.start(services.options.run(), "options")
        await runtime.start_bots()
        if setup.coordinator:
            runtime.start_coordinator()
        await _open_door(runtime, stack)
        yield runtime


async def _opened(setup: Setup, stack: AsyncExitStack) -> tuple[RedisLink, AgentServices]:
    """What the process is connected by, and what its agents share; closed with the stack."""
    settings = setup.settings
    place = await stack.enter_async_context(
        locate_redis(
            settings.redis_url,
            settings.data_dir,
            runtime_dir=settings.runtime_dir,
            use_default_port=setup.use_default_redis,
        )
    )
    log.info("Redis: %s", place.description)
    link = await stack.enter_async_context(RedisLink(place.address))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    outbound = OutboundShared(Redactor(settings.secrets(), own_folders(settings.data_dir)))
    done = CompletedRequests(settings.data_dir)  # before the records of tools are read
    tools = await stack.enter_async_context(tools_for(setup, session, outbound)) if setup.tools else None
    services = build_services(setup, link, session, outbound, tools, done)
    stack.push_async_callback(services.fetcher.aclose)
    return link, services


async def _open_door(runtime: Runtime, stack: AsyncExitStack) -> None:
    """For news from outside, where the settings want it."""
    settings = runtime.setup.settings
    if settings.events_port and settings.events_secret is not None:
        secret = settings.events_secret.get_secret_value()
        door = WebhookServer(secret, runtime.receiver, runtime.services.ledger.replays, runtime.setup.clock)
        await stack.enter_async_context(serving_events(door, settings.events_host, settings.events_port))


async def _remember(services: AgentServices) -> None:
    """What people wanted before this process began, and how it hears what they want from now on."""
    for memory in (services.stops, services.ignores):
        memory.start()
        with suppress(RedisAway):  # it is read when Redis is there
            await memory.read()
    with suppress(RedisAway):
        await recall_agents(services.ledger.presence, services.directory, services.names)
    services.forgetting.start()
    services.orders.start()
    if services.resets is not None:
        services.resets.start()


def stop_on_signals(runtime: Runtime) -> None:
    """Ctrl-C, SIGTERM and a terminal that is closed end the process in order."""
    runtime.stopping.on_signals()


async def serve(setup: Setup) -> int:
    """Runs until a signal or a failure; the process's exit code."""
    async with running(setup) as runtime:
        stop_on_signals(runtime)
        async with serving_health(setup.settings.health_port, lambda: health_of(runtime)):
            runtime.start(settle_down(runtime), "warm-up", essential=False)
            await runtime.stop.wait()
            log.info("stopping")
            await runtime.drain()
        return 1 if runtime.failed else 0


def health_of(runtime: Runtime) -> Health:
    online = tuple(name for name, bot in runtime.bots.items() if bot.online)
    offline = {name: bot.failure for name, bot in runtime.bots.items() if bot.failure}
    return Health(online, runtime.services.bus.ready.is_set(), stopping=runtime.stop.is_set(), offline=offline)


async def settle_down(runtime: Runtime) -> None:
    """Imports the SDKs that will be needed, from the moment in which the bots only wait for their servers to arrive;
    then looks no more for garbage in what stays."""
    await runtime.wait_connected()
    models = [model for bot in runtime.bots.values() for each in bot.models for model in _parts(each)]
    await warm_up(model for model in models if isinstance(model, LazyModel))
    await runtime.wait_online()
    gc.collect()
    gc.freeze()


def _parts(model: Model) -> Sequence[Model]:
    return model.models if isinstance(model, Fallbacks) else (model,)
