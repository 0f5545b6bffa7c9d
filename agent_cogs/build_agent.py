"""Puts an agent together from the settings, its model and what all agents of the process share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from agent_cogs.agent import Agent, Draw, ModelBinding, ShowTools, Think, never_reset, no_tools, shown_nowhere
from agent_cogs.limits.cost_estimate import Tariff
from agent_cogs.limits.limits import AgentLimits
from agent_cogs.limits.model_access import profile
from agent_cogs.limits.provider_backoff import ProviderBackoff
from agent_cogs.limits.reply_throttle import EXPLAINED_FOR, ReplyThrottle
from agent_cogs.persona.memory import persona_memory_of
from agent_cogs.persona.options import OptionBook, base_layer
from agent_cogs.persona.pin_problems import PinProblemReporter
from agent_cogs.prompt.window_store import WindowKeeper
from agent_cogs.services import AgentServices
from agent_config import AgentSettings
from agent_context.build import Identity
from agent_context.selecting.window import WindowMemory
from agent_discord.objects.audience import ChannelOf
from agent_llm.profiles import Profile
from agent_llm.providers.agent_sdk import AgentSdkModel
from agent_llm.types import Model
from agent_net.picture_scaling import Fit
from agent_tools.toolset import nothing


def build_agent(
    settings: AgentSettings,
    services: AgentServices,
    model: ModelBinding,
    guild_models: Mapping[int, ModelBinding],
    show_tools: ShowTools = shown_nowhere,
    channel_of: ChannelOf = lambda _: None,
) -> Agent:
    """The agent as its turns know it; `channel_of` gives its bot's channels."""
    spec, shared = settings.spec, services.settings
    windows = WindowMemory()
    persona = persona_memory_of(spec.name, services, channel_of)
    others = tuple(name for key, name in services.names.items() if key != spec.name)
    return Agent(
        identity=Identity(spec.name, spec.display_name, shared.personality_of(spec.name), others),
        names=services.names,
        model=model,
        guild_models=guild_models,
        limits=AgentLimits(
            spec.name,
            services.ledger.limits,
            cooldown=shared.agent_cooldown_seconds,
            daily_max=shared.agent_max_daily,
            unasked_max=shared.daily_unasked,
        ),
        costs=services.ledger.costs,
        reply_throttle=ReplyThrottle(services.clock),
        sign_throttle=ReplyThrottle(services.clock, EXPLAINED_FOR),
        options=services.options or OptionBook(services.names, base_layer(shared)),
        windows=windows,
        keeper=WindowKeeper(spec.name, windows, services.ledger.windows),
        show_costs=shared.show_cost_embeds,
        colour=spec.colour,
        timezone=shared.timezone,
        clock=services.clock,
        rng=services.rng,
        barge_in=shared.barge_in,
        reset=partial(services.resets.since, spec.name) if services.resets is not None else never_reset,
        user_id=services.directory.id_of,
        pin_reporter=PinProblemReporter(services.notices) if services.notices is not None else None,
        prefill=services.prefill,
        toolbox=partial(services.tools.toolbox, spec.name, own=persona.tools if persona else nothing)
        if services.tools
        else no_tools,
        tool_records=services.tools.records if services.tools else None,
        fitted=services.pictures.fitted,
        show_tools=show_tools,
        persona=persona,
    )


def bind_model(
    settings: AgentSettings, model: Model, think: Think, draw: Draw, clock: Callable[[], float]
) -> ModelBinding:
    """The model that these settings name; `think` and `draw` call it."""
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


def fit_of(profiles: Sequence[Profile]) -> Fit:
    """What a picture must be for each of these models, since any of them may answer."""
    return Fit(
        min(one.picture_pixels for one in profiles),
        min(one.picture_bytes for one in profiles),
        frozenset.intersection(*(one.sees for one in profiles)),
    )


_called: ContextVar[Model | None] = ContextVar("called", default=None)


@contextmanager
def calling(model: Model) -> Iterator[None]:
    """What is awaited within is a call of this model."""
    before = _called.set(model)
    try:
        yield
    finally:
        _called.reset(before)


def called_model() -> Model | None:
    """The model of the present call; None outside of one."""
    return _called.get()
