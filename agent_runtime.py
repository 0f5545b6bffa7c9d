"""The composition root: opens every resource, builds the bots and the coordinator, owns start and shutdown.

    settings → Redis → bus, ledger → house → one bot for each agent with a token → coordinator

Everything is opened with `async with` and handed down; nothing below opens its own. A bot's failure is its own; when
the bus or the coordinator fails, the whole stops.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from agent_bot import BotProcess, cancel, provider_model
from agent_cogs.events_http import EventDoor, Receive, serving_events
from agent_cogs.forgetting import DoneOrders, Forgetting
from agent_cogs.house import House
from agent_cogs.option_book import no_layer, opened_book
from agent_cogs.persona import Personas
from agent_cogs.tool_house import ToolHouse, open_tools
from agent_cogs.triggers import Scope
from agent_config import AgentSettings, Settings, process_environment
from agent_coordinator.config import CoordinatorConfig, from_settings
from agent_coordinator.coordinator import Coordinator
from agent_discord.attachments import PictureReader
from agent_discord.directory import Directory
from agent_discord.fetching import Fetcher
from agent_discord.gate import WayOut
from agent_discord.pasts import Pasts
from agent_discord.redaction import Redactor, own_folders
from agent_discord.transcript import MAX_ENTRIES, Transcripts
from agent_discord.webhooks import Webhooks
from agent_health import Health, serving_health
from agent_llm import pricing
from agent_llm.fallback import Fallbacks
from agent_llm.lazy import LazyModel
from agent_llm.model import Model
from agent_net.fetch import PictureFetcher
from agent_net.public import PublicFetcher
from agent_protocol import keys
from agent_protocol.bus import Bus
from agent_protocol.connection import RedisAway, RedisLink
from agent_protocol.embedded import locate_redis
from agent_protocol.forgets import Forgets
from agent_protocol.ignores import Ignores
from agent_protocol.leases import Lease, this_process
from agent_protocol.ledger import Ledger
from agent_protocol.money import Caps
from agent_protocol.notices import Notices
from agent_protocol.orders import Orders
from agent_protocol.sessions import Resets
from agent_protocol.stops import Stops
from agent_protocol.webhook_posts import WebhookPosts
from agent_shutdown import Stopping, last_turns
from agent_themes import DEFAULT_THEME

DEAD_HOLDER_SECONDS = 6.0  # a lease that nobody renews has run out by then

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What one process is to run. Local mode, tests and benchmarks differ from production in these values alone."""

    settings: Settings
    agents: tuple[str, ...]  # the bots of this process
    coordinator: bool = True
    make_model: Callable[[AgentSettings], Model] = provider_model
    coordinator_config: CoordinatorConfig | None = None
    use_default_redis: bool = True  # take what answers on 127.0.0.1:6379
    picture_origins: tuple[str, ...] = ()  # of a Discord that is not Discord
    tools: bool = True
    personas: bool = True  # read from settings.personas_dir
    pages: Callable[[], PublicFetcher] = PublicFetcher  # what the tools read addresses with
    rng: random.Random = field(default_factory=random.Random)
    clock: Callable[[], float] = time.time


