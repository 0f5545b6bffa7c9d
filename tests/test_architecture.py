"""Who may import whom: the levels of the packages, held by reading every module's imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

from agentic.process.root import ROOT
from tests.benchmarks.way import TURNS, files, record_turn

LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"agentic", "agentic.process", "agentic.net", "agentic.llm", "agentic.personas"}),
    frozenset({"agentic.settings", "agent_config", "agentic.wire", "agentic.context", "agentic.tools"}),
    frozenset({"agentic.chat", "agentic.state"}),
    frozenset({"agentic.record"}),
    frozenset({"agentic.agent"}),
    frozenset({"agentic.turn"}),
    frozenset({"agentic.inbox", "agentic.automation"}),
    frozenset({"agentic.rooms"}),
    frozenset({"agentic.actions"}),
    frozenset({"agentic.services.context", "agentic.services.handler", "agentic.services.text_commands"}),
    frozenset({"agentic.services.discord", "agentic.services.signal"}),
    frozenset({"agent_cogs", "agent_coordinator", "agentic.console"}),
    frozenset({"agentic.local.discord", "agentic.local.voices", "agentic.telemetry"}),
    frozenset(
        {
            *(
                "agentic.runtime",
                "agentic.check",
                "agentic.setup",
                "agentic.local",
                "agentic.replay",
                "agentic.quality",
                "run_all",
                "run_bot",
            ),
            *("agentic.record.__main__", "agent_coordinator.__main__", "tests.benchmarks"),
        }
    ),
)
"""The packages and modules, lowest first. A row imports its own level and those below."""

ONLY: dict[str, frozenset[str]] = {
    "agent_coordinator": frozenset(
        {
            "agentic.background_tasks",
            "agentic.formats",
            "agentic.pace",
            "agentic.policies",
            "agentic.questions",
            "agentic.themes",
            "agentic.ids",
            "agentic.subject",
            "agentic.text",
            "agentic.process",
            "agentic.settings",
            "agent_config",
            "agentic.wire",
            "agentic.state",
            "agentic.record.idle_queries",
        }
    ),
    "agentic.console": frozenset(
        {
            "agentic.wire",
            "agentic.state",
            "agentic.record",
            "agentic.actions",
            "agentic.chat.outlet",
            "agentic.context.entries",
            "agentic.formats",
            "agentic.personas",
            "agentic.policies",
            "agentic.themes",
            "agentic.ids",
            "agentic.net",
            "agentic.process",
            "agent_config",
        }
    ),
}
"""Packages that know only some of those below them."""

ONLY_IN: dict[str, tuple[str, ...]] = {
    "discord": (
        "agentic.services.discord",
        *("agent_cogs", "agentic.local", "agentic.runtime"),
        "agentic.check",  # reads the set-up over REST
        "tests.benchmarks",
    ),
    "redis": ("agentic.wire", "agentic.state", "agentic.record.stream_reader", "tests.benchmarks"),
    # xAI speaks through openai's package
    "openai": (*(f"agentic.llm.providers.{name}" for name in ("openai", "grok", "compatible")), "tests.benchmarks"),
    "anthropic": (*(f"agentic.llm.providers.{name}" for name in ("anthropic", "bedrock")), "tests.benchmarks"),
    "claude_agent_sdk": ("agentic.llm.providers.agent_sdk",),
    "google": ("agentic.llm.providers.gemini", "tests.benchmarks"),
    "ollama": ("agentic.llm.providers.ollama",),
    **dict.fromkeys(
        ("mcp", "mcp_types"), tuple(f"agentic.tools.mcp.{name}" for name in ("connection", "process", "results"))
    ),
    "opentelemetry": ("agentic.telemetry.spans",),
    "prometheus_client": ("agentic.telemetry.metrics",),
    "os.environ": ("agent_config", "agentic.settings"),
    "os.environb": (),
    "os.getenv": (),
    "os.getenvb": (),
    "os.putenv": (),
}
"""Third-party package or name of the standard library → the modules (or whole packages) that may use it."""

OUTAGE, MAX_OUTAGE_MODULES = "StateUnavailable", 22
SERVICES = ("agentic.services.discord", "agentic.services.signal")
NAMES_SERVICES = {
    "agentic.record.personal_data": "the table of all that is stored, for docs/privacy.md",
    "agentic.wire.reasons": "the meaning of signal_failed",
}
MAX_PARAMETERS, MAX_FIELDS = 8, 15
MAX_PROTOCOLS = 28  # may only shrink
# Dataclasses of messages, rows, and settings have the fields that they have.
WIDE_PLACES = ("agentic.wire", "agentic.record", "agentic.local.discord.world")
WIDE_CLASSES = frozenset({"Prompt", "Profile", "CoordinatorConfig"})


@cache
def modules() -> dict[str, Path]:
    """Every module of the program and of the benchmarks: dotted name → file."""
    folders = ("agent_cogs", "agent_coordinator", "agentic", "tests/benchmarks")
    files = [*ROOT.glob("*.py"), *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    dotted = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files}
    found = {name.removesuffix(".__init__"): path for name, path in dotted.items()}
    return {name: path for name, path in found.items() if not path.name.startswith("test_")}


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


def is_within(name: str, place: str) -> bool:
    return name == place or name.startswith(place + ".")


def row_of(module: str) -> tuple[int, str]:
    """The level of a module, and the row that names it: the most specific one."""
    rows = [(level, row) for level, packages in enumerate(LEVELS) for row in packages if is_within(module, row)]
    return max(rows, key=lambda row: len(row[1]))


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


def upward(edges: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The rows of imports that run upwards or past what a package may know."""
    for importer, imported in edges:
        (level, row), (other_level, other_row) = row_of(importer), row_of(imported)
        is_unknown = row in ONLY and other_row != row and not any(is_within(imported, one) for one in ONLY[row])
        if other_level > level or is_unknown or (row in SERVICES and other_row in SERVICES and row != other_row):
            yield row, other_row


