"""Formulas in LaTeX are shown as code; prices, code, and everything else stay as they are."""

from __future__ import annotations

import pytest

from agentic.turn.cleaning import clean_prose, clean_text
from agentic.turn.formulas import formulas_as_code


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r"So \(a_1 * b_1 < c\) holds.", "So `a_1 * b_1 < c` holds."),
        ("So $x_1 * x_2$ holds.", "So `x_1 * x_2` holds."),
        (r"The share $\alpha$ is small.", r"The share `\alpha` is small."),
        ("For any $n$, and $P = NP$.", "For any `n`, and `P = NP`."),
        ("Look:\n$$x = \\frac{a}{b}$$\nDone.", "Look:\n```latex\nx = \\frac{a}{b}\n```\nDone."),
        ("Look: \\[\nx^2 + y^2\n\\] Done.", "Look: \n```latex\nx^2 + y^2\n```\nDone."),
    ],
)
def test_a_formula_is_code(written: str, shown: str) -> None:
    assert formulas_as_code(written) == shown
    assert formulas_as_code(shown) == shown
    assert clean_text(written) == clean_text(shown)
    assert clean_prose(written) == clean_text(shown)


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5, not $9.",
        "From $5 to $9 a month, or A$3.",
        "US$5 + tax = US$6",
        "$HOME and $PATH_X",
        r"\[not a link\] and \(an aside\)",
        "Run `echo $A_B $C_D` now.",
        "```sh\necho $x_1$ \\(y^2\\)\n```",
        "$$$ all around $$$",
        "plain",
    ],
)
def test_anything_else_stays_as_it_is(text: str) -> None:
    assert formulas_as_code(text) == text
