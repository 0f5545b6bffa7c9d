"""Parse JSON as models write it, whole or partial.

`objects` accepts keys with or without quotes, single, curly, or unescaped inner quotes, raw newlines, comments,
trailing or missing commas, Python's True and None, and an object that the text ends in. Valid JSON is read as JSON. A
quote closes a string only if the object could continue after it, so the inner quotes of `"He said "hello" to me"` don't
end the string. The text (MAX_CHARS), the depth (MAX_DEPTH), and the work on overlapping attempts (MAX_EFFORT) are
bounded.

`text_so_far` finds the text in a decision that is still being written. It reads only the requested form, a JSON object
at the beginning of the answer, perhaps in a code block. Any other answer is read when it's complete (decision.py).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from agentic.turn.form import FIELDS

MAX_CHARS = 64_000  # about four times the longest answer that models may give
MAX_DEPTH = 12
MAX_EFFORT = 2 * MAX_CHARS  # characters read by all attempts together
MAX_DIGITS = 40  # of a number

_CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`"}
_MARKS = {closing: re.compile(rf"[\\{closing}]") for closing in _CLOSING.values()}
_LITERALS = {"true": True, "yes": True, "false": False, "no": False}
_NOTHING = frozenset({"null", "none", "undefined", "nil", "nan", "infinity", "-infinity", "inf", "-inf"})
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "\n": "\n"}
_PLAIN = "\"'`/\\"  # a backslash before these has no meaning

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.{0,300}?\*/)*", re.DOTALL)
_SPACE_AND_COMMAS = re.compile(r"(?:[\s,;]|//[^\n]*|/\*.{0,300}?\*/)*", re.DOTALL)
_QUOTED_KEY = r"""["'“‘`][^"'“”‘’`\\\n]{0,64}["'”’`]\s*:"""
# narrow, so that `"no", then: go` stays text
_NAME = f"(?:[a-z]+(?:_[a-z]+)+|{'|'.join(field.name for field in FIELDS if '_' not in field.name)})"
_BARE_KEY = rf"{_NAME}\s*:"
_KEY = re.compile(r"""(?:["'“‘`]([^"'“”‘’`\\\n]{0,64})["'”’`]|([A-Za-z_][\w-]{0,63}))\s*:""")
_BARE_VALUE = re.compile(r"[^,}\]\n\"“]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?\Z")
_CUT_KEY = r"""["'“‘`]\w{0,64}["'”’`]?\s*\Z"""
_END_IN_OBJECT = re.compile(
    rf"\s*(?:\}}|\Z|```|/[/*]|,\s*(?:\}}|\Z|/[/*]|{_QUOTED_KEY}|{_BARE_KEY}|{_CUT_KEY})|{_QUOTED_KEY})"
)
_END_IN_LIST = re.compile(r"""\s*(?:\]|\Z|,\s*(?:["'“‘`{\[\]]|\Z|-?\d|true|false|null))""")
_NEXT_KEY = {c: re.compile(rf"[,\n]\s{{0,40}}[{o}{c}]{_NAME}[{c}]\s*:") for o, c in _CLOSING.items()}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u[0-9a-fA-F]{0,3}\Z|\Z|.)", re.DOTALL)

# of a partial object
_START = re.compile(r"\s*(?:```\w{0,20}\s*)?\{")
_PARTIAL_JSON_KEY = re.compile(r'[\s,]*"(\w{1,64})"\s*:\s*')
# Whole characters and whole escapes; line breaks are allowed.
_STRING = re.compile(r'"((?:[^"\\]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+)')

_decoder = json.JSONDecoder(strict=False)


class CutString(str):
    """A string whose end is missing, since the text ended in it."""

    __slots__ = ()


_ABSENT = object()  # in place of a missing value


def objects(text: str) -> Iterator[tuple[Mapping[str, object], bool]]:
    """Yield each object in `text` by the order of opening braces, and whether it's inside another object. Values are
    str, int, float (finite), bool, None, list, and dict. A cut or invalid object has the fields up to that point. Text
    beyond MAX_CHARS is ignored."""
    text = text[:MAX_CHARS]
    effort = outer_end = 0
    start = text.find("{")
    while start >= 0 and effort < MAX_EFFORT:
        reader = _ObjectReader(text, start)
        fields = reader.fields(depth=0)
        yield fields, start < outer_end
        effort += reader.pos - start
        outer_end = max(outer_end, reader.pos)
        start = text.find("{", start + 1)


def unescape(text: str) -> str:
    """Resolve JSON's escapes. Unknown escapes stay; lone surrogates become U+FFFD."""
    if "\\" in text:
        text = _ESCAPE.sub(_character, text)
    return join_surrogates(text)


def join_surrogates(text: str) -> str:
    """Return the text with whole characters: pairs of surrogates are joined, and lone ones become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5 and code[0] == "u":
        return chr(int(code[1:], 16))
    if match.end() == len(match.string) and (code == "" or code[0] == "u"):
        return ""  # cut inside an escape
    return _ESCAPES.get(code, code if code in _PLAIN else match[0])


class _ObjectReader:
    """Read one object, beginning at `pos`. `stopped` is set if the text ends or becomes invalid."""

    def __init__(self, text: str, pos: int) -> None:
        self._text = text
        self.pos = pos
        self.stopped = False

    def fields(self, depth: int) -> dict[str, object]:
        fields: dict[str, object] = {}
        self.pos += 1
        while not self.stopped:
            self._skip(_SPACE_AND_COMMAS)
            if self._took("}"):
                break
            key = _KEY.match(self._text, self.pos)
            if key is None:
                self.stopped = True
                break
            self.pos = key.end()
            value = self._value(depth, _END_IN_OBJECT)
            if value is not _ABSENT:
                fields[key[1] if key[1] is not None else key[2]] = value
        return fields

    def _list(self, depth: int) -> list[object]:
        values: list[object] = []
        self.pos += 1
        while not self.stopped:
            self._skip(_SPACE_AND_COMMAS)
            if self._took("]"):
                break
            before = self.pos
            value = self._value(depth, _END_IN_LIST)
            if value is not _ABSENT:
                values.append(value)
            elif self.pos == before:
                self.stopped = True
        return values

    def _value(self, depth: int, ends: re.Pattern[str]) -> object:
        self._skip(_SPACE)
        first = self._text[self.pos : self.pos + 1]
        if not first or (first in "{[" and depth >= MAX_DEPTH):
            self.stopped = True
            return _ABSENT
        if first == "{":
            return self.fields(depth + 1)
        if first == "[":
            return self._list(depth + 1)
        return self._string(first, ends) if first in _CLOSING else self._bare()

    def _string(self, opening: str, ends: re.Pattern[str]) -> str:
        start, closing = self.pos + 1, _CLOSING[opening]
        end, marks = len(self._text), _MARKS[closing]
        mark = marks.search(self._text, start)
        while mark:
            if mark[0] == closing and ends.match(self._text, mark.end()):
                end = mark.start()
                break
            mark = marks.search(self._text, mark.end() + (mark[0] == "\\"))
        next_key = _NEXT_KEY[closing].search(self._text, start, end)
        if next_key:  # the closing quote is missing
            self.pos = next_key.start()
            return unescape(self._text[start : self.pos].rstrip())
        if end < len(self._text):
            self.pos = end + 1
            return unescape(self._text[start:end])
        self.pos, self.stopped = end, True
        rest = self._text[start:].rstrip().removesuffix("```").rstrip()
        return CutString(unescape(rest.rstrip("} \n")))

    def _bare(self) -> object:
        match = _BARE_VALUE.match(self._text, self.pos)
        assert match is not None, "the pattern also matches nothing"
        self.pos = match.end()
        token = match[0].split("//")[0].strip()
        value = _bare_value(token)
        if self.pos == len(self._text) and not isinstance(value, bool) and value is not None:
            self.stopped = True
            return _ABSENT  # the value may be incomplete
        return value if token else _ABSENT

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self.pos)
        self.pos = match.end() if match else self.pos

    def _took(self, char: str) -> bool:
        if not self._text.startswith(char, self.pos):
            return False
        self.pos += 1
        return True


def _bare_value(token: str) -> object:
    lowered = token.lower()
    if lowered in _LITERALS:
        return _LITERALS[lowered]
    if lowered in _NOTHING:
        return None
    number = _NUMBER.match(token)
    if number is None:
        return token
    if len(token) > MAX_DIGITS:
        return None
    if number[1] is None and number[2] is None:
        return int(token)
    return float(token) if math.isfinite(float(token)) else None


def text_so_far(raw: str) -> str:
    """Return the written part of the field `text`; "" if it hasn't begun, or the decision is to skip."""
    start = _START.match(raw)
    if start is None:
        return ""
    at = start.end()
    while (key := _PARTIAL_JSON_KEY.match(raw, at)) is not None:
        if key[1] == "text":
            found = _STRING.match(raw, key.end())
            if found is None:
                return ""
            text: str = _decoder.decode(f'"{found[1]}"')
            if "\ud800" <= text[-1:] <= "\udbff":
                text = text[:-1]  # half a character
            return join_surrogates(text)
        try:
            value, at = _decoder.raw_decode(raw, key.end())
        except (ValueError, RecursionError):
            return ""
        if key[1] == "skip" and value is True:
            return ""
    return ""