class Runtime:
    """A running process. `stop` ends it; `failed` says that something essential ended by itself."""

    def __init__(self, setup: Setup, house: House, link: RedisLink) -> None:
        self.setup, self.house = setup, house
        self.bots: dict[str, BotProcess] = {}
        self.coordinator: Coordinator | None = None
        self.stopping = Stopping()
        self.stop = self.stopping.stop
        self.failed = False
        self._bots_started = False
        self._link = link
        self._holder = house.ledger.turns.holder
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
        lease = Lease(self._link, keys.owner(agent.spec.name), holder=self._holder)
        standby = self.setup.settings.standby
        if not await lease.acquire(wait=0.0 if standby else DEAD_HOLDER_SECONDS):
            holder = await lease.current_holder()
            if not standby:
                log.warning("%s already runs on this Redis (%s): it is not run twice", agent.spec.name, holder)
                return
            log.info("%s runs on this Redis (%s): this process stands by", agent.spec.name, holder)
        bot = BotProcess(agent, self.house, lease, self.setup.make_model(agent))
        self.bots[agent.spec.name] = bot
        self.start(bot.run(), agent.spec.name, essential=False).add_done_callback(self._stop_without_bots)

    def _stop_without_bots(self, _: object = None) -> None:
        """A bot that failed leaves the others running; without any there is nothing to run."""
        if not self._bots_started or self.stop.is_set() or not all(self._tasks[name].done() for name in self.bots):
            return
        if not self.bots:
            log.error("every bot already runs on this Redis")
        elif any(bot.cog.ready.is_set() for bot in self.bots.values()):
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
        await self.house.bus.ready.wait()
        self._check_bot_ids()
        return {name for name, bot in self.bots.items() if bot.cog.ready.is_set() and not bot.failure}

    async def _settled(self, bot: BotProcess) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (bot.cog.ready, bot.delayed)]
        try:
            await asyncio.wait((*waits, self._tasks[bot.agent.spec.name]), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _check_bot_ids(self) -> None:
        expected = set(self.setup.settings.bot_ids)
        for name in self.bots:
            user_id = self.house.directory.id_of(name)
            if expected and user_id is not None and user_id not in expected:
                log.warning("BOT_IDS does not list %s, whose user id is %d", name, user_id)

    def receiver(self, agent: str) -> Receive | None:
        """What takes the news that come for an agent from outside."""
        bot = self.bots.get(agent)
        return bot.cog.errands.receive if bot is not None and not bot.failure else None

    # -- coordinator --------------------------------------------------------------------------------------------------

    def start_coordinator(self) -> None:
        config = self.setup.coordinator_config or from_settings(self.setup.settings, tuple(self.setup.settings.agents))
        self.coordinator = Coordinator(
            config,
            self.house.bus,
            self.house.ledger,
            lease=Lease(self._link, keys.COORDINATOR_OWNER, holder=self._holder),
            clock=self.setup.clock,
            rng=self.setup.rng,
            stops=self.house.stops,
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
        await cancel(list(self._tasks.values()))


@asynccontextmanager
async def running(setup: Setup) -> AsyncIterator[Runtime]:
    """Opens everything and starts the bots and the coordinator; closes all of it in order."""
    settings = setup.settings
    async with AsyncExitStack() as stack:
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
        way_out = WayOut(Redactor(settings.secrets(), own_folders(settings.data_dir)))
        done = DoneOrders(settings.data_dir)
        tools = await stack.enter_async_context(_tools(setup, session, way_out)) if setup.tools else None
        house = _house(setup, link, session, way_out, tools, done)
        stack.push_async_callback(house.fetcher.aclose)
        runtime = Runtime(setup, house, link)
        await _remember(house)
        bus = asyncio.create_task(house.bus.run(), name="bus")
        stack.push_async_callback(cancel, [bus])
        stack.push_async_callback(runtime.aclose)
        bus.add_done_callback(runtime._ended)
        runtime.start(house.stops.run(), "stops")
        runtime.start(house.ignores.run(), "ignores")
        runtime.start(house.forgetting.run(), "forgetting")
        if house.book is not None:
            runtime.start(house.book.run(), "options")
        await runtime.start_bots()
        if setup.coordinator:
            runtime.start_coordinator()
        if settings.events_port and settings.events_secret is not None:
            secret = settings.events_secret.get_secret_value()
            door = EventDoor(secret, runtime.receiver, house.ledger.replays, setup.clock)
            await stack.enter_async_context(serving_events(door, settings.events_host, settings.events_port))
        yield runtime


def _tools(setup: Setup, session: aiohttp.ClientSession, way_out: WayOut) -> AbstractAsyncContextManager[ToolHouse]:
    return open_tools(
        setup.settings,
        session,
        environment=process_environment(),
        redact=way_out.redact.secrets,
        clock=setup.clock,
        pages=setup.pages,
    )


def _house(
    setup: Setup,
    link: RedisLink,
    session: aiohttp.ClientSession,
    way_out: WayOut,
    tools: ToolHouse | None,
    done: DoneOrders,
) -> House:
    settings = setup.settings
    names = {name: agent.spec.display_name for name, agent in settings.agents.items()}
    directory = Directory(names)
    personas = Personas(settings) if setup.personas else None
    book = opened_book(settings, names, personas.layer if personas else no_layer)
    transcripts = Transcripts(directory, max(MAX_ENTRIES, book.usual_reach))
    bus = Bus(link, clock=setup.clock, rng=setup.rng)
    posts = WebhookPosts(link, setup.clock)
    ledger = Ledger(link, setup.clock, holder=this_process(), caps=_caps(settings))
    return House(
        settings=settings,
        scope=Scope(settings.channels, frozenset(settings.guild_ids), DEFAULT_THEME if settings.allow_dms else None),
        names=names,
        bus=bus,
        stops=Stops(link, bus, setup.clock),
        ignores=Ignores(link, bus),
        forgetting=Forgetting(
            Forgets(link, bus),
            ledger,
            names,
            done,
            tools=tools.records if tools else None,
            personas=settings.personas_dir if personas else None,
        ),
        orders=Orders(bus),
        resets=Resets(link, bus),
        ledger=ledger,
        directory=directory,
        transcripts=transcripts,
        fetcher=Fetcher(transcripts, posts),
        pictures=PictureReader(PictureFetcher(session, extra_origins=setup.picture_origins)),
        clock=setup.clock,
        rng=setup.rng,
        way_out=way_out,
        webhooks=Webhooks(session, directory, posts, way_out.refused),
        notices=Notices(link),
        tools=tools,
        book=book,
        pasts=Pasts(transcripts),
        personas=personas,
    )


async def _remember(house: House) -> None:
    """What people wanted before this process began, and how it hears what they want from now on."""
    for memory in (house.stops, house.ignores):
        memory.start()
        with suppress(RedisAway):  # it is read when Redis is there
            await memory.read()
    house.forgetting.start()
    house.orders.start()
    if house.resets is not None:
        house.resets.start()


def _caps(settings: Settings) -> Caps:
    return Caps(
        all=settings.daily_budget,
        agent=settings.budget_agent_usd,
        channel=settings.budget_channel_usd,
        person=settings.user_budget,
        mentions=settings.mentions_per_minute,
    )


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
    return Health(bots=online, bus=runtime.house.bus.ready.is_set(), stopping=runtime.stop.is_set())


async def settle_down(runtime: Runtime) -> None:
    """After the start: the SDKs that will be needed, then no more garbage collection of what stays."""
    await runtime.wait_online()
    for bot in runtime.bots.values():
        models = bot.model.models if isinstance(bot.model, Fallbacks) else (bot.model,)
        for model in models:
            if isinstance(model, LazyModel):
                await model.get_ready()
    if any(not bot.model.free for bot in runtime.bots.values()):
        await asyncio.to_thread(pricing.load)  # else the first mention would wait for it
    gc.collect()
    gc.freeze()
