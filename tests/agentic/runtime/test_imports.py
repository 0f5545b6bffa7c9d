"""What a start imports: a package takes memory and time from every process, so most wait for their first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = "agentic.runtime.cli, agentic.runtime.runtime, agent_coordinator.__main__"
COGS = "agent_cogs.openai_agent, agent_cogs.anthropic_agent, agent_cogs.gemini_agent, agent_cogs.grok_agent"
UNUSED_BY_AN_IDLE_PROGRAM = {
    *("openai", "anthropic", "google.genai", "boto3", "ollama", "genai_prices", "mcp", "jsonschema"),
    *("ddgs", "lxml", "PIL", "emoji", "jinja2", "prometheus_client", "rich", "prompt_toolkit"),
    *("agentic.check.discord", "agentic.local", "agentic.replay", "agentic.setup", "agentic.console.app"),
    *("agentic.services.signal.service", "agentic.record.export.render"),
}


@pytest.mark.parametrize(
    ("imports", "unused"),
    [
        (f"{PROGRAM}, {COGS}", UNUSED_BY_AN_IDLE_PROGRAM),
        ("agentic.runtime.cli", {"discord", "aiohttp", "redis", "sqlite3"}),  # before the first line is printed
    ],
)
def test_a_start_imports_only_what_it_needs(imports: str, unused: set[str]) -> None:
    code = f"import sys, {imports}\nprint(sorted({unused} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout.strip() == "[]"
