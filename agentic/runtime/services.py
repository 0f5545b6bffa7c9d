"""The configuration of a process, and the services, models, and tools that its agents share.

A provider's SDK is imported at its first call. runtime.py opens the connections.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp

from agent_config import AgentSettings, ModelSettings, Settings
from agent_coordinator.config import CoordinatorConfig, from_settings
from agentic.agent.forgetting import CompletedRequests, Forgetting
from agentic.agent.limits import ProviderBackoff
from agentic.agent.notices import Cancels, PersonNotices
from agentic.agent.options import load_options, no_layer
from agentic.agent.persona import Personas, read_fronts
from agentic.agent.roster import Lacks, Roster, lacking_key
from agentic.agent.services import AgentBook, IgnoredPeople, Moderators, Record, Services, SharedModels
from agentic.agent.side_calls import CheapModel, cheapest, prices_of
from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.service import ChannelInfo, ChatService, ServedChannels, ServiceRegistry
from agentic.chat.transcript import MAX_ENTRIES, Transcripts
from agentic.console.parts import People
from agentic.llm.embeddings import Embedder
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.registry import LazyEmbedder, LazyModel, build_model
from agentic.llm.retry import Fallbacks
from agentic.llm.types import Model
from agentic.net.fetch import PublicFetcher
from agentic.net.images import PictureFetcher
from agentic.process.redaction import Redactor
from agentic.record.embeddings import Embeddings
from agentic.record.idle_queries import IdleMemory
from agentic.record.memories import MemoryReader
from agentic.record.notes import TurnWatcher
from agentic.state.budgets import Caps
from agentic.state.leases import this_process
from agentic.state.live_options import LiveOptions
from agentic.state.presence import Presence
from agentic.state.record_stream import Notes
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silence
from agentic.themes import DEFAULT_THEME
from agentic.tools.call_log import ToolRecords
from agentic.tools.mcp.config import read_servers
from agentic.tools.mcp.servers import McpServers
from agentic.tools.toolset import KEYLESS, Keyless, Toolset, built_in_tools
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection

log = logging.getLogger(__name__)

RENEW_EVERY = 5.0  # seconds; the key expires after fifteen
RENEW_FIRST = 3600.0  # seconds; the key expires after a month


def coordinator_config(settings: Settings) -> CoordinatorConfig:
    """Return the coordinator's part of the settings, including personas with an account but no bot."""
    personas = [agent for agent in settings.account_agents if agent not in settings.agents]
    fronts = read_fronts(settings.personas_dir, personas)
    config = from_settings(settings, tuple(settings.agents), fronts)
    # Without Discord there is no channel to plan conversations for.
    return config if settings.channels else replace(config, schedule_min=0, schedule_max=0)


def idle_memory(settings: Settings) -> IdleMemory | None:
    """Return the memory for background tasks, which the caller closes, or None if nothing is recorded."""
    return IdleMemory(settings.record_file, exchanges=settings.summarise_exchanges) if settings.records else None


def caps_of(settings: Settings) -> Caps:
    daily = settings.budget_daily_usd
    return Caps(
        all=daily,
        agent=settings.budget_agent_usd,
        channel=settings.budget_channel_usd,
        person=settings.user_budget,
        members=settings.budget_rooms_usd,
        idle=None if daily is None else daily * settings.idle_budget_share,
        mentions=settings.mentions_per_minute,
    )


def provider_model(agent: AgentSettings, *, free_at_home: bool = True) -> Model:
    """Return the agent's models as a single model that falls back from each to the next. It needs a usable model.
    `free_at_home`: calls to a server in the owner's network are free."""
    usable = {model.name: model for model in agent.usable}
    if agent.coding is not None and agent.models[0].name in usable:
        return AgentSdkModel(agent.coding, free=free_at_home and agent.models[0].is_free)
    draws = next((name for name, model in usable.items() if model.provider == agent.image_provider), None)
    models = [
        _lazy(model, (agent.image_model or "") if name == draws else "", agent.retries, free_at_home=free_at_home)
        for name, model in usable.items()
    ]
    return models[0] if len(models) == 1 else Fallbacks(models)


def cheap_model(settings: Settings, *, free_at_home: bool = True) -> Model | None:
    """Return the model for small questions: CHEAP_MODEL, or the least expensive default of the providers with a key."""
    chosen = cheapest(settings.cheap_models)
    return None if chosen is None else _lazy(chosen, "", settings.model_retries, free_at_home=free_at_home)


