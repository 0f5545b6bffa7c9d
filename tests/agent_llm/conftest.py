"""Every test that names `provider` runs once for each of the four."""

from __future__ import annotations

import pytest

from agent_llm.registry import PROVIDERS


@pytest.fixture(params=list(PROVIDERS))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)
