"""Stage 7: choose the pictures and text files to show: the newest, up to a limit. Does not read them.

A shown attachment stays while there is room, since removing it rewrites the middle of the prompt and invalidates a
provider's cache. When there is no more room, half of it is freed in one step.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from agent_context.entries import Attachment, Entry
from agent_context.steering.options import Options

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/x-yaml", "application/yaml")
_TEXT_ENDINGS = re.compile(
    r"\.(?:txt|md|rst|csv|tsv|log|jsonl?|ya?ml|toml|ini|cfg|xml|html|css|[jt]s|py|rs|go|c|h|cpp|java|kt|rb|sh|sql)\Z",
    re.IGNORECASE,
)


def is_text(attachment: Attachment) -> bool:
    """Judge by the media type that the service reports, else by the file's name."""
    if attachment.media_type:
        return attachment.media_type.startswith(_TEXT_TYPES)
    return _TEXT_ENDINGS.search(attachment.filename) is not None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Ids of the attachments to show: as pictures, and quoted as text."""

    pictures: frozenset[int] = frozenset()
    files: frozenset[int] = frozenset()

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that have chosen attachments, with only those attached: what has to be read."""
        wanted = self.pictures | self.files
        cut = (replace(e, attachments=tuple(a for a in e.attachments if a.id in wanted)) for e in entries)
        return [entry for entry in cut if entry.attachments]


NOTHING_CHOSEN = Chosen()


def choose(entries: Sequence[Entry], options: Options, before: Chosen = NOTHING_CHOSEN) -> Chosen:
    """Choose attachments. `before`: those shown last time. Text files together have at most `max_file_characters`,
    counting a byte as a character; a single longer file is cut when read."""
    files = [file for entry in reversed(entries) for file in entry.attachments]
    limit = options.max_file_characters if options.include_files else 0
    pictures = [(file.id, 1) for file in files if file.is_picture]
    texts = [(file.id, min(max(file.size, 1), limit)) for file in files if is_text(file) and not file.is_picture]
    return Chosen(
        _chosen(pictures, options.max_images if options.include_images else 0, before.pictures),
        _chosen(texts, limit, before.files),
    )


def _chosen(candidates: Sequence[tuple[int, int]], limit: int, before: Collection[int]) -> frozenset[int]:
    """Choose from ids with their sizes, newest first."""
    if limit <= 0:
        return frozenset()
    oldest = max((index for index, (number, _) in enumerate(candidates) if number in before), default=None)
    if oldest is None:
        return frozenset(_fitting(candidates, limit))
    wanted = candidates[: oldest + 1]
    if sum(size for _, size in wanted) <= limit:
        return frozenset(number for number, _ in wanted)
    return frozenset(_fitting(wanted, max(limit // 2, min(limit, wanted[0][1]))))


def _fitting(candidates: Sequence[tuple[int, int]], limit: int) -> Iterable[int]:
    left = limit
    for number, size in candidates:
        left -= size
        if left < 0:
            return
        yield number
