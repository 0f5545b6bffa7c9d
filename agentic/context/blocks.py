"""Group a window's lines in blocks, and choose the attachments to show (stages 7 and 8).

A line is an entry as first shown, a note about a later change, or a tool's call and result. Each block is one message
to the model.

`choose` picks the newest attachments, up to a limit, without reading them. Names and media types may be wrong, and the
bytes decide (agentic/chat/attachments.py), so it only leaves out files that can't be shown in any case: too large, or
neither a picture nor a text by name and type. A shown attachment stays while there is room, since removing it rewrites
the middle of the prompt and invalidates a provider's cache. When the room is used up, half of it is freed at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from agentic.context.entries import Attachment, Entry
from agentic.context.history import join
from agentic.context.options import Options

BLOCK = 8  # lines in one message to the model

MAX_BYTES = 8_000_000  # of a file that is read
MAX_UNCLEAR = 4  # files that may be anything, the newest
_TEXT_TYPES = re.compile(
    r"text/|application/(?:json|xml|yaml|toml|javascript|typescript|sql|csv|x-(?:yaml|sh|ndjson|javascript|typescript|"
    r"python|httpd-php|tex|toml|sql)|[\w.+-]+\+(?:json|xml|yaml))\b"
)
_TEXT_NAMES = re.compile(
    r"(?:.*\.)?(?:txt|md|markdown|rst|log|csv|tsv|jsonl?|json5|jsonc|ndjson|ya?ml|toml|ini|cfg|conf|env|properties|xml"
    r"|html?|s?css|less|[cm]?[jt]sx?|vue|svelte|pyi?|ipynb|rb|go|rs|c|h|cc|cpp|cxx|hpp|cs|java|kts?|swift|php|lua|pl|r|jl"
    r"|scala|clj|ex|exs|erl|hs|ml|dart|zig|nim|sh|bash|zsh|fish|ps1|bat|cmd|sql|graphql|proto|tf|gradle|cmake|tex|bib|srt"
    r"|vtt|diff|patch|svg|dockerfile|makefile|jenkinsfile|gemfile|license|readme|changelog|gitignore|editorconfig)",
    re.IGNORECASE,
)
_OTHER_TYPES = re.compile(
    r"video/|audio/|font/|application/(?:(?:x-)?(?:zip|gzip|bzip2?|xz|tar|7z|rar|compress|zstd|dosexec|msdownload"
    r"|msdos-program|apple-diskimage|iso9660-image|executable|shockwave-flash)|zip|pdf|msword|ogg|wasm|java-archive"
    r"|x-7z-compressed|x-rar-compressed|x-zip-compressed|x-compressed-tar|epub\+zip|vnd\.(?:ms-|openxml|oasis|rar|debian"
    r"|android|adobe|apple).*)"
)
_OTHER_NAMES = re.compile(
    r".*\.(?:mp4|m4v|mov|mkv|avi|webm|wmv|flv|mpe?g|3gp|mp3|m4a|aac|ogg|oga|ogv|opus|wav|flac|wma|midi?|aiff?|zip|gz|tgz"
    r"|bz2|xz|zst|7z|rar|tar|jar|apk|deb|rpm|iso|dmg|exe|msi|dll|so|bin|wasm|swf|pdf|docx?|xlsx?|pptx?|od[tsp]|epub|ttf"
    r"|otf|woff2?|psd)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ToolLine:
    """Stage 8: a tool's call and result, as one line of data after the message `after_id`. `asked_by`: the person it
    was called for."""

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
    """Lines that go to the model as one message. `texts`: a cache of renderings."""

    lines: tuple[Line, ...]
    closed: bool = False
    texts: dict[object, str] = field(default_factory=dict)


def in_blocks(opened: tuple[Line, ...], lines: Sequence[Line], marker: int | None) -> list[Block]:
    """Divide `opened` and `lines` into blocks. A message with pictures ends its block, so that they follow its text,
    and so does the marker."""
    blocks: list[Block] = []
    block = list(opened)
    for line in lines:
        block.append(line)
        ends = isinstance(line, Entry) and (line.id == marker or any(file.is_picture for file in line.attachments))
        if ends or len(block) >= BLOCK:
            blocks.append(Block(tuple(block), closed=True))
            block = []
    if block:
        blocks.append(Block(tuple(block)))
    return blocks


def insert_tool_lines(entries: Iterable[Entry], tools: Sequence[ToolLine]) -> list[Line]:
    """Insert each tool line after its message."""
    lines: list[Entry | ToolLine] = list(entries)
    for tool in tools:
        ids = (line.id if isinstance(line, Entry) else line.after_id for line in lines)
        lines.insert(sum(1 for line_id in ids if line_id <= tool.after_id), tool)
    return list(lines)


def with_tool_lines(entries: Iterable[Entry], tools: Sequence[ToolLine]) -> list[Line]:
    """Return the entries, each followed by its tool lines."""
    lines: list[Line] = []
    for entry in entries:
        ids = {unit.id for unit in entry.units}
        lines += (entry, *(tool for tool in tools if tool.after_id in ids))
    return lines


def without_gone(blocks: Iterable[Block], units: Mapping[int, Entry]) -> list[Block]:
    """Remove deleted and hidden messages. Blocks without any stay the same objects."""

    def line_left(line: Line) -> Line | None:
        if isinstance(line, ToolLine):
            return line
        entry = line if isinstance(line, Entry) else line.about
        left = left_of(entry, units)
        if left is entry:
            return line
        return left if isinstance(line, Entry) else None

    kept: list[Block] = []
    for block in blocks:
        lines = [line_left(line) for line in block.lines]
        if all(line is before for line, before in zip(lines, block.lines, strict=True)):
            kept.append(block)
        elif left := tuple(line for line in lines if line is not None):
            kept.append(Block(left, block.closed))
    return kept


def left_of(entry: Entry, units: Mapping[int, Entry]) -> Entry | None:
    """Return the remaining part of a shown entry, or the entry itself if nothing is gone."""
    left = [unit for unit in entry.units if unit.id in units]
    if len(left) == len(entry.units):
        return entry
    return join(left) if left else None


def quoted_in(block: Block, files: Mapping[int, str]) -> tuple[int, ...]:
    """Return the block's attachments whose text is shown. A file that is no longer shown must not stay in the cache."""
    if not files:
        return ()
    entries = [
        line if isinstance(line, Entry) else line.about for line in block.lines if not isinstance(line, ToolLine)
    ]
    return tuple(file.id for entry in entries for file in entry.attachments if file.id in files)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Ids of the attachments to show: as pictures, as quoted text, and files whose bytes will tell."""

    pictures: frozenset[int] = frozenset()
    files: frozenset[int] = frozenset()
    unclear: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.pictures or self.files or self.unclear)

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries with chosen attachments, with only these attached."""
        wanted = self.pictures | self.files | self.unclear
        cut = (replace(e, attachments=tuple(a for a in e.attachments if a.id in wanted)) for e in entries)
        return [entry for entry in cut if entry.attachments]


