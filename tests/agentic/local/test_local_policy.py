"""Local mode shows the choice by pulls, unless the owner chose a policy."""

import pytest

from agent_config import load_settings
from agentic.local.settings import WATCHING, local_coordinator, local_settings, local_world


@pytest.mark.parametrize(("environment", "policy"), [({}, "pull"), ({"COORDINATOR_POLICY": "rounds"}, "rounds")])
def test_the_agent_with_the_strongest_pull_speaks_unless_the_owner_wants_otherwise(tmp_path, environment, policy):
    settings = load_settings({"DATA_DIR": str(tmp_path), **environment}, env_file=None)
    assert local_coordinator(local_settings(settings, local_world(settings), WATCHING), WATCHING).policy == policy
