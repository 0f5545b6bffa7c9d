"""One term a concept, and none that a reader has to look up: words that the program and its pages do not use.

CONTRIBUTING.md has the glossary. Lines that characters speak (agent_local/voices/lines, personas) are their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSTEAD = {
    "told": "reported, shown, notified",
    "anew": "again, fresh",
    "mend(s|ed|ing)?": "fix, correct",
    "whoever|whomever|whatsoever": "a noun",
    "pass(es|ed)? over": "skip",
    "errands?": "automation task",
    "desk": "handlers",
}
"""Patterns of whole words, and what to write in place of them."""

OLD = re.compile(rf"(?<![a-z])({'|'.join(INSTEAD)})(?![a-z])", re.IGNORECASE)
BEGINNING = re.compile(r"(One (agent|process|bot|channel|turn|conversation|guild)'s|Who|Whom|Whose|What|Of) ")
SOURCES = [
    *ROOT.glob("*.py"),
    *(path for folder in ("agent_*", "benchmarks") for path in ROOT.glob(f"{folder}/**/*.py")),
]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("config/*"), ROOT / ".env.example", ROOT / "Makefile"]
SPOKEN = ("agent_themes.py", "turning.py")
PERSISTED = re.compile(r"""["`]errand["`]|['`]told:|\w+\.py::\w+""")
"""A trigger in kept records, a field in Redis; and names of tests."""


def lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = PERSISTED.sub("", line)
        if found := OLD.search(line):
            yield f"{path.relative_to(ROOT)}:{number}: {found.group(0)}: {line.strip()[:100]}"


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            text = ast.get_docstring(node) or ""
            if BEGINNING.match(text):
                yield f"{path.relative_to(ROOT)}: {text[:80]}"


CLASS_NAMES = {
    "agent_cogs/base.py": "errors for a programmer",
    "agent_cogs/events/automation.py": "errors for a programmer",
    "agent_cogs/events/kinds.py": "errors for a programmer",
    "agent_discord/objects/partial_payloads.py": "for the log",
    "agent_discord/reading/gateway_connection.py": "for the log",
    "agent_discord/reading/unreadable_events.py": "for the log",
    "agent_discord/rest/errors.py": "for the log",
    "agent_discord/rest/login.py": "for the log",
    "agent_cogs/trace/trace.py": "a kind of error, by which owners group calls, as the log does",
    "agent_llm/base.py": "its representation, for the log",
    "agent_llm/providers/agent_sdk.py": "coding agents show the SDK's own name of an error, as its users expect",
    "agent_protocol/connection/link.py": "compares the name, shows it to nobody",
    "agent_protocol/wire/reading.py": "for the log",
    "agent_runtime/bot.py": "for the log and health",
    "agent_signal/rest_api/errors.py": "for the log",
}
"""Modules that read the name of a class outside of a log call, and the reason: nobody who talks to a bot reads it."""


def class_names(path: Path) -> Iterator[int]:
    """Lines where a module reads a class's name, except in the call of a logger."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    logged = {id(inner) for call in calls if getattr(call.func.value, "id", "") == "log" for inner in ast.walk(call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "__name__" and id(node) not in logged:
            yield node.lineno


def test_what_people_read_names_no_class() -> None:
    """An excuse with `(APIConnectionError)` in it says nothing to somebody who does not know the code."""
    found = {
        str(path.relative_to(ROOT)) for path in SOURCES if "benchmarks" not in path.parts and any(class_names(path))
    }
    assert found == set(CLASS_NAMES)


def test_no_page_and_no_module_uses_a_word_that_needs_a_key() -> None:
    assert [line for path in (*SOURCES, *PAGES) if path.name not in SPOKEN for line in lines(path)] == []


def test_a_docstring_begins_with_a_verb_or_with_the_noun_that_it_names() -> None:
    assert [line for path in SOURCES for line in docstrings(path)] == []


def test_an_old_word_is_found_within_a_name_too() -> None:
    assert OLD.search("def is_told(self)")
    assert not OLD.search("a stold word, recommended")
