"""Discord's markdown, in which agents write, as runs of text with one style each. Pure.

Signal knows bold, italic, strikethrough, monospace and hidden text, and nothing else. Headings become bold, small lines
italic, list marks bullets, code blocks monospace, links their title and address. Of styles in each other the strongest
stays: hidden text must stay hidden, and code must read as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from agentic.chat.formatting import FENCE, SPOILER, Formatting


class Style(IntEnum):
    """A style of Signal; the stronger one has the higher number."""

    PLAIN = 0
    ITALIC = 1
    STRIKE = 2
    BOLD = 3
    MONO = 4
    SPOILER = 5


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text with one style."""

    text: str
    style: Style = Style.PLAIN


BULLET = "• "
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"  # noncharacters, which stand for the marks of spoilers while the rest is parsed

_FENCE = re.compile(r"```(?:[A-Za-z0-9_+\-.#]{1,32}\n)?(.*?)(?:```|\Z)", re.DOTALL)
_LINE = re.compile(
    r"(?P<rule>[ \t]*[-*_]{3,}[ \t]*\Z)|(?P<heading>#{1,6}[ \t]+)|(?P<small>-#[ \t]+)"
    r"|(?P<indent>[ \t]*)[-*+][ \t]+(?=\S)"
)
_INLINE = re.compile(
    r"""
      \\(?P<escaped>[\\`*_{}\[\]()\#+\-.!|~>])
    | (?P<ticks>`{1,2})(?P<code>[^`\n].{0,2000}?)(?P=ticks)(?!`)
    | \*\*(?P<bold>(?![\s*]).{1,2000}?)(?<!\s)\*\*(?!\*)
    | \*\*\*(?P<both>(?![\s*]).{1,2000}?)(?<!\s)\*\*\*
    | __(?P<underlined>(?![\s_]).{1,2000}?)(?<!\s)__(?!\w)
    | ~~(?P<struck>(?![\s~]).{1,2000}?)(?<!\s)~~
    | (?<![\w*])\*(?P<star>(?!\s)[^*\n]{1,2000}?)(?<!\s)\*(?![\w*])
    | (?<!\w)_(?P<score>(?!\s)[^_\n]{1,2000}?)(?<!\s)_(?!\w)
    | \[(?P<title>[^\]\n]{1,300})\]\(<?(?P<link>https?://[^\s<>)]{1,2000})>?\)
    | <(?P<bare>https?://[^\s<>]{1,2000})>
    | (?P<url>https?://[^\s<>]{1,2000})
    | <a?:(?P<emoji>\w{2,32}):\d{1,20}>
    """,
    re.VERBOSE,
)
_STYLES = {
    "bold": Style.BOLD,
    "both": Style.BOLD,
    "underlined": Style.ITALIC,
    "struck": Style.STRIKE,
    "star": Style.ITALIC,
    "score": Style.ITALIC,
}


def parse(text: str) -> list[Run]:
    """A text as runs; neighbours have different styles."""
    return _joined(_hidden(_blocks(_with_spoilers_marked(text))))


def plain(runs: Iterable[Run]) -> str:
    """The text of runs, as people read it."""
    return "".join(run.text for run in runs)


def _with_spoilers_marked(text: str) -> str:
    """Return the text with `_OPEN` and `_CLOSE` for the marks of its spoilers, which reach over lines and blocks."""
    text = text.replace(_OPEN, "").replace(_CLOSE, "")
    formatting = Formatting(text, [match.start() for match in re.finditer(FENCE, text)])
    parts, at = [], 0
    for mark, place in sorted(
        (mark, place)
        for span in formatting.spans
        if span.mark == SPOILER
        for mark, place in ((span.start, _OPEN), (span.content_end, _CLOSE))
    ):
        parts += [text[at:mark], place]
        at = mark + len(SPOILER)
    return "".join([*parts, text[at:]])


def _hidden(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield the runs without the spoilers' marks; what is between two marks is hidden, whatever it is else."""
    is_hidden = False
    for run in runs:
        for part in re.split(f"([{_OPEN}{_CLOSE}])", run.text):
            if part in (_OPEN, _CLOSE):
                is_hidden = part == _OPEN
            elif part:
                yield Run(part, Style.SPOILER if is_hidden else run.style)


def _blocks(text: str) -> Iterator[Run]:
    at = 0
    for block in _FENCE.finditer(text):
        yield from _lines(text[at : block.start()])
        yield Run(block[1].strip("\n"), Style.MONO)
        at = block.end()
    yield from _lines(text[at:])


def _lines(text: str) -> Iterator[Run]:
    for number, line in enumerate(text.split("\n")):
        if number:
            yield Run("\n")
        yield from _line(line)


def _line(line: str) -> Iterator[Run]:
    begin = _LINE.match(line)
    if begin is None:
        yield from _inline(line, Style.PLAIN)
    elif begin["rule"] is not None:
        yield Run("———")
    else:
        style = Style.BOLD if begin["heading"] else Style.ITALIC if begin["small"] else Style.PLAIN
        if style is Style.PLAIN:
            yield Run(f"{begin['indent']}{BULLET}")
        yield from _inline(line[begin.end() :], style)


def _inline(text: str, style: Style) -> Iterator[Run]:
    at = 0
    for found in _INLINE.finditer(text):
        yield Run(text[at : found.start()], style)
        yield from _found(found, style)
        at = found.end()
    yield Run(text[at:], style)


def _found(found: re.Match[str], style: Style) -> Iterator[Run]:
    kind = found.lastgroup or ""
    if kind in _STYLES:
        yield from _inline(found[kind], max(style, _STYLES[kind]))
    elif kind == "code":
        yield Run(found["code"].strip() or found["code"], max(style, Style.MONO))
    elif kind == "link":
        title, link = found["title"], found["link"]
        if title.strip() in (link, link.partition("://")[2]):
            yield Run(link, style)
        else:
            yield from _inline(title, style)
            yield Run(f" ({link})", style)
    else:
        yield Run(f":{found[kind]}:" if kind == "emoji" else found[kind], style)


def _joined(runs: Iterable[Run]) -> list[Run]:
    found: list[Run] = []
    for run in runs:
        if found and found[-1].style is run.style:
            found[-1] = Run(found[-1].text + run.text, run.style)
        else:
            found.append(run)
    return found
