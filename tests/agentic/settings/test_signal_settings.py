"""On which service the program is, and under which numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_config import Settings, SettingsError, load_settings, missing_tokens_message
from agentic.services.signal.settings import SignalSettings

NUMBER = "+4915112345678"
TOKEN = {"BOT_TOKEN_CLAUDE": "a-token-of-claude", "ANTHROPIC_API_KEY": "a-key"}
ON_SIGNAL = {"SIGNAL_NUMBERS": f"claude:{NUMBER}", "SIGNAL_ALLOWED": "+4917212345678"}


def load(**given: str) -> Settings:
    return load_settings(given, None)


def problems(**given: str) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load(**given)
    return refused.value.problems


@pytest.mark.parametrize(
    ("given", "discord", "signal"),
    [
        ({}, True, False),
        (TOKEN, True, False),
        (ON_SIGNAL, False, True),
        (TOKEN | ON_SIGNAL, True, True),
        (TOKEN | ON_SIGNAL | {"CHANNEL": "discord"}, True, False),
        (TOKEN | ON_SIGNAL | {"CHANNEL": "Signal"}, False, True),
        (TOKEN | ON_SIGNAL | {"CHANNEL": "both"}, True, True),
    ],
)
def test_the_services_are_found_from_what_is_set_unless_channel_names_them(
    given: dict[str, str], discord: bool, signal: bool
) -> None:
    settings = load(**given)
    assert (settings.on_discord, settings.is_on("signal")) == (discord, signal)
    assert settings.account_agents == (("claude",) if signal else ())
    assert (settings.agents["claude"].token is not None) == (discord and "BOT_TOKEN_CLAUDE" in given)


def test_a_token_that_is_not_used_is_redacted_all_the_same() -> None:
    assert TOKEN["BOT_TOKEN_CLAUDE"] in load(**TOKEN, **ON_SIGNAL, CHANNEL="signal").secrets()


@pytest.mark.parametrize("channel", ["signal", "both"])
def test_signal_without_a_number_is_an_error_in_one_line(channel: str) -> None:
    assert problems(CHANNEL=channel) == ["CHANNEL: expected SIGNAL_NUMBERS, too, such as penny:+4915112345678"]


def test_a_number_belongs_to_an_agent_or_to_a_personas_folder(tmp_path: Path) -> None:
    given = {"SIGNAL_NUMBERS": f"penny:{NUMBER}", "SIGNAL_ALLOWED": "all", "PERSONAS_DIR": str(tmp_path)}
    (line,) = problems(**given)
    assert line.startswith("SIGNAL_NUMBERS: penny isn't a bot or persona: expected one of chatgpt, claude, ")
    (tmp_path / "penny").mkdir()
    (tmp_path / "penny" / "soul.md").write_text("Curious.")
    settings = load(**given)
    assert settings.account_agents == ("penny",)
    assert SignalSettings.of(settings).signal_numbers == settings.accounts["signal"] == {"penny": NUMBER}


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ({"SIGNAL_ALLOWED": ""}, "SIGNAL_ALLOWED is empty, so nobody can write to the bots on Signal"),
        ({"CHANNEL": "discord"}, "SIGNAL_NUMBERS: not used, because CHANNEL=discord"),
        ({"SIGNAL_ALLOWED": "all", "BUDGET_DAILY_USD": "none"}, "SIGNAL_ALLOWED=all: anyone who knows a number"),
        ({"LINKED_PEOPLE": f"{NUMBER}:12345"}, "LINKED_PEOPLE lists a bot's number"),
    ],
)
def test_what_cannot_be_meant_on_signal_is_warned_of(given: dict[str, str], warning: str) -> None:
    assert any(line.startswith(warning) for line in load(**TOKEN | ON_SIGNAL | given).warnings)
    assert not any("SIGNAL" in line or "LINKED" in line for line in load(**TOKEN | ON_SIGNAL).warnings)


def test_who_wants_both_and_has_no_token_is_told_so() -> None:
    settings = load(**ON_SIGNAL, CHANNEL="both")
    assert settings.on_discord
    assert missing_tokens_message(settings).startswith("No bot token is set (CHANNEL=both)")


def test_trying_it_locally_leaves_signal_alone() -> None:
    settings = load_settings(ON_SIGNAL | {"CHANNEL": "signal"}, None, local=True)
    assert (settings.on_discord, settings.is_on("signal")) == (True, False)
