"""A person who wants to be forgotten: what of a memory goes, and what stays because it is others' too.

    noted by the words of this person alone                     goes
    noted by nobody's words that are known, and names their id  goes
    noted by others' words, or theirs and others'               stays, without their id
    without a mark: the owner wrote it                          stays as it is

Names are not looked for: people call themselves what they like, and must not make vanish by it what others said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agent_personas.memory import FILE, MemoryBlock, edited
from agent_personas.store import rewrite


@dataclass(frozen=True, slots=True)
class Notes:
    """Entries of a memory: how many went, and how many stay that named the person, or were theirs among others'."""

    gone: int = 0
    kept: int = 0

    def __add__(self, other: Notes) -> Notes:
        return Notes(self.gone + other.gone, self.kept + other.kept)


def forget_person(folder: Path, user_id: int) -> Notes:
    """Takes a person out of the memory in this folder and out of its versions, which are not counted.

    Raises PersonaError; what could be changed is, and may be asked for again.
    """
    before = rewrite(folder, FILE, lambda text: without_person(text, user_id)[0])
    return without_person(before, user_id)[1]


def without_person(text: str, user_id: int) -> tuple[str, Notes]:
    """A memory's text without the person, and what was done to it."""
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
