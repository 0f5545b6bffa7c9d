"""The set-up of a process, and the services that its agents share. Connections are opened in runtime.py."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp

from agent_config import AgentSettings, Settings, process_environment
from agent_coordinator.config import CoordinatorConfig
from agentic.actions.forget import CompletedRequests, Forgetting
from agentic.agent.limits import ProviderBackoff
from agentic.agent.options import load_options, no_layer
from agentic.agent.persona import Personas
from agentic.agent.roster import Lacks, Roster, lacking_key
from agentic.agent.services import AgentServices, Scope
from agentic.agent.side_calls import CheapModel, cheapest, meaning_of, tariff_of
from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.transcript import MAX_ENTRIES, Transcripts
from agentic.console.parts import People
from agentic.llm.embeddings import Embedder
from agentic.llm.types import Model
from agentic.net.images import PictureFetcher
from agentic.net.public_fetcher import PublicFetcher
from agentic.record.embeddings import Meaning
from agentic.record.memories import ReadingMemoryReader as MemoryReader
from agentic.runtime.coordinating import caps_of
from agentic.runtime.models import no_cheap_model, no_embedder, provider_model
from agentic.services.discord.history import HistoryFetcher
from agentic.services.discord.history_cache import HistoryCache
from agentic.services.discord.outbound import OutboundShared
from agentic.services.discord.webhooks import Webhooks
from agentic.state.forget_requests import ForgetRequests
from agentic.state.ignores import Ignores
from agentic.state.leases import this_process
from agentic.state.live_options import LiveOptions
from agentic.state.once import Notices
from agentic.state.posts import WebhookPosts
from agentic.state.sessions import Resets
from agentic.state.shared_state import Ledger
from agentic.state.stops import Stops
from agentic.state.writer import Notes
from agentic.themes import DEFAULT_THEME
from agentic.tools.mcp.client import McpServers
from agentic.tools.mcp.config import read_servers
from agentic.tools.records import ToolRecords
from agentic.tools.toolset import Toolset
from agentic.tools.web_tools import KEYLESS, Keyless, ToolSettings, built_in_tools
from agentic.turn.watchers import TurnWatcher
from agentic.wire.bus import Bus
from agentic.wire.coordinator_commands import CoordinatorCommands
from agentic.wire.link import RedisLink

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The set-up of a process. Local mode, tests and benchmarks differ from production in these values alone."""

    settings: Settings
    agents: tuple[str, ...]  # the bots of this process
    on_signal: tuple[str, ...] = ()  # the agents of this process that have a number there
    coordinator: bool = True
    make_model: Callable[[AgentSettings], Model] = provider_model
    make_cheap: Callable[[Settings], Model | None] = no_cheap_model
    make_embedder: Callable[[Settings], Embedder | None] = no_embedder
    lacks: Lacks = lacking_key  # why `make_model` could make none of a persona's
    coordinator_config: CoordinatorConfig | None = None
    use_default_redis: bool = True  # use a Redis that answers on 127.0.0.1:6379
    picture_origins: tuple[str, ...] = ()  # besides Discord's own
    tools: bool = True
    personas: bool = True  # read from settings.personas_dir
    pages: Callable[[], PublicFetcher] = PublicFetcher  # fetches pages for tools
    keyless: Keyless = KEYLESS  # the searches without a key
    search_bases: Mapping[str, str] = field(default_factory=dict)  # other addresses of search engines
    people: People | None = None  # who may write from the console: local mode's person
    resumes: bool = True  # continue turns and conversations that an earlier run did not end
    holder: str = field(default_factory=this_process)  # of leases and turns; unique unless no other process can run
    rng: random.Random = field(default_factory=random.Random)
    clock: Callable[[], float] = time.time


