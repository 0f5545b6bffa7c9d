"""Read and write memory.md, an agent's long-term memory: a list that people can read and edit.

    ## People
    - Ann keeps bees and hates puns. <!-- channel:123 guild:456 by:789 -->

An entry's mark (its comment) names the channels where it was learned, and the people who caused it, so that they can
have it forgotten. Readers who can't see one of these channels don't get the entry, so words from a closed channel stay
there. An entry without a mark is the owner's and for everyone. A mark covers its list entry or paragraph, or, at a
heading, the section; a malformed mark hides it. If an old mark has no `by`, its people are unknown; a 0 in `by` means
other people.

An agent's text may come from strangers, so it becomes exactly one entry, which can't open a section, a code block, or a
comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from agentic.personas.files import MAX_FILE_BYTES, FileCache, NotFound, OutOfBounds, PersonaError
from agentic.personas.markdown import plain
from agentic.personas.store import change, rewrite

MaySee = Callable[[int], bool]  # by channel id: whether a reader may see the channel

FILE = "memory.md"
EMPTY = "# Memory\n"
MAX_MEMORY_BYTES = 16_384
MAX_ENTRY = 1_000  # characters
MAX_SECTION_NAME = 60
MIN_FORGET = 3
UNKNOWN = 0  # instead of a person's id
MAX_PEOPLE = 10  # of an entry; if there are more, it names nobody

_NAMES_CHANNEL = re.compile(r"\bchannels?\s*[:=#<0-9]", re.IGNORECASE)
_CHANNELS = re.compile(r"<!--\s*channel:\s*([0-9]{1,20}(?:\s*,\s*[0-9]{1,20})*+)(?:\s[^<>]*?)?-->", re.ASCII)
_PEOPLE = re.compile(r"(?<!\s)\s*+\bby:([0-9]{1,20}(?:,[0-9]{1,20})*)(?![0-9])", re.ASCII)
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r"(?<![ \t])([ \t]*+)[-*+][ \t]+")
_STRUCTURE = re.compile(r"\A(?:(?:[-*+]|#{1,6})(?: |$))+")
_COMMENT_ENDS = re.compile(r"<(?=!)|(?<=--)(?=>)")
_CODE_BLOCK = re.compile(r"`{3,}|~{3,}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an entry was learned: the channel and its server, and the person who caused it, if any."""

    channel: int
    guild: int | None = None
    person: int | None = None


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
        return split_marks(self.text)[0]

    @property
    def words(self) -> str:
        """The text for searching: in lower case, without marks and the bullet."""
        return " ".join(_ITEM.sub("", self.said, count=1).split()).casefold()

    @property
    def title(self) -> str:
        match = _HEADING.match(self.said)
        return " ".join(match[2].split()).casefold() if match else ""

    @property
    def channels(self) -> tuple[int, ...] | None:
        """The channels where it was learned. Empty: everywhere; None: a mark is malformed."""
        marks = split_marks(self.text)[1]
        read = [match for mark in marks if (match := _CHANNELS.fullmatch(mark))]
        if len(read) < len(marks):
            return None
        return tuple(int(channel) for match in read for channel in match[1].split(","))

    @property
    def marked(self) -> bool:
        """Whether it has a mark, so an agent wrote it."""
        return bool(split_marks(self.text)[1])

    @property
    def people(self) -> frozenset[int]:
        """The people who caused it, even from malformed marks; empty if unknown."""
        found = (match for mark in split_marks(self.text)[1] for match in _PEOPLE.finditer(mark))
        return frozenset(int(person) for match in found for person in match[1].split(","))

    def by(self, people: Collection[int], change: Callable[[str], str] = str) -> MemoryBlock:
        """Return the block credited to these people, with `change` applied to its text outside the marks."""
        done, left = "", self.text
        for mark in split_marks(left)[1]:
            said, _, left = left.partition(mark)
            done, people = f"{done}{change(said)}{credit_mark(mark, people)}", ()
        return MemoryBlock(tuple((done + change(left)).split("\n")), self.level)

    def seen(self, may_see: MaySee) -> bool:
        channels = self.channels
        return channels is not None and all(may_see(channel) for channel in channels)