def embedder_of(settings: Settings) -> Embedder | None:
    """Return the model of EMBEDDING_MODEL, if it is set. Its client is built at the first call."""
    model = settings.embedding
    if model is None:
        return None
    free, attempts = model.is_free, settings.model_retries + 1

    def build() -> Embedder:
        return build_model(**model.access, image_model="", free=free, attempts=attempts)

    return LazyEmbedder(model.name, build, free=free)


def _lazy(model: ModelSettings, image_model: str, retries: int, *, free_at_home: bool) -> Model:
    free = free_at_home and model.is_free

    def build() -> Model:
        return build_model(**model.access, image_model=image_model, free=free, attempts=retries + 1)

    return LazyModel(model.name, build, can_draw=bool(image_model), free=free)


def make_guild_models(agent: AgentSettings, make: Callable[[AgentSettings], Model]) -> dict[int, Model]:
    """Return the models of single servers, by server id. Servers with the same list share a model."""
    made: dict[tuple[str, ...], Model] = {}
    found: dict[int, Model] = {}
    for server, there in agent.elsewhere.items():
        names = tuple(model.name for model in there.usable)
        if names not in made:
            made[names] = make(there)
        found[server] = made[names]
        log.info("%s: server %d uses %s", agent.name, server, ", ".join(names))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMakers:
    """Make the models of a process. `lacks` says why `make` can't make a persona's models."""

    make: Callable[[AgentSettings], Model] = provider_model
    make_cheap: Callable[[Settings], Model | None] = lambda _settings: None
    make_embedder: Callable[[Settings], Embedder | None] = lambda _settings: None
    lacks: Lacks = lacking_key


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAccess:
    picture_origins: tuple[str, ...] = ()  # besides Discord's
    pages: Callable[[], PublicFetcher] = PublicFetcher
    keyless: Keyless = KEYLESS  # search engines without a key
    search_bases: Mapping[str, str] = field(default_factory=dict)  # other addresses of search engines


@dataclass(frozen=True, kw_only=True)
class ProcessConfig:
    """The setup of a process. Local mode, tests, and benchmarks differ from production only in these values."""

    settings: Settings
    agents: tuple[str, ...]  # the bots of this process
    accounts: tuple[str, ...] = ()  # the agents of this process with an account of their own, such as a phone number
    coordinator: bool = True
    models: ModelMakers = field(default_factory=ModelMakers)
    coordinator_config: CoordinatorConfig | None = None
    use_default_redis: bool = True  # use a Redis that answers on 127.0.0.1:6379
    web: WebAccess = field(default_factory=WebAccess)
    tools: bool = True
    personas: bool = True  # read from settings.personas_dir
    people: People | None = None  # people who can write from the console: local mode's person
    resumes: bool = True  # continue unfinished turns and conversations of an earlier run
    holder: str = field(default_factory=this_process)  # of leases and turns; unique if other processes can run
    rng: random.Random = field(default_factory=random.Random)
    clock: Callable[[], float] = time.time

    @property
    def has_agents(self) -> bool:
        """Whether the process is more than a coordinator whose bots run elsewhere."""
        return bool(self.agents or self.accounts)


def build_services(
    setup: ProcessConfig,
    link: RedisConnection,
    *,
    session: aiohttp.ClientSession,
    redact: Redactor,
    hosted: Iterable[ChatService],
    tools: Toolset | None,
    done: CompletedRequests,
    record: Notes,
    watcher: TurnWatcher,
) -> Services:
    """Build the services over open connections. The caller closes their models and memory."""
    settings = setup.settings
    names = {name: agent.spec.display_name for name, agent in settings.agents.items()}
    directory = Directory(names, settings.owner_user_ids)
    personas = Personas(settings) if setup.personas else None
    folder = settings.personas_dir if personas else None
    bus = Bus(link, clock=setup.clock, rng=setup.rng)
    silence = Silence(link, bus, setup.clock)
    state = SharedState(link, setup.clock, holder=setup.holder, caps=caps_of(settings), silence=silence)
    roster = Roster(settings, directory, state.coordination.presence, folder, setup.models.lacks)
    live, notices = LiveOptions(link, bus), state.posts.notices
    options = load_options(settings, roster.names, personas.layer if personas else no_layer, live, notices)
    transcripts = Transcripts(directory, max(MAX_ENTRIES, options.usual_reach))
    records = tools.records if tools else None
    embedder = setup.models.make_embedder(settings)
    meaning = None if embedder is None else Embeddings(settings, embedder, state.limits.replay_costs, setup.clock)

    def with_prices(model: Model, chosen: ModelSettings, name: str) -> CheapModel:
        prices, backoff = replace(prices_of(chosen), free=model.free), ProviderBackoff(name, setup.clock)
        return CheapModel(model=model, prices=prices, redact=redact.secrets, backoff=backoff)

    def make_judge(agent: AgentSettings) -> CheapModel:
        return with_prices(setup.models.make(agent), (agent.usable or agent.models)[0], "judge")

    model, chosen = setup.models.make_cheap(settings), cheapest(settings.cheap_models)
    cheap = None if model is None or chosen is None else with_prices(model, chosen, "the cheap model")
    chats = ServiceRegistry(
        hosted,
        scope=ServedChannels(
            settings.channels, frozenset(settings.guild_ids), DEFAULT_THEME if settings.allow_dms else None
        ),
        directory=directory,
        transcripts=transcripts,
        attachments=AttachmentReader(PictureFetcher(session, extra_origins=setup.web.picture_origins)),
        redact=redact,
    )
    agents = AgentBook(
        names=names,
        roster=roster,
        personas=personas,
        options=options,
        live_options=live,
        tools=tools,
        ignored=IgnoredPeople(settings, silence),
        moderators=Moderators(settings, options),
        person_notices=PersonNotices(bus, directory, roster.names),
        cancels=Cancels(bus),
    )
    return Services(
        settings=settings,
        clock=setup.clock,
        rng=setup.rng,
        state=state,
        bus=bus,
        silence=silence,
        chats=chats,
        agents=agents,
        record=Record(
            notes=record,
            memory=MemoryReader(settings.record_file, meaning) if settings.records else MemoryReader(),
            watcher=watcher,
            forgetting=Forgetting(state, roster.names, done, chats=chats, tools=records, personas=folder),
            settings=settings,
            clock=setup.clock,
            state=state,
            transcripts=transcripts,
            agents=agents,
        ),
        models=SharedModels(cheap=cheap, make_judge=make_judge, embeddings=meaning),
    )


