"""That none of the 28 properties of the specification of the gateway is missing, and each is tried often enough."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

HERE = Path(__file__).parent
TAG = re.compile(r"# Feature: discord-claude-gateway, Property (\d+): (\S.*)")
TEST = re.compile(r"(?:async )?def (test_\w+)\(")
LEAST_EXAMPLES = 100


def tagged() -> list[tuple[int, Path, str]]:
    """Number, file, and the name of the first test below each tag."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        lines = path.read_text().splitlines()
        for place, line in enumerate(lines):
            if tag := TAG.fullmatch(line):
                below = (TEST.match(other) for other in lines[place:])
                found.append((int(tag[1]), path, next(match[1] for match in below if match)))
    return found


def test_each_of_the_28_properties_has_one_test() -> None:
    assert sorted(number for number, _, _ in tagged()) == list(range(1, 29))


@pytest.mark.parametrize(("number", "path", "name"), tagged())
def test_a_property_is_tried_with_a_hundred_examples(number: int, path: Path, name: str) -> None:
    spec = importlib.util.spec_from_file_location(f"properties_{number}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    test = getattr(module, name)
    assert is_hypothesis_test(test)
    own = getattr(test, "_hypothesis_internal_use_settings", None) or settings.default
    assert own.max_examples >= LEAST_EXAMPLES
