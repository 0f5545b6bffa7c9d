"""Build an agent from its settings, its models and the services that all agents of the process share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from functools import partial

from agent_config import AgentSettings
from agentic.agent.agent import Agent, Draw, ModelBinding, ShowTools, Think, may_use_none, no_tools
from agentic.agent.cost_estimate import Tariff
from agentic.agent.file_rights import only_guild
from agentic.agent.limits import AgentLimits
from agentic.agent.memory import PersonaMemory
from agentic.agent.model_access import profile
from agentic.agent.pin_problems import PinProblemReporter
from agentic.agent.provider_backoff import ProviderBackoff
from agentic.agent.reply_throttle import EXPLAINED_SECONDS, ReplyThrottle
from agentic.agent.services import AgentServices
from agentic.chat.outlet import NO_CHANNEL
from agentic.context.build import Identity
from agentic.ids import LARGEST_ID
from agentic.llm.profiles import Profile
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply
from agentic.net.picture_scaling import Fit
from agentic.services.discord.audience import Audience, ChannelOf
from agentic.state.window_store import KeptWindows
from agentic.tools.protocol import ToolContext
from agentic.tools.recall import MOST as MOST_RECALLED
from agentic.tools.recall import Memory, RecallTool
from agentic.tools.toolset import Own, nothing

UNASKED_SHARE = 5  # turns that no person asked for may change a memory so many times as often as one person's


def build_agent(
    settings: AgentSettings,
    services: AgentServices,
    model: Model,
    guild_models: Mapping[int, Model],
    *,
    call_ai: Think,
    generate_image: Draw,
    redact: Callable[[str], str],
    show_tools: ShowTools,
    channel_of: ChannelOf,
) -> Agent:
    """The agent as its turns know it. `call_ai` and `generate_image` ask `called_model()`; `redact` takes secrets out
    of an answer; `channel_of` gives its bot's channels."""
    spec, shared, tools = settings.spec, services.settings, services.tools
    bind = partial(bind_model, call_ai=call_ai, generate_image=generate_image, redact=redact, clock=services.clock)
    persona = persona_memory_of(spec.name, services, channel_of)
    others = tuple(name for key, name in services.names.items() if key != spec.name)
    personality = shared.personality_of(spec.name) if spec.name in shared.agents else spec.personality
    return Agent(
        identity=Identity(spec.name, spec.display_name, personality, others),
        names=services.roster.names,
        model=bind(settings, model),
        guild_models={guild: bind(settings.servers[guild], there) for guild, there in guild_models.items()},
        limits=AgentLimits(
            spec.name,
            services.ledger.limits,
            cooldown=shared.agent_cooldown_seconds,
            daily_max=shared.agent_max_daily,
            unasked_max=shared.daily_unasked,
        ),
        costs=services.ledger.costs,
        reply_throttle=ReplyThrottle(services.clock),
        sign_throttle=ReplyThrottle(services.clock, EXPLAINED_SECONDS),
        options=services.options,
        windows=KeptWindows(spec.name, services.ledger.windows),
        show_costs=shared.show_cost_embeds,
        colour=spec.colour,
        timezone=shared.timezone,
        clock=services.clock,
        rng=services.rng,
        barge_in=shared.barge_in,
        rooms=services.ledger.rooms,
        summaries=services.ledger.summaries,
        unasked=services.ledger.unasked,
        cheap=services.cheap,
        asks_cheaply=shared.asks_cheaply(spec.name),
        reset=partial(services.resets.since, spec.name),
        user_id=services.directory.id_of,
        bots_role=shared.bots_role_id,
        ignores=services.is_ignored,
        sees=Audience(channel_of).may_see,
        memory=services.memory,
        pin_reporter=PinProblemReporter(services.notices),
        prefill=services.prefill,
        toolbox=partial(tools.toolbox, spec.name, own=own_tools(spec.name, services, persona, channel_of))
        if tools
        else no_tools,
        tool_servers=tools.servers if tools else None,
        may_use=partial(tools.allows, spec.name) if tools else may_use_none,
        find_picture=tools.pictures.find if tools and tools.pictures else None,
        tool_records=tools.records if tools else None,
        fitted=services.attachments.fitted,
        show_tools=show_tools,
        persona=persona,
    )


