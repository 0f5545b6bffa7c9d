"""What local mode makes of an owner's settings."""

import pytest

from agent_config import load_settings
from agentic.local.settings import WATCHING, local_coordinator, local_settings, local_world


@pytest.mark.parametrize(("environment", "policy"), [({}, "pull"), ({"COORDINATOR_POLICY": "rounds"}, "rounds")])
def test_the_agent_with_the_strongest_pull_speaks_unless_the_owner_wants_otherwise(tmp_path, environment, policy):
    settings = load_settings({"DATA_DIR": str(tmp_path), **environment}, env_file=None)
    assert local_coordinator(local_settings(settings, local_world(settings), WATCHING), WATCHING).policy == policy


def test_a_person_who_types_fast_meets_no_cooldown(tmp_path):
    settings = load_settings({"DATA_DIR": str(tmp_path), "AGENT_COOLDOWN_SECONDS": "15"}, env_file=None)
    assert local_settings(settings, local_world(settings), WATCHING).agent_cooldown_seconds == 0
