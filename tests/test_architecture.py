"""The import table of DESIGN.md, held by reading every module's imports, wherever in the module they stand.

A package may import itself, the standard library, third-party packages that no rule names, and what its row allows.
A row names a package of ours, or a package or module inside it ("agent_llm.types"), whose row counts in its place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from agent_process.root import ROOT

ANYTHING = None

EVERYWHERE = "agent_ids"  # imported by any package, as if it were the standard library's
FLOOR_0 = {"agent_themes", "agent_process", "agent_protocol", "agent_net", "agent_llm", "agent_personas"}
FLOOR_1 = {"agent_settings", "agent_config", "agent_tools", "agent_context", "agent_store"}
FLOOR_2 = {"agent_chat"}

MAY_IMPORT: dict[str, set[str] | None] = {
    EVERYWHERE: set(),
    **{package: set() for package in FLOOR_0},
    "agent_protocol": {"agent_process.tasks"},
    "agent_settings": {"agent_themes", "agent_llm"},
    "agent_config": {"agent_settings", "agent_themes"},
    "agent_tools": {"agent_llm", "agent_net", "agent_personas"},
    "agent_context": {"agent_llm.types", "agent_llm.usage_estimate", "agent_themes"},
    "agent_store": {"agent_protocol", "agent_llm.embeddings"},
    **dict.fromkeys(("agent_store.__main__", "agent_store.commands"), ANYTHING),  # a way to start
    "agent_telemetry": {"agent_protocol"},
    "agent_chat": {"agent_context", "agent_net", "agent_process", "agent_llm.types"},
    "agent_discord": {"agent_chat", "agent_context", "agent_net", "agent_process", "agent_llm.types"},
    "agent_signal": {"agent_chat", "agent_context", "agent_net", "agent_process", "agent_llm.types"},
    "agent_coordinator": {"agent_config", "agent_themes", "agent_protocol", "agent_process"},
    "agent_coordinator.__main__": ANYTHING,  # a way to start, as run_all and run_bot are
    "agent_cogs": FLOOR_0 | FLOOR_1 | FLOOR_2 | {"agent_discord", "agent_signal"},
    "agent_console": {"agent_config", "agent_net", "agent_protocol", "agent_store", "agent_personas", "agent_themes"},
    **dict.fromkeys(
        (
            "agent_check",
            "agent_runtime",
            "agent_local",
            "agent_setup",
            "agent_replay",
            "run_all",
            "run_bot",
            "benchmarks",
        ),
        ANYTHING,
    ),
}
"""Package or module → what of ours it may import besides itself."""

INSIDE_COGS = (
    {"events", "trace"},
    {"answer", "limits"},
    {"persona", "thread_memory"},
    {"channels", "services", "agent", "tool_display"},
    {"prompt"},
    {"idle"},
    {"turn"},
    {"inbox"},
    {"rooms"},
    {"automation", "slash"},
    {"build_agent"},
    {"host"},
    {"signal_agents"},
    {"base", "webhook_agents"},
    {f"{provider}_agent" for provider in ("openai", "anthropic", "gemini", "grok", "bedrock", "compatible")},
)
"""The floors of agent_cogs, lowest first: each folder, or module of its root, may import those below its own."""

ONLY_IN: dict[str, tuple[str, ...]] = {
    "discord": (
        "agent_discord",
        "agent_cogs.base",
        *(f"agent_cogs.{provider}_agent" for provider in ("openai", "anthropic", "gemini", "grok")),
        "agent_local",
        "agent_runtime",
        "agent_check",  # reads the set-up over REST
        "benchmarks.sides.bare",  # what the libraries cost without us
        "benchmarks.sides.program",
    ),
    "redis": ("agent_protocol", "benchmarks.sides.bare"),
    "fakeredis": ("agent_protocol",),
    # xAI speaks through openai's package
    "openai": (*(f"agent_llm.providers.{name}" for name in ("openai", "grok", "compatible")), "benchmarks.sides.bare"),
    "anthropic": ("agent_llm.providers.anthropic", "agent_llm.providers.bedrock", "benchmarks.sides.bare"),
    "claude_agent_sdk": ("agent_llm.providers.agent_sdk",),
    "google": ("agent_llm.providers.gemini", "benchmarks.sides.bare"),
    "ollama": ("agent_llm.providers.ollama",),
    **dict.fromkeys(
        ("mcp", "mcp_types"), tuple(f"agent_tools.mcp.{name}" for name in ("connection", "process", "results"))
    ),
    "opentelemetry": ("agent_telemetry.spans",),
    "prometheus_client": ("agent_telemetry.metrics",),
    "os.environ": ("agent_config", "agent_settings"),
    "os.environb": (),
    "os.getenv": (),
    "os.getenvb": (),
    "os.putenv": (),
}
"""Third-party package or name of the standard library → the modules (or whole packages) that may use it."""

EXCEPTIONS = {
    "agent_cogs.services imports agent_cogs.slash.forget",
}
"""Imports that go upwards all the same: Forgetting is a service of the process, and lives with its command."""

OF_NO_SERVICE = frozenset({"prompt", "turn", "answer", "inbox", "persona", "limits", "trace", "thread_memory", "idle"})
"""Folders of agent_cogs that know no service: what they need of one stands behind agent_chat."""

SERVICES = ("agent_discord", "agent_signal")


@cache
def modules() -> dict[str, Path]:
    """Every module of the program: dotted name → file."""
    files = [
        *ROOT.glob("*.py"),
        *(path for folder in ROOT.glob("*/__init__.py") for path in folder.parent.rglob("*.py")),
    ]
    dotted = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files}
    ours = {name.removesuffix(".__init__"): path for name, path in dotted.items()}
    return {name: path for name, path in ours.items() if not name.startswith("tests")}


@cache
def uses(source: str, module: str, is_package: bool) -> frozenset[str]:
    """The dotted names that a module imports, and those of `os` that it reads as attributes."""
    return frozenset(_uses(source, module, is_package))


def _uses(source: str, module: str, is_package: bool) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                around = module.split(".")[: (1 if is_package else 0) - node.level or None]
                base = ".".join([*around, *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            yield f"os.{node.attr}"


def within(name: str, place: str) -> bool:
    return name == place or name.startswith(place + ".")


def offences(module: str, source: str, is_package: bool = False) -> list[str]:
    """What a module imports and may not, one line each."""
    package = module.partition(".")[0]
    allowed = MAY_IMPORT[max((row for row in MAY_IMPORT if within(module, row)), key=len)]
    found = []
    for used in sorted(uses(source, module, is_package)):
        first = used.partition(".")[0]
        foreign = first in MAY_IMPORT and first not in (package, EVERYWHERE) and allowed is not ANYTHING
        if foreign and not any(within(used, place) for place in allowed or ()):
            found.append(f"{module} imports {used}")
        for restricted, places in ONLY_IN.items():
            if within(used, restricted) and not any(within(module, place) for place in places):
                found.append(f"{module} uses {used}")
    return found


def test_every_package_has_its_place_in_the_table() -> None:
    packages = {name.partition(".")[0] for name in modules()}
    assert packages <= MAY_IMPORT.keys()
    assert "agent_config" in packages


def test_no_module_imports_what_the_table_does_not_allow() -> None:
    found = []
    for module, path in modules().items():
        found += offences(module, path.read_text(encoding="utf-8"), path.name == "__init__.py")
    assert found == []


def module_of(name: str, known: dict[str, Path]) -> str | None:
    """The module of ours that a dotted name lies in, or is."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def imports() -> Iterator[tuple[str, str]]:
    """Every module of ours with each of ours that it imports."""
    known = modules()
    for module, path in known.items():
        used = uses(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
        yield from ((module, found) for name in used if (found := module_of(name, known)) not in (None, module))


def circle(edges: Iterator[tuple[str, str]]) -> str:
    sorter = TopologicalSorter[str]()
    for importer, imported in edges:
        sorter.add(importer, imported)
    try:
        sorter.prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))
    return ""


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even for types alone: what two modules need of each other is a third one's."""
    assert circle(imports()) == ""