def bind_model(
    settings: AgentSettings,
    model: Model,
    call_ai: Think,
    generate_image: Draw,
    redact: Callable[[str], str],
    clock: Callable[[], float],
) -> ModelBinding:
    """The model that these settings name. Its answers are redacted as they arrive: they are kept in Redis as well as
    posted."""

    async def think(prompt: Prompt, history: Sequence[Message]) -> Reply:
        with calling(model):
            reply = await call_ai(prompt, history)
        return replace(reply, text=redact(reply.text))

    async def draw(prompt: str) -> Drawing:
        with calling(model):
            return await generate_image(prompt)

    profiles = [profile(one) for one in settings.usable or settings.models]
    coding = model if isinstance(model, AgentSdkModel) else None
    return ModelBinding(
        name=model.name,
        think=think,
        draw=draw,
        can_draw=model.can_draw,
        tariff=Tariff.of(settings, free=model.free, query=coding.config.max_usd if coding else None),
        fit=fit_of(profiles),
        max_pictures=max(one.max_pictures for one in profiles),
        backoff=ProviderBackoff(settings.name, clock),
        own_loop=coding is not None,
    )


def persona_memory_of(agent: str, services: AgentServices, channel_of: ChannelOf) -> PersonaMemory | None:
    """None where no personas are read."""
    if services.personas is None:
        return None
    most, places = services.settings.memory_writes, Audience(channel_of)

    async def may_write(context: ToolContext) -> bool:
        today = f"{datetime.fromtimestamp(services.clock(), services.settings.timezone):%Y-%m-%d}"
        limit = most if context.asked_by is not None else most * UNASKED_SHARE
        return await services.ledger.memory_writes.take(agent, today, context.asked_by, limit)

    def may_share(channel_id: int) -> bool:
        """A turn without a channel has seen no closed one."""
        if channel_id == NO_CHANNEL:
            return True
        return places.is_open(channel_id) and only_guild(services.settings, places.guild_of) is not None

    return PersonaMemory(services.personas.of(agent), places, may_write, may_share)


def own_tools(agent: str, services: AgentServices, persona: PersonaMemory | None, channel_of: ChannelOf) -> Own:
    """The tools that are made for this agent: those of its files, and recall where there is a record."""
    if not services.settings.records:
        return persona.tools if persona is not None else nothing

    async def find(query: str, may_see: Callable[[int], bool], here: int, first: int) -> Sequence[Memory]:
        """Look among what is context no longer, but was not forgotten, in words of people who are not ignored."""

        async def between(channel_id: int) -> tuple[int, int]:
            upto = first if first and channel_id == here else LARGEST_ID
            return await services.resets.since(agent, channel_id), upto

        return await services.memory.recall(query, may_see, MOST_RECALLED, between, services.ignored_people)

    recall = RecallTool(Audience(channel_of), find, services.settings.timezone)
    return lambda: (*(persona.tools() if persona is not None else ()), recall)


def fit_of(profiles: Sequence[Profile]) -> Fit:
    """The limits that a picture must keep for all of these models, since any of them may answer."""
    return Fit(
        min(one.picture_pixels for one in profiles),
        min(one.picture_bytes for one in profiles),
        frozenset.intersection(*(one.sees for one in profiles)),
    )


_called: ContextVar[Model | None] = ContextVar("called", default=None)


@contextmanager
def calling(model: Model) -> Iterator[None]:
    """Make `called_model` this model for what is awaited within."""
    before = _called.set(model)
    try:
        yield
    finally:
        _called.reset(before)


def called_model() -> Model | None:
    """The model of the present call; None outside of one."""
    return _called.get()
