from __future__ import annotations

from pathlib import Path

import pytest

from agent_config import load_settings
from agentic.runtime.services import caps_of, coordinator_config, idle_memory


@pytest.mark.parametrize(
    ("env", "cap"),
    [
        ({}, 1.0),
        ({"BUDGET_DAILY_USD": "10", "IDLE_BUDGET_SHARE": "0.5"}, 5.0),
        ({"IDLE_BUDGET_SHARE": "0"}, 0.0),
        ({"BUDGET_DAILY_USD": "none"}, None),
    ],
)
def test_what_is_done_while_nobody_writes_has_its_share_of_a_day(env: dict[str, str], cap: float | None) -> None:
    assert caps_of(load_settings(env, None)).idle == cap


def test_a_persona_that_has_only_a_number_has_its_idle_tasks(tmp_path: Path) -> None:
    (tmp_path / "penny").mkdir()
    (tmp_path / "penny" / "identity.md").write_text("---\nidle_tasks: discover\n---\nYou are Penny.\n")
    env = {"PERSONAS_DIR": str(tmp_path), "SIGNAL_NUMBERS": "penny:+4915112345678"}
    config = coordinator_config(load_settings(env, None))
    assert config.idle.pairs() == [("discover", "penny")]
    assert "penny" not in config.agents, "it takes no part in the bots' conversations"


def test_without_a_record_there_is_nothing_to_read() -> None:
    assert idle_memory(load_settings({"RECORD_DAYS": "0"}, None)) is None
