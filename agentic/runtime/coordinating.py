"""Parts of a process that coordinates: its settings, the budgets' caps, and the record as idle tasks read it."""

from __future__ import annotations

from dataclasses import replace

from agent_config import Settings
from agent_coordinator.config import CoordinatorConfig, from_settings
from agentic.agent.persona import read_fronts
from agentic.record.idle_queries import IdleMemory
from agentic.state.budget_rules import Caps


def coordinator_config(settings: Settings) -> CoordinatorConfig:
    """The coordinator's part of the settings, with the personas that have no bot, only a number on Signal."""
    personas = [agent for agent in settings.numbers if agent not in settings.agents]
    fronts = read_fronts(settings.personas_dir, personas)
    config = from_settings(settings, tuple(settings.agents), fronts)
    # On Signal alone there is no channel to plan conversations for.
    return config if settings.channels else replace(config, schedule_min=0, schedule_max=0)


def idle_memory(settings: Settings) -> IdleMemory | None:
    """None where nothing is recorded. To be closed."""
    return IdleMemory(settings.record_file, exchanges=settings.summarise_exchanges) if settings.records else None


def caps_of(settings: Settings) -> Caps:
    daily = settings.budget_daily_usd
    return Caps(
        all=daily,
        agent=settings.budget_agent_usd,
        channel=settings.budget_channel_usd,
        person=settings.user_budget,
        idle=None if daily is None else daily * settings.idle_budget_share,
        mentions=settings.mentions_per_minute,
    )