def cogs_floor(module: str) -> int:
    part = module.split(".")[1]
    return next(floor for floor, parts in enumerate(INSIDE_COGS) if part in parts)


def test_inside_of_agent_cogs_imports_go_downwards() -> None:
    found = [
        f"{importer} imports {imported}"
        for importer, imported in imports()
        if importer.startswith("agent_cogs.") and imported.startswith("agent_cogs.")
        if importer.split(".")[1] != imported.split(".")[1]
        if cogs_floor(importer) < cogs_floor(imported) + ("." in importer[11:] and "." in imported[11:])
    ]
    assert sorted(set(found) - EXCEPTIONS) == []
    assert set(found) >= EXCEPTIONS, "take out what is done"


def test_a_turn_knows_no_service() -> None:
    """From the inbox to the answer a channel is agent_chat's, on whatever service it lies."""
    of_cogs = (each for each in imports() if each[0].startswith("agent_cogs."))
    found = [
        f"{importer} imports {imported}"
        for importer, imported in of_cogs
        if importer.split(".")[1] in OF_NO_SERVICE and any(within(imported, service) for service in SERVICES)
    ]
    assert sorted(found) == []


def words_of(source: str) -> Iterator[str]:
    """The texts in a module that are no docstrings."""
    tree = ast.parse(source)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def test_what_a_turn_says_names_no_service() -> None:
    """To models and to people: what differs between services stands in agent_chat.service."""
    places = [f"agent_cogs.{folder}" for folder in OF_NO_SERVICE] + ["agent_context"]
    found = [
        f"{module}: {text}"
        for module, path in modules().items()
        if any(within(module, place) for place in places)
        for text in words_of(path.read_text(encoding="utf-8"))
        if "Discord" in text or "Signal" in text
    ]
    assert found == []


