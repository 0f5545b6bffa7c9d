"""Stage 7: choose the attachments to show: the newest, up to a limit. Does not read them.

A file's name and media type are claims, and its bytes decide what it is (agentic/chat/attachments.py). So here only
files
are left out that cannot be shown whatever they are: too large, or known not to be a picture or a text by name and type.

A shown attachment stays while there is room, since removing it rewrites the middle of the prompt and invalidates a
provider's cache. When there is no more room, half of it is freed in one step.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from agentic.context.entries import Attachment, Entry
from agentic.context.options import Options

MAX_BYTES = 8_000_000  # of a file that is read
MOST_UNCLEAR = 4  # files that may be anything, the newest

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


def is_candidate(attachment: Attachment) -> bool:
    """Whether the file may be a picture or a text. A size of 0 is an unknown one."""
    known = _OTHER_TYPES.match(attachment.media_type) and _OTHER_NAMES.fullmatch(attachment.filename)
    return not known and attachment.size <= MAX_BYTES


def is_text(attachment: Attachment) -> bool:
    """Whether the file is said to be a text: by its media type, or by its name if its type does not contradict."""
    if attachment.is_picture or not is_candidate(attachment):
        return False
    if _TEXT_TYPES.match(attachment.media_type):
        return True
    return _TEXT_NAMES.fullmatch(attachment.filename) is not None and not _OTHER_TYPES.match(attachment.media_type)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Ids of the attachments to show: as pictures, quoted as text, and those of which only the bytes will tell."""

    pictures: frozenset[int] = frozenset()
    files: frozenset[int] = frozenset()
    unclear: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.pictures or self.files or self.unclear)

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that have chosen attachments, with only those attached: what has to be read."""
        wanted = self.pictures | self.files | self.unclear
        cut = (replace(e, attachments=tuple(a for a in e.attachments if a.id in wanted)) for e in entries)
        return [entry for entry in cut if entry.attachments]


NOTHING_CHOSEN = Chosen()


def choose(entries: Sequence[Entry], options: Options, before: Chosen = NOTHING_CHOSEN) -> Chosen:
    """Choose attachments. `before`: those shown last time. Text files together have at most `max_file_characters`,
    counting a byte as a character; a single longer file is cut when read."""
    files = [file for entry in reversed(entries) for file in entry.attachments if is_candidate(file)]
    limit = options.max_file_characters if options.include_files else 0
    most = options.max_images if options.include_images else 0
    pictures = [(file.id, 1) for file in files if file.is_picture]
    texts = [(file.id, min(max(file.size, 1), limit)) for file in files if is_text(file)]
    unclear = [file.id for file in files if not (file.is_picture or is_text(file))] if limit or most else []
    return Chosen(
        _chosen(pictures, most, before.pictures),
        _chosen(texts, limit, before.files),
        frozenset(unclear[:MOST_UNCLEAR]),
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
