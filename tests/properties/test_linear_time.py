"""No expression takes more than linear time on text from outside: a hostile text must not stop the event loop.

Every compiled expression of the program is timed on texts made of its own parts: each part of it repeated, behind what
its beginning matches, and before something that it cannot match. A text four times as long may take about four times as
long.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, reduce
from operator import or_
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent_coordinator.text_signals import questions
from agentic.chat.directory import strip_mention
from agentic.chat.splitting import split_text
from agentic.context.commands import order_in, parse_command, parse_m
from agentic.context.entries import Entry, Speaker, one_line, words
from agentic.context.prefill_layout import PrefillLayout, escaped, read_completion
from agentic.context.render import render_entry
from agentic.net.page_text import readable_page
from agentic.process.redaction import Redactor
from agentic.process.root import ROOT
from agentic.tools.private_details import without_private
from agentic.turn.cleaning import clean_prose, clean_text
from agentic.turn.decision import UnreadableDecision, decision_from_prose, parse_decision
from agentic.turn.streaming import certain_part

sre: Any = importlib.import_module("re._constants")
sre_parser: Any = importlib.import_module("re._parser")

SHORT, LONG = 500, 4_000  # characters
ALLOWED = 0.003  # seconds for a text of LONG characters; what is faster is not compared
GROWTH = 9  # times as long for a text that is 4 times as long; quadratic expressions take 16 times as long
REPEATS = 2

METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "finditer", "findall")
MEETS_NO_OUTSIDE_TEXT = ("agentic.setup.",)  # who types there is the owner of the machine
BOUNDED = {
    "agentic.local.voices.answering._OR": "reads at most 100 characters",
    "agentic.services.signal.styled_text._INLINE": "each alternative reads at most 2,000 characters",
    "agentic.record.export.render._INLINE": "reads one message at a time, of at most 4,000 characters",
}
MATCHED_ONLY = {  # passed to a function that calls `match` alone
    "agentic.turn.loose_json._END_IN_OBJECT": frozenset({"match"}),
    "agentic.turn.loose_json._END_IN_LIST": frozenset({"match"}),
}
GENERIC = (
    "\n",
    " ",
    "\t",
    "\\",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    '"',
    "'",
    "`",
    "*",
    "_",
    "<",
    ">",
    "|",
    "~",
    "#",
    "-",
    ".",
    ":",
    "/",
    "@",
    "1",
    "a",
    "\u00a0",
    "\u2003",
    "é",
    "a ",
    " \n",
    "\n ",
    "> ",
    "a\n",
    "- ",
    "1.",
)


def patterns() -> dict[str, re.Pattern[Any]]:
    """Return every expression among the globals of every module of the program, by the name of one that has it."""
    found: dict[Any, tuple[str, re.Pattern[Any]]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for pattern in _within(value):
                found.setdefault((pattern.pattern, pattern.flags), (f"{module.__name__}.{name}", pattern))
    named: dict[str, re.Pattern[Any]] = {}
    for name, pattern in found.values():
        named.setdefault(name, pattern)
    return named


def literal_patterns() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    """Yield every expression that is written in a call such as `re.sub(r"…", …)`: its place, the method, and itself."""
    for module in modules():
        for node in ast.walk(ast.parse(source(module.__name__))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=how),
                    args=[ast.Constant(str() | bytes() as written), *_],
                ) if how in METHODS:
                    flags = [word for word in ast.walk(node) if isinstance(word, ast.Attribute) and word.attr.isupper()]
                    both = reduce(or_, (getattr(re, flag.attr) for flag in flags), re.NOFLAG)
                    yield f"{module.__name__}:{node.lineno}", how, re.compile(written, both)


def modules() -> Iterator[ModuleType]:
    for folder in sorted(ROOT.glob("agent*")):
        if (folder / "__init__.py").exists():
            for info in pkgutil.walk_packages([str(folder)], f"{folder.name}."):
                if not info.name.endswith("__main__"):
                    yield importlib.import_module(info.name)
        elif folder.suffix == ".py":
            yield importlib.import_module(folder.stem)


def _within(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset | set):
        for one in value:
            yield from _within(one)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _within(one)


# --- texts against an expression, from its structure ----------------------------------------------------------------


def attacks(pattern: re.Pattern[Any]) -> set[tuple[str, str]]:
    """Return pairs: what a text begins with, and what is repeated behind it."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = sre_parser.parse(source, pattern.flags & (re.VERBOSE | re.IGNORECASE | re.DOTALL | re.MULTILINE))
    found: set[tuple[str, str]] = set()
    _collect(list(tree), "", found)
    return found


