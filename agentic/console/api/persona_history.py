"""A persona's files as the console shows them: each change line by line, each entry of memory with its origin. Pure.

The program keeps a file's last ten versions (agentic.personas.store). What an owner changes in an editor is part of the
next version, so it shows as a part of that change.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentic.personas.entry_origin import UNKNOWN
from agentic.personas.memory_blocks import MemoryBlock, blocks_of
from agentic.personas.store import Version

CONTEXT_LINES = 3
MOST_LINES = 2_000  # of a version that is compared: comparing takes the square of it


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a comparison. `sign`: "+" new, "-" removed, " " unchanged, "@" lines between that are left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file, at unix seconds. `lines` is None where the versions are too long to be compared."""

    at: float
    added: int
    removed: int
    lines: tuple[Line, ...] | None


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """An entry of memory.md.

    `section` is the heading above it, `channels` are those where it was learned (empty: the owner wrote it, or it is
    for all). `people` caused it; `others` says that more people did, or unknown ones. `readable` is false for an entry
    whose mark is malformed, which no reader sees. `added_at` is unix seconds, None if it is older than the kept
    versions.
    """

    text: str
    section: str
    channels: tuple[int, ...]
    people: tuple[int, ...]
    others: bool
    readable: bool
    added_at: float | None


def changes_of(versions: Sequence[Version], current: str) -> list[Change]:
    """Return the kept changes, newest first."""
    texts = [*(version.text for version in versions), current]
    pairs = zip(versions, pairwise(texts), strict=True)
    return [_change(version.replaced_at, old, new) for version, (old, new) in pairs][::-1]


def memory_entries(versions: Sequence[Version], current: str) -> list[MemoryEntry]:
    """Return the entries of a memory in their order."""
    former = [(version.replaced_at, {block.words for block in blocks_of(version.text)}) for version in versions]
    found: list[MemoryEntry] = []
    section = ""
    for block in blocks_of(current):
        if block.level:
            section = block.said.lstrip("# ").strip() if block.level > 1 else ""
        elif block.words:
            found.append(_entry(block, section, _added_at(block.words, former)))
    return found


def _entry(block: MemoryBlock, section: str, added_at: float | None) -> MemoryEntry:
    return MemoryEntry(
        text=block.said.strip(),
        section=section,
        channels=block.channels or (),
        people=tuple(sorted(block.people - {UNKNOWN})),
        others=UNKNOWN in block.people or (block.marked and not block.people),
        readable=block.channels is not None,
        added_at=added_at,
    )


def _added_at(words: str, former: Sequence[tuple[float, set[str]]]) -> float | None:
    """When the newest version that lacks these words was replaced."""
    return next((replaced_at for replaced_at, known in reversed(former) if words not in known), None)


def _change(at: float, old: str, new: str) -> Change:
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MOST_LINES:
        return Change(at, max(0, len(after) - len(before)), max(0, len(before) - len(after)), None)
    compared = difflib.unified_diff(before, after, lineterm="", n=CONTEXT_LINES)
    lines = tuple(Line(line[0], "" if line[0] == "@" else line[1:]) for line in list(compared)[2:])
    signs = [line.sign for line in lines]
    return Change(at, signs.count("+"), signs.count("-"), lines)
