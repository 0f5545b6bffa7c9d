"""Small sums, worked out: "what is 17 + 25?" → ("17 + 25", "42"). Exact, with bounds."""

from __future__ import annotations

import re
from fractions import Fraction

MOST = 10**15  # of every number on the way
MOST_EXPONENT = 50
MOST_CHARACTERS = 100  # of a sum
DECIMALS = 4  # shown of a result that has no end

_ASKED = re.compile(r"^(?:what(?:'s|’s| is| are)|how much (?:is|are)|calculate|compute|and)\s+", re.IGNORECASE)
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_WORDS = (
    *((re.compile(rf"\b{word}\b", re.I), str(number)) for number, word in enumerate(_NUMBERS)),
    (re.compile(r"\bplus\b", re.I), "+"),
    (re.compile(r"\bminus\b|[−–]", re.I), "-"),
    (re.compile(r"\btimes\b|\bmultiplied by\b|[×·]|(?<=[\d\s)])x(?=[\d\s(])", re.I), "*"),
    (re.compile(r"\bdivided by\b|÷", re.I), "/"),
    (re.compile(r"\bto the power of\b|\*\*", re.I), "^"),
    (re.compile(r"\bsquared\b", re.I), "^2"),
    (re.compile(r"(?:%|\bper ?cent)\s*of\b", re.I), "/100*"),
)
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([-+*/^()]))")
_DATE = re.compile(r"\d+(?:-\d+){2,}|\d{3,}-\d{4,}")  # or a telephone number
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_COMMA = re.compile(r"(?<=\d),(?=\d)")


class NoResult(Exception):
    """It is a sum, and too large or without a result."""


def worked_out(text: str) -> tuple[str, str] | None:
    """The sum as it was written, and its result; None for a text that is no sum. Raises NoResult."""
    written = _ASKED.sub("", text.strip()).strip(" =?!.")
    if len(written) > MOST_CHARACTERS or _DATE.fullmatch(written):
        return None
    plain = _COMMA.sub(".", _THOUSANDS.sub("", written))
    for pattern, sign in _WORDS:
        plain = pattern.sub(sign, plain)
    tokens = _tokens(plain)
    if tokens is None or not any(sign in "+-*/^" for sign in tokens[1:]):
        return None
    try:
        value, rest = _sum(tokens)
    except IndexError:
        return None
    except ZeroDivisionError:
        raise NoResult from None
    return None if rest else (written, _shown(value))


def _tokens(text: str) -> list[str] | None:
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None if text[at:].strip() else found
        found.append(match[1] or match[2])
        at = match.end()
    return found


def _sum(tokens: list[str]) -> tuple[Fraction, list[str]]:
    value, rest = _product(tokens)
    while rest and rest[0] in "+-":
        other, after = _product(rest[1:])
        value, rest = _bounded(value + other if rest[0] == "+" else value - other), after
    return value, rest


def _product(tokens: list[str]) -> tuple[Fraction, list[str]]:
    value, rest = _power(tokens)
    while rest and rest[0] in "*/":
        other, after = _power(rest[1:])
        value, rest = _bounded(value * other if rest[0] == "*" else value / other), after
    return value, rest


def _power(tokens: list[str]) -> tuple[Fraction, list[str]]:
    if tokens[0] == "-":
        value, rest = _power(tokens[1:])
        return -value, rest
    value, rest = _number(tokens)
    if not rest or rest[0] != "^":
        return value, rest
    exponent, rest = _power(rest[1:])
    if exponent.denominator != 1 or abs(exponent) > MOST_EXPONENT:
        raise NoResult
    return _bounded(value ** int(exponent)), rest


def _number(tokens: list[str]) -> tuple[Fraction, list[str]]:
    if tokens[0] != "(":
        if not tokens[0][0].isdigit():
            raise IndexError
        return _bounded(Fraction(tokens[0])), tokens[1:]
    value, rest = _sum(tokens[1:])
    if rest[0] != ")":
        raise IndexError
    return value, rest[1:]


def _bounded(value: Fraction) -> Fraction:
    if abs(value) > MOST or value.denominator > MOST:
        raise NoResult
    return value


def _shown(value: Fraction) -> str:
    if value.denominator == 1:
        return f"{value.numerator:,}"
    rounded = round(value, DECIMALS)
    if not rounded:
        return f"about {float(value):.2g}"
    digits = f"{float(rounded):,.{DECIMALS}f}".rstrip("0").rstrip(".")
    return digits if rounded == value else f"about {digits}"