def misuses(module: str, source: str, is_package: bool = False) -> list[str]:
    """What a module uses that belongs to others."""
    return [
        f"{module} uses {used}"
        for used in sorted(uses(source, module, is_package))
        for restricted, places in ONLY_IN.items()
        if is_within(used, restricted) and not any(is_within(module, place) for place in places)
    ]


def circle(edges: Iterator[tuple[str, str]]) -> str:
    sorter = TopologicalSorter[str]()
    for importer, imported in edges:
        sorter.add(importer, imported)
    try:
        sorter.prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))
    return ""


def test_imports_go_downwards() -> None:
    assert sorted(set(upward(imports()))) == []


def test_sdks_redis_and_the_environment_are_used_where_they_belong() -> None:
    found = []
    for module, path in modules().items():
        found += misuses(module, path.read_text(encoding="utf-8"), path.name == "__init__.py")
    assert found == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even for types alone: what two modules need of each other is a third one's."""
    assert circle(imports()) == ""


def names_outages(source: str) -> bool:
    """Whether a module's code says by itself what an outage of Redis means."""
    tree = ast.parse(source)
    return any(isinstance(node, ast.Name) and node.id == OUTAGE for node in ast.walk(tree))


def test_few_modules_say_by_themselves_what_an_outage_of_redis_means() -> None:
    """A method of a store says it where it is defined, by `or_default` or `when_back`. Loops that try again, and those
    who tell a person that nothing was done, name the exception."""
    owners = ("agentic.wire", "agentic.state")
    others = {module: path for module, path in modules().items() if not module.startswith(owners)}
    found = [module for module, path in others.items() if names_outages(path.read_text(encoding="utf-8"))]
    assert 0 < len(found) <= MAX_OUTAGE_MODULES, sorted(found)


def literals(source: str) -> Iterator[str]:
    """The texts in a module that are no docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def service_names(source: str) -> Iterator[str]:
    """The lines of a module that name a chat service beside Discord, but for reasons, which are words on the wire."""
    for line in source.splitlines():
        if re.search(r"\bSignal\b|\bsignal_(?!failed)|\bSIGNAL_", line) and "signal.Signals" not in line:
            yield line.strip()


def test_what_is_special_about_a_chat_service_is_in_its_package() -> None:
    """The rest of the program asks ChatService, and finds the services in the registry."""
    owners = ("agentic.services.signal", "agentic.settings", "agentic.setup", "agentic.local", "tests.benchmarks")
    found = [
        f"{module}: {line}"
        for module, path in modules().items()
        if not any(is_within(module, owner) for owner in owners) and module not in NAMES_SERVICES
        for line in service_names(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_turn_names_no_service_to_models_and_people() -> None:
    """What differs between services is in agentic.chat.service.ServiceInfo."""
    found = [
        f"{module}: {text}"
        for module, path in modules().items()
        if any(is_within(module, place) for place in ("agentic.turn", "agentic.inbox", "agentic.context"))
        for text in literals(path.read_text(encoding="utf-8"))
        if "Discord" in text
    ]
    assert found == []


def too_large(source: str, *, may_be_wide: bool = False) -> Iterator[tuple[str, int]]:
    """The classes of a module whose constructor has more than MAX_PARAMETERS, or that are a dataclass of more than
    MAX_FIELDS, with that number. `may_be_wide`: its dataclasses may have any number."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                given = each.args
                count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
                if count > MAX_PARAMETERS:
                    yield node.name, count
        if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            fields = [each for each in fields if "ClassVar" not in ast.unparse(each.annotation)]
            if len(fields) > MAX_FIELDS and node.name not in WIDE_CLASSES and not may_be_wide:
                yield node.name, len(fields)


