"""The list of mistakes fits the code, so that it can be tried (`make mutants`)."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import ROOT, Misfit, Mutant

LEAST = 150


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}: {mutant.promise}")
def test_a_mistake_can_be_made_in_one_place_and_its_tests_exist(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(mutant.applied(text))) != ast.dump(ast.parse(text)), "it changes nothing"
    for test in mutant.tests:
        file, _, name = test.partition("::")
        path = ROOT / "tests" / file
        assert path.exists(), test
        assert name.rpartition("::")[2].partition("[")[0] in path.read_text(encoding="utf-8") if name else True, test


def test_there_are_enough_and_none_twice() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS) >= LEAST


def test_a_mistake_that_does_not_fit_is_named() -> None:
    mutant = Mutant("a.py", "x = 1", "x = 2", "it is one", ("test_a.py",))
    assert mutant.applied("y = 0\nx = 1\n") == "y = 0\nx = 2\n"
    for text in ("", "x = 1\nx = 1\n"):
        with pytest.raises(Misfit, match=r"a\.py: 'x = 1' stands there (no|2) times"):
            mutant.applied(text)
