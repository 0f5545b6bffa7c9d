"""Every test that names `provider` runs once for each of the four with an API of their own."""

from __future__ import annotations

import pytest

from agentic.llm.profiles import DEFAULTS


@pytest.fixture(params=list(DEFAULTS))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)
