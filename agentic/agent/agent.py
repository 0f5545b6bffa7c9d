"""An agent and its parts, as turns know them, and how they are built from the settings and shared services.

No cog, no bot user, no Discord object: an agent may have no token and a channel may belong to another chat service,
and a turn doesn't notice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from agent_config import AgentSettings, Settings
from agentic.agent.limits import AgentLimits, ModelPrices, ProviderBackoff
from agentic.agent.options import OptionBook
from agentic.agent.persona import PersonaMemory, only_guild
from agentic.agent.services import IgnoredPeople, Services
from agentic.agent.side_calls import CheapModel
from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.outlet import NO_CHANNEL, ChannelView, Outlet
from agentic.context.options import Options
from agentic.context.prompt import Identity
from agentic.ids import MAX_ID
from agentic.llm.provider_table import PrefillMemory
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Drawing, ImagePrompt, Message, Model, Prompt, Reply
from agentic.net.images import ImageLimits
from agentic.record.memories import MemoryReader
from agentic.state.context import KeptWindows, Resets, Summaries
from agentic.state.idle import ProactiveMessages
from agentic.tools.call_log import ToolRecords
from agentic.tools.call_runner import ToolEvent
from agentic.tools.own_tools import MAX_RECALLED, ChannelAudience, Memory, RecallTool
from agentic.tools.tool import WEB_SEARCH, Toolbox, ToolContext, is_allowed
from agentic.tools.toolset import Own, Toolset

UNASKED_SHARE = 5  # turns that no person asked for may change a memory so many times as often as one person's

log = logging.getLogger(__name__)


class ToolDisplay(Protocol):
    """Shows an agent's tool calls in a channel, beside its turn."""

    def show(self, view: ChannelView, event: ToolEvent) -> None: ...


