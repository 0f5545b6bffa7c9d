"""Every test that names `provider` runs once for each of the four with an API of their own."""

from __future__ import annotations

import pytest

from agentic.llm.provider_table import PROVIDERS


@pytest.fixture(params=[name for name, known in PROVIDERS.items() if known.model])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)
