"""memory.md: what an agent keeps, as a list that people can read and edit.

    # Memory

    - The server's birthday is in March.

    ## People
    - Ann keeps bees and hates puns. <!-- channel:123 guild:456 by:789 -->

An entry says in a comment where it was learned, and by whose words, so that they can have it forgotten (people.py).
Where a reader may not see that channel the entry is not recalled, so that what was said in a closed room stays there.
An entry without such a comment was written by the owner and is for everywhere. One comment is for the whole list entry,
paragraph or, at a heading, section in which it stands; one that cannot be understood hides too (marks.py). Replacing a
section leaves what its writer could not see, and the new text is for those only who could have read the old one.

What an agent writes is what strangers may have told it: it is made one entry, which can open no section, no code block
and no comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from agent_personas.entry_origin import UNKNOWN, channels_of, credited, mark_of, parted, people_of
from agent_personas.errors import Ambiguous, NotFound, OutOfBounds, TooLarge
from agent_personas.files import MAX_FILE_BYTES
from agent_personas.markdown import plain
from agent_personas.store import change

FILE = "memory.md"
EMPTY = "# Memory\n"
MAX_MEMORY_BYTES = 16_384
MAX_ENTRY = 1_000  # characters
MAX_SECTION_NAME = 60
MIN_FORGET = 3
MaySee = Callable[[int], bool]

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r"([ \t]*)[-*+][ \t]+")
_STRUCTURE = re.compile(r"\A(?:(?:[-*+]|#{1,6})(?: |$))+")
_COMMENT_ENDS = re.compile(r"<(?=!)|(?<=--)(?=>)")
_CODE_BLOCK = re.compile(r"`{3,}|~{3,}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something was learned: the channel, and the server that it is in; and by whose words, if anybody's."""

    channel: int
    guild: int | None = None
    person: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """A heading, a list entry with all that hangs from it, a paragraph, or the blank lines between them."""

    lines: tuple[str, ...]
    level: int = 0  # of a heading

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def said(self) -> str:
        """Without its marks."""
        return parted(self.text)[0]

    @property
    def words(self) -> str:
        """Without the marks and what makes it an entry, in small letters: what is searched."""
        return " ".join(_ITEM.sub("", self.said, count=1).split()).casefold()

    @property
    def title(self) -> str:
        match = _HEADING.match(self.said)
        return " ".join(match[2].split()).casefold() if match else ""

    @property
    def channels(self) -> tuple[int, ...] | None:
        """Where it was learned; empty: everywhere; None: a mark is there and cannot be understood."""
        return channels_of(parted(self.text)[1])

    @property
    def marked(self) -> bool:
        """It was noted by an agent, or is to count as such."""
        return bool(parted(self.text)[1])

    @property
    def people(self) -> frozenset[int]:
        """By whose words it was noted; empty: that is not known."""
        return people_of(parted(self.text)[1])

    def by(self, people: Collection[int], change: Callable[[str], str] = str) -> MemoryBlock:
        """The same, noted by these people's words; what it says, its marks aside, is what `change` makes of it."""
        done, left = "", self.text
        for mark in parted(left)[1]:
            said, _, left = left.partition(mark)
            done, people = f"{done}{change(said)}{credited(mark, people)}", ()
        return MemoryBlock(tuple((done + change(left)).split("\n")), self.level)

    def seen(self, may_see: MaySee) -> bool:
        channels = self.channels
        return channels is not None and all(may_see(channel) for channel in channels)


def everywhere(_: int) -> bool:
    """For a reader who may see all channels."""
    return True


def visible_memory(text: str, may_see: MaySee) -> str:
    """What a reader may be told of a memory, without its marks. `may_see` says it of a channel's id."""
    return "\n".join(block.said for block, seen in _judged(_blocks(text), may_see) if seen)


def is_hidden_from(text: str, may_see: MaySee) -> bool:
    """Whether a memory holds anything that this reader may not be told, an entry with an unreadable mark included."""
    return not all(seen for _, seen in _judged(_blocks(text), may_see))


