"""The lines that a window sends, in blocks; each block is one message to the model.

A line is an entry as first shown, a note of a later change, or a tool's call and result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentic.context.entries import Entry
from agentic.context.join_messages import join

BLOCK = 8  # lines in one message to the model


@dataclass(frozen=True, slots=True)
class ToolLine:
    """Stage 8: a tool's call and result, as one line of data after the message `after_id`. `asked_by`: the person for
    whom it was called."""

    after_id: int
    text: str
    asked_by: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A change of an entry that was already shown: its new text, or its present reactions."""

    about: Entry
    kind: Literal["edited", "reactions"]


Line = Entry | Note | ToolLine


@dataclass(eq=False, slots=True)
class Block:
    """Lines that go to the model as one message. `texts`: a cache of renderings, by how they were rendered."""

    lines: tuple[Line, ...]
    closed: bool = False
    texts: dict[object, str] = field(default_factory=dict)


def quoted_in(block: Block, files: Mapping[int, str]) -> tuple[int, ...]:
    """Return the attachments of the block whose text is shown; a file that lost its room must not stay in the cache."""
    if not files:
        return ()
    entries = [
        line if isinstance(line, Entry) else line.about for line in block.lines if not isinstance(line, ToolLine)
    ]
    return tuple(file.id for entry in entries for file in entry.attachments if file.id in files)


def left_of(entry: Entry, units: Mapping[int, Entry]) -> Entry | None:
    """Return what is left of a shown entry; the entry itself if nothing is gone."""
    left = [unit for unit in entry.units if unit.id in units]
    if len(left) == len(entry.units):
        return entry
    return join(left) if left else None


def without(blocks: Iterable[Block], units: Mapping[int, Entry]) -> list[Block]:
    """Remove what is gone. Blocks of which nothing is gone stay the same objects."""
    kept: list[Block] = []
    for block in blocks:
        lines = [_line_left(line, units) for line in block.lines]
        if all(line is before for line, before in zip(lines, block.lines, strict=True)):
            kept.append(block)
        elif left := tuple(line for line in lines if line is not None):
            kept.append(Block(left, block.closed))
    return kept


def _line_left(line: Line, units: Mapping[int, Entry]) -> Line | None:
    if isinstance(line, ToolLine):
        return line
    entry = line if isinstance(line, Entry) else line.about
    left = left_of(entry, units)
    if left is entry:
        return line
    return left if isinstance(line, Entry) else None


def in_order(entries: Iterable[Entry], tools: Sequence[ToolLine]) -> list[Line]:
    """Insert each tool line after its message. Entries of one time keep their order."""
    lines: list[Line] = list(entries)
    for tool in tools:
        place = sum(
            1 for line in lines if (line.after_id if isinstance(line, ToolLine) else _id(line)) <= tool.after_id
        )
        lines.insert(place, tool)
    return lines


def behind(entries: Iterable[Entry], tools: Sequence[ToolLine]) -> list[Line]:
    """Return entries of any channels, in their order, each followed by its tool lines."""
    lines: list[Line] = []
    for entry in entries:
        ids = {unit.id for unit in entry.units}
        lines += (entry, *(tool for tool in tools if tool.after_id in ids))
    return lines


def _id(line: Entry | Note) -> int:
    return line.id if isinstance(line, Entry) else line.about.id


def in_blocks(opened: tuple[Line, ...], lines: Sequence[Line], marker: int | None) -> list[Block]:
    """Divide `opened` and `lines` into blocks. A message with pictures ends its block, so that they follow its text,
    and so does the marker."""
    blocks: list[Block] = []
    block = list(opened)
    for line in lines:
        block.append(line)
        entry = line if isinstance(line, Entry) else None
        if len(block) >= BLOCK or (entry is not None and (entry.has_pictures or entry.id == marker)):
            blocks.append(Block(tuple(block), closed=True))
            block = []
    if block:
        blocks.append(Block(tuple(block)))
    return blocks