@asynccontextmanager
async def open_tools(
    setup: ProcessConfig, session: aiohttp.ClientSession, redact: Callable[[str], str], environment: Mapping[str, str]
) -> AsyncIterator[Toolset]:
    """Open the tools. MCP servers start in the background.

    `session` queries search engines, MCP servers see a part of `environment`, and `redact` removes secrets from records
    and queries. Raises OSError if the records can't be read.
    """
    settings, clock = setup.settings, setup.clock
    servers, problems = read_servers(settings.config_files_dir / "mcp.yaml", settings.named_texts)
    for problem in problems:
        log.warning("reading mcp.yaml failed: %s; this server is skipped", problem)
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(ToolRecords(settings.tools_dir, redact=redact))
        fetcher = await stack.enter_async_context(setup.web.pages())
        built_in, pictures = await stack.enter_async_context(
            built_in_tools(
                session,
                fetcher,
                settings.search_keys,
                search_bases=setup.web.search_bases,
                keyless=setup.web.keyless if settings.web_search else None,
                clock=clock,
                redact=redact,
            )
        )
        running = await stack.enter_async_context(McpServers(servers, environment=environment, clock=clock))
        allowed_of = {agent: settings.tools_of(agent) for agent in settings.agents}
        yield Toolset(built_in, running, records, settings.allowed_tools, allowed_of, pictures)


async def keep_present(
    agent: str,
    store: Presence,
    directory: Directory,
    names: Iterable[str],
    online: Callable[[], bool],
    channels: Callable[[], Iterable[ChannelInfo]],
) -> None:
    """Renew `agent:{name}:ready` (its value is the user id) while `online()`, and read the other agents' keys, until
    canceled. If the agent is offline, its key expires: it may be online in another process."""
    all_names = tuple(names)
    announced = False
    try:
        while True:
            user_id = directory.id_of(agent)
            announced = online() and user_id is not None
            if announced:
                servers = {each.channel_id: each.guild_id for each in channels() if each.guild_id is not None}
                await store.renew(agent, str(user_id), servers)
            _learn(directory, await store.read(all_names) or {})
            await asyncio.sleep(RENEW_EVERY)
    finally:
        if announced:  # else the key may belong to another process
            await store.clear(agent)


async def stay_known(agent: str, store: Presence) -> None:
    """Keep the time since when an agent without a bot exists, until canceled: it answers messages since then."""
    while True:
        is_noted = await store.note_first(agent)
        await asyncio.sleep(RENEW_FIRST if is_noted else RENEW_EVERY)


async def recall_agents(store: Presence, directory: Directory, names: Iterable[str]) -> None:
    """Learn the last known user ids of all agents, so that a bot recognizes the others before they are online."""
    _learn(directory, await store.seen(names))


def _learn(directory: Directory, present: Mapping[str, str]) -> None:
    for agent, text in present.items():
        if text.isdecimal() and directory.id_of(agent) is None:
            directory.learn(agent, int(text))
