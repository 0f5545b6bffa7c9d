"""agentic.llm.lazy_sdk: what the SDKs of OpenAI and Anthropic import. Each test has a Python of its own."""

from __future__ import annotations

import subprocess
import sys

MOST_MODULES = 1_300  # of both SDKs; 3,700 if they import everything

BUILD = (
    "import sys\nfrom agentic.llm.registry import build_model\n"
    "models = [build_model(name, api_key='k') for name in ('openai', 'anthropic')]\n"
)
EVERY_NAME = """
import importlib
from types import ModuleType

packages = [name for name in sys.modules if name.startswith(('openai', 'anthropic'))]
for package in map(importlib.import_module, packages):
    for name in getattr(package, '__all__', ()):
        getattr(package, name)
print(len(packages))
"""


def output(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return ran.stdout.strip()


def test_clients_are_built_without_the_types_that_no_adapter_uses() -> None:
    count = "print(sum(name.startswith(('openai', 'anthropic')) for name in sys.modules))"
    assert 0 < int(output(BUILD + count)) < MOST_MODULES
    unused = {"anthropic.lib.tools", "anthropic.lib.bedrock", "anthropic.resources", "openai.resources.responses"}
    assert output(f"{BUILD}print({unused} & set(sys.modules))") == "set()"


def test_every_name_of_the_sdks_stays_importable() -> None:
    assert int(output(BUILD + EVERY_NAME)) > 0


def test_a_name_is_what_the_sdk_makes_of_it() -> None:
    code = (
        "import anthropic, openai\nfrom anthropic.types import *\nfrom openai.providers import vertex\n"
        "print(Message.__module__, anthropic.AsyncAnthropicBedrock.__name__, 'beta_tool' in anthropic.__all__)\n"
        "print(callable(vertex), hasattr(anthropic, 'nothing'), models[1]._client.messages.create.__name__)"
    )
    assert output(BUILD + code) == "anthropic.types.message AsyncAnthropicBedrock True\nTrue False create"