@lru_cache(maxsize=32)
def origins(text: str) -> frozenset[int]:
    """The channels that its entries came from: whoever shows a memory has to know of each whether it may be told."""
    return frozenset(channel for block in _blocks(text) for channel in block.channels or ())


def ensure_memory(folder: Path) -> bool:
    """Makes memory.md where it is missing; whether it was. Raises PersonaError."""
    missing = not (folder / FILE).is_file()
    if missing:
        change(folder, FILE, lambda old: EMPTY if old is None else old)
    return missing


def append(folder: Path, text: str, origin: Origin | None, section: str | None = None) -> None:
    """Adds an entry, at the end of a section (made where it is missing) or of what stands before the first one.

    The same words in the same place are added once, and are both people's then. On the disk when this returns.
    Raises PersonaError.
    """
    entry, title = _entry(text, origin), _title(section) if section is not None else None

    def edit(old: str | None) -> str:
        blocks = _blocks(old if old and old.strip() else EMPTY)
        start, end = _span(blocks, title, make=True)
        for n, block in enumerate(blocks[start:end], start):
            if block.words == entry.words and block.channels == entry.channels:
                if not block.people or block.people | entry.people == block.people:
                    return old or EMPTY
                return _joined([*blocks[:n], block.by(block.people | entry.people), *blocks[n + 1 :]])
        return _joined([*blocks[:end], entry, *blocks[end:]])

    change(folder, FILE, edit, limit=MAX_MEMORY_BYTES)


def replace_section(
    folder: Path, section: str, text: str, origin: Origin | None, may_see: MaySee = lambda channel: True
) -> None:
    """Puts entries, one a paragraph, in the place of those of a section that the writer can see. Raises PersonaError.

    They are marked with all the channels that those came from, and this one, and with all the people; one that says
    what one of those said is left as it was.
    """
    title, parts = _title(section), [part for part in re.split(r"\n[ \t]*\n", plain(text)) if part.strip()]

    def edit(old: str | None) -> str:
        blocks = _blocks(old or EMPTY)
        start, end = _span(blocks, title)
        judged = _judged(blocks, may_see)
        if not judged[start - 1][1]:
            raise NotFound("there is no such section")
        judged = judged[start:end]
        gone = [block for block, seen in judged if seen]
        channels = sorted({channel for block in gone for channel in block.channels or ()})
        people = {person for block in gone if block.words for person in block.people or {UNKNOWN}}
        same = {block.words: block for block in gone}
        entries = [_entry(part, origin, channels, people) for part in parts]
        new = [same.get(entry.words, entry) for entry in entries]
        kept = [block for block, seen in judged if not seen]
        return _joined([*blocks[:start], *kept, *new, *blocks[end:]])

    change(folder, FILE, edit, limit=MAX_MEMORY_BYTES)


def forget(folder: Path, text: str, may_see: MaySee = lambda channel: True) -> str:
    """Removes the one entry that holds these words (in any case) and that the writer can see; gives it back.

    Raises NotFound, Ambiguous where there are several and none is exactly that, and other PersonaErrors.
    """
    wanted, removed = " ".join(text.split()).casefold(), list[MemoryBlock]()
    if len(wanted) < MIN_FORGET:
        raise OutOfBounds("say more of what to forget")

    def edit(old: str | None) -> str:
        judged = _judged(_blocks(old or EMPTY), may_see)
        found = [block for block, seen in judged if seen and not block.level and wanted in block.words]
        exact = [block for block in found if block.words == wanted]
        if not found:
            raise NotFound("nothing in the memory has these words")
        if len(exact or found) > 1:
            raise Ambiguous(f"{len(exact or found)} entries have these words: say more of the one to forget")
        removed[:] = exact or found
        return _joined(block for block, _ in judged if block is not removed[0])

    change(folder, FILE, edit, limit=MAX_FILE_BYTES)  # one that grew by hand may shrink
    return removed[0].said.strip()


def edited(text: str, edit: Callable[[MemoryBlock], MemoryBlock | None]) -> str:
    """A memory in which each piece is what `edit` makes of it; None takes it out. Where it makes nothing else of any,
    the text is the very same."""
    blocks = _blocks(text)
    new = [edit(block) for block in blocks]
    return text if new == blocks else _joined(block for block in new if block is not None)


