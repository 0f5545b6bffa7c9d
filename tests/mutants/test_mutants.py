"""The list of mistakes fits the code, so that it can be tried (`make mutants`)."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from agent_process.root import ROOT
from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Misfit, Mutant


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def meaning(source: str) -> str:
    return ast.dump(ast.parse(source))


def name_in(node: str) -> str:
    """`Class::test_x[y]` → `test_x`."""
    return node.rpartition("::")[2].partition("[")[0]


def misfit(mutant: Mutant) -> str | None:
    text = text_of(mutant.file)
    try:
        if meaning(mutant.applied(text)) == meaning(text):
            return "it changes nothing"
    except (Misfit, SyntaxError) as error:
        return str(error)
    for test in mutant.tests:
        file, _, name = test.partition("::")
        if not (ROOT / "tests" / file).exists() or (name and name_in(name) not in text_of(f"tests/{file}")):
            return f"there is no {test}"
    return None


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_mistakes_can_be_made_in_one_place_and_their_tests_exist(file: str) -> None:
    found = {mutant.promise: misfit(mutant) for mutant in MUTANTS if mutant.file == file}
    assert {promise: why for promise, why in found.items() if why} == {}


def test_no_mistake_is_listed_twice() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


def test_a_mistake_that_does_not_fit_is_named() -> None:
    mutant = Mutant("a.py", "x = 1", "x = 2", "it is one", ("test_a.py",))
    assert mutant.applied("y = 0\nx = 1\n") == "y = 0\nx = 2\n"
    for text in ("", "x = 1\nx = 1\n"):
        with pytest.raises(Misfit, match=r"a\.py: 'x = 1' stands there (no|2) times"):
            mutant.applied(text)
