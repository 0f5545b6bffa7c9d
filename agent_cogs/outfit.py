"""Puts an agent together from the settings, its model and what all agents of the process share."""

from __future__ import annotations

from functools import partial

from agent_cogs.agent import Agent, Draw, Think, never_reset
from agent_cogs.bench import Bench
from agent_cogs.house import House
from agent_cogs.limits import Limits
from agent_cogs.money import Tariff
from agent_cogs.told import Told
from agent_config import AgentSettings
from agent_context.build import Identity
from agent_context.window import WindowMemory
from agent_llm.model import Model


def outfit(settings: AgentSettings, house: House, model: Model, think: Think, draw: Draw) -> Agent:
    """The agent as its turns know it; `think` and `draw` call `model`."""
    spec, shared = settings.spec, house.settings
    others = tuple(name for key, name in house.names.items() if key != spec.name)
    return Agent(
        identity=Identity(spec.name, spec.display_name, shared.personality_of(spec.name), others),
        names=house.names,
        think=think,
        draw=draw,
        can_draw=model.can_draw,
        limits=Limits(
            spec.name, house.ledger.limits, cooldown=shared.agent_cooldown_seconds, daily_max=shared.agent_max_daily
        ),
        bench=Bench(spec.name, house.clock),
        tariff=Tariff.of(settings, free=model.free),
        costs=house.ledger.costs,
        told=Told(house.clock),
        windows=WindowMemory(),
        context_size=shared.context_window_size,
        show_costs=shared.show_cost_embeds,
        colour=spec.colour,
        timezone=shared.timezone,
        clock=house.clock,
        rng=house.rng,
        barge_in=shared.barge_in,
        reset=partial(house.resets.since, spec.name) if house.resets is not None else never_reset,
    )