def _entry(text: str, origin: Origin | None, channels: Iterable[int] = (), people: Collection[int] = ()) -> MemoryBlock:
    """A list entry of what an agent wrote, with the channels it may be recalled for, and who brought it about besides
    the one of its origin."""
    lines = [_STRUCTURE.sub("", " ".join(_harmless(line).split())) for line in plain(text).split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise OutOfBounds("an entry has words")
    if sum(map(len, lines)) > MAX_ENTRY:
        raise TooLarge(f"an entry has at most {MAX_ENTRY:,} characters")
    mark = mark_of(
        {*channels, *((origin.channel,) if origin else ())},
        origin.guild if origin else None,
        {*people, (origin.person if origin else None) or UNKNOWN},
    )
    return MemoryBlock((f"- {lines[0]}{mark and f' {mark}'}", *(f"  {line}" for line in lines[1:])))


def _harmless(line: str) -> str:
    """No comment, no code block, nothing that nobody sees."""
    visible = "".join(
        char if char.isprintable() or char == "\u200d" else " " for char in line
    )  # emoji are joined by it
    return _CODE_BLOCK.sub("''", _COMMENT_ENDS.sub(r"\g<0> ", visible))  # parted, not removed: nothing can close up


def _title(section: str) -> str:
    title = " ".join(_harmless(section).split()).lstrip("# ").strip()
    if not 0 < len(title) <= MAX_SECTION_NAME:
        raise OutOfBounds(f"a section's name has 1 to {MAX_SECTION_NAME} characters on one line")
    return title


def _blocks(text: str) -> list[MemoryBlock]:
    """A memory in pieces. Code blocks are not known here: what looks like a mark is one, wherever it stands."""
    found: list[MemoryBlock] = []
    waiting: list[str] = []
    for line in plain(text).rstrip("\n").split("\n"):
        heading = _HEADING.match(line)
        if heading or (waiting and not _goes_on(waiting, line)):
            _close(found, waiting)
        if heading:
            found.append(MemoryBlock((line,), len(heading[1])))
        else:
            waiting.append(line)
    _close(found, waiting)
    return found


def _goes_on(waiting: list[str], line: str) -> bool:
    """Whether a line belongs to the lines before it: it hangs from their entry, or no blank line parts them."""
    item, own = _ITEM.match(waiting[0]), _ITEM.match(line)
    if not line.strip():
        return True
    indent = len(line) - len(line.lstrip())
    if item and indent > len(item[1]):
        return True
    after_blank = not waiting[-1].strip()
    return not own and not after_blank


def _close(found: list[MemoryBlock], waiting: list[str]) -> None:
    """Ends a piece; the blank lines after it are a piece of their own."""
    blank = len(list(takewhile(lambda line: not line.strip(), reversed(waiting))))
    content, rest = waiting[: len(waiting) - blank], waiting[len(waiting) - blank :]
    found += [MemoryBlock(tuple(lines)) for lines in (content, rest) if lines]
    waiting.clear()


def _judged(blocks: Iterable[MemoryBlock], may_see: MaySee) -> list[tuple[MemoryBlock, bool]]:
    """Each block, and whether it may be seen: a heading's mark counts for all that stands below it."""
    found, hidden = list[tuple[MemoryBlock, bool]](), 0
    for block in blocks:
        seen = block.seen(may_see)
        if block.level and (not hidden or block.level <= hidden):
            hidden = 0 if seen else block.level
        found.append((block, seen and not hidden))
    return found


def _span(blocks: list[MemoryBlock], title: str | None, *, make: bool = False) -> tuple[int, int]:
    """Where a section's own content begins and ends, without the blank lines at its end.

    Without a title: what stands before the first section. `make` adds a missing one to the list. Raises NotFound.
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


def _joined(blocks: Iterable[MemoryBlock]) -> str:
    """Blocks as a file: a blank line before each section, none twice, one line end at the end."""
    text = "\n".join(block.text for block in blocks)
    text = re.sub(r"(?<=[^\n])\n(?=#{1,6} )", "\n\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"
