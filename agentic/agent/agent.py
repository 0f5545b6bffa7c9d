"""An agent and its parts, as turns know them, and how they are built from the settings and shared services.

No cog, no bot user, no Discord object: an agent may have no token and a channel may belong to another chat service,
and a turn doesn't notice.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, Literal, Protocol

from agent_config import AgentSettings
from agentic.agent.events import TurnEvent, searches_first
from agentic.agent.limits import (
    EXPLAINED_SECONDS,
    AgentLimits,
    ModelPrices,
    PromptOverhead,
    ProviderBackoff,
    ReplyThrottle,
    profile,
)
from agentic.agent.options import OptionBook, PinProblemReporter
from agentic.agent.persona import PersonaMemory, only_guild
from agentic.agent.services import AgentServices
from agentic.agent.side_calls import CheapModel
from agentic.chat.outlet import NO_CHANNEL, ChannelView, Outlet
from agentic.chat.service import ChannelAudience
from agentic.context.options import Options
from agentic.context.prompt import Identity
from agentic.ids import MAX_ID
from agentic.llm.profiles import PrefillMemory
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Drawing, ImagePrompt, Message, Model, Picture, Prompt, Reply
from agentic.net.images import ImageLimits
from agentic.personas.prompt import PersonaPrompt
from agentic.record.memories import MemoryReader
from agentic.state.budgets import Costs
from agentic.state.context import KeptWindows, Summaries
from agentic.state.idle import UnaskedMessages
from agentic.state.rooms import RoomStore
from agentic.tools.call_log import ToolRecords
from agentic.tools.call_runner import ToolEvent
from agentic.tools.mcp.servers import McpServers
from agentic.tools.own_tools import MAX_RECALLED, MEMORY, Memory, RecallTool
from agentic.tools.tool import WEB_SEARCH, Toolbox, ToolContext, is_allowed
from agentic.tools.toolset import Own, nothing

BargeIn = Literal["yield", "finish", "ignore"]
ShowTools = Callable[[ChannelView, ToolEvent], None]

UNASKED_SHARE = 5  # turns that no person asked for may change a memory so many times as often as one person's

log = logging.getLogger(__name__)


class AgentModel(Protocol):
    """What a turn asks: the models of one agent, of which a prompt's `guild_id` names one. Its answers are without
    secrets, since they are kept in Redis as well as posted."""

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


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An agent as its turns know it. `guild_models` are the models of guilds where another than `model` is set; `names`
    maps all agents' keys to shown names, `user_id` gives an agent's id in Discord. `options` says what is set for each
    agent in a channel.

    `toolbox` has its tools under a channel's options, for a model that searches the web by itself or not;
    `tool_records` keeps what they brought, `show_tools` shows it in Discord. `may_use` says whether ALLOWED_TOOLS has a
    tool's name; `find_picture` looks for a picture on the web.
    """

    identity: Identity
    names: Mapping[str, str]
    model: ModelBinding
    limits: AgentLimits
    costs: Costs
    reply_throttle: ReplyThrottle  # of lines that say why there is no answer
    sign_throttle: ReplyThrottle  # of lines that say what a sign means
    options: OptionBook
    windows: KeptWindows
    show_costs: bool
    colour: int
    timezone: tzinfo
    clock: Callable[[], float]
    rng: random.Random
    rooms: RoomStore
    summaries: Summaries
    unasked: UnaskedMessages
    failed_summaries: set[int] = field(default_factory=set)  # rooms of which that was logged
    cheap: CheapModel | None = None  # None: there is none
    asks_cheaply: bool = False  # the cheap model is asked first whether the agent speaks
    reset: Callable[[int], Awaitable[int]]  # channel → the last message that is context no longer
    user_id: Callable[[str], int | None]
    bots_role: int | None = None  # whose mention calls all agents
    ignores: Callable[[int, frozenset[int], int | None], bool]  # a person, with the roles that are known, in a guild
    sees: Callable[[int], Callable[[int], bool]]  # a channel → what all of its readers may read
    memory: MemoryReader = field(default_factory=MemoryReader)
    guild_models: Mapping[int, ModelBinding]
    pin_reporter: PinProblemReporter
    prefill: PrefillMemory
    overhead: PromptOverhead = field(default_factory=PromptOverhead)  # around the transcript in its prompts
    toolbox: Callable[[tuple[str, ...], bool], Toolbox]  # the second: its model searches by itself
    tool_servers: McpServers | None = None  # None: no tools
    may_use: Callable[[str], bool]
    find_picture: Callable[[str], Coroutine[Any, Any, Picture | None]] | None = None  # None: not looked for
    reported: set[str] = field(default_factory=set)  # what the log has said once
    tool_records: ToolRecords | None = None
    fitted: Callable[[Picture, ImageLimits], Awaitable[Picture | None]]  # makes a tool's picture fit
    show_tools: ShowTools
    persona: PersonaMemory | None = None  # None: persona files are not read
    barge_in: BargeIn  # what a person's message does to a conversation's turns

    @property
    def key(self) -> str:
        return self.identity.key

    def at(self, outlet: Outlet) -> Agent:
        """The agent with the model of the outlet's guild. A turn asks once, when it begins."""
        model = self.guild_models.get(outlet.view.guild_id or 0)
        return self if model is None else replace(self, model=model)

    def options_for(self, outlet: Outlet) -> Options:
        return self.options.options(self.key, outlet.view)

    def searches_first(self, event: TurnEvent, options: Options) -> bool:
        """Whether the turn searches the web before its answer. Who leaves web_search out of the tools wins over the
        option always_search, which the log says once."""
        if not searches_first(event, options):
            return False
        if self.may_use(WEB_SEARCH) and is_allowed(WEB_SEARCH, options.tools):
            return True
        if options.always_search and WEB_SEARCH not in self.reported:
            self.reported.add(WEB_SEARCH)
            log.warning("%s: always_search has no effect where the tool %s is not allowed", self.key, WEB_SEARCH)
        return False

    async def persona_prompt(self, channel_id: int, options: Options) -> PersonaPrompt:
        """The agent's persona files as they are now, as far as the channel may hear of them."""
        if self.persona is None:
            return PersonaPrompt("", "")
        writes = options.max_tool_depth > 0 and MEMORY in self.toolbox(options.tools, True)
        return await self.persona.prompt(channel_id, writes=writes)

    def today(self) -> str:
        """The local date as Redis keys have it: 2026-11-20."""
        return datetime.fromtimestamp(self.clock(), self.timezone).date().isoformat()