def _collect(items: list[tuple[Any, Any]], before: str, found: set[tuple[str, str]]) -> None:
    """Add each part that can repeat, behind an example of what comes before it, and all of them repeated."""
    so_far = before
    for place, (kind, argument) in enumerate(items):
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            _least, most, inner = argument
            if most is sre.MAXREPEAT or most > 20:
                for unit in _examples(list(inner)):
                    found.add((so_far, unit))
                    found.add(("", so_far + unit if len(so_far) < 40 else unit))
                    found.add(("", unit))
            _collect(list(inner), so_far, found)
        elif kind is sre.BRANCH:
            for branch in argument[1]:
                _collect(list(branch), so_far, found)
        elif kind is sre.SUBPATTERN:
            _collect(list(argument[-1]), so_far, found)
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            _collect(list(argument[1]), so_far, found)
        elif kind is sre.ATOMIC_GROUP:
            _collect(list(argument), so_far, found)
        so_far += _examples(items[place : place + 1])[0]
    if so_far:
        found.add(("", so_far[:60]))


def _examples(items: list[tuple[Any, Any]]) -> list[str]:
    """Return one or a few texts that the items match, roughly."""
    found = [""]
    for kind, argument in items:
        if kind is sre.LITERAL:
            options = [chr(argument)]
        elif kind is sre.NOT_LITERAL:
            options = ["x" if argument != ord("x") else "y"]
        elif kind is sre.ANY:
            options = ["x"]
        elif kind is sre.IN:
            options = _chars(argument)
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, _most, inner = argument
            options = [one * max(1, min(least, 20)) for one in _examples(list(inner))]
        elif kind is sre.BRANCH:
            options = [one for branch in argument[1] for one in _examples(list(branch))[:1]]
        elif kind is sre.SUBPATTERN:
            options = _examples(list(argument[-1]))
        elif kind is sre.ATOMIC_GROUP:
            options = _examples(list(argument))
        else:
            options = [""]
        found = [text + option for text in found[:2] for option in options[:6]]
    return found[:8]


def _chars(items: list[tuple[Any, Any]]) -> list[str]:
    if items[0][0] is sre.NEGATE:
        return [char for char in ("x", " ", "\n", "1", "-", "[", "<") if not _is_in(char, items[1:])][:4] or ["\u2603"]
    found: list[str] = []
    for kind, argument in items:
        if kind is sre.LITERAL:
            found.append(chr(argument))
        elif kind is sre.RANGE:
            found.append(chr(argument[0]))
        elif kind is sre.CATEGORY:
            found += {
                sre.CATEGORY_SPACE: [" ", "\n"],
                sre.CATEGORY_DIGIT: ["1"],
                sre.CATEGORY_WORD: ["a", "1", "_"],
                sre.CATEGORY_NOT_SPACE: ["x"],
                sre.CATEGORY_NOT_DIGIT: ["x", " "],
                sre.CATEGORY_NOT_WORD: ["-", " "],
            }.get(argument, ["x"])
    return list(dict.fromkeys(found))[:6]


def _is_in(char: str, items: list[tuple[Any, Any]]) -> bool:
    for kind, argument in items:
        if kind is sre.LITERAL and chr(argument) == char:
            return True
        if kind is sre.RANGE and argument[0] <= ord(char) <= argument[1]:
            return True
        if kind is sre.CATEGORY:
            space, digit, word = char.isspace(), char.isdigit(), char.isalnum() or char == "_"
            if {
                sre.CATEGORY_SPACE: space,
                sre.CATEGORY_DIGIT: digit,
                sre.CATEGORY_WORD: word,
                sre.CATEGORY_NOT_SPACE: not space,
                sre.CATEGORY_NOT_DIGIT: not digit,
                sre.CATEGORY_NOT_WORD: not word,
            }.get(argument, False):
                return True
    return False


