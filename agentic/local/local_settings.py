"""The settings of local mode, made from an owner's, and the world that it runs in.

Tokens, channels and REDIS_URL of .env are not used, and data is kept separately under data/local/, the agents' notes
too (own_personas.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent_config import AgentSettings, Settings
from agent_coordinator.config import CoordinatorConfig
from agentic.agent.limits import is_free
from agentic.agent.roster import PersonaFolders
from agentic.local.discord.world import World
from agentic.local.discord.worlds import small_world
from agentic.local.kept_world import kept_world
from agentic.local.own_personas import link_personas
from agentic.runtime.coordinating import coordinator_config
from agentic.settings.agents import CodingSettings
from agentic.settings.fields import NO_LIMIT

CHANNELS = ("debate", "casual", "story", "memes")  # each named after its theme; the terminal starts in the first
PERSON = "Sam"  # the person at the terminal: a name that the bots can use
LOCAL_COOLDOWN = 2.0  # seconds; fifteen would look like a fault to somebody who tries it
LOCAL_POLICY = "pull"
LOCAL = "local"  # the folder below DATA_DIR
SLOW_TURN = 300.0  # seconds; without a graphics card a model reads a prompt of 5,000 tokens in minutes


@dataclass(frozen=True, slots=True)
class Pace:
    """Ranges in seconds: how long a scripted voice thinks, the coordinator's pause between turns; rounds at most."""

    thinking: tuple[float, float]
    between_turns: tuple[float, float]
    max_rounds: int


WATCHING = Pace(thinking=(0.6, 1.8), between_turns=(1.0, 2.5), max_rounds=8)
ONCE = Pace(thinking=(0.02, 0.1), between_turns=(0.05, 0.2), max_rounds=5)


def local_world(settings: Settings) -> World:
    bots = {name: (agent.display_name, _token(name)) for name, agent in settings.agents.items()}
    return kept_world(settings.data_dir / LOCAL, lambda ids: small_world(bots, CHANNELS, (PERSON,), ids=ids))


def local_settings(settings: Settings, world: World, pace: Pace) -> Settings:
    data, personas = settings.data_dir / LOCAL, local_personas(settings)
    one_person_budget = (
        settings.budget_user_usd if "budget_user_usd" in settings.model_fields_set else settings.budget_daily_usd
    )
    return settings.with_(
        agents={name: _local_agent(agent, personas, data) for name, agent in settings.agents.items()},
        personas_dir=personas,
        guild_ids=(world.guild.id,),
        channel_ids=(),
        channel_theme_map={world.channel(name).id: name for name in CHANNELS},
        priority_channels=(),
        bot_ids=(),
        bots_role_id=world.role("bots").id,
        redis_url=None,
        data_dir=data,
        schedule_min=0,
        schedule_max=0,
        fire_on_startup=False,
        turn_delay_min=pace.between_turns[0],
        turn_delay_max=pace.between_turns[1],
        max_rounds=min(settings.max_rounds, pace.max_rounds),
        agent_cooldown_seconds=min(settings.agent_cooldown_seconds, LOCAL_COOLDOWN),
        mentions_per_minute=NO_LIMIT,
        budget_user_usd=one_person_budget,
        **_patience(settings),
    )


def _patience(settings: Settings) -> dict[str, Any]:
    """Time for a slow model, and one question of each bot at a time, unless the owner set them."""
    wanted = {"turn_timeout_seconds": SLOW_TURN, "max_concurrent_turns": 1} if _may_be_slow(settings) else {}
    return {name: value for name, value in wanted.items() if name not in settings.model_fields_set}


def local_coordinator(settings: Settings) -> CoordinatorConfig:
    """The coordinator's part of these settings. A scheduled turn by a slow model has as much time as an answer to
    a person. Unless the owner set a policy, the agents with the strongest pull speak."""
    usual = coordinator_config(settings)
    slow = settings.turn_timeout_seconds if _may_be_slow(settings) else 0.0
    policy = usual.policy if "policy" in settings.model_fields_set else LOCAL_POLICY
    return replace(usual, turn_seconds=max(usual.turn_seconds, slow), policy=policy)


def _may_be_slow(settings: Settings) -> bool:
    """Whether a model runs on the owner's machines."""
    return any(is_free(model) for agent in settings.agents.values() for model in agent.usable)


def local_personas(settings: Settings) -> Path:
    """A folder below the data folder, with links to the files of PERSONAS_DIR."""
    folder = settings.data_dir / LOCAL / "personas"
    if settings.personas_dir.resolve() == folder.resolve():
        return folder  # a link to itself would be none
    personas = PersonaFolders(settings.personas_dir).refresh()  # those without a bot
    return link_personas(settings.personas_dir, folder, dict.fromkeys([*settings.agents, *personas]))


def _local_agent(agent: AgentSettings, personas: Path, data: Path) -> AgentSettings:
    return replace(agent, token=SecretStr(_token(agent.name)), coding=_local_folders(agent, personas, data), servers={})


def _local_folders(agent: AgentSettings, personas: Path, data: Path) -> CodingSettings | None:
    """A coding agent's folders."""
    if agent.coding is None:
        return None
    workspace, home = personas / agent.name / "workspace", data / "agent-sdk" / agent.name
    return replace(agent.coding, workspace=workspace.absolute(), home=home.absolute())


def _token(agent: str) -> str:
    """A token that only the stand-in accepts."""
    return f"local-{agent}"
