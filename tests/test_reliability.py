"""docs/dev/promises.md: every promise has a test that carries its number, and every number has its promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agentic.net.test_addresses import NOT_PUBLIC, PUBLIC

TESTS = Path(__file__).parent
DOCUMENT = (TESTS.parent / "docs" / "dev" / "promises.md").read_text(encoding="utf-8")
FEWEST_ADDRESSES = 60


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


PROMISES = [Promise(section, *cells) for section, cells in rows(DOCUMENT)]


def numbers_in(source: str) -> Iterator[str]:
    """The numbers of promises that tests carry as `@pytest.mark.promise(1, 2)`; a test that is left out has none."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        marks = [ast.unparse(decorator) for decorator in node.decorator_list]
        if any(
            mark.startswith(("pytest.mark.skip", "pytest.mark.xfail")) and "sys.platform" not in mark for mark in marks
        ):
            continue
        for mark in marks:
            if mark.startswith("pytest.mark.promise("):
                yield from re.findall(r"\d+", mark)


@cache
def proven() -> frozenset[str]:
    """The numbers of all promises that tests carry."""
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return frozenset(number for source in sources if "mark.promise" in source for number in numbers_in(source))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.happens[:60])
def test_every_promise_has_a_test(promise: Promise) -> None:
    assert promise.does
    assert promise.number in proven()


def test_every_number_that_a_test_carries_is_a_promise() -> None:
    assert proven() - {promise.number for promise in PROMISES} == set()


def test_a_test_that_is_left_out_proves_nothing() -> None:
    source = (
        "@pytest.mark.promise(1)\n@pytest.mark.skip\ndef test_a(): ...\n@pytest.mark.promise(2, 3)\ndef test_b(): ...\n"
    )
    assert list(numbers_in(source)) == ["2", "3"]


def test_a_promise_is_made_once() -> None:
    happenings = [(promise.section, promise.happens) for promise in PROMISES]
    numbers = [promise.number for promise in PROMISES]
    assert len(happenings) == len(set(happenings)) == len(set(numbers))


def test_addresses_are_tried_by_the_dozen() -> None:
    assert len({*NOT_PUBLIC, *PUBLIC}) >= FEWEST_ADDRESSES