# --- timing ---------------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def slow_text(
    use: Callable[[str], object], before: str, unit: str, end: str, allowed: float = ALLOWED, scale: int = 1
) -> bool:
    """Whether the time grows faster than the text. Only what takes long enough to be measured is compared."""

    def text(size: int) -> str:
        return before + unit * (scale * size // len(unit)) + end

    short = text(SHORT)
    if seconds(lambda: use(short)) * (LONG / SHORT) ** 2 < allowed:
        return False  # even quadratic it would be fast
    if seconds(lambda: use(text(LONG))) < allowed:
        return False
    # Bounded repeats are only linear beyond their bounds, so what looks slow is looked at again in longer texts.
    longest = text(4 * LONG)
    return all(seconds(lambda: use(longest)) > GROWTH * seconds(lambda: use(text(LONG))) for _ in range(REPEATS))


@cache
def source(module: str) -> str:
    return Path(importlib.import_module(module).__file__ or "").read_text(encoding="utf-8")


def methods(name: str) -> frozenset[str]:
    """Return the methods of an expression that its module uses; "finditer" for one that is passed on."""
    module, _, own = name.rpartition(".")
    known = rf"(?<![\w.]){re.escape(own)}\.(match|fullmatch|search|sub|subn|split|finditer|findall)\b"
    found = {how if how in ("match", "fullmatch") else "finditer" for how in re.findall(known, source(module))}
    return frozenset(found or {"finditer"})


def use_of(pattern: re.Pattern[Any], how: Collection[str]) -> Callable[[str], object]:

    def use(text: str) -> None:
        subject: Any = text if isinstance(pattern.pattern, str) else text.encode("utf-8")
        for method in how:
            found = getattr(pattern, method)(subject)
            if method == "finditer":
                deque(found, maxlen=0)

    return use


def slow_on(pattern: re.Pattern[Any], how: Collection[str]) -> str | None:
    """Return a text on which the expression takes more than linear time. `how`: the methods that are used."""
    use = use_of(pattern, how)
    for before, unit in sorted({("", unit) for unit in GENERIC} | attacks(pattern)):
        if unit and slow_text(use, before, unit, "\x00"):
            return f"{before!r} + {unit!r} * n"
    return None


@pytest.mark.promise(521)
def test_no_expression_takes_more_than_linear_time() -> None:
    found = {
        name: text
        for name, pattern in patterns().items()
        if not name.startswith(MEETS_NO_OUTSIDE_TEXT)
        and name not in BOUNDED
        and (text := slow_on(pattern, MATCHED_ONLY.get(name) or methods(name)))
    }
    found |= {
        place: text
        for place, method, pattern in literal_patterns()
        if not place.startswith(MEETS_NO_OUTSIDE_TEXT)
        and (text := slow_on(pattern, {method if method in ("match", "fullmatch") else "finditer"}))
    }
    assert found == {}


def test_a_quadratic_expression_is_found() -> None:
    assert slow_on(re.compile(r"^[\s>]*text", re.MULTILINE), {"finditer"}) is not None


def decided(text: str) -> object:
    try:
        return parse_decision(text)
    except UnreadableDecision:
        return None


GROK = Speaker(1, "Grok", "agent", "grok")
FUNCTIONS: Mapping[str, Callable[[str], object]] = {
    "parse_decision": decided,
    "decision_from_prose": decision_from_prose,
    "clean_text": clean_text,
    "clean_prose": clean_prose,
    "a growing answer": certain_part,
    "split_text": lambda text: split_text(text, 2000),
    "parse_command": lambda text: parse_command(f".history {text}"),
    "parse_m": lambda text: parse_m(f"m continue{text}"),
    "order_in": order_in,
    "questions": questions,
    "redact": Redactor(),
    "strip_mention": lambda text: strip_mention(text, ["@Claude", "<@1>"]),
    "without_private": lambda text: without_private(f"10 Downing Street {text}", asked=f"10 Downing Street {text}"),
    "read_completion": lambda text: read_completion(text, PrefillLayout("", (), "", (), "Claude", ("Alice", "Bob"))),
    "escaped": escaped,
    "a message of an agent": lambda text: render_entry(
        Entry(1, Speaker(1, "Grok", "agent", "grok"), text, 0), 0, "claude"
    ),
    "words": lambda text: words(text, own_notes=True),
    "one_line": lambda text: one_line(text, len(text)),
    "readable_page": lambda text: readable_page(f"<p>{text}</p>", "https://example.org/"),
}
PIECES = (
    "\n",
    " ",
    "\t",
    "[",
    "{",
    "`",
    "```",
    "*",
    "<",
    "<think>",
    "</think>",
    "<|x|>",
    '{"a":',
    "![",
    "a ",
    "|-|\n",
    "> ",
)


@pytest.mark.promise(521)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_takes_more_than_linear_time_on_outside_text(name: str) -> None:
    use = FUNCTIONS[name]
    found = [piece for piece in PIECES if slow_text(use, "Hello", piece, "there", allowed=0.2, scale=4)]
    assert found == []


@pytest.mark.promise(521)
def test_blank_lines_do_not_stop_the_process() -> None:
    assert seconds(lambda: decision_from_prose("Hello" + "\n" * 12_000 + "there")) < 1.0
