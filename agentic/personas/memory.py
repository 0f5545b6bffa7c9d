"""memory.md: an agent's long-term memory, as a list that people can read and edit.

    # Memory

    - The server's birthday is in March.

    ## People
    - Ann keeps bees and hates puns. <!-- channel:123 guild:456 by:789 -->

An entry's comment names the channel where it was learned and the people who caused it, so that they can have it
forgotten (forget_person.py). A reader who may not see that channel does not get the entry, so what was said in a closed
channel stays there. An entry without such a comment was written by the owner and is for everyone. A comment covers its
list entry or paragraph, or, at a heading, the section; a malformed one hides it (entry_origin.py). Replacing a section
keeps the entries that the writer cannot see, and the new text is only for readers who could see the old one.

What an agent writes may come from strangers, so it becomes exactly one entry, which cannot open a section, a code block
or a comment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agentic.personas.entry_origin import UNKNOWN, mark_of
from agentic.personas.errors import Ambiguous, NotFound, OutOfBounds, TooLarge
from agentic.personas.files import MAX_FILE_BYTES
from agentic.personas.markdown import plain
from agentic.personas.memory_blocks import MaySee as MaySee
from agentic.personas.memory_blocks import MemoryBlock, blocks_of, joined, judged
from agentic.personas.store import change

FILE = "memory.md"
EMPTY = "# Memory\n"
MAX_MEMORY_BYTES = 16_384
MAX_ENTRY = 1_000  # characters
MAX_SECTION_NAME = 60
MIN_FORGET = 3

_STRUCTURE = re.compile(r"\A(?:(?:[-*+]|#{1,6})(?: |$))+")
_COMMENT_ENDS = re.compile(r"<(?=!)|(?<=--)(?=>)")
_CODE_BLOCK = re.compile(r"`{3,}|~{3,}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something was learned: the channel and its server, and the person who caused it, if any."""

    channel: int
    guild: int | None = None
    person: int | None = None


def everywhere(_: int) -> bool:
    """The rule of a reader who may see all channels."""
    return True


def visible_memory(text: str, may_see: MaySee) -> str:
    """Return what a reader may see of a memory, without marks."""
    return "\n".join(block.said for block, seen in judged(blocks_of(text), may_see) if seen)


def is_hidden_from(text: str, may_see: MaySee) -> bool:
    """Whether a memory has anything that this reader may not see, including entries with a malformed mark."""
    return not all(seen for _, seen in judged(blocks_of(text), may_see))


@lru_cache(maxsize=32)
def origins(text: str) -> frozenset[int]:
    """Return the channels that the entries came from: to show a memory, each must be checked."""
    return frozenset(channel for block in blocks_of(text) for channel in block.channels or ())


@lru_cache(maxsize=32)
def people_in(text: str) -> frozenset[int]:
    """Return the people who caused the entries."""
    return frozenset(person for block in blocks_of(text) for person in block.people) - {UNKNOWN}


def ensure_memory(folder: Path) -> bool:
    """Create memory.md if it is missing. Returns whether it was. Raises PersonaError."""
    missing = not (folder / FILE).is_file()
    if missing:
        change(folder, FILE, lambda old: EMPTY if old is None else old)
    return missing


def append(folder: Path, text: str, origin: Origin | None, section: str | None = None) -> None:
    """Add an entry at the end of a section (created if missing), or before the first section.

    An equal entry from the same channel is not added twice but credited to both people. On the disk when this returns.
    Raises PersonaError.
    """
    entry, title = _entry(text, origin), _title(section) if section is not None else None

    def edit(old: str | None) -> str:
        blocks = blocks_of(old if old and old.strip() else EMPTY)
        start, end = _span(blocks, title, make=True)
        for n, block in enumerate(blocks[start:end], start):
            if block.words == entry.words and block.channels == entry.channels:
                if not block.people or block.people | entry.people == block.people:
                    return old or EMPTY
                return joined([*blocks[:n], block.by(block.people | entry.people), *blocks[n + 1 :]])
        return joined([*blocks[:end], entry, *blocks[end:]])

    change(folder, FILE, edit, limit=MAX_MEMORY_BYTES)