def test_every_package_says_what_it_is_for() -> None:
    silent = [module for module, path in modules().items() if path.name == "__init__.py" and not path.read_text()]
    assert silent == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("agent_llm.types", "import agent_themes"),
        ("agent_coordinator.conversations.engine", "from agent_cogs import turn"),
        ("agent_coordinator.conversations.engine", "from agent_discord.rest.gate import Gate"),
        ("agent_cogs.turn.turn", "def later():\n    from agent_coordinator import engine"),
        ("agent_cogs.turn.turn", "import discord"),
        ("agent_cogs.turn.turn", "from discord.ext import commands"),
        ("agent_discord.rest.gate", "from agent_llm import retry"),
        ("agent_discord.rest.gate", "import agent_llm"),
        ("agent_cogs.turn.turn", "import redis.asyncio as redis"),
        ("agent_llm.providers.gemini", "from openai import AsyncOpenAI"),
        ("agent_llm.retry", "from google import genai"),
        ("agent_llm.retry", "if TYPE_CHECKING:\n    import anthropic"),
        ("agent_runtime", "import os\nkey = os.environ['KEY']"),
        ("agent_settings.fields", "import discord"),
        ("agent_chat.pins", "from agent_discord import outlet"),
        ("agent_local.voices", "from os import getenv"),
        ("agent_console.page", "import agent_cogs.base, agent_config"),
    ],
)
def test_an_import_that_the_table_does_not_allow_is_found(module: str, source: str) -> None:
    assert len(offences(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("agent_discord.rest.gate", "from agent_llm.types import Picture"),
        ("agent_discord.rest.gate", "from agent_llm import types"),
        ("agent_discord.rest.gate", "import os\nos.path.join('a', 'b')"),
        ("agent_cogs.base", "import discord"),
        ("agent_cogs.turn.turn", "from .limits import Limits\nfrom . import inbox"),
        ("agent_local.discord.gateway.gateway", "from ..voices import speak\nfrom .world import World"),
        ("agent_local.discord.server", "from agent_local.discord import world"),
        ("agent_llm.providers.grok", "from openai import AsyncOpenAI"),
        ("agent_protocol.connection.link", "import redis.asyncio"),
        ("agent_config", "import os\nfrom agent_themes import THEMES\nenviron = os.environ"),
        ("agent_runtime.bot", "import discord"),
        ("agent_context.entries", "from agent_ids import sent_at"),
        ("agent_runtime", "import agent_coordinator.conversations.engine\nimport agent_cogs"),
    ],
)
def test_an_import_that_the_table_allows_passes(module: str, source: str) -> None:
    assert offences(module, source) == []


def test_no_folder_of_tests_hides_a_package_of_ours() -> None:
    """With an __init__.py, tests/agent_cogs would be agent_cogs for `python -m unittest discover -s tests`."""
    assert [str(path) for path in (ROOT / "tests").glob("*/**/__init__.py")] == []


def test_test_modules_have_names_of_their_own() -> None:
    """Without an __init__.py pytest imports a test module by its file's name alone."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
