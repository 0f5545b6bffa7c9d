"""An agent as its turns know it, and how it is built from the settings and the shared services.

Nothing here is a Discord object: an agent may have no token, and its channel may belong to another chat service.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from agent_config import AgentSettings, ModelSettings, Settings
from agentic.agent.limits import AgentLimits, ModelPrices, ProviderBackoff
from agentic.agent.options import OptionBook
from agentic.agent.persona import PersonaMemory, only_guild
from agentic.agent.services import Services, today_of
from agentic.agent.side_calls import ModelBinding
from agentic.chat.outlet import NO_CHANNEL, ChannelView, Outlet
from agentic.context.options import Options
from agentic.context.prompt import Identity
from agentic.ids import MAX_ID
from agentic.llm.home_model import HomeModel
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Drawing, ImagePrompt, Message, Model, Prompt, Reply
from agentic.net.images import ImageLimits
from agentic.state.context import KeptWindows
from agentic.tools.call_log import ToolRecords
from agentic.tools.call_runner import ToolEvent
from agentic.tools.own_tools import MAX_EARLIER, MAX_RECALLED, ChannelAudience, Memory, RecallTool, ThreadReadTool
from agentic.tools.tool import WEB_SEARCH, Toolbox, ToolContext, is_allowed
from agentic.tools.toolset import Own, Toolset
from agentic.wire.entries import RoomConclusion

UNPROMPTED_SHARE = 5  # turns that no person caused may together change a memory this many times as often as one person

log = logging.getLogger(__name__)


class ToolDisplay(Protocol):
    """Shows an agent's tool calls in a channel."""

    def show(self, view: ChannelView, event: ToolEvent) -> None: ...


class AgentModel(Protocol):
    """Calls an agent's models for its turns: the prompt's `guild_id` selects the model. Replies contain no secrets,
    since they are stored in Redis as well as posted."""

    async def complete(self, prompt: Prompt, history: Sequence[Message]) -> Reply: ...
    async def draw(self, prompt: ImagePrompt) -> Drawing: ...