def replace_section(
    folder: Path, section: str, text: str, origin: Origin | None, may_see: MaySee = lambda channel: True
) -> None:
    """Replace the entries of a section that the writer can see with new ones, one a paragraph. Raises PersonaError.

    New entries are marked with all channels and people of the replaced ones, and with `origin`. An entry whose words do
    not change stays as it was.
    """
    title, parts = _title(section), [part for part in re.split(r"\n[ \t]*\n", plain(text)) if part.strip()]

    def edit(old: str | None) -> str:
        blocks = blocks_of(old or EMPTY)
        start, end = _span(blocks, title)
        seen_by_writer = judged(blocks, may_see)
        if not seen_by_writer[start - 1][1]:
            raise NotFound("there is no such section")
        section_blocks = seen_by_writer[start:end]
        gone = [block for block, seen in section_blocks if seen]
        channels = sorted({channel for block in gone for channel in block.channels or ()})
        people = {person for block in gone if block.words for person in block.people or {UNKNOWN}}
        same = {block.words: block for block in gone}
        entries = [_entry(part, origin, channels, people) for part in parts]
        new = [same.get(entry.words, entry) for entry in entries]
        kept = [block for block, seen in section_blocks if not seen]
        return joined([*blocks[:start], *kept, *new, *blocks[end:]])

    change(folder, FILE, edit, limit=MAX_MEMORY_BYTES)


def forget(folder: Path, text: str, may_see: MaySee = lambda channel: True) -> str:
    """Remove the one entry that contains these words (in any case) and that the writer can see. Returns its text.

    Raises NotFound, Ambiguous if several match and none exactly, and other PersonaErrors.
    """
    wanted, removed = " ".join(text.split()).casefold(), list[MemoryBlock]()
    if len(wanted) < MIN_FORGET:
        raise OutOfBounds("give more of the words to forget")

    def edit(old: str | None) -> str:
        seen_by_writer = judged(blocks_of(old or EMPTY), may_see)
        found = [block for block, seen in seen_by_writer if seen and not block.level and wanted in block.words]
        exact = [block for block in found if block.words == wanted]
        if not found:
            raise NotFound("no entry contains these words")
        if len(exact or found) > 1:
            raise Ambiguous(f"{len(exact or found)} entries contain these words: give more words of the one to forget")
        removed[:] = exact or found
        return joined(block for block, _ in seen_by_writer if block is not removed[0])

    change(folder, FILE, edit, limit=MAX_FILE_BYTES)  # one that grew by hand may shrink
    return removed[0].said.strip()


def _entry(text: str, origin: Origin | None, channels: Iterable[int] = (), people: Collection[int] = ()) -> MemoryBlock:
    """Return a list entry of an agent's text, with the channels it came from and the people who caused it besides
    `origin`'s."""
    lines = [_STRUCTURE.sub("", " ".join(_harmless(line).split())) for line in plain(text).split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise OutOfBounds("the entry is empty")
    if sum(map(len, lines)) > MAX_ENTRY:
        raise TooLarge(f"an entry has at most {MAX_ENTRY:,} characters")
    mark = mark_of(
        {*channels, *((origin.channel,) if origin else ())},
        origin.guild if origin else None,
        {*people, (origin.person if origin else None) or UNKNOWN},
    )
    return MemoryBlock((f"- {lines[0]}{mark and f' {mark}'}", *(f"  {line}" for line in lines[1:])))


def _harmless(line: str) -> str:
    """Remove invisible characters and break up comments and code blocks."""
    visible = "".join(
        char if char.isprintable() or char == "\u200d" else " " for char in line
    )  # emoji are joined by it
    return _CODE_BLOCK.sub("''", _COMMENT_ENDS.sub(r"\g<0> ", visible))  # parted, not removed: nothing can close up


def _title(section: str) -> str:
    title = " ".join(_harmless(section).split()).lstrip("# ").strip()
    if not 0 < len(title) <= MAX_SECTION_NAME:
        raise OutOfBounds(f"a section's name has 1 to {MAX_SECTION_NAME} characters on one line")
    return title


def _span(blocks: list[MemoryBlock], title: str | None, *, make: bool = False) -> tuple[int, int]:
    """Return where a section's own content begins and ends, without trailing blank lines.

    Without a title: the content before the first section. `make` adds a missing section. Raises NotFound.
    """
    if title is None:
        start = 1 if blocks and blocks[0].level == 1 else 0
    else:
        start = next((n + 1 for n, block in enumerate(blocks) if block.title == title.casefold() and block.level), 0)
        if not start and not make:
            raise NotFound("there is no such section")
        if not start:
            blocks += [MemoryBlock(("",)), MemoryBlock((f"## {title}",), 2)]
            start = len(blocks)
    end = next((n for n in range(start, len(blocks)) if blocks[n].level), len(blocks))
    while end > start and not blocks[end - 1].text.strip():
        end -= 1
    return start, end
