"""Markdown tables → bullets, since Discord and Signal show a table as its source.

    | City | Rain |          - City: Oslo · Rain: 3 mm
    | ---- | ---: |    →     - City: Rome · Rain: none
    | Oslo | 3 mm |
    | Rome | none |

A table is a line of cells, a line of dashes, and the lines of cells that follow. Models write ragged ones: a cell
without a heading stands alone, a heading without a cell is left out. Code blocks stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

FENCE = "```"
BETWEEN = " · "

_LEAD = re.compile(r"[ \t>]*")  # a table in a quotation keeps its mark
_DASHES = re.compile(r"[ \t]*:?-+:?[ \t]*")
_ESCAPED = re.compile(r"\\\|")
_BAR = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def without_tables(text: str) -> str:
    """The text with each table as bullets."""
    if "|" not in text or "-" not in text:
        return text
    lines = text.split("\n")
    return "\n".join(_converted(lines, _in_code(lines)))


def settled(text: str) -> str:
    """The part of a growing text that no further words can turn into a table, or into another bullet.

    Held back are the line that is being written, where it may be a row, a line of cells that a line of dashes may
    follow, and the headings of a table without a row.
    """
    lines = text.split("\n")
    in_code = _in_code(lines)
    if in_code[-1]:
        return text
    end = len(lines) - 1
    begins_a_row = _BAR.search(lines[end]) or not lines[end].strip(" \t>:-")
    if not begins_a_row:
        return text
    first = end
    while first and not in_code[first - 1] and _BAR.search(lines[first - 1]):
        first -= 1
    dashes = next((place for place in range(first + 1, end) if _is_dashes(lines[place])), end)
    whole = end if dashes < end - 1 else max(first, dashes - 1)
    return text if whole == end and not lines[end] else "\n".join(lines[:whole])


def _converted(lines: Sequence[str], in_code: Sequence[bool]) -> Iterator[str]:
    place = 0
    while place < len(lines):
        rows = 0 if in_code[place] else _table_at(lines, in_code, place)
        if not rows:
            yield lines[place]
            place += 1
            continue
        yield from _bullets(lines[place : place + rows])
        place += rows


def _table_at(lines: Sequence[str], in_code: Sequence[bool], place: int) -> int:
    """The number of lines of the table that begins here; 0 where none does."""
    if not _BAR.search(lines[place]) or _is_dashes(lines[place]):
        return 0
    end = place + 1
    while end < len(lines) and not in_code[end] and _BAR.search(lines[end]):
        end += 1
    return end - place if end > place + 1 and _is_dashes(lines[place + 1]) else 0


def _bullets(lines: Sequence[str]) -> Iterator[str]:
    headings, *rows = [_cells(line) for line in lines if not _is_dashes(line)]
    lead = _lead(lines[0])
    for row in rows or [headings]:
        said = _row(headings if rows else (), row)
        if said:
            yield f"{lead}- {said}"


def _row(headings: Sequence[str], cells: Sequence[str]) -> str:
    labels = [heading.strip("*_: ") for heading in headings] + [""] * len(cells)
    alone = len(headings) < 2 or len(cells) < 2
    pairs = zip(labels, cells, strict=False)
    return BETWEEN.join(cell if alone or not label else f"{label}: {cell}" for label, cell in pairs if cell)


def _cells(line: str) -> list[str]:
    inner = line[len(_lead(line)) :].strip()
    cells = _BAR.split(inner)
    if cells and not cells[0].strip():
        del cells[0]
    if cells and not cells[-1].strip():
        del cells[-1]
    return [" ".join(_BREAK.sub(" ", _ESCAPED.sub("|", cell)).split()) for cell in cells]


def _is_dashes(line: str) -> bool:
    """Whether it is the line of dashes, with marks of alignment or not, between the headings and the rows."""
    inner = line[len(_lead(line)) :].strip()
    parts = _BAR.split(inner)
    return len(parts) > 1 and any(parts) and all(_DASHES.fullmatch(part) for part in parts if part.strip())


def _lead(line: str) -> str:
    match = _LEAD.match(line)
    return match[0] if match else ""


def _in_code(lines: Sequence[str]) -> list[bool]:
    """Whether each line is in a code block, or has its beginning or end."""
    found, inside = [], False
    for line in lines:
        fences = line.count(FENCE)
        found.append(inside or fences > 0)
        inside ^= fences % 2 == 1
    return found
