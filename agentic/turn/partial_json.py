"""A decision that is still being written: the words to post, as far as they are there.

Only the requested form is read: a JSON object from the answer's first character on, in a code block or not. Any other
answer is read when it is whole (decision.py), and shown then.
"""

from __future__ import annotations

import json
import re

_START = re.compile(r"\s*(?:```\w{0,20}\s*)?\{")
_KEY = re.compile(r'[\s,]*"(\w{1,64})"\s*:\s*')
# Whole characters and whole escapes; a string that a model breaks over lines is read all the same.
_STRING = re.compile(r'"((?:[^"\\]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+)')

_decoder = json.JSONDecoder(strict=False)


def text_so_far(raw: str) -> str:
    """The field `text` as far as it is written; "" where it has not begun, or where the decision is to skip."""
    start = _START.match(raw)
    if start is None:
        return ""
    at = start.end()
    while (key := _KEY.match(raw, at)) is not None:
        if key[1] == "text":
            return _string_so_far(raw, key.end())
        try:
            value, at = _decoder.raw_decode(raw, key.end())
        except (ValueError, RecursionError):
            return ""
        if key[1] == "skip" and value is True:
            return ""
    return ""


def _string_so_far(raw: str, at: int) -> str:
    found = _STRING.match(raw, at)
    if found is None:
        return ""
    text: str = _decoder.decode(f'"{found[1]}"')
    if "\ud800" <= text[-1:] <= "\udbff":
        text = text[:-1]  # the second half of the character is still to come
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