NOTHING_CHOSEN = Chosen()


def choose(entries: Sequence[Entry], options: Options, before: Chosen = NOTHING_CHOSEN) -> Chosen:
    """Choose attachments. `before`: those shown last time. Text files have at most `max_file_characters` together,
    counting a byte as a character. A longer file is cut when read."""
    files = [file for entry in reversed(entries) for file in entry.attachments if is_candidate(file)]
    limit = options.max_file_characters if options.include_files else 0
    most = options.max_images if options.include_images else 0
    pictures = [(file.id, 1) for file in files if file.is_picture]
    texts = [(file.id, min(max(file.size, 1), limit)) for file in files if is_text(file)]
    unclear = [file.id for file in files if not (file.is_picture or is_text(file))] if limit or most else []
    return Chosen(
        _chosen(pictures, most, before.pictures), _chosen(texts, limit, before.files), frozenset(unclear[:MAX_UNCLEAR])
    )


def _chosen(candidates: Sequence[tuple[int, int]], limit: int, before: Collection[int]) -> frozenset[int]:
    """Choose from ids with their sizes, newest first."""
    if limit <= 0:
        return frozenset()
    oldest = max((index for index, (number, _) in enumerate(candidates) if number in before), default=None)
    if oldest is not None:
        candidates = candidates[: oldest + 1]
        if sum(size for _, size in candidates) > limit:
            limit = max(limit // 2, min(limit, candidates[0][1]))
    ends = accumulate(size for _, size in candidates)
    return frozenset(number for (number, _), end in zip(candidates, ends, strict=True) if end <= limit)


def is_candidate(attachment: Attachment) -> bool:
    """Whether the file may be a picture or a text. A size of 0 means unknown."""
    known = _OTHER_TYPES.match(attachment.media_type) and _OTHER_NAMES.fullmatch(attachment.filename)
    return not known and attachment.size <= MAX_BYTES


def is_text(attachment: Attachment) -> bool:
    """Whether the file's media type says it is a text, or its name does and its type doesn't contradict."""
    if attachment.is_picture or not is_candidate(attachment):
        return False
    if _TEXT_TYPES.match(attachment.media_type):
        return True
    return _TEXT_NAMES.fullmatch(attachment.filename) is not None and not _OTHER_TYPES.match(attachment.media_type)
