"""Parse the markdown of persona files: lines, comments, code blocks, headings, and fields below a heading.

    ## Name                     a heading starts a section
    - interval: 300             fields: a list right below the heading
    - channel: #lab

    The rest is text.           nothing in a code block is a heading or a comment

HTML comments are for people and are removed everywhere, even across lines. Line numbers start at 1. This follows
CommonMark 0.31 (spec.commonmark.org), sections 4.2, 4.5, and 4.6, but allows more indentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

UNCLOSED = "this comment has no closing -->, so the rest of the file is hidden"
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?")
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_FIELD = re.compile(
    r"[ \t]*[-*+][ \t]+(?:\*\*|__)?([A-Za-z][A-Za-z _-]{0,40}?)(?:\*\*|__)?[ \t]*:(?:\*\*|__)?(?:[ \t]+(.*))?"
)


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: str
    level: int = 0  # of a heading: 1 to 6
    fence: str = ""  # within a code block and at its ends: the text that closes it

    @property
    def title(self) -> str:
        match = _HEADING.fullmatch(self.text)
        words = (match[2] or "").split() if match and self.level else []
        if words and not words[-1].strip("#"):  # marks that close the heading
            words.pop()
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its content, up to the next heading of the same or a higher level."""

    heading: Line
    body: tuple[Line, ...]

    @property
    def title(self) -> str:
        return self.heading.title


@dataclass(slots=True)
class Fields:
    """The fields below a heading by key (lower case, "_" between words), and the text after them."""

    values: dict[str, Any] = field(default_factory=dict)  # without invalid ones
    lines: dict[str, int] = field(default_factory=dict)
    text: str = ""

    @property
    def are_valid(self) -> bool:
        return len(self.values) == len(self.lines)


class Problems:
    """Collects problems as lines such as `heartbeat.md:12: expected yes or no`, in the file's order."""

    def __init__(self, file: str, text: str | None = None) -> None:
        self._file, self._found = file, list[tuple[int, str]]()
        if (unclosed := open_comment(text or "")) is not None:
            self.add(unclosed, UNCLOSED)

    def add(self, line: int, what: str) -> None:
        self._found.append((line, what))

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{self._file}:{line}: {what}" for line, what in sorted(self._found))


def plain(text: str) -> str:
    """Remove a byte order mark and normalize line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def scan(text: str) -> tuple[Line, ...]:
    """Return a text's lines, except lines that contain only comments."""
    return _scanned(text)[0]


def open_comment(text: str) -> int | None:
    """Return the line of an unclosed comment, which hides the rest of the file."""
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
        opening, heading = _FENCE.match(seen), _HEADING.fullmatch(seen)
        fence = opening[1] if opening else ""
        found.append(Line(number, seen, len(heading[1]) if heading and not opening else 0, fence))
    return tuple(found), opened if inside else None


def closes(line: str, fence: str) -> bool:
    """Return whether a line closes the code block that this fence opened."""
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}


def _uncommented(line: str, inside: bool) -> tuple[str, bool, bool]:
    """Return the line without comments, whether a comment is still open after it, and whether it has a comment. A
    comment mark in a code span (after an odd number of backticks) is text."""
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
    """Return the sections of a level, without lines before the first section or below a higher heading."""
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
    """Return the sections one level below every heading with this title, in any case and at any level."""
    found: list[Section] = []
    for level in range(1, 6):
        for outer in sections(lines, level):
            if outer.title.casefold() == title.casefold():
                found += sections(outer.body, level + 1)
    return sorted(found, key=lambda section: section.heading.number)


def without(lines: Sequence[Line], titles: Iterable[str]) -> Iterator[Line]:
    """Yield the lines that are not below a heading with one of these titles."""
    unwanted, cut = {title.casefold() for title in titles}, 0
    for line in lines:
        if line.level and (not cut or line.level <= cut):
            cut = line.level if line.title.casefold() in unwanted else 0
        if not cut:
            yield line


def text_of(lines: Iterable[Line]) -> str:
    """Join lines, without leading and trailing blank lines, and close an open code block."""
    kept = list(lines)
    while kept and not kept[0].text.strip():
        del kept[0]
    while kept and not kept[-1].text.strip():
        del kept[-1]
    text, fence = "\n".join(line.text for line in kept).rstrip(), ""
    for line in kept:
        fence = "" if fence and closes(line.text, fence) else (fence or line.fence)
    return f"{text}\n{fence}" if fence else text


def fields_of(section: Section, readers: Mapping[str, Callable[[str], Any]], problems: Problems) -> Fields:
    """Parse the list right below a heading and the text after it. The first line that isn't a field ends the list.
    `readers` parse the known fields and raise ValueError. Unknown and duplicate keys are reported and ignored."""
    found, body = Fields(), list(section.body)
    while body and not body[0].text.strip():
        del body[0]
    while body and (match := _FIELD.fullmatch(body[0].text)) and not body[0].fence:
        line = body.pop(0)
        key = re.sub(r"[ _-]+", "_", match[1].strip()).lower()
        if key not in readers:
            fields = ", ".join(readers)
            what = f"unknown field {match[1]!r}; the fields are {fields}. Start the text with a sentence, not a list"
            problems.add(line.number, what)
        elif key in found.lines:
            problems.add(line.number, f"{key} appears twice; the first is used")
        else:
            value = (match[2] or "").strip()
            while len(value) > 1 and value[0] == value[-1] and value[0] in ("`", '"', "'"):
                value = value[1:-1].strip()
            found.lines[key] = line.number
            try:
                found.values[key] = readers[key](value)
            except ValueError as error:
                problems.add(line.number, f"{key}: {error}")
    found.text = text_of(body)
    return found
