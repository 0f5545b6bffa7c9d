"""The settings of local mode, made from an owner's, and the world and the personas that it runs with.

Tokens, channels and REDIS_URL of .env are not used, and data is kept separately under data/local/. The world has the
same guild, channels, people and bots at every start: their ids are made from their names, so that data/local still
refers to them (the channels of notes, stops, what `/forget me` looks for). Messages are not kept.

The personas are the program's own files, with a separate memory, so that local mode writes nothing into the folder of
the real bots, be it `personas` or that of PERSONAS_DIR:

    data/local/personas/claude/soul.md → personas/claude/soul.md    a link, so an edit there takes effect here too
    data/local/personas/claude/memory.md, .history/, workspace/     local mode's own
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

from pydantic import SecretStr

from agent_config import AgentSettings, Settings
from agent_coordinator.config import CoordinatorConfig
from agentic.agent.roster import PersonaFolders
from agentic.ids import id_at
from agentic.local.discord.channels import small_world
from agentic.local.discord.world import World
from agentic.personas.files import PERSONA_FILES
from agentic.runtime.services import coordinator_config
from agentic.settings.fields import NO_LIMIT

log = logging.getLogger(__name__)

CHANNELS = ("debate", "casual", "story", "memes")  # each named after its theme; the terminal starts in the first
PERSON = "Sam"  # the person at the terminal: a name that the bots can use
GUILD = "Roundtable"
FIRST_ID = id_at(1_767_225_600)  # smaller than that of any message: the beginning of 2026
LOCAL_POLICY = "pull"
LOCAL = "local"  # the folder below DATA_DIR
OWN = ("memory.md",)  # persona files that are not linked
SLOW_TURN = 300.0  # seconds; without a graphics card a model reads a prompt of 5,000 tokens in minutes


@dataclass(frozen=True, slots=True)
class Pace:
    """Ranges in seconds: how long a scripted voice thinks, and the coordinator's pause between turns. By chance a
    conversation ends after `min_rounds` at the earliest."""

    thinking: tuple[float, float]
    between_turns: tuple[float, float]
    min_rounds: int = 3
    max_rounds: int = 8


WATCHING = Pace(thinking=(0.6, 1.8), between_turns=(1.0, 2.5))
ONCE = Pace(thinking=(0.02, 0.1), between_turns=(0.05, 0.2), min_rounds=8)
ONCE_WITH_MODELS = replace(ONCE, min_rounds=3, max_rounds=3)  # twelve turns, about a minute


def local_world(settings: Settings) -> World:
    bots = {name: (agent.display_name, _token(name)) for name, agent in settings.agents.items()}
    names = [f"user:{PERSON.lower()}", f"guild:{GUILD}", "role:bots", *(f"channel:{name}" for name in CHANNELS)]
    names += [f"{kind}:{name}" for key, (shown, _) in bots.items() for kind, name in (("bot", key), ("role", shown))]
    ids = {name: FIRST_ID + crc32(name.encode()) for name in names}
    return small_world(bots, CHANNELS, (PERSON,), guild_name=GUILD, ids=ids)


def local_settings(settings: Settings, world: World, pace: Pace) -> Settings:
    data, personas = settings.data_dir / LOCAL, local_personas(settings)
    own_budget = "budget_user_usd" in settings.model_fields_set
    turn_seconds = settings.turn_timeout_seconds
    if "turn_timeout_seconds" not in settings.model_fields_set:  # a model on the owner's machines may be slow
        is_local = any(model.is_free for agent in settings.agents.values() for model in agent.usable)
        turn_seconds = SLOW_TURN if is_local else turn_seconds
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
        agent_cooldown_seconds=0.0,  # one person is typing, perhaps fast
        mentions_per_minute=NO_LIMIT,
        budget_user_usd=settings.budget_user_usd if own_budget else settings.budget_daily_usd,
        turn_timeout_seconds=turn_seconds,
    )


def local_coordinator(settings: Settings, pace: Pace) -> CoordinatorConfig:
    """The coordinator's part of these settings. A scheduled turn by a slow model has as much time as an answer to
    a person. Unless the owner set a policy, the agents with the strongest pull speak."""
    usual = coordinator_config(settings)
    policy = usual.policy if "policy" in settings.model_fields_set else LOCAL_POLICY
    return replace(usual, policy=policy, min_rounds=pace.min_rounds)


def local_personas(settings: Settings) -> Path:
    """Return a folder below the data folder, with links to the files of PERSONAS_DIR."""
    folder = settings.data_dir / LOCAL / "personas"
    if settings.personas_dir.resolve() == folder.resolve():
        return folder  # a link to itself would be none
    personas = PersonaFolders(settings.personas_dir).refresh()  # those without a bot
    return link_personas(settings.personas_dir, folder, dict.fromkeys([*settings.agents, *personas]))


def _local_agent(agent: AgentSettings, personas: Path, data: Path) -> AgentSettings:
    coding = agent.coding
    if coding is not None:
        workspace, home = personas / agent.name / "workspace", data / "agent-sdk" / agent.name
        coding = replace(coding, workspace=workspace.absolute(), home=home.absolute())
    return replace(agent, token=SecretStr(_token(agent.name)), coding=coding, servers={})


def _token(agent: str) -> str:
    """Return a token that only the stand-in accepts."""
    return f"local-{agent}"


def link_personas(source: Path, folder: Path, agents: Iterable[str]) -> Path:
    """Link the persona files of `source` into `folder`, except for memories; return `folder`. `agents` have one even
    if `source` has none; links to a persona that is gone from there go too. Raises OSError."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    before = (entry.name for entry in folder.iterdir() if entry.is_dir())
    for agent in sorted({*agents, *PersonaFolders(source).refresh(), *before}):
        (folder / agent).mkdir(0o700, exist_ok=True)
        for name in PERSONA_FILES:
            if name not in OWN:
                _link(folder / agent / name, (source / agent / name).absolute())
    return folder


def to_edit(file: Path) -> Path:
    """Return the file to edit: a link's target, because many editors replace a link with a file."""
    return file.readlink() if file.is_symlink() else file


def _link(here: Path, target: Path) -> None:
    """Link `here` to `target`, instead of local mode's own file; an editor's file there is kept under another name."""
    if here.is_symlink() and here.readlink() == target and target.exists():
        return  # another local session of this folder may be reading it
    if not here.is_symlink() and here.is_file() and target.exists() and here.read_bytes() != target.read_bytes():
        kept = here.with_name(f"{here.name}.edited")
        os.replace(here, kept)
        log.warning("%s was edited and is not used, %s is: the edited text is kept in %s", here, target, kept.name)
    elif here.is_symlink() or target.exists():
        here.unlink(missing_ok=True)
    if target.exists():
        here.symlink_to(target)
