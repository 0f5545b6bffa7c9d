"""Simple sums that people ask for, computed without evaluating anything but numbers."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

MAX_CHARACTERS = 60
MAX_EXPONENT = 64
MAX_VALUE = 1e15

_ASKING = re.compile(
    r"^(?:(?:so|and|please|hey|hi|hello)\b[, ]*)*"
    r"(?:what(?:'s|’s| is| are)|how much(?: is| are)|calculate|compute|solve)?"
    r"\s*(?P<sum>.*?)\s*(?:equals?|=)?\s*(?:please)?\s*[?!.]*$",
    re.IGNORECASE,
)
_WORDS = (
    (r"\bplus\b", "+"), (r"\bminus\b", "-"), (r"\b(?:times|multiplied by)\b|[×·]", "*"), (r"\bdivided by\b|÷", "/"),
    (r"(?<=\d)\s*x\s*(?=\d)", "*"), (r"\^", "**"), (r"(?<=\d)\s*(?:%|percent)\s+of\b", "/100*"),
    (r"(?<=\d),(?=\d{3}\b)", ""),
)  # fmt: skip
_SUM = re.compile(r"[\d.+\-*/() ]+")
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class _NotASum(ValueError):
    pass


def find_sum(question: str) -> tuple[str, str] | None:
    """("17 + 25", "42") when the question is a sum and nothing else, and it has an answer; None otherwise."""
    asked = _ASKING.match(question)
    if asked is None or len(question) > MAX_CHARACTERS:
        return None
    shown = asked["sum"].strip()
    expression = shown
    for pattern, replacement in _WORDS:
        expression = re.sub(pattern, replacement, expression, flags=re.IGNORECASE)
    if not _SUM.fullmatch(expression):
        return None
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body, top=True)
    except (ArithmeticError, ValueError, SyntaxError):
        return None
    return shown, _shown(value)


def _value(node: ast.expr, *, top: bool = False) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not top:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not top:
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > MAX_EXPONENT:
            raise _NotASum
        return _within(_BINARY[type(node.op)](left, right))
    raise _NotASum


def _within(value: float) -> float:
    if isinstance(value, complex) or not abs(value) <= MAX_VALUE:
        raise _NotASum
    return value


def _shown(value: float) -> str:
    if isinstance(value, int) or value == math.floor(value):
        return str(int(value))
    return f"{value:.6g}"
