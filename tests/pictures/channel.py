"""Draw messages as a channel or thread in a chat program: pictures, names, texts, and reactions."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from xml.sax.saxutils import escape

WIDTH = 780
COLUMNS = 88  # characters of a line
LINE, GAP = 21, 8
STYLE = (
    "text{font-family:'gg sans','Noto Sans','Helvetica Neue',Helvetica,Arial,sans-serif;font-size:15px}"
    ".name{font-weight:600}.small{fill:#949ba4;font-size:12px}.app{fill:#a5adff;font-size:10px;font-weight:700}"
    ".text{fill:#dbdee1}.letter{fill:#fff;font-weight:700;font-size:17px;text-anchor:middle}"
    ".head{fill:#f2f3f5;font-weight:700;font-size:16px}.left-out{fill:#949ba4;font-size:13px;text-anchor:middle}"
    ".b{font-weight:700;fill:#f2f3f5}.at{fill:#c9cdfb}.code{font-family:monospace;font-size:14px}.votes{fill:#dbdee1;font-size:13px}"
)
_STYLED = re.compile(r"\*\*(?P<b>[^*]+)\*\*|`(?P<code>[^`]+)`|(?P<at>@\w+|💬)")
_POST_LINK = re.compile(r"<https://discord\.com/channels/\d+/\d+/\d+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A message. `votes` are its 👍. Without a `name`, the text says what is left out here."""

    name: str = ""
    text: str
    color: str = ""
    is_app: bool = False
    time: str = ""
    votes: int = 0


def draw(title: str, messages: Sequence[Drawn]) -> str:
    """Return an SVG. Messages of one author that follow each other share a picture."""
    parts, top, before = list[str](), 66, ""
    for message in messages:
        if not message.name:
            parts.append(
                f'<path d="M20 {top + 6}H{WIDTH - 20}" stroke="#3f4147" stroke-dasharray="2 5"/>'
                f'<rect x="{WIDTH / 2 - 4 * len(message.text):.0f}" y="{top - 4}" width="{8 * len(message.text)}"'
                f' height="20" fill="#313338"/>'
                f'<text x="{WIDTH // 2}" y="{top + 11}" class="left-out">{escape(message.text)}</text>'
            )
            top, before = top + 34, ""
            continue
        is_first = message.name != before
        if is_first:
            parts.append(_head(message, top))
        top += 12 if is_first else -10
        for line, is_quote in _lines(message.text):
            top += LINE
            if is_quote:
                parts.append(f'<rect x="72" y="{top - 15}" width="3" height="{LINE}" rx="1.5" fill="#4e5058"/>')
            if line:
                parts.append(f'<text x="{84 if is_quote else 72}" y="{top}" class="text">{line}</text>')
            else:
                top -= LINE // 2
        if message.votes:
            parts.append(
                f'<rect x="72" y="{top + 9}" width="48" height="24" rx="8" fill="#373a54" stroke="#5865f2"/>'
                f'<text x="80" y="{top + 26}" class="votes">👍 {message.votes}</text>'
            )
            top += 30
        top, before = top + 26, message.name
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 6}"><style>{STYLE}</style>'
        f'<rect width="{WIDTH}" height="{top + 6}" rx="8" fill="#313338"/><path d="M0 48H{WIDTH}" stroke="#26282c"/>'
        f'<text x="20" y="30" class="head">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _head(message: Drawn, top: int) -> str:
    app = '<tspan dx="8" class="app">APP</tspan>' if message.is_app else ""
    return (
        f'<circle cx="36" cy="{top + 18}" r="19" fill="{message.color}"/>'
        f'<text x="36" y="{top + 24}" class="letter">{message.name[0]}</text>'
        f'<text x="72" y="{top + 11}"><tspan class="name" fill="{message.color}">{message.name}</tspan>{app}'
        f'<tspan dx="8" class="small">{message.time}</tspan></text>'
    )


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a message as SVG, and whether each is quoted."""
    for part in text.splitlines():
        is_quote, marks = part.startswith("> "), list(_marks(part.removeprefix("> ")))
        plain, start = "".join(mark for mark, _ in marks), 0
        for line in textwrap.wrap(plain, COLUMNS - 2 * is_quote) or [""]:
            start = plain.index(line, start)
            runs = groupby(marks[start : start + len(line)], itemgetter(1))
            yield "".join(_run("".join(mark for mark, _ in run), kind) for kind, run in runs), is_quote
            start += len(line)


def _marks(text: str) -> Iterator[tuple[str, str]]:
    """Yield each character with its style: `b`, `code`, `at`, or none."""
    start = 0
    for found in _STYLED.finditer(text := _POST_LINK.sub("💬", text)):
        yield from ((mark, "") for mark in text[start : found.start()])
        kind = found.lastgroup or ""
        yield from ((mark, kind) for mark in found[kind])
        start = found.end()
    yield from ((mark, "") for mark in text[start:])


def _run(text: str, kind: str) -> str:
    return f'<tspan class="{kind}">{escape(text)}</tspan>' if kind else escape(text)
