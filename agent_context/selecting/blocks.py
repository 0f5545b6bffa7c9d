"""What a window sends: lines in blocks, each block one message to the model.

A line is an entry as it was when it was shown first, a note of what changed since, or what a tool was asked and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent_context.entries import Entry
from agent_context.selecting.join_messages import join

BLOCK = 8  # lines in one message to the model


@dataclass(frozen=True, slots=True)
class ToolLine:
    """Stage 8: what a tool was asked and said, as one line of data after the message `after_id`."""

    after_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A change of an entry that was shown already: its new words, or its present reactions."""

    about: Entry
    kind: Literal["edited", "reactions"]


Line = Entry | Note | ToolLine


@dataclass(eq=False, slots=True)
class Block:
    """Lines that go to the model as one message. `texts` is for whoever renders them: how, and what came of it."""

    lines: tuple[Line, ...]
    closed: bool = False
    texts: dict[object, str] = field(default_factory=dict)


def quoted_in(block: Block, files: Mapping[int, str]) -> tuple[int, ...]:
    """The attachments of the block whose text is shown: one that lost its room must not be shown for ever."""
    if not files:
        return ()
    entries = [
        line if isinstance(line, Entry) else line.about for line in block.lines if not isinstance(line, ToolLine)
    ]
    return tuple(file.id for entry in entries for file in entry.attachments if file.id in files)


def left_of(entry: Entry, units: Mapping[int, Entry]) -> Entry | None:
    """What is left of an entry that was shown; itself where nothing of it is gone."""
    left = [unit for unit in entry.units if unit.id in units]
    if len(left) == len(entry.units):
        return entry
    return join(left) if left else None


def without(blocks: Iterable[Block], units: Mapping[int, Entry]) -> list[Block]:
    """The blocks without what is gone; those of which nothing is gone stay the same."""
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
    """Each tool line after the message that it came of; entries of one time stay in their order."""
    lines: list[Line] = list(entries)
    for tool in tools:
        place = sum(
            1 for line in lines if (line.after_id if isinstance(line, ToolLine) else _id(line)) <= tool.after_id
        )
        lines.insert(place, tool)
    return lines


def behind(entries: Iterable[Entry], tools: Sequence[ToolLine]) -> list[Line]:
    """Entries of any channels, in whatever order, each with the tool lines that came of it."""
    lines: list[Line] = []
    for entry in entries:
        ids = {unit.id for unit in entry.units}
        lines += (entry, *(tool for tool in tools if tool.after_id in ids))
    return lines


def _id(line: Entry | Note) -> int:
    return line.id if isinstance(line, Entry) else line.about.id


def in_blocks(opened: tuple[Line, ...], lines: Sequence[Line], marker: int | None) -> list[Block]:
    """`opened` and `lines` in blocks. A message with pictures ends its block, so that they follow its words, and so
    does the marker."""
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