@dataclass(frozen=True, slots=True)
class PersonaModel:
    """The model of a persona without a bot."""

    model: Model
    redact: Callable[[str], str]

    async def complete(self, prompt: Prompt, history: Sequence[Message]) -> Reply:
        reply = await self.model.complete(prompt, history)
        return replace(reply, text=self.redact(reply.text))

    async def draw(self, prompt: ImagePrompt) -> Drawing:
        return await self.model.draw(prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModels:
    """An agent's models: `guilds` has the models of guilds that don't use `main`."""

    main: ModelBinding
    guilds: Mapping[int, ModelBinding]

    def for_guild(self, guild_id: int | None) -> ModelBinding:
        return self.guilds.get(guild_id or 0, self.main)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An agent as its turns know it: its own parts, and the services that all agents of the process share. `me` is the
    agent as prompts name it. `persona` is None if persona files aren't read. `audience` knows who reads which channel.
    `own_tools` returns the tools made for this agent, and `display` shows its tool calls in the channel."""

    me: Identity
    color: int  # of its embeds
    services: Services
    models: AgentModels
    limits: AgentLimits
    options: OptionBook
    persona: PersonaMemory | None
    windows: KeptWindows
    audience: ChannelAudience
    own_tools: Own
    display: ToolDisplay | None
    failed_summaries: set[int] = field(default_factory=set)  # rooms whose failed summary was logged
    reported: set[str] = field(default_factory=set)  # tools whose absence was logged

    @property
    def key(self) -> str:
        return self.me.key

    @property
    def settings(self) -> Settings:
        return self.services.settings

    @property
    def names(self) -> Mapping[str, str]:
        """The display names of all agents, by key."""
        return self.services.agents.roster.names

    @property
    def toolset(self) -> Toolset | None:
        """The tools of the process; None if agents have no tools."""
        return self.services.agents.tools

    @property
    def tool_records(self) -> ToolRecords | None:
        """The log of tool calls; None without tools."""
        return self.toolset.records if self.toolset is not None else None

    def now(self) -> float:
        """Unix seconds."""
        return self.limits.clock()

    def today(self) -> str:
        """Return the local date as Redis keys have it: 2026-11-20."""
        return datetime.fromtimestamp(self.now(), self.settings.timezone).date().isoformat()

    def user_ids(self, agents: Iterable[str]) -> dict[int, str]:
        """Map the user ids of these agents to their keys, without agents that have no id."""
        found = {agent: self.services.chats.directory.id_of(agent) for agent in agents}
        return {user_id: agent for agent, user_id in found.items() if user_id is not None}

    def options_for(self, outlet: Outlet) -> Options:
        return self.options.options(self.key, outlet.view)

    def model_for_notes(self, guild_id: int | None) -> ModelBinding:
        """Return the model that writes notes for the coordinator: the cheap model, if there is one."""
        model, cheap = self.models.for_guild(guild_id), self.services.models.cheap
        if cheap is None:
            return model
        return replace(
            model,
            name=cheap.name,
            complete=cheap.complete,
            prices=cheap.prices,
            backoff=cheap.backoff,
            runs_own_tools=False,
            is_at_home=False,
        )

    def toolbox(self, patterns: tuple[str, ...], *, searches: bool = False) -> Toolbox:
        """Return the tools that match a channel's option `tools`. `searches`: the model searches the web by itself."""
        return {} if self.toolset is None else self.toolset.toolbox(self.key, patterns, searches, self.own_tools)

    def can_search(self, options: Options) -> bool:
        """Return whether web_search is allowed. If not, the log says once that always_search has no effect."""
        is_offered = self.toolset is not None and self.toolset.allows(self.key, WEB_SEARCH)
        if is_offered and is_allowed(WEB_SEARCH, options.tools):
            return True
        if options.always_search and WEB_SEARCH not in self.reported:
            self.reported.add(WEB_SEARCH)
            log.warning("%s: always_search has no effect: the tool %s is not allowed", self.key, WEB_SEARCH)
        return False


def build_agent(
    settings: AgentSettings,
    services: Services,
    agent_model: AgentModel,
    model: Model,
    guild_models: Mapping[int, Model],
    *,
    audience: ChannelAudience,
    display: ToolDisplay | None = None,
) -> Agent:
    """Build an agent. Its turns call `model` and `guild_models` only through `agent_model`. Without a `display` only
    the record has its tool calls."""
    spec, shared = settings.spec, services.settings
    persona = build_persona_memory(spec.name, services, audience)
    others = tuple(name for key, name in services.agents.names.items() if key != spec.name)
    personality = shared.personality_of(spec.name) if spec.name in shared.agents else spec.personality
    return Agent(
        me=Identity(spec.name, spec.display_name, personality, others),
        color=spec.color,
        services=services,
        models=AgentModels(
            main=bind_model(settings, model, agent_model, services.clock),
            guilds={
                guild: bind_model(settings.servers[guild], there, agent_model, services.clock)
                for guild, there in guild_models.items()
            },
        ),
        limits=AgentLimits(
            spec.name,
            services.state,
            services.clock,
            cooldown=shared.agent_cooldown_seconds,
            daily_max=shared.agent_max_daily,
            proactive_max=shared.daily_unprompted,
        ),
        options=services.agents.options,
        persona=persona,
        windows=KeptWindows(spec.name, services.state.context.windows),
        audience=audience,
        own_tools=build_own_tools(spec.name, services, persona, audience),
        display=display,
    )


def bind_model(
    settings: AgentSettings, model: Model, agent_model: AgentModel, clock: Callable[[], float]
) -> ModelBinding:
    usable = settings.usable or settings.models
    profiles = [each.profile for each in usable]
    coding = model if isinstance(model, AgentSdkModel) else None
    return ModelBinding(
        name=model.name,
        complete=agent_model.complete,
        draw=agent_model.draw,
        can_draw=model.can_draw,
        prices=ModelPrices.of(settings, free=model.free, query=coding.config.max_usd if coding else None),
        image_limits=ImageLimits(  # any of these models may answer, so the lowest limits apply
            min(each.picture_pixels for each in profiles),
            min(each.picture_bytes for each in profiles),
            frozenset.intersection(*(each.sees for each in profiles)),
        ),
        max_pictures=max(each.max_pictures for each in profiles),
        backoff=ProviderBackoff(settings.name, clock),
        runs_own_tools=coding is not None,
        is_at_home=coding is None and any(each.is_at_home for each in settings.usable[:1]),
        continues_text=usable[0].endpoint is not None and usable[0].endpoint.prefill == "completions",
        home=home_model(usable[0]) if model.free and coding is None else None,
    )


def home_model(settings: ModelSettings) -> HomeModel | None:
    """Return what is known about the model, None if it isn't on the owner's machines."""
    endpoint = settings.endpoint
    if endpoint is None or not settings.is_at_home:
        return None
    key = settings.api_key.get_secret_value() if settings.api_key else None
    kind = "ollama" if endpoint.api == "ollama" else endpoint.name
    return HomeModel(kind, settings.model, settings.base_url or endpoint.base_url, key)


def build_persona_memory(agent: str, services: Services, audience: ChannelAudience) -> PersonaMemory | None:
    """Return None if persona files aren't read."""
    if services.agents.personas is None:
        return None

    async def may_write(context: ToolContext) -> bool:
        limit = services.settings.memory_writes * (UNPROMPTED_SHARE if context.asked_by is None else 1)
        return await services.state.limits.memory_quota.take(agent, today_of(services), context.asked_by, limit)

    def may_share(channel_id: int) -> bool:
        if channel_id == NO_CHANNEL:  # such a turn has seen no private channel
            return True
        return audience.is_open(channel_id) and only_guild(services.settings, audience.guild_of) is not None

    return PersonaMemory(services.agents.personas.of(agent), audience, may_write, may_share)


def build_own_tools(agent: str, services: Services, persona: PersonaMemory | None, audience: ChannelAudience) -> Own:
    """Return the tools made for this agent: the tools for its files, and recall if there is a record."""
    if not services.settings.records:
        return persona.tools if persona is not None else tuple

    async def find(query: str, may_see: Callable[[int], bool], here: int, first: int) -> Sequence[Memory]:
        """Search messages that are no longer in the prompt, without forgotten ones and those of ignored people."""

        async def between(channel_id: int) -> tuple[int, int]:
            upto = first if first and channel_id == here else MAX_ID
            return await services.state.context.resets.since(agent, channel_id), upto

        ignored = services.agents.ignored.everybody(audience.guild_of(here))
        return await services.record.memory.recall(query, may_see, MAX_RECALLED, between, ignored)

    async def find_rooms(query: str, may_see: Callable[[int], bool], here: int) -> Sequence[RoomConclusion]:
        ignored = services.agents.ignored.everybody(audience.guild_of(here))
        since = partial(services.state.context.resets.since, agent)
        return await services.record.memory.earlier_rooms(query, may_see, here, MAX_EARLIER, since, ignored)

    zone = services.settings.timezone
    reading = (RecallTool(audience, find, zone), ThreadReadTool(audience, find_rooms, zone))
    return lambda: (*(persona.tools() if persona is not None else ()), *reading)
