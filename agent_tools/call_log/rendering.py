"""Calls and results in words: for people in Discord, and for a model that reads the channel again.

    .claude>[web_search]: query: tallest tree
    .claude<[web_search]: results:
      - title: …
        url: …

JSON is unrolled: a `key: value` a line, what is inside of something indented below it. In Discord every post begins
with exactly one period, whatever the name is, so that no bot reads it: two periods would be words of somebody who
hesitates. Numbers stay as they were written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_llm.types import ToolRound
from agent_tools.call_log.record import ToolRecord

LIMIT = 2000  # UTF-16 units of a post
INDENT = "  "
MAX_POSTS = 3
MAX_DEPTH = 12
MAX_NAME = 80

_RUNNING = "(no result)"


def unrolled(value: Any) -> str:
    """A JSON value as lines; "" for an empty map."""
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
    """A result as lines: unrolled where it is a JSON object or list, as it is otherwise."""
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
    """A record as it is put back into a context: not more than `limit` characters, and a note."""
    text = f"{call_line(name, record)}\n{result_line(name, record)}"
    return text if len(text) <= limit else f"{text[:limit]}\n[cut here]"


def posts(name: str, record: ToolRecord, *, limit: int = LIMIT, max_posts: int = MAX_POSTS) -> list[str]:
    """What Discord shows of a call: one post at least; the first one is made at the call and edited with the result.

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


def rounds_as_text(rounds: Sequence[ToolRound]) -> str:
    """What tools were asked and brought in this turn, for a completion that can have no tools."""
    lines = []
    for step in rounds:
        for call, result in zip(step.calls, step.results, strict=True):
            lines.append(_headline(f"[{_plain(call.name)}] was asked:", unrolled(call.arguments)))
            failed = "failed:" if result.is_error else "brought:"
            lines.append(_headline(f"[{_plain(call.name)}] {failed}", f"\n{result.text}"))
    return "\n".join(lines)


def _headline(head: str, text: str) -> str:
    """The text behind its head; every further line is off the margin, so that none poses as another head."""
    return f"{head} {text}".replace("\r", "").replace("\n", f"\n{INDENT}").rstrip()


def _plain(name: str) -> str:
    """A name in one line that cannot end its brackets, does not begin with a period and is not empty."""
    kept = " ".join("".join(char for char in name if char.isprintable() and char not in "[]<>:`*|~@#").split())
    return kept.lstrip(". ")[:MAX_NAME] or "tool"


def _shown(text: str) -> str:
    """Nothing in it opens a code block, which would swallow the rest."""
    return text.replace("```", "`\u200b`\u200b`")


def _pieces(text: str, room: int) -> list[str]:
    """The text in pieces of at most `room` UTF-16 units, cut between lines where there is a good place."""
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
