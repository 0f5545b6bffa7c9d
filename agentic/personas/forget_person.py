"""Remove a person from a memory, and keep what is other people's too.

    noted for this person's words alone            removed
    cause unknown, and it contains their id        removed
    noted for others' words, or theirs and others' kept, without their id
    without a mark: the owner wrote it             kept unchanged

Names are not searched: people choose their own names, and must not be able to delete what others said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agentic.personas.memory import FILE
from agentic.personas.memory_blocks import MemoryBlock, edited
from agentic.personas.store import rewrite


@dataclass(frozen=True, slots=True)
class Notes:
    """Counts of memory entries: removed, and kept that named the person or were partly theirs."""

    gone: int = 0
    kept: int = 0

    def __add__(self, other: Notes) -> Notes:
        return Notes(self.gone + other.gone, self.kept + other.kept)


def forget_person(folder: Path, user_id: int) -> Notes:
    """Remove a person from the memory in this folder and from its versions (not counted).

    Raises PersonaError. Changes made before that stay, and the call may be repeated.
    """
    before = rewrite(folder, FILE, lambda text: without_person(text, user_id)[0])
    return without_person(before, user_id)[1]


def without_person(text: str, user_id: int) -> tuple[str, Notes]:
    """Return a memory's text without the person, and the counts."""
    number = re.compile(rf"(?<!\d){user_id}(?!\d)", re.ASCII)
    done = list[Notes]()

    def edit(block: MemoryBlock) -> MemoryBlock | None:
        people, named = block.people, number.search(block.said) is not None
        if block.level or not block.marked or not (user_id in people or named):
            return block
        if people <= {user_id}:
            done.append(Notes(gone=1))
            return None
        done.append(Notes(kept=1))
        return block.by(people - {user_id}, lambda said: number.sub("0", said))

    return edited(text, edit), sum(done, Notes())
