"""memory.md in pieces: parse it, decide which pieces a reader may see, and join them again. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import takewhile

from agentic.personas.entry_origin import channels_of, credited, parted, people_of
from agentic.personas.markdown import plain

MaySee = Callable[[int], bool]
"""Whether a reader may see a channel, by its id."""

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r"(?<![ \t])([ \t]*+)[-*+][ \t]+")


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """A heading, a list entry with its continuation lines, a paragraph, or the blank lines between them."""

    lines: tuple[str, ...]
    level: int = 0  # of a heading

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def said(self) -> str:
        """The text without marks."""
        return parted(self.text)[0]

    @property
    def words(self) -> str:
        """The text for searching: without marks and bullet, in lower case."""
        return " ".join(_ITEM.sub("", self.said, count=1).split()).casefold()

    @property
    def title(self) -> str:
        match = _HEADING.match(self.said)
        return " ".join(match[2].split()).casefold() if match else ""

    @property
    def channels(self) -> tuple[int, ...] | None:
        """The channels where it was learned; empty for everywhere, None if a mark is malformed."""
        return channels_of(parted(self.text)[1])

    @property
    def marked(self) -> bool:
        """Whether an agent noted it, or it has to count as such."""
        return bool(parted(self.text)[1])

    @property
    def people(self) -> frozenset[int]:
        """The people who caused it; empty if unknown."""
        return people_of(parted(self.text)[1])

    def by(self, people: Collection[int], change: Callable[[str], str] = str) -> MemoryBlock:
        """Return the block credited to these people, with `change` applied to its text outside of marks."""
        done, left = "", self.text
        for mark in parted(left)[1]:
            said, _, left = left.partition(mark)
            done, people = f"{done}{change(said)}{credited(mark, people)}", ()
        return MemoryBlock(tuple((done + change(left)).split("\n")), self.level)

    def seen(self, may_see: MaySee) -> bool:
        channels = self.channels
        return channels is not None and all(may_see(channel) for channel in channels)


def blocks_of(text: str) -> list[MemoryBlock]:
    """Split a memory into blocks. Code blocks are not recognised: whatever looks like a mark is one."""
    found: list[MemoryBlock] = []
    waiting: list[str] = []
    for line in plain(text).rstrip("\n").split("\n"):
        heading = _HEADING.match(line)
        if heading or (waiting and not _continues(waiting, line)):
            _end_block(found, waiting)
        if heading:
            found.append(MemoryBlock((line,), len(heading[1])))
        else:
            waiting.append(line)
    _end_block(found, waiting)
    return found


def _continues(waiting: list[str], line: str) -> bool:
    """Whether a line belongs to the lines before it: indented below their entry, or not separated by a blank line."""
    item, own = _ITEM.match(waiting[0]), _ITEM.match(line)
    if not line.strip():
        return True
    indent = len(line) - len(line.lstrip())
    if item and indent > len(item[1]):
        return True
    after_blank = not waiting[-1].strip()
    return not own and not after_blank


def _end_block(found: list[MemoryBlock], waiting: list[str]) -> None:
    """End a block; the blank lines after it are a block of their own."""
    blank = len(list(takewhile(lambda line: not line.strip(), reversed(waiting))))
    content, rest = waiting[: len(waiting) - blank], waiting[len(waiting) - blank :]
    found += [MemoryBlock(tuple(lines)) for lines in (content, rest) if lines]
    waiting.clear()


def judged(blocks: Iterable[MemoryBlock], may_see: MaySee) -> list[tuple[MemoryBlock, bool]]:
    """Return each block and whether it may be seen. A heading's mark covers everything below it."""
    found, hidden = list[tuple[MemoryBlock, bool]](), 0
    for block in blocks:
        seen = block.seen(may_see)
        if block.level and (not hidden or block.level <= hidden):
            hidden = 0 if seen else block.level
        found.append((block, seen and not hidden))
    return found


def edited(text: str, edit: Callable[[MemoryBlock], MemoryBlock | None]) -> str:
    """Apply `edit` to each block; None removes it. If nothing changes, the very same text is returned."""
    blocks = blocks_of(text)
    new = [edit(block) for block in blocks]
    return text if new == blocks else joined(block for block in new if block is not None)


def joined(blocks: Iterable[MemoryBlock]) -> str:
    """Join blocks to a file: one blank line before each section, none doubled, one newline at the end."""
    text = "\n".join(block.text for block in blocks)
    text = re.sub(r"(?<=[^\n])\n(?=#{1,6} )", "\n\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"
