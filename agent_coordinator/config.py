"""The coordinator's settings and constants.

Owners' settings come from `agent_config.Settings`. Themes are exported here too, since people look for them here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from agentic.background_tasks import TASKS
from agentic.ids import is_snowflake
from agentic.themes import DEFAULT_THEME as DEFAULT_THEME
from agentic.themes import THEMES as THEMES
from agentic.themes import Theme as Theme
from agentic.themes import theme_named as theme_named

if TYPE_CHECKING:
    from agent_config import FrontMatter, Settings


AGENT_RESPONSE_TIMEOUT = 120.0  # seconds for the model call, the picture and the post together, unless set
CONTINUATION_BASE_PROBABILITY = 0.85  # of a second round
CONTINUATION_DECAY = 0.03  # less for each further round
REACTIVE_COOLDOWN_SECONDS = 300.0  # per channel
MISSED_SLOT_SECONDS = 900.0  # a slot that is later than this (the program was down) is skipped
BACKOFF_FIRST_SECONDS = 15.0  # after too many timeouts in a row; doubles with each further timeout
BACKOFF_MAX_SECONDS = 600.0
RESUME_SECONDS = 600.0  # a conversation that was interrupted for longer is ended instead of resumed
WAIT_STEP_SECONDS = 30.0  # a conversation that waits for a person keeps its channel by steps of this length
HOLD_ROOM_SECONDS = 30.0  # a channel's hold outlives a turn by this
STARTUP_WAIT_SECONDS = 30.0  # for two agents to be online before the conversation at start


@dataclass(frozen=True, slots=True)
class IdleAgent:
    """An agent's background tasks. `unprompted`: who may get its unprompted messages, `everyone` or only people who
    agreed (`opt_in`)."""

    tasks: tuple[str, ...]
    unprompted: str = "opt_in"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleConfig:
    """`after`: seconds without a message from a person. `delays`: task → shortest and longest extra delay in seconds;
    other tasks run immediately. `again_hours`: hours after which a discovery may follow another although nobody has
    written; 0 for never."""

    agents: Mapping[str, IdleAgent] = field(default_factory=dict)
    after: float = 300.0
    delays: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {"follow_up": (3600.0, 7200.0), "discover": (7200.0, 14_400.0)}
    )
    person_hours: float = 24.0
    channel_hours: float = 6.0
    again_hours: float = 0.0

    def pairs(self) -> list[tuple[str, str]]:
        """Return each (task, agent) by priority."""
        return [(task, agent) for task in TASKS for agent, its in self.agents.items() if task in its.tasks]


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """`channels` maps channel ids to theme names. `active_start` and `active_end` are hours of local time (0 to 24); an
    end at or before the start means the next day. Delays in seconds.
    """

    agents: tuple[str, ...]
    channels: Mapping[int, str]
    priority_channels: tuple[int, ...] = ()
    schedule_min: int = 3
    schedule_max: int = 6
    active_start: int = 7
    active_end: int = 23
    timezone: tzinfo = UTC
    min_rounds: int = 1  # before this round's end, chance ends no conversation
    max_rounds: int = 30
    reactive_probability: float = 0.15
    turn_delay_min: float = 15.0
    turn_delay_max: float = 45.0
    fire_on_startup: bool = False
    timeout_threshold: int = 8
    talkativeness: Mapping[str, float] = field(default_factory=dict)  # agent → 0 to 1
    interests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # agent → its subjects
    shown: Mapping[str, str] = field(default_factory=dict)  # agent → its shown name
    policy: str = "rounds"
    policies: Mapping[str, str] = field(default_factory=dict)  # theme, or a channel's id → policy
    turn_seconds: float = AGENT_RESPONSE_TIMEOUT
    resumes: bool = True  # whether to continue conversations of an earlier leader
    idle: IdleConfig = field(default_factory=IdleConfig)

    def theme_of(self, channel_id: int) -> str:
        return self.channels.get(channel_id, DEFAULT_THEME)


_SAME = (  # fields that have the same name in Settings
    *("schedule_min", "schedule_max", "active_start", "active_end", "timezone", "max_rounds", "policy"),
    *("reactive_probability", "turn_delay_min", "turn_delay_max", "fire_on_startup", "timeout_threshold"),
)


def from_settings(
    settings: Settings, agents: Sequence[str], personas: Mapping[str, FrontMatter] | None = None
) -> CoordinatorConfig:
    """Return the coordinator's part of the settings for these agents. `personas`: front matter of personas that have an
    account of their own but no bot; they have background tasks and take no part in conversations."""
    fronts = {agent: settings.agents[agent].front for agent in agents if agent in settings.agents}
    return CoordinatorConfig(
        agents=tuple(agents),
        channels={channel: theme for channel, theme in settings.channels.items() if is_snowflake(channel)},
        priority_channels=tuple(settings.priority_channels),
        talkativeness={name: front.talkativeness for name, front in fronts.items() if front.talkativeness is not None},
        interests={agent: front.interests for agent, front in fronts.items() if front.interests},
        shown={agent: settings.agents[agent].display_name for agent in fronts},
        policies=dict(settings.policies),
        turn_seconds=settings.turn_timeout_seconds,
        idle=_idle_from(settings, {**fronts, **(personas or {})}),
        **{name: getattr(settings, name) for name in _SAME},
    )


def _idle_from(settings: Settings, fronts: Mapping[str, FrontMatter]) -> IdleConfig:
    tokens = {agent for agent, its in settings.agents.items() if its.token is not None}
    in_discord = (tokens or set(settings.agents)) if settings.on_discord else set()  # tokens may be elsewhere
    agents = {
        agent: IdleAgent(
            tasks=settings.idle_tasks if front.idle_tasks is None else front.idle_tasks,
            unprompted=front.unprompted or settings.unprompted,
        )
        for agent, front in fronts.items()
        if agent in in_discord or agent in settings.account_agents
    }
    return IdleConfig(
        agents={agent: its for agent, its in agents.items() if its.tasks},
        after=settings.idle_after,
        delays={
            "follow_up": (settings.follow_up_min, settings.follow_up_max),
            "discover": (settings.discover_min, settings.discover_max),
        },
        person_hours=settings.unprompted_person_hours,
        channel_hours=settings.unprompted_channel_hours,
        again_hours=settings.discover_again,
    )
