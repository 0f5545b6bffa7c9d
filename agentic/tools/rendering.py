"""Calls and results as text: for people in Discord, and for a model that reads the channel later.

    .claude>[web_search]: query: tallest tree
    .claude<[web_search]: results:
      - title: …
        url: …

JSON is unrolled: one `key: value` a line, nested values indented below. In Discord every post begins with exactly one
period, whatever the name, so that no bot reads it; two periods are an ordinary person's ellipsis. Numbers stay as
written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentic.tools.record import ToolRecord

LIMIT = 2000  # UTF-16 units of a post
INDENT = "  "
MAX_POSTS = 3
MAX_DEPTH = 12
MAX_NAME = 80

_RUNNING = "(no result)"


def unrolled(value: Any) -> str:
    """Return a JSON value as lines, "" for an empty map."""
    return "\n".join(_lines(value, 0))


def _lines(value: Any, depth: int) -> Iterator[str]:
    if depth >= MAX_DEPTH and isinstance(value, Mapping | list | tuple):
        yield "…"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _headed(f"{' '.join(str(key).split())}:", item, depth)
    elif isinstance(value, list | tuple):
        for item in value:
            inner = list(_lines(item, depth + 1)) or ["(nothing)"]
            yield f"- {inner[0]}"
            yield from (f"{INDENT}{line}" for line in inner[1:])
    else:
        yield from _scalar(value).splitlines() or [""]


def _headed(head: str, item: Any, depth: int) -> Iterator[str]:
    inner = list(_lines(item, depth + 1))
    is_block = isinstance(item, Mapping | list | tuple) or len(inner) > 1
    if is_block and inner:
        yield head
        yield from (f"{INDENT}{line}" for line in inner)
    else:
        yield f"{head} {inner[0] if inner else '(nothing)'}".rstrip()


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def readable(text: str) -> str:
    """Return a result as lines: unrolled if it is a JSON object or list, else unchanged."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        found = json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return text
    return unrolled(found) or "(nothing)"


def call_line(name: str, record: ToolRecord) -> str:
    return _headline(f"{_plain(name)}>[{_plain(record.name)}]:", unrolled(record.arguments))


def result_line(name: str, record: ToolRecord) -> str:
    failed = "error: " if record.is_error else ""
    return _headline(f"{_plain(name)}<[{_plain(record.name)}]:", failed + readable(record.output or _RUNNING))


def record_text(name: str, record: ToolRecord, limit: int = 4000) -> str:
    """Return a record for a context: at most `limit` characters, and a note if it was cut."""
    text = f"{call_line(name, record)}\n{result_line(name, record)}"
    return text if len(text) <= limit else f"{text[:limit]}\n[cut here]"


def posts(name: str, record: ToolRecord, *, limit: int = LIMIT, max_posts: int = MAX_POSTS) -> list[str]:
    """Return the posts that show a call in Discord, at least one. The first is made at the call and edited with the
    result.

    Every post begins with one period and has at most `limit` UTF-16 units.
    """
    text = call_line(name, record)
    if record.output is not None:
        text += f"\n{result_line(name, record)}"
    again = f"{_plain(name)}<[{_plain(record.name)}] …"
    pieces = _pieces(_shown(text), limit - len(again.encode("utf-16-le")) // 2 - 60)
    left = sum(map(len, pieces[max_posts:]))
    shown = [f".{pieces[0]}", *(f".{again}\n{piece}" for piece in pieces[1:max_posts])]
    if left:
        shown[-1] += f"\n[… {left} characters more]"
    return shown


def _headline(head: str, text: str) -> str:
    """Put the text after its head. Further lines are indented, so that none poses as another head."""
    return f"{head} {text}".replace("\r", "").replace("\n", f"\n{INDENT}").rstrip()


def _plain(name: str) -> str:
    """Return a name on one line that cannot end its brackets, does not begin with a period and is not empty."""
    kept = " ".join("".join(char for char in name if char.isprintable() and char not in "[]<>:`*|~@#").split())
    return kept.lstrip(". ")[:MAX_NAME] or "tool"


def _shown(text: str) -> str:
    """Break up code fences, which would swallow the rest."""
    return text.replace("```", "`\u200b`\u200b`")


def _pieces(text: str, room: int) -> list[str]:
    """Cut the text into pieces of at most `room` UTF-16 units, between lines if possible."""
    pieces: list[str] = []
    while text:
        end = _reach(text, room)
        if end < len(text):
            line_end = text.rfind("\n", end // 2, end)
            end = line_end if line_end > 0 else end
        pieces.append(text[:end].rstrip() or "…")
        text = text[end:].lstrip("\n")
    return pieces or ["…"]


def _reach(text: str, room: int) -> int:
    units = 0
    for index, char in enumerate(text):
        units += 2 if char > "\uffff" else 1
        if units > room:
            return index
    return len(text)
