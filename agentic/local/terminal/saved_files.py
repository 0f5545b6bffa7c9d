"""Files and pictures that bots post, saved in a folder: a terminal cannot show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SaveFile = Callable[[Mapping[str, Any]], Path | None]
"""Save an attachment; return its path, None if it was saved before. Raises OSError."""

MOST_FILES = 200  # in the folder; the oldest are removed first
MOST_CHARACTERS = 80  # of a name


class SavedFiles:
    """Saves attachments in `folder`; `content_of` gives the content by an attachment's id, None for an unknown one."""

    def __init__(self, folder: Path, content_of: Callable[[int], bytes | None]) -> None:
        self._folder, self._content_of = folder.absolute(), content_of
        self._saved: set[int] = set()

    def save(self, attachment: Mapping[str, Any]) -> Path | None:
        """Save an attachment of a message, once; None if it was saved before or its content is gone. Raises OSError."""
        attachment_id = int(attachment["id"])
        content = self._content_of(attachment_id)
        if content is None or attachment_id in self._saved:
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._free(str(attachment["filename"]))
        path.write_bytes(content)
        self._saved.add(attachment_id)
        self._remove_oldest()
        return path

    def _free(self, filename: str) -> Path:
        """A path that does not exist yet, for a name that anybody may have chosen."""
        name = Path("".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in filename).lstrip("."))
        stem, suffix = name.stem[:MOST_CHARACTERS] or "file", name.suffix[:MOST_CHARACTERS]
        number, path = 1, self._folder / f"{stem}{suffix}"
        while path.exists():
            number += 1
            path = self._folder / f"{stem}-{number}{suffix}"
        return path

    def _remove_oldest(self) -> None:
        files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in files[: max(0, len(files) - MOST_FILES)]:
            path.unlink()
