"""Open all resources, build the bots and the coordinator, and run until the end (the composition root).

    settings → Redis → bus, shared state → services → one bot for each agent with a token → coordinator

Resources are opened here with `async with` and passed down.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from agent_config import process_environment
from agentic.agent.forgetting import CompletedRequests
from agentic.agent.services import Services
from agentic.automation.webhook_server import WebhookServer, serve_webhooks
from agentic.llm.registry import LazyModel, warm_up
from agentic.llm.retry import Fallbacks
from agentic.process.redaction import Redactor, own_folders
from agentic.record.recorder import recording
from agentic.runtime.bot import cancel
from agentic.runtime.health import serving_health
from agentic.runtime.process import Runtime, Watching, metrics_routes
from agentic.runtime.rooms import serve_rooms
from agentic.runtime.services import ProcessConfig, build_services, open_tools, recall_agents
from agentic.services.context import HostedService, load_services
from agentic.tools.toolset import Toolset
from agentic.wire.connection import RedisConnection
from agentic.wire.server import locate_redis

log = logging.getLogger(__name__)


@asynccontextmanager
async def running(setup: ProcessConfig) -> AsyncIterator[Runtime]:
    """Open all resources and start the bots and the coordinator; on exit, close them in order."""
    async with AsyncExitStack() as stack:
        chats = tuple(load_services(setup.settings)) if setup.has_agents else ()
        link, services, watching = await _open(setup, chats, stack)
        runtime = Runtime(setup, services, chats, link)
        await runtime.open_chats(stack)
        await _read_shared_state(services)
        if setup.coordinator:
            record = recording(
                setup.settings,
                link,
                holder=services.state.turns.holder,
                clock=setup.clock,
                meaning=services.models.embeddings,
            )
            runtime.read_record = await stack.enter_async_context(record)
        bus = asyncio.create_task(services.bus.run(), name="bus")
        stack.push_async_callback(cancel, [bus])  # canceled last: others publish until then
        watching.start(runtime, stack)
        stack.push_async_callback(runtime.aclose)
        bus.add_done_callback(runtime.essential_ended)
        runtime.watch(services.silence.run, "silence")
        runtime.watch(services.agents.live_options.run, "live options")
        runtime.watch(services.record.forgetting.run, "forgetting")
        runtime.watch(services.agents.options.run, "options")
        if setup.settings.records and setup.settings.message_log_days != 0:
            runtime.watch(services.record.messages.run, "message log")
        if setup.has_agents:
            await runtime.start_bots()
        if setup.coordinator:
            runtime.start_coordinator()
        settings = setup.settings
        if setup.has_agents:
            await serve_rooms(runtime, stack)
            runtime.listen()
        if setup.has_agents and settings.events_port and settings.events_secret is not None:
            secret, replays = settings.events_secret.get_secret_value(), services.state.posts.replay_guard
            server = WebhookServer(secret, runtime.webhook_receiver, replays, setup.clock)
            host, port = settings.events_host, settings.events_port
            await stack.enter_async_context(serve_webhooks(server, host, port, runtime.connections))
        if settings.console and setup.coordinator and setup.has_agents:  # processes of run_bot.py have no console
            from agentic.runtime.console import serve_console

            await serve_console(runtime, stack)
        yield runtime


async def _open(
    setup: ProcessConfig, chats: Sequence[HostedService], stack: AsyncExitStack
) -> tuple[RedisConnection, Services, Watching]:
    """Open the connections and build the services that all agents share; the stack closes them."""
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
    link = await stack.enter_async_context(RedisConnection(place.address))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    redact = Redactor(settings.secrets(), own_folders(settings.data_dir))
    done = CompletedRequests(settings.data_dir)  # before tool-call records are read
    tools: Toolset | None = None
    if setup.tools:
        opening = open_tools(setup, session, redact.secrets, process_environment())
        tools = await stack.enter_async_context(opening)
    watching = Watching(settings, link, redact)
    services = build_services(
        setup,
        link,
        session=session,
        redact=redact,
        hosted=chats,
        tools=tools,
        done=done,
        record=watching.record,
        watcher=watching.watcher,
    )
    stack.push_async_callback(services.record.memory.aclose)
    if services.models.embeddings is not None:
        stack.push_async_callback(services.models.embeddings.aclose)
    if services.models.cheap is not None:
        stack.push_async_callback(services.models.cheap.model.aclose)
    return link, services, watching


async def _read_shared_state(services: Services) -> None:
    """Read the silence, the live options, and the known agents from Redis, and subscribe to changes."""
    for state in (services.silence, services.agents.live_options):
        state.start()
        await state.try_read()
    for scope in [order.scope for order in services.silence.active() if order.scope.kind == "all"]:
        where = "" if scope.guild is None else f" in server {scope.guild}"
        log.warning(
            "all bots are still paused%s from before this start; resume them with /bots resume or in the console", where
        )
    await recall_agents(services.state.coordination.presence, services.chats.directory, services.agents.names)
    services.record.forgetting.start(services.bus)
    services.bus.orders.start()
    services.state.context.resets.start(services.bus)


async def serve(setup: ProcessConfig) -> int:
    """Run until a signal or a failure. Returns the exit code."""
    async with running(setup) as runtime:
        runtime.stopping.on_signals()
        port, routes = setup.settings.health_port, metrics_routes(runtime)
        async with serving_health(port, runtime.health, runtime.connections, routes=routes):
            runtime.start(finish_startup(runtime), "warm-up", essential=False)
            await runtime.stop.wait()
            log.info("stopping")
            await runtime.drain()
        return runtime.exit_code


async def finish_startup(runtime: Runtime) -> None:
    """Import the SDKs while the bots wait for Discord's guilds; then the garbage collector skips what is loaded."""
    await runtime.wait_connected()
    models = [model for bot in runtime.bots.values() for model in bot.models]
    parts = [part for model in models for part in (model.models if isinstance(model, Fallbacks) else (model,))]
    await warm_up(part for part in parts if isinstance(part, LazyModel))
    await runtime.wait_online()
    gc.collect()
    gc.freeze()
