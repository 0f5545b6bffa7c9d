"""What a row in the table of chat services brings."""

from __future__ import annotations

import pytest

from agent_config import SettingsError, load_settings, setting_names
from agentic.services.context import load_services
from agentic.settings import services
from agentic.settings.services import ServiceRow
from tests.support.lines.service import LineService
from tests.support.lines.settings import LineSettings

LINES = ServiceRow("lines", "tests.support.lines.service:LineService", "tests.support.lines.settings:LineSettings")
ON_LINES = {"LINE_ACCOUNTS": "claude:Claude", "ANTHROPIC_API_KEY": "a-key"}
TOKEN = {"BOT_TOKEN_CLAUDE": "a-token-of-claude"}


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "SERVICES", (*services.SERVICES, LINES))


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (TOKEN, ["discord"]),
        (ON_LINES, ["lines"]),
        (TOKEN | ON_LINES, ["discord", "lines"]),
        (TOKEN | ON_LINES | {"CHANNEL": "discord"}, ["discord"]),
        (TOKEN | ON_LINES | {"CHANNEL": "Lines"}, ["lines"]),
        (TOKEN | ON_LINES | {"CHANNEL": "both"}, ["discord", "lines"]),  # nobody has an account on Signal
    ],
)
def test_a_service_is_used_if_channel_names_it_or_an_agent_has_an_account(
    given: dict[str, str], used: list[str]
) -> None:
    settings = load_settings(given, None)
    assert [service.info.key for service in load_services(settings)] == used
    assert settings.account_agents == (("claude",) if "lines" in used else ())


def test_its_settings_are_read_and_named_like_all_others() -> None:
    settings = load_settings(ON_LINES | {"line_port": "7000"}, None)
    assert LineSettings.of(settings).line_port == 7000
    assert {"LINE_PORT", "LINE_ACCOUNTS"} <= set(setting_names())
    (service,) = load_services(settings)
    assert isinstance(service, LineService)


def test_local_mode_leaves_it_alone() -> None:
    assert load_settings(ON_LINES, None, local=True).account_agents == ()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"CHANNEL": "pigeons"}, "CHANNEL: expected discord, signal, lines or both"),
        ({"CHANNEL": "lines"}, "CHANNEL: expected LINE_ACCOUNTS, too, such as claude:Claude"),
        ({"LINE_ACCOUNTS": "nobody:Nobody"}, "LINE_ACCOUNTS: nobody isn't a bot or persona"),
    ],
)
def test_what_cannot_be_meant_is_a_problem_in_one_line(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(given, None)
    (line,) = refused.value.problems
    assert line.startswith(problem)
