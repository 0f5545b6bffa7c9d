from __future__ import annotations

import pytest

from agent_config import FrontMatter, load_settings
from agent_coordinator import config
from agent_coordinator.config import CoordinatorConfig, IdleAgent, IdleConfig, from_settings
from agentic.background_tasks import BACKGROUND_TASKS, PROACTIVE, TASKS, WRITTEN


def test_what_the_owner_set_reaches_the_coordinator() -> None:
    environ = {
        "CHANNEL_THEME_MAP": "11:debate,12:memes",
        "AGENT_CHANNEL_IDS": "11,12,13",
        "COORDINATOR_PRIORITY_CHANNELS": "12",
        "COORDINATOR_SCHEDULE_MIN": "1",
        "COORDINATOR_SCHEDULE_MAX": "2",
        "COORDINATOR_ACTIVE_START": "20",
        "COORDINATOR_ACTIVE_END": "2",
        "COORDINATOR_MAX_ROUNDS": "9",
        "COORDINATOR_TURN_DELAY_MIN": "0",
        "COORDINATOR_TURN_DELAY_MAX": "1",
        "COORDINATOR_TIMEOUT_THRESHOLD": "5",
        "COORDINATOR_REACTIVE_PROBABILITY": "0.5",
        "COORDINATOR_FIRE_ON_STARTUP": "true",
        "COORDINATOR_POLICY": "Pull",
        "COORDINATOR_POLICIES": "debate:round_robin, 0012: moderated",
        "TIMEZONE": "Europe/Berlin",
    }
    settings = load_settings(environ, None)
    made = from_settings(settings, ["claude", "grok"])
    assert made == CoordinatorConfig(
        agents=("claude", "grok"),
        channels={11: "debate", 12: "memes", 13: "casual"},
        priority_channels=(12,),
        schedule_min=1,
        schedule_max=2,
        active_start=20,
        active_end=2,
        timezone=settings.timezone,
        max_rounds=9,
        reactive_probability=0.5,
        turn_delay_min=0.0,
        turn_delay_max=1.0,
        fire_on_startup=True,
        timeout_threshold=5,
        shown={"claude": "Claude", "grok": "Grok"},
        policy="pull",
        policies={"debate": "round-robin", "12": "moderated"},
    )
    assert made.theme_of(11) == "debate"
    assert made.theme_of(99) == "casual"


def test_the_defaults_are_those_of_the_settings() -> None:
    made = from_settings(load_settings({}, None), ())
    plain = CoordinatorConfig(agents=(), channels={}, timezone=made.timezone)
    assert made == plain


def test_a_turn_has_the_time_of_the_setting() -> None:
    assert from_settings(load_settings({"TURN_TIMEOUT_SECONDS": "300"}, None), ()).turn_seconds == 300.0


def test_the_themes_are_named_here_too() -> None:
    assert config.THEMES[config.DEFAULT_THEME] is config.theme_named("nonsense")


def test_agents_have_the_idle_tasks_of_the_owner_or_of_their_persona() -> None:
    fronts = {"grok": FrontMatter(idle_tasks=(), talkativeness=0.5)}
    env = {
        "IDLE_TASKS": "summarise, Follow-Up",
        "UNASKED_MESSAGES": "everyone",
        "IDLE_AFTER_SECONDS": "60",
        "IDLE_FOLLOW_UP_MIN_SECONDS": "100",
        "IDLE_FOLLOW_UP_MAX_SECONDS": "200",
        "UNASKED_PERSON_HOURS": "12",
        "UNASKED_CHANNEL_HOURS": "3",
        "IDLE_DISCOVER_AGAIN_HOURS": "48",
        "CHANNEL": "both",
        "SIGNAL_NUMBERS": "penny:+4915112345678",
    }
    settings = load_settings(env, None, fronts=lambda folder, names: fronts)
    penny = FrontMatter(idle_tasks=("discover",), unprompted="opt_in")
    idle = from_settings(settings, ["claude", "grok"], {"penny": penny}).idle
    assert idle == IdleConfig(
        agents={
            "claude": IdleAgent(("summarise", "follow_up"), "everyone"),
            "penny": IdleAgent(("discover",), "opt_in"),
        },
        after=60.0,
        delays={"follow_up": (100.0, 200.0), "discover": (7200.0, 14_400.0)},
        person_hours=12.0,
        channel_hours=3.0,
        again_hours=48.0,
    )
    assert idle.pairs() == [("summarise", "claude"), ("follow_up", "claude"), ("discover", "penny")]


@pytest.mark.parametrize(
    ("env", "agents"),
    [
        ({}, {"claude", "grok"}),  # the tokens are another machine's
        ({"BOT_TOKEN_CLAUDE": "t" * 60}, {"claude"}),
        ({"BOT_TOKEN_CLAUDE": "t" * 60, "SIGNAL_NUMBERS": "grok:+4915112345678"}, {"claude", "grok"}),
        ({"SIGNAL_NUMBERS": "grok:+4915112345678"}, {"grok"}),
    ],
)
def test_agents_that_are_off_have_no_idle_tasks(env: dict[str, str], agents: set[str]) -> None:
    settings = load_settings({"IDLE_TASKS": "profile", **env}, None)
    assert set(from_settings(settings, ["claude", "grok"]).idle.agents) == agents


def test_a_chat_of_signal_is_no_channel_for_conversations() -> None:
    settings = load_settings({"CHANNEL_THEME_MAP": f"11:debate,{2**62 + 5}:casual"}, None)
    assert from_settings(settings, ["claude"]).channels == {11: "debate"}


def test_each_task_is_described_and_either_posts_or_writes_for_the_coordinator() -> None:
    assert tuple(BACKGROUND_TASKS) == TASKS
    assert set(TASKS) == WRITTEN | PROACTIVE
    assert not WRITTEN & PROACTIVE
