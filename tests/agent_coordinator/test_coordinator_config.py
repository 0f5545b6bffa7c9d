from __future__ import annotations

from agent_config import load_settings
from agent_coordinator import config
from agent_coordinator.config import CoordinatorConfig, from_settings


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


def test_a_turn_has_ninety_seconds_and_the_themes_are_named_here_too() -> None:
    assert config.AGENT_RESPONSE_TIMEOUT == 90.0
    assert config.THEMES[config.DEFAULT_THEME] is config.theme_named("nonsense")
