"""docs/reliability.md: every promise of it names tests, and every test that it names is there and runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agent_net.test_addresses import NOT_PUBLIC, PUBLIC

TESTS = Path(__file__).parent
DOCUMENT = (TESTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
FEWEST_ADDRESSES = 60

# What can happen, by section: none of it may lose its row.
HAPPENS: dict[str, tuple[str, ...]] = {
    "What leaves the program": (
        *(
            "interaction",
            "@everyone",
            "mentions people",
            "thinks aloud",
            "call of a tool",
            "copies its prompt",
            "traceback",
        ),
        *(
            "turn fails and a person",
            "longer than a message",
            "code block",
            "answer is empty",
            "Canary",
            "system prompt",
        ),
    ),
    "What comes in": (
        *("nicknames", "channel names and topics", "another speaker", "Names with colons", "webhook or bot", "picture"),
        *("loopback", "redirect", "Content-Length", "magic bytes", "NaN", "instruction_id", "Decision JSON"),
        *("react_to_message_id", "emoji that does not exist"),
    ),
    "Money": (
        *("agent, of all, of a channel or of a person", "One person", "at the same time", "started again"),
        *("price table", "Two bots", "provider fails", "Quiet hours"),
    ),
    "Discord": (
        *("Limits", "retry-after", "401", "403", "webhook", "refuses", "disabled intent", "missing permission"),
        *("not there", "wrong token", "One token for two", "dropped or resumed", "invalidated", "twice"),
        *("edited or deleted while", "channel or thread is deleted", "archived or locked"),
    ),
    "The process": (
        *("kill -9", "the bill", "gone or restarted", "emptied", "full, slow", "401, 429 or 500", "hangs, or is cut"),
        *("refuses, or says nothing", "ten times", "Two run_all", "double conversation", "answered twice", "SIGTERM"),
        *("clock is set", "Midnight", "Daylight saving", "slept", "STOP", "restart"),
    ),
}


class Promise(NamedTuple):
    section: str
    number: str
    happens: str
    does: str


def rows(part: str) -> Iterator[tuple[str, list[str]]]:
    """Each numbered row of a table: the heading above it, its cells."""
    section = ""
    for line in part.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif re.match(r"\| \d+ \|", line):
            yield section, [cell.strip() for cell in line.strip("|").split("|")]


BEFORE, HEADING, AFTER = DOCUMENT.partition("## Proofs\n")
PROMISES = [Promise(section, *cells) for section, cells in rows(BEFORE)]
PROOFS = [(number, re.findall(r"`([\w/]+\.py)::(test_\w+)`", tests)) for _, (number, tests) in rows(AFTER)]
"""By the promise's number: files and names of tests."""


@cache
def names_in(file: str) -> frozenset[str]:
    """The tests of a file that run wherever the whole suite does."""
    found = ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
    made = [node for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(node.name for node in made if not any(map(_is_left_out, node.decorator_list)))


def _is_left_out(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith(("pytest.mark.skip", "pytest.mark.xfail"))


def test_every_section_is_there_in_its_order() -> None:
    assert list(dict.fromkeys(promise.section for promise in PROMISES)) == list(HAPPENS)


@pytest.mark.parametrize(
    ("section", "what"), [pair for section in HAPPENS for pair in product((section,), HAPPENS[section])]
)
def test_everything_that_can_happen_has_its_row(section: str, what: str) -> None:
    assert [promise for promise in PROMISES if promise.section == section and what in promise.happens]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.happens[:60])
def test_every_promise_names_tests_that_are_there_and_run(promise: Promise) -> None:
    assert promise.does
    (tests,) = (tests for number, tests in PROOFS if number == promise.number)
    assert tests
    for file, name in tests:
        assert (TESTS / file).is_file(), file
        assert name in names_in(file), f"{file}::{name}"


def test_every_proof_has_its_promise() -> None:
    assert HEADING
    assert [number for number, _ in PROOFS] == [promise.number for promise in PROMISES]


def test_a_test_that_is_left_out_is_no_proof(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text("@pytest.mark.skip\ndef test_a(): ...\n@given(x)\ndef test_b(): ...\n")
    assert names_in(str(file)) == {"test_b"}


def test_a_promise_is_made_once() -> None:
    happenings = [(promise.section, promise.happens) for promise in PROMISES]
    numbers = [promise.number for promise in PROMISES]
    assert len(happenings) == len(set(happenings)) == len(set(numbers))


def test_addresses_are_tried_by_the_dozen() -> None:
    assert len({*NOT_PUBLIC, *PUBLIC}) >= FEWEST_ADDRESSES
