"""Markdown as far as persona files need it: lines, comments, code blocks, headings, and fields below a heading.

    ## Name                     a heading parts what follows from what came before
    - interval: 300             fields, a list right below the heading
    - channel: #lab

    The rest is text.           in which code blocks stay whole: nothing in them is a heading or a comment

HTML comments are for people: they are left out everywhere, also over many lines. Line numbers are those of the file,
from 1, so that a problem can be found with an editor. After CommonMark 0.31 (spec.commonmark.org), sections 4.2, 4.5
and 4.6, more tolerant of indents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_FIELD = re.compile(
    r"[ \t]*[-*+][ \t]+(?:\*\*|__)?([A-Za-z][A-Za-z _-]{0,40}?)(?:\*\*|__)?[ \t]*:(?:\*\*|__)?(?:[ \t]+(.*))?"
)
_QUOTES = ("`", '"', "'")


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its comments. `level` is 1 to 6 for a heading and 0 for anything else."""

    number: int
    text: str
    level: int = 0
    fence: str = ""  # inside of a code block, or one of its ends: what closes it

    @property
    def title(self) -> str:
        """A heading's words, with single blanks."""
        match = _HEADING.fullmatch(self.text)
        return " ".join((match[2] or "").split()) if match and self.level else ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it, up to the next heading of its level or a higher one."""

    heading: Line
    body: tuple[Line, ...]

    @property
    def title(self) -> str:
        return self.heading.title


@dataclass(slots=True)
class Fields:
    """The fields below a heading by their keys (small letters, "_" for what parts words), and the text after them.

    `problems`: line and what is wrong.
    """

    values: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    text: str = ""
    problems: list[tuple[int, str]] = field(default_factory=list)


def plain(text: str) -> str:
    """Without a byte order mark, and with one kind of line end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def scan(text: str) -> tuple[Line, ...]:
    """A text's lines. Those that hold nothing but comments are not among them."""
    return _scanned(text)[0]


def open_comment(text: str) -> int | None:
    """The line of a comment that is never closed, which makes all that follows one."""
    return _scanned(text)[1]


@lru_cache(maxsize=128)
def _scanned(text: str) -> tuple[tuple[Line, ...], int | None]:
    found: list[Line] = []
    fence, inside, opened = "", False, 0
    for number, raw in enumerate(plain(text).split("\n"), 1):
        if fence:
            found.append(Line(number, raw, fence=fence))
            fence = "" if closes(raw, fence) else fence
            continue
        before = inside
        seen, inside, commented = _uncommented(raw, inside)
        opened = number if inside and (not before or "-->" in raw) else opened
        if commented and not seen.strip():
            continue
        line = _line(number, seen)
        found.append(line)
        fence = line.fence
    return tuple(found), opened if inside else None


def _line(number: int, text: str) -> Line:
    opening = _FENCE.match(text)
    if opening:
        return Line(number, text, fence=opening[1])
    heading = _HEADING.fullmatch(text)
    return Line(number, text, len(heading[1]) if heading else 0)


def closes(line: str, fence: str) -> bool:
    """Whether a line ends the code block that this mark began."""
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}


def _uncommented(line: str, inside: bool) -> tuple[str, bool, bool]:
    """What people put between <!-- and --> taken out; whether a comment is open after it; whether there was one.

    The mark within a code span (an odd number of backticks before it) is text.
    """
    kept, commented, at = "", inside, 0
    while True:
        if inside:
            end = line.find("-->", at)
            if end < 0:
                return kept.rstrip(), True, True
            at, inside = end + 3, False
        start = line.find("<!--", at)
        while start >= 0 and (kept + line[at:start]).count("`") % 2:
            kept, at = kept + line[at : start + 4], start + 4
            start = line.find("<!--", at)
        if start < 0:
            return (kept + line[at:]).rstrip() if commented else kept + line[at:], False, commented
        kept, at, inside, commented = kept + line[at:start], start + 4, True, True


def sections(lines: Iterable[Line], level: int) -> list[Section]:
    """The sections of one level; what stands before the first, or below a higher heading, is in none."""
    found: list[Section] = []
    heading: Line | None = None
    body: list[Line] = []
    for line in lines:
        if not 0 < line.level <= level:
            body.append(line)
            continue
        if heading is not None:
            found.append(Section(heading, tuple(body)))
        heading, body = (line if line.level == level else None), []
    if heading is not None:
        found.append(Section(heading, tuple(body)))
    return found


def under(lines: Sequence[Line], title: str) -> list[Section]:
    """The sections one level below every heading of this title (in any case), at whatever level that stands."""
    found: list[Section] = []
    for level in range(1, 6):
        for outer in sections(lines, level):
            if outer.title.casefold() == title.casefold():
                found += sections(outer.body, level + 1)
    return sorted(found, key=lambda section: section.heading.number)


def without(lines: Sequence[Line], titles: Iterable[str]) -> Iterator[Line]:
    """The lines that stand below no heading with one of these titles."""
    unwanted, cut = {title.casefold() for title in titles}, 0
    for line in lines:
        if line.level and (not cut or line.level <= cut):
            cut = line.level if line.title.casefold() in unwanted else 0
        if not cut:
            yield line


def text_of(lines: Iterable[Line]) -> str:
    """Lines as a text, without blank ones at its ends; a code block that was left open is closed."""
    kept = list(lines)
    while kept and not kept[0].text.strip():
        del kept[0]
    while kept and not kept[-1].text.strip():
        del kept[-1]
    text = "\n".join(line.text for line in kept).rstrip()
    return f"{text}\n{open_fence}" if (open_fence := _left_open(kept)) else text


def _left_open(lines: Sequence[Line]) -> str:
    """The mark that closes the last code block, where it is missing."""
    fence = ""
    for line in lines:
        fence = "" if fence and closes(line.text, fence) else (fence or line.fence)
    return fence


def fields_of(section: Section, known: Iterable[str]) -> Fields:
    """The list right below a heading, and the text that follows it. The list ends at the first line that is no field.

    An unknown key, or one that is there twice, is a problem; its line is used for nothing.
    """
    known, found, body = tuple(known), Fields(), list(section.body)
    while body and not body[0].text.strip():
        del body[0]
    while body and (match := _FIELD.fullmatch(body[0].text)) and not body[0].fence:
        line = body.pop(0)
        key = re.sub(r"[ _-]+", "_", match[1].strip()).lower()
        if key not in known:
            what = f"unknown field {match[1]!r}; known are {', '.join(known)}. Begin a text with a sentence, not a list"
            found.problems.append((line.number, what))
        elif key in found.values:
            found.problems.append((line.number, f"{key} is there twice; the first one counts"))
        else:
            found.values[key], found.lines[key] = _unquoted(match[2] or ""), line.number
    found.text = text_of(body)
    return found


def _unquoted(value: str) -> str:
    value = value.strip()
    while len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES:
        value = value[1:-1].strip()
    return value
