"""Check the servers of Ollama that the settings use: which models each has pulled, and which configured ones it lacks.

One GET /api/tags a server, at no cost. Servers behind Ollama's OpenAI-compatible address (`api: openai`) are not asked.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from agent_config import ModelSettings, Settings
from agentic.agent.limits import access, endpoint_of
from agentic.agent.roster import RosterEntry
from agentic.agent.side_calls import cheapest
from agentic.check.findings import Findings
from agentic.llm.errors import ModelError
from agentic.llm.providers.ollama import OllamaModel
from agentic.llm.registry import build_model
from agentic.llm.retry import RetryPolicy

SECONDS = 10.0
MOST_NAMED = 12
_ONCE = RetryPolicy(attempts=1)


async def check_pulled(settings: Settings, personas: Iterable[RosterEntry], found: Findings) -> None:
    """A line for each server, and a warning for each configured model that it has not pulled."""
    wanted: dict[str, dict[str, ModelSettings]] = defaultdict(dict)
    for model in _configured(settings, personas):
        endpoint = endpoint_of(model)
        if endpoint is not None and endpoint.api == "ollama":
            wanted[model.base_url or endpoint.base_url].setdefault(model.model, model)
    for address, models in wanted.items():
        await _check_server(_shown(address), list(models.values()), found)


def _configured(settings: Settings, personas: Iterable[RosterEntry]) -> Iterator[ModelSettings]:
    for agent in settings.agents.values():
        if agent.token is not None or agent.name in settings.signal_numbers:
            yield from (model for each in (agent, *agent.servers.values()) for model in each.usable)
    for persona in personas:
        if persona.settings is not None and persona.why_not is None:
            yield from persona.settings.usable
    if (cheap := cheapest(settings.cheap_models)) is not None:
        yield cheap
    if settings.embedding is not None:
        yield settings.embedding


async def _check_server(place: str, models: list[ModelSettings], found: Findings) -> None:
    try:
        pulled = await _pulled(models[0])
    except ModelError as error:
        names = ", ".join(model.name for model in models)
        found.warn("Ollama", f"no list of models from {place}: {error.detail or error.kind}", f"needed for {names}")
        return
    more = f" and {len(pulled) - MOST_NAMED} more" if len(pulled) > MOST_NAMED else ""
    found.ok("Ollama", f"{place} has pulled {', '.join(pulled[:MOST_NAMED]) or 'no model'}{more}")
    for model in models:
        if not {model.model, f"{model.model}:latest"} & set(pulled):
            found.warn("Ollama", f"{model.name} is not pulled", f"run: ollama pull {model.model}")


async def _pulled(settings: ModelSettings) -> tuple[str, ...]:
    # In a thread: it imports the client.
    model = await asyncio.to_thread(build_model, **access(settings), image_model="", retry=_ONCE)
    try:
        return await model.pulled(SECONDS) if isinstance(model, OllamaModel) else ()
    finally:
        await model.aclose()


def _shown(address: str) -> str:
    """The server without a password or a path."""
    return urlsplit(address).netloc.rpartition("@")[2]