def build_agent(
    settings: AgentSettings,
    services: AgentServices,
    asked: AgentModel,
    model: Model,
    guild_models: Mapping[int, Model],
    *,
    show_tools: ShowTools,
    audience: ChannelAudience,
) -> Agent:
    """Build the agent as its turns know it. Turns reach `model` and `guild_models` only by `asked`; `audience`
    knows the readers of its channels."""
    spec, shared, tools = settings.spec, services.settings, services.tools
    bind = partial(bind_model, asked=asked, clock=services.clock)
    persona = persona_memory_of(spec.name, services, audience)
    others = tuple(name for key, name in services.names.items() if key != spec.name)
    personality = shared.personality_of(spec.name) if spec.name in shared.agents else spec.personality
    return Agent(
        identity=Identity(spec.name, spec.display_name, personality, others),
        names=services.roster.names,
        model=bind(settings, model),
        guild_models={guild: bind(settings.servers[guild], there) for guild, there in guild_models.items()},
        limits=AgentLimits(
            spec.name,
            services.state.limits,
            cooldown=shared.agent_cooldown_seconds,
            daily_max=shared.agent_max_daily,
            unasked_max=shared.daily_unasked,
        ),
        costs=services.state.limits.costs,
        reply_throttle=ReplyThrottle(services.clock),
        sign_throttle=ReplyThrottle(services.clock, EXPLAINED_SECONDS),
        options=services.options,
        windows=KeptWindows(spec.name, services.state.context.windows),
        show_costs=shared.show_cost_embeds,
        colour=spec.colour,
        timezone=shared.timezone,
        clock=services.clock,
        rng=services.rng,
        barge_in=shared.barge_in,
        rooms=services.state.coordination.rooms,
        summaries=services.state.context.summaries,
        unasked=services.state.posts.proactive,
        cheap=services.cheap,
        asks_cheaply=shared.asks_cheaply(spec.name),
        reset=partial(services.resets.since, spec.name),
        user_id=services.directory.id_of,
        bots_role=shared.bots_role_id,
        ignores=services.is_ignored,
        sees=audience.may_see,
        memory=services.memory,
        pin_reporter=PinProblemReporter(services.notices),
        prefill=services.prefill,
        toolbox=partial(tools.toolbox, spec.name, own=own_tools(spec.name, services, persona, audience))
        if tools
        else lambda patterns, searches: Toolbox(),
        tool_servers=tools.servers if tools else None,
        may_use=partial(tools.allows, spec.name) if tools else lambda name: False,
        find_picture=tools.pictures.find if tools and tools.pictures else None,
        tool_records=tools.records if tools else None,
        fitted=services.attachments.fitted,
        show_tools=show_tools,
        persona=persona,
    )


def bind_model(settings: AgentSettings, model: Model, *, asked: AgentModel, clock: Callable[[], float]) -> ModelBinding:
    """Build the model that these settings name, which turns reach by `asked`."""
    profiles = [profile(one) for one in settings.usable or settings.models]
    coding = model if isinstance(model, AgentSdkModel) else None
    return ModelBinding(
        name=model.name,
        complete=asked.complete,
        draw=asked.draw,
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


def persona_memory_of(agent: str, services: AgentServices, audience: ChannelAudience) -> PersonaMemory | None:
    """Return None if no personas are read."""
    if services.personas is None:
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

    return PersonaMemory(services.personas.of(agent), audience, may_write, may_share)


def own_tools(agent: str, services: AgentServices, persona: PersonaMemory | None, audience: ChannelAudience) -> Own:
    """Return the tools that are made for this agent: those of its files, and recall if there is a record."""
    if not services.settings.records:
        return persona.tools if persona is not None else nothing

    async def find(query: str, may_see: Callable[[int], bool], here: int, first: int) -> Sequence[Memory]:
        """Look among what is context no longer, but was not forgotten, in words of people who are not ignored."""

        async def between(channel_id: int) -> tuple[int, int]:
            upto = first if first and channel_id == here else MAX_ID
            return await services.resets.since(agent, channel_id), upto

        ignored = services.ignored_people(audience.guild_of(here))
        return await services.memory.recall(query, may_see, MAX_RECALLED, between, ignored)

    recall = RecallTool(audience, find, services.settings.timezone)
    return lambda: (*(persona.tools() if persona is not None else ()), recall)