def everywhere(_: int) -> bool:
    return True


def visible_memory(text: str, may_see: MaySee) -> str:
    """Return the part of a memory that a reader may see, without marks."""
    return "\n".join(block.said for block, seen in judge_blocks(blocks_of(text), may_see) if seen)


def is_hidden_from(text: str, may_see: MaySee) -> bool:
    """Whether a memory has entries that this reader may not see, including entries with a malformed mark."""
    return not all(seen for _, seen in judge_blocks(blocks_of(text), may_see))


@lru_cache(maxsize=32)
def origins(text: str) -> frozenset[int]:
    """Return the channels that the entries came from. Before a memory is shown, check each of them."""
    return frozenset(channel for block in blocks_of(text) for channel in block.channels or ())


@lru_cache(maxsize=32)
def people_in(text: str) -> frozenset[int]:
    return frozenset(person for block in blocks_of(text) for person in block.people) - {UNKNOWN}


def ensure_memory(folder: Path) -> bool:
    """Create memory.md if it is missing. Returns whether it was. Raises PersonaError."""
    missing = not (folder / FILE).is_file()
    if missing:
        change(folder, FILE, lambda old: EMPTY if old is None else old)
    return missing


def append(folder: Path, text: str, origin: Origin | None, section: str | None = None) -> None:
    """Add an entry at the end of a section, which is created if missing, or before the first section. If the same
    channel has an equal entry, that entry is credited to both people instead. Raises PersonaError."""
    entry, title = _entry(text, origin), _title(section) if section is not None else None

    def edit(old: str | None) -> str:
        blocks = blocks_of(old if old and old.strip() else EMPTY)
        start, end = _span(blocks, title, make=True)
        for n, block in enumerate(blocks[start:end], start):
            if block.words == entry.words and block.channels == entry.channels:
                if not block.people or block.people | entry.people == block.people:
                    return old or EMPTY
                return join_blocks([*blocks[:n], block.by(block.people | entry.people), *blocks[n + 1 :]])
        return join_blocks([*blocks[:end], entry, *blocks[end:]])

    change(folder, FILE, edit, limit=MAX_MEMORY_BYTES)


def replace_section(folder: Path, section: str, text: str, origin: Origin | None, may_see: MaySee = everywhere) -> None:
    """Replace the entries of a section that the writer can see with new entries, one per paragraph.

    New entries get the channels and people of all replaced entries, and `origin`. An entry with the same words stays as
    it was. Raises PersonaError.
    """
    title, parts = _title(section), [part for part in re.split(r"\n[ \t]*\n", plain(text)) if part.strip()]

    def edit(old: str | None) -> str:
        blocks = blocks_of(old or EMPTY)
        start, end = _span(blocks, title)
        seen_by_writer = judge_blocks(blocks, may_see)
        if not seen_by_writer[start - 1][1]:
            raise NotFound("that section doesn't exist")
        section_blocks = seen_by_writer[start:end]
        gone = [block for block, seen in section_blocks if seen]
        channels = sorted({channel for block in gone for channel in block.channels or ()})
        people = {person for block in gone if block.words for person in block.people or {UNKNOWN}}
        same = {block.words: block for block in gone}
        entries = [_entry(part, origin, channels, people) for part in parts]
        new = [same.get(entry.words, entry) for entry in entries]
        kept = [block for block, seen in section_blocks if not seen]
        return join_blocks([*blocks[:start], *kept, *new, *blocks[end:]])

    change(folder, FILE, edit, limit=MAX_MEMORY_BYTES)


