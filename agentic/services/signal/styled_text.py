"""Converts Discord's markdown, in which agents write, to Signal's styled text, split into messages. Pure.

Signal only has bold, italic, strikethrough, monospace, and hidden text. Headings become bold, small lines italic, list
marks bullets, code blocks monospace, and links their title and URL. Of nested styles only the strongest is kept:
hidden text must stay hidden, and code must read as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from agentic.chat.formatting import FENCE, SPOILER, Formatting
from agentic.chat.splitting import JOINER, PUNCTUATION, continues, is_flag

LIMIT = 2000  # bytes of UTF-8
BULLET = "• "
SEPARATOR = "\u2060"  # invisible (WORD JOINER): separates a spoiler's mark from a character that would change it
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"  # noncharacters that replace the marks of spoilers while the rest is parsed

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


class Style(IntEnum):
    """A style of Signal. A stronger style has a higher number."""

    PLAIN = 0
    ITALIC = 1
    STRIKE = 2
    BOLD = 3
    MONO = 4
    SPOILER = 5


_STYLES = {
    **dict.fromkeys(("bold", "both"), Style.BOLD),
    **dict.fromkeys(("underlined", "star", "score"), Style.ITALIC),
    "struck": Style.STRIKE,
}
MARKS = {Style.ITALIC: "*", Style.STRIKE: "~", Style.BOLD: "**", Style.MONO: "`", Style.SPOILER: "||"}


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text with one style."""

    text: str
    style: Style = Style.PLAIN


def parse(text: str) -> list[Run]:
    """Return a text as runs; neighbors have different styles."""
    # spoilers may span lines and blocks, so their marks become `_OPEN` and `_CLOSE` first
    text = text.replace(_OPEN, "").replace(_CLOSE, "")
    formatting = Formatting(text, [match.start() for match in re.finditer(FENCE, text)])
    spoilers = [span for span in formatting.spans if span.mark == SPOILER]
    marks = [(span.start, _OPEN) for span in spoilers] + [(span.content_end, _CLOSE) for span in spoilers]
    marked, at = "", 0
    for place, mark in sorted(marks):
        marked += text[at:place] + mark
        at = place + len(SPOILER)
    found: list[Run] = []
    is_hidden = False
    for run in _blocks(marked + text[at:]):
        for part in re.split(f"([{_OPEN}{_CLOSE}])", run.text):
            if part in (_OPEN, _CLOSE):
                is_hidden = part == _OPEN
            elif part:
                style = Style.SPOILER if is_hidden else run.style
                before = found.pop().text if found and found[-1].style is style else ""
                found.append(Run(before + part, style))
    return found


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
        at, kind = found.end(), found.lastgroup or ""
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
    yield Run(text[at:], style)


def plain(runs: Iterable[Run]) -> str:
    return "".join(run.text for run in runs)


def split_runs(runs: Sequence[Run], limit: int = LIMIT) -> list[list[Run]]:
    """Return the runs of each message, in order; an empty list for white space. Styles continue in the next message.

    A message has at most 2,048 bytes of UTF-8; apps cut or drop longer messages, or signal-cli sends the text as a file
    in addition to its beginning, depending on its release (AsamK/signal-cli#1598, mautrix/signal#666). Style marks
    aren't included: the server removes them.
    """
    text = plain(runs)
    found, at = [], _past_lines(text, 0)
    while at < len(text):
        end = _end(text, at, limit)
        after = at + len(text[at:end].rstrip())
        if after > at:
            found.append(list(_slice(runs, at, after)))
        at = _past_lines(text, end)
    return found


def _end(text: str, at: int, limit: int) -> int:
    """Return where the message that begins at `at` ends: between paragraphs, lines, words, or else characters."""
    if len(text[at:].rstrip().encode("utf-8", "replace")) <= limit:
        return len(text)
    reach = at + len(text[at : at + limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore"))
    worth = at + (reach - at) // 4  # an earlier cut would leave a very short message
    rules: list[tuple[int, Callable[[int], bool]]] = [
        (worth, lambda place: text.startswith("\n\n", place)),
        (worth, lambda place: text.startswith("\n", place)),
        (worth, lambda place: text[place : place + 1].isspace() or text[place - 1] in PUNCTUATION),
        (at, lambda place: _is_between_characters(text, place)),
    ]
    for earliest, is_good in rules:
        if (cut := next((place for place in range(reach, earliest, -1) if is_good(place)), None)) is not None:
            return cut
    return max(reach, at + 1)


def _is_between_characters(text: str, place: int) -> bool:
    if place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    return before != JOINER and not continues(after) and not (is_flag(before) and is_flag(after))


def _past_lines(text: str, at: int) -> int:
    """Return the position after the white space of a cut. The next line keeps its indentation."""
    rest = text[at:]
    space = len(rest) - len(rest.lstrip())
    line = rest[:space].rfind("\n")
    return at + (line + 1 if line >= 0 else space)


def _slice(runs: Sequence[Run], begin: int, end: int) -> Iterator[Run]:
    at = 0
    for run in runs:
        if text := run.text[max(0, begin - at) : max(0, end - at)]:
            yield Run(text, run.style)
        at += len(run.text)


def to_styled_text(runs: Iterable[Run]) -> str:
    """Return the runs as the styled text that signal-cli-rest-api reads (its src/utils/textstyleparser.go).

    Its parser toggles a style at each mark and has no other rules: a mark without its partner styles the rest of the
    message, or is dropped. So each mark that belongs to the text gets a backslash. A run keeps its style only if its
    marks can't be misread: not next to a backslash, which would escape the mark, and not next to the same character,
    because `*` and `**` differ only in the next character. A spoiler always keeps its marks.
    """
    text = ""
    for run in runs:
        mark = MARKS.get(run.style, "")
        beside = (text[-1:], run.text[-1:])
        before, after = "", ""
        if run.style is Style.SPOILER:
            before, after = (SEPARATOR if char and char in "\\|" else "" for char in beside)
        elif not run.text.strip() or "\\" in beside or mark[:1] in beside:
            mark = ""
        escaped = re.sub(r"[*~`|]", r"\\\g<0>", run.text)
        text += f"{before}{mark}{escaped}{after}{mark}"
    return text