def protocols(source: str) -> list[str]:
    """The names of a module's Protocols."""
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    bases = {node.name: [ast.unparse(base) for base in node.bases] for node in classes}
    return [name for name, of in bases.items() if any("Protocol" in base and "asyncio" not in base for base in of)]


def test_there_are_few_protocols() -> None:
    """A Protocol has two implementations, or is an edge of the program; otherwise its class is used."""
    program = {module: path for module, path in modules().items() if not module.startswith("tests.")}
    found = [
        f"{module}.{name}" for module, path in program.items() for name in protocols(path.read_text(encoding="utf-8"))
    ]
    assert 0 < len(found) <= MAX_PROTOCOLS, sorted(found)


def test_no_constructor_and_no_dataclass_takes_too_much() -> None:
    """What takes more is divided into parts. Rows, messages, and settings have the fields that they have."""
    found = {
        f"{module}.{name}": count
        for module, path in modules().items()
        for name, count in too_large(
            path.read_text(encoding="utf-8"), may_be_wide=any(is_within(module, place) for place in WIDE_PLACES)
        )
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (f"class A:\n    def __init__(self, {', '.join('abcdefgh')}): ...", []),
        (f"class A:\n    def __init__(self, {', '.join('abcdefg')}, *, h, i): ...", [("A", 9)]),
        ("@dataclass\nclass A:\n" + "".join(f"    a{number}: int\n" for number in range(15)), []),
        ("@dataclass(frozen=True)\nclass A:\n" + "".join(f"    a{number}: int\n" for number in range(16)), [("A", 16)]),
        ("class A(BaseModel):\n" + "".join(f"    a{number}: int\n" for number in range(16)), []),
    ],
)
def test_a_class_that_takes_too_much_is_found(source: str, found: list[tuple[str, int]]) -> None:
    assert list(too_large(source)) == found


@pytest.mark.parametrize(("turn", "end"), [(turn, end) for _, turn, end in TURNS])
def test_each_flow_is_read_in_eight_files(turn: Any, end: Any) -> None:
    """docs/dev/architecture.md lists them; `python -m tests.benchmarks.way` shows them with their functions."""
    found = files(record_turn(turn, end))
    assert len(found) <= 8, found
    listed = (ROOT / "docs" / "dev" / "architecture.md").read_text(encoding="utf-8").partition("## Two flows")[2]
    named = [module.replace(".", "/").removeprefix("agentic/") + ".py" for module in found]
    assert [name for name in named if name not in listed] == []


def test_every_package_says_what_it_is_for() -> None:
    silent = [module for module, path in modules().items() if path.name == "__init__.py" and not path.read_text()]
    assert silent == []


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("agentic.llm.types", "agentic.settings.fields"),
        ("agentic.turn.turn", "agent_coordinator.engine"),
        ("agent_coordinator.engine", "agentic.turn.turn"),
        ("agentic.services.signal.channels", "agentic.services.discord.gate"),
        ("agentic.inbox.host", "agentic.services.signal.service"),
        ("agentic.console.app", "agentic.turn.turn"),
        ("agentic.local.discord.server", "agentic.local.mode"),
    ],
)
def test_an_import_that_runs_upwards_is_found(module: str, imported: str) -> None:
    assert list(upward(iter([(module, imported)])))


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("agentic.turn.turn", "agentic.llm.types"),
        ("agentic.runtime.process", "agent_coordinator.engine"),
        ("agentic.context.entries", "agentic.ids"),
        ("agentic.local.mode", "agentic.local.discord.server"),
    ],
)
def test_an_import_that_runs_downwards_is_allowed(module: str, imported: str) -> None:
    assert not list(upward(iter([(module, imported)])))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("agentic.turn.turn", "import discord"),
        ("agentic.turn.turn", "from discord.ext import commands"),
        ("agentic.turn.turn", "def later():\n    import redis.asyncio as redis"),
        ("agentic.llm.providers.gemini", "from openai import AsyncOpenAI"),
        ("agentic.llm.retry", "from google import genai"),
        ("agentic.llm.retry", "if TYPE_CHECKING:\n    import anthropic"),
        ("agentic.runtime.cli", "import os\nkey = os.environ['KEY']"),
        ("agentic.local.voices.voice", "from os import getenv"),
    ],
)
def test_a_use_outside_of_its_place_is_found(module: str, source: str) -> None:
    assert len(misuses(module, source)) == 1


def test_no_folder_of_tests_hides_a_package_of_ours() -> None:
    """With an __init__.py, tests/agent_cogs would be agent_cogs for `python -m unittest discover -s tests`."""
    packages = ("agentic", "agent_cogs", "agent_coordinator")
    assert [str(path) for name in packages for path in (ROOT / "tests" / name).rglob("__init__.py")] == []


def test_test_modules_have_names_of_their_own() -> None:
    """Without an __init__.py pytest imports a test module by its file's name alone."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
