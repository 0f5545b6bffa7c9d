"""Put settings into the text of a .env file. Pure; every other line stays as it is, to the byte."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping

from dotenv.parser import Binding, parse_stream

_PLAIN = re.compile(r"[A-Za-z0-9_./:,+=@%~-]*")
# The parts of a line as dotenv's parser reads it: up to the value, the value, a comment and the line's end.
_LINE = re.compile(
    r"""
      (?P<head>\s*(?:export[^\S\r\n]+)?(?:'[^']+'|[^=\#\s]+)[^\S\r\n]*=(?:[^\S\r\n]*(?![\s\#]))?)
      (?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\r\n]*?)
      (?P<tail>(?:[^\S\r\n]+\#[^\r\n]*)?[^\S\r\n]*(?:\r\n|\r|\n)?)\Z
    """,
    re.VERBOSE | re.DOTALL,
)
_SHOWN = re.compile(r"\s*#+[^\S\r\n]*(?P<key>[A-Za-z_][A-Za-z0-9_]*)=")


def with_settings(text: str, changes: Mapping[str, str]) -> str:
    """The text with these settings, "" for an empty one. Keys are compared in any case.

    A line that sets a key keeps its comment. A key without a line gets one: below the last comment that shows it
    (`# KEY=…`), otherwise at the end.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    end = "\r\n" if "\r\n" in text else "\n"
    bindings = list(parse_stream(io.StringIO(text.removeprefix(mark))))
    pieces = [_changed(binding, changes) for binding in bindings]
    present = {binding.key.upper() for binding in bindings if binding.key and not binding.error}
    shown = {key: number for number, binding in enumerate(bindings) if (key := _shown_in(binding))}
    for key, value in changes.items():
        if key in present or not value:
            continue
        line = f"{key}={quoted(value)}{end}"
        if key in shown:
            pieces[shown[key]] = _ended(pieces[shown[key]], end) + line
        else:
            pieces[-1:] = [_ended(pieces[-1], end), line] if pieces else [line]
    return mark + "".join(pieces)


def quoted(value: str) -> str:
    """The value as a .env file has it: in quotation marks only where it needs them."""
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _changed(binding: Binding, changes: Mapping[str, str]) -> str:
    original = binding.original.string
    key = binding.key.upper() if binding.key and not binding.error else ""
    if key not in changes or (binding.value or "").strip() == changes[key]:
        return original
    match = _LINE.match(original)
    if match is None:  # a key alone, without an equals sign
        bare = original.rstrip("\r\n")
        return f"{bare}={quoted(changes[key])}{original[len(bare) :]}"
    return f"{match['head']}{quoted(changes[key])}{match['tail']}"


def _shown_in(binding: Binding) -> str:
    """The key that a comment shows, "" for none."""
    match = None if binding.key or binding.error else _SHOWN.match(binding.original.string)
    return match["key"].upper() if match else ""


def _ended(piece: str, end: str) -> str:
    return piece if not piece or piece.endswith(("\r", "\n")) else piece + end