def forget(folder: Path, text: str, may_see: MaySee = everywhere) -> str:
    """Remove the entry that contains these words (in any case) and that the writer can see. Returns its text. Raises
    NotFound, and another PersonaError if several entries match and none exactly."""
    wanted, removed = " ".join(text.split()).casefold(), list[MemoryBlock]()
    if len(wanted) < MIN_FORGET:
        raise OutOfBounds("give more of the words to forget")

    def edit(old: str | None) -> str:
        seen_by_writer = judge_blocks(blocks_of(old or EMPTY), may_see)
        found = [block for block, seen in seen_by_writer if seen and not block.level and wanted in block.words]
        exact = [block for block in found if block.words == wanted]
        if not found:
            raise NotFound("no entry contains these words")
        if len(exact or found) > 1:
            raise PersonaError(
                f"{len(exact or found)} entries contain these words; give more words of the entry to forget"
            )
        removed[:] = exact or found
        return join_blocks(block for block, _ in seen_by_writer if block is not removed[0])

    change(folder, FILE, edit, limit=MAX_FILE_BYTES)  # the owner may have made it larger than MAX_MEMORY_BYTES
    return removed[0].said.strip()


def _entry(text: str, origin: Origin | None, channels: Iterable[int] = (), people: Collection[int] = ()) -> MemoryBlock:
    """Return a list entry with an agent's text, marked with these channels and people and with `origin`."""
    lines = [_STRUCTURE.sub("", " ".join(_harmless(line).split())) for line in plain(text).split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise OutOfBounds("the entry is empty")
    if sum(map(len, lines)) > MAX_ENTRY:
        raise PersonaError(f"an entry has at most {MAX_ENTRY:,} characters")
    places, by, mark = {*channels}, {*people, (origin.person if origin else None) or UNKNOWN}, ""
    if origin:
        places.add(origin.channel)
    if places:
        guild = f" guild:{origin.guild}" if origin and origin.guild else ""
        bare = f"<!-- channel:{','.join(map(str, sorted(places)))}{guild} -->"
        mark = " " + credit_mark(bare, () if by == {UNKNOWN} else by)
    return MemoryBlock((f"- {lines[0]}{mark}", *(f"  {line}" for line in lines[1:])))


def _harmless(line: str) -> str:
    """Remove invisible characters and break up comments and code blocks."""
    emoji_joiner = "\u200d"
    visible = "".join(char if char.isprintable() or char == emoji_joiner else " " for char in line)
    # Break up marks instead of deleting them: after a deletion, the text around could form a new mark.
    return _CODE_BLOCK.sub("''", _COMMENT_ENDS.sub(r"\g<0> ", visible))


def _title(section: str) -> str:
    title = " ".join(_harmless(section).split()).lstrip("# ").strip()
    if not 0 < len(title) <= MAX_SECTION_NAME:
        raise OutOfBounds(f"a section's name has 1 to {MAX_SECTION_NAME} characters on one line")
    return title


def _span(blocks: list[MemoryBlock], title: str | None, *, make: bool = False) -> tuple[int, int]:
    """Return where a section's own content starts and ends, without trailing blank lines. Without a title, that is the
    content before the first section. `make` adds a missing section. Raises NotFound."""
    if title is None:
        start = 1 if blocks and blocks[0].level == 1 else 0
    else:
        start = next((n + 1 for n, block in enumerate(blocks) if block.title == title.casefold() and block.level), 0)
        if not start and not make:
            raise NotFound("that section doesn't exist")
        if not start:
            blocks += [MemoryBlock(("",)), MemoryBlock((f"## {title}",), 2)]
            start = len(blocks)
    end = next((n for n in range(start, len(blocks)) if blocks[n].level), len(blocks))
    while end > start and not blocks[end - 1].text.strip():
        end -= 1
    return start, end


@dataclass(frozen=True, slots=True)
class Notes:
    """The number of removed memory entries, and of kept entries that named the person or were partly theirs."""

    gone: int = 0
    kept: int = 0


def forget_person(folder: Path, user_id: int) -> Notes:
    """Remove a person from the memory in this folder and from its versions. Returns the counts for the memory. Raises
    PersonaError; earlier changes remain then, and the call can be repeated."""
    before = rewrite(folder, FILE, lambda text: without_person(text, user_id)[0])
    return without_person(before, user_id)[1]


def notes_about(folder: Path, user_id: int) -> list[str]:
    """Return the entries of the memory in this folder that come from this person's words only."""
    text = FileCache().read(folder / FILE)[0] or ""
    return [block.said for block in blocks_of(text) if block.people == {user_id}]


def without_person(text: str, user_id: int) -> tuple[str, Notes]:
    """Return a memory's text without the person, and the counts.

        from this person's words only           removed
        from unknown people, with their id      removed
        from others' words, or both             kept, without their id
        without a mark: the owner wrote it      kept unchanged

    Names aren't searched: people choose their own names, and must not be able to delete others' words.
    """
    number = re.compile(rf"(?<!\d){user_id}(?!\d)", re.ASCII)
    blocks, left, gone, kept = blocks_of(text), list[MemoryBlock](), 0, 0
    for block in blocks:
        people, named = block.people, number.search(block.said) is not None
        if block.level or not block.marked or not (user_id in people or named):
            left.append(block)
        elif people <= {user_id}:
            gone += 1
        else:
            kept += 1
            left.append(block.by(people - {user_id}, lambda said: number.sub("0", said)))
    return text if left == blocks else join_blocks(left), Notes(gone, kept)


def blocks_of(text: str) -> list[MemoryBlock]:
    """Split a memory into blocks. In code blocks, too, text that looks like a mark is a mark."""
    found: list[MemoryBlock] = []
    waiting: list[str] = []

    def end_block() -> None:
        """End a block; the blank lines after it become another block."""
        blank = len(list(takewhile(lambda line: not line.strip(), reversed(waiting))))
        content, rest = waiting[: len(waiting) - blank], waiting[len(waiting) - blank :]
        found.extend(MemoryBlock(tuple(lines)) for lines in (content, rest) if lines)
        waiting.clear()

    for line in plain(text).rstrip("\n").split("\n"):
        heading = _HEADING.match(line)
        if heading or (waiting and not _continues(waiting, line)):
            end_block()
        if heading:
            found.append(MemoryBlock((line,), len(heading[1])))
        else:
            waiting.append(line)
    end_block()
    return found


def _continues(waiting: list[str], line: str) -> bool:
    """Whether a line belongs to the lines before it: it is indented below their entry, or not separated from them."""
    if not line.strip():
        return True
    item = _ITEM.match(waiting[0])
    if item and len(line) - len(line.lstrip()) > len(item[1]):
        return True
    return bool(waiting[-1].strip()) and not _ITEM.match(line)


def judge_blocks(blocks: Iterable[MemoryBlock], may_see: MaySee) -> list[tuple[MemoryBlock, bool]]:
    """Return each block and whether it may be seen. A heading's mark covers everything below it."""
    found, hidden = list[tuple[MemoryBlock, bool]](), 0
    for block in blocks:
        seen = block.seen(may_see)
        if block.level and (not hidden or block.level <= hidden):
            hidden = 0 if seen else block.level
        found.append((block, seen and not hidden))
    return found


def join_blocks(blocks: Iterable[MemoryBlock]) -> str:
    """Join blocks to a file: one blank line before each section, none doubled, one newline at the end."""
    text = "\n".join(block.text for block in blocks)
    text = re.sub(r"(?<=[^\n])\n(?=#{1,6} )", "\n\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def credit_mark(mark: str, people: Collection[int]) -> str:
    """Return the mark with exactly these people."""
    named = (UNKNOWN,) if len(people) > MAX_PEOPLE else people
    bare = _PEOPLE.sub("", mark).removesuffix("-->").rstrip()
    by = f" by:{','.join(map(str, sorted(named)))}" if named else ""
    return f"{bare}{by} -->"


def split_marks(text: str) -> tuple[str, list[str]]:
    """Split a text from its marks. An unclosed mark extends to the end. (A regular expression could take minutes.)"""
    kept, marks, at = "", list[str](), 0
    while (start := text.find("<!--", at)) >= 0:
        end = text.find("-->", start + 4)
        end = len(text) if end < 0 else end + 3
        if _NAMES_CHANNEL.search(text, start, end):
            kept += text[at:start].rstrip(" \t")
            marks.append(text[start:end])
        else:
            kept += text[at:end]
        at = end
    return kept + text[at:], marks