class AgentModel(Protocol):
    """The models of one agent, as turns ask them: a prompt's `guild_id` selects one. Answers contain no secrets: they
    are kept in Redis as well as posted."""

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
class ModelBinding:
    """A model that an agent calls, with its prices and bounds.

    `image_limits` is what a picture must be for it, `max_pictures` the most that it is shown, `backoff` pauses it while
    its provider refuses it. `runs_own_tools`: a coding agent; of our tools it is given its memory alone.
    """

    name: str  # provider/model, the first of its list
    complete: Callable[[Prompt, Sequence[Message]], Awaitable[Reply]]
    draw: Callable[[ImagePrompt], Awaitable[Drawing]]
    can_draw: bool
    prices: ModelPrices
    image_limits: ImageLimits
    max_pictures: int
    backoff: ProviderBackoff
    runs_own_tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModels:
    """The models of an agent: `main`, and those of guilds where another one is set. `cheap` is the process's model for
    small questions, None if there is none; `prefill` knows which models continue a transcript."""

    main: ModelBinding
    guilds: Mapping[int, ModelBinding]
    cheap: CheapModel | None
    prefill: PrefillMemory

    def for_guild(self, guild_id: int | None) -> ModelBinding:
        return self.guilds.get(guild_id or 0, self.main)

    def for_writing(self, guild_id: int | None) -> ModelBinding:
        """The model that writes notes for the coordinator: the cheap one, if there is one."""
        model, cheap = self.for_guild(guild_id), self.cheap
        if cheap is None:
            return model
        return replace(
            model,
            name=cheap.name,
            complete=cheap.complete,
            prices=cheap.prices,
            backoff=cheap.backoff,
            runs_own_tools=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """Who an agent is: `me` as prompts name it, and the color of its embeds. `names` maps the keys of all agents to
    their display names, and `directory` knows their user ids."""

    me: Identity
    names: Mapping[str, str]
    directory: Directory
    colour: int

    def ids(self, agents: Iterable[str]) -> dict[int, str]:
        """Map the user ids of these agents to their keys, without agents that have no id."""
        found = {agent: self.directory.id_of(agent) for agent in agents}
        return {user_id: agent for agent, user_id in found.items() if user_id is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemory:
    """What an agent knows about channels beside their transcripts, and who may be shown which of it.

    `resets` say which messages are no longer context, `record` finds old ones, and `audience` knows who reads which
    channel.
    """

    windows: KeptWindows
    resets: Resets
    summaries: Summaries
    record: MemoryReader
    unprompted: ProactiveMessages
    ignored: IgnoredPeople
    audience: ChannelAudience
    failed_summaries: set[int] = field(default_factory=set)  # rooms of which that was logged


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """The tools of the agent `agent`: those of `toolset` (None: no tools) and its `own`. `display` shows their calls in
    the channel, and `attachments` makes their pictures fit."""

    agent: str
    toolset: Toolset | None
    own: Own
    display: ToolDisplay | None
    attachments: AttachmentReader
    reported: set[str] = field(default_factory=set)  # what the log has said once

    def box(self, patterns: tuple[str, ...], *, searches: bool = False) -> Toolbox:
        """The tools that match a channel's option `tools`. `searches`: the model searches the web by itself."""
        return {} if self.toolset is None else self.toolset.toolbox(self.agent, patterns, searches, self.own)

    @property
    def records(self) -> ToolRecords | None:
        """The log of the calls; None without tools."""
        return self.toolset.records if self.toolset is not None else None

    def can_search(self, options: Options) -> bool:
        """Whether web_search is allowed. If it is not, always_search has no effect, which the log says once."""
        is_offered = self.toolset is not None and self.toolset.allows(self.agent, WEB_SEARCH)
        if is_offered and is_allowed(WEB_SEARCH, options.tools):
            return True
        if options.always_search and WEB_SEARCH not in self.reported:
            self.reported.add(WEB_SEARCH)
            log.warning("%s: always_search has no effect: the tool %s is not allowed", self.agent, WEB_SEARCH)
        return False


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An agent as its turns know it. `persona` is None if persona files are not read."""

    identity: AgentIdentity
    models: AgentModels
    limits: AgentLimits
    options: OptionBook
    persona: PersonaMemory | None
    memory: AgentMemory
    tools: AgentTools
    settings: Settings

    @property
    def key(self) -> str:
        return self.identity.me.key

    def now(self) -> float:
        """Unix seconds."""
        return self.limits.clock()

    def today(self) -> str:
        """The local date as Redis keys have it: 2026-11-20."""
        return datetime.fromtimestamp(self.now(), self.settings.timezone).date().isoformat()

    def options_for(self, outlet: Outlet) -> Options:
        return self.options.options(self.key, outlet.view)


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
    """Build the agent as its turns know it. Turns reach `model` and `guild_models` only through `agent_model`;
    `audience` knows the readers of its channels. A persona's tool calls have no `display`: only the record has them."""
    spec, shared = settings.spec, services.settings
    bind = partial(bind_model, agent_model=agent_model, clock=services.clock)
    persona = build_persona_memory(spec.name, services, audience)
    others = tuple(name for key, name in services.agents.names.items() if key != spec.name)
    personality = shared.personality_of(spec.name) if spec.name in shared.agents else spec.personality
    return Agent(
        identity=AgentIdentity(
            me=Identity(spec.name, spec.display_name, personality, others),
            names=services.agents.roster.names,
            directory=services.chats.directory,
            colour=spec.colour,
        ),
        models=AgentModels(
            main=bind(settings, model),
            guilds={guild: bind(settings.servers[guild], there) for guild, there in guild_models.items()},
            cheap=services.models.cheap,
            prefill=services.models.prefill,
        ),
        limits=AgentLimits(
            spec.name,
            services.state,
            services.clock,
            cooldown=shared.agent_cooldown_seconds,
            daily_max=shared.agent_max_daily,
            proactive_max=shared.daily_unasked,
        ),
        options=services.agents.options,
        persona=persona,
        memory=AgentMemory(
            windows=KeptWindows(spec.name, services.state.context.windows),
            resets=services.state.context.resets,
            summaries=services.state.context.summaries,
            record=services.record.memory,
            unprompted=services.state.posts.proactive,
            ignored=services.agents.ignored,
            audience=audience,
        ),
        tools=AgentTools(
            agent=spec.name,
            toolset=services.agents.tools,
            own=build_own_tools(spec.name, services, persona, audience),
            display=display,
            attachments=services.chats.attachments,
        ),
        settings=shared,
    )


def bind_model(
    settings: AgentSettings, model: Model, *, agent_model: AgentModel, clock: Callable[[], float]
) -> ModelBinding:
    """Build the model that these settings name, which turns reach through `agent_model`."""
    profiles = [one.profile for one in settings.usable or settings.models]
    coding = model if isinstance(model, AgentSdkModel) else None
    return ModelBinding(
        name=model.name,
        complete=agent_model.complete,
        draw=agent_model.draw,
        can_draw=model.can_draw,
        prices=ModelPrices.of(settings, free=model.free, query=coding.config.max_usd if coding else None),
        image_limits=ImageLimits(  # for all of these models, since any of them may answer
            min(one.picture_pixels for one in profiles),
            min(one.picture_bytes for one in profiles),
            frozenset.intersection(*(one.sees for one in profiles)),
        ),
        max_pictures=max(one.max_pictures for one in profiles),
        backoff=ProviderBackoff(settings.name, clock),
        runs_own_tools=coding is not None,
    )


def build_persona_memory(agent: str, services: Services, audience: ChannelAudience) -> PersonaMemory | None:
    """Return None if no personas are read."""
    if services.agents.personas is None:
        return None
    most = services.settings.memory_writes

    async def may_write(context: ToolContext) -> bool:
        today = f"{datetime.fromtimestamp(services.clock(), services.settings.timezone):%Y-%m-%d}"
        limit = most if context.asked_by is not None else most * UNASKED_SHARE
        return await services.state.limits.memory_quota.take(agent, today, context.asked_by, limit)

    def may_share(channel_id: int) -> bool:
        """A turn without a channel has seen no closed one."""
        if channel_id == NO_CHANNEL:
            return True
        return audience.is_open(channel_id) and only_guild(services.settings, audience.guild_of) is not None

    return PersonaMemory(services.agents.personas.of(agent), audience, may_write, may_share)


def build_own_tools(agent: str, services: Services, persona: PersonaMemory | None, audience: ChannelAudience) -> Own:
    """Return the tools that are made for this agent: those of its files, and recall if there is a record."""
    if not services.settings.records:
        return persona.tools if persona is not None else tuple

    async def find(query: str, may_see: Callable[[int], bool], here: int, first: int) -> Sequence[Memory]:
        """Look among what is context no longer, but was not forgotten, in words of people who are not ignored."""

        async def between(channel_id: int) -> tuple[int, int]:
            upto = first if first and channel_id == here else MAX_ID
            return await services.state.context.resets.since(agent, channel_id), upto

        ignored = services.agents.ignored.everybody(audience.guild_of(here))
        return await services.record.memory.recall(query, may_see, MAX_RECALLED, between, ignored)

    recall = RecallTool(audience, find, services.settings.timezone)
    return lambda: (*(persona.tools() if persona is not None else ()), recall)