def build_services(
    setup: Setup,
    link: RedisLink,
    *,
    session: aiohttp.ClientSession,
    webhooks: aiohttp.ClientSession,
    outbound: OutboundShared,
    tools: Toolset | None,
    done: CompletedRequests,
    record: Notes,
    open_memory: Callable[[Meaning | None], MemoryReader],
    watcher: TurnWatcher,
) -> AgentServices:
    """Build the services over open connections; `webhooks` is the session for webhooks, `open_memory` opens the record
    for recalling."""
    settings = setup.settings
    names = {name: agent.spec.display_name for name, agent in settings.agents.items()}
    directory = Directory(names)
    personas = Personas(settings) if setup.personas else None
    folder = settings.personas_dir if personas else None
    ledger = Ledger(link, setup.clock, holder=setup.holder, caps=caps_of(settings))
    roster = Roster(settings, directory, ledger.presence, folder, setup.lacks)
    bus = Bus(link, clock=setup.clock, rng=setup.rng)
    live = LiveOptions(link, bus)
    options = load_options(settings, roster.names, personas.layer if personas else no_layer, live)
    transcripts = Transcripts(directory, max(MAX_ENTRIES, options.usual_reach))
    posts = WebhookPosts(link, setup.clock)
    records = tools.records if tools else None
    meaning = meaning_of(settings, setup.make_embedder(settings), ledger.replay_costs, setup.clock)
    return AgentServices(
        settings=settings,
        scope=Scope(settings.channels, frozenset(settings.guild_ids), DEFAULT_THEME if settings.allow_dms else None),
        names=names,
        roster=roster,
        bus=bus,
        stops=Stops(link, bus, setup.clock),
        ignores=Ignores(link, bus),
        forgetting=Forgetting(ForgetRequests(link, bus), ledger, roster.names, done, tools=records, personas=folder),
        orders=CoordinatorCommands(bus),
        resets=Resets(link, bus),
        ledger=ledger,
        directory=directory,
        transcripts=transcripts,
        fetcher=HistoryFetcher(transcripts, posts),
        attachments=AttachmentReader(PictureFetcher(session, extra_origins=setup.picture_origins)),
        clock=setup.clock,
        rng=setup.rng,
        outbound=outbound,
        record=record,
        memory=open_memory(meaning),
        watcher=watcher,
        webhooks=Webhooks(webhooks, directory, posts, outbound.refused),
        notices=Notices(link),
        tools=tools,
        options=options,
        live_options=live,
        history_cache=HistoryCache(transcripts),
        personas=personas,
        cheap=cheap_of(setup, outbound),
        meaning=meaning,
    )


def cheap_of(setup: Setup, outbound: OutboundShared) -> CheapModel | None:
    """The cheap model with its prices; None where the process has none."""
    model, chosen = setup.make_cheap(setup.settings), cheapest(setup.settings.cheap_models)
    if model is None or chosen is None:
        return None
    backoff = ProviderBackoff("the cheap model", setup.clock)
    tariff = replace(tariff_of(chosen), free=model.free)
    return CheapModel(model=model, tariff=tariff, redact=outbound.redact.secrets, backoff=backoff)


def tools_for(
    setup: Setup, session: aiohttp.ClientSession, outbound: OutboundShared
) -> AbstractAsyncContextManager[Toolset]:
    """The tools of the installation, as a context to enter."""
    return open_tools(
        setup.settings,
        session,
        environment=process_environment(),
        redact=outbound.redact.secrets,
        clock=setup.clock,
        pages=setup.pages,
        keyless=setup.keyless,
        search_bases=setup.search_bases,
    )


@asynccontextmanager
async def open_tools(
    settings: Settings,
    session: aiohttp.ClientSession,
    *,
    environment: Mapping[str, str],
    redact: Callable[[str], str],
    clock: Callable[[], float],
    pages: Callable[[], PublicFetcher] = PublicFetcher,
    keyless: Keyless = KEYLESS,
    search_bases: Mapping[str, str] | None = None,
) -> AsyncIterator[Toolset]:
    """Open the tools. MCP servers start in the background.

    `session` queries search engines, `pages` makes the fetcher for public addresses, MCP servers see a part of
    `environment`, `redact` removes secrets from records and from queries, `search_bases` replaces engines' addresses.
    Raises OSError where the records cannot be read.
    """
    servers, problems = read_servers(settings.config_files_dir / "mcp.yaml", settings.named_texts)
    for problem in problems:
        log.warning("MCP server skipped: %s", problem)
    wanted = ToolSettings(
        search_keys=settings.search_keys, search_bases=search_bases or {}, keyless=settings.web_search
    )
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(ToolRecords(settings.tools_dir, redact=redact))
        fetcher = await stack.enter_async_context(pages())
        built_in = await stack.enter_async_context(
            built_in_tools(wanted, session, fetcher, clock=clock, keyless=keyless, redact=redact)
        )
        running = await stack.enter_async_context(McpServers(servers, environment=environment, clock=clock))
        allowed_of = {agent: settings.tools_of(agent) for agent in settings.agents}
        yield Toolset(built_in.tools, running, records, settings.allowed_tools, allowed_of, built_in.pictures)
