"""Create, change, and version persona files. All functions block: call them in a thread.

A change is a function from the old text to the new text. It runs under the folder's lock, so no concurrent write is
lost. The last ten versions are kept; forgotten text is removed from them, too.

    .history/memory.md.20261120T091500Z-000001      an earlier version; names sort by age
    .deleted/ada-20261120T091500Z                   next to the folders: a deleted persona

The first start creates missing files that boot.md names, with the contents in boot.md. Without boot.md, or without one
of its sections, built-in defaults apply. Existing files are never overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agentic.personas.files import (
    MAX_FILE_BYTES,
    PERSONA_FILES,
    PRIVATE_FOLDER,
    TEMPORARY,
    FileCache,
    NotFound,
    OutOfBounds,
    PersonaError,
    as_bytes,
    as_text,
    folder_at,
    hide_from_others,
    locked,
    os_errors,
    read_plain,
    write_whole,
)
from agentic.personas.markdown import Line, Problems, Section, closes, plain, scan, sections, under
from agentic.personas.workspace import MAX_DEPTH

FILE = "boot.md"
REQUIRED = ("soul.md", "identity.md")
OPTIONAL = ("agents.md", "user.md", "memory.md", "tools.md", "heartbeat.md")
DEFAULTS: Mapping[str, str] = {
    "soul.md": "# Soul\n",
    "identity.md": "# Identity\n",
    "agents.md": "# Operating rules\n",
    "user.md": "# The people here\n",
    "memory.md": "# Memory\n",
    "tools.md": "# Tools\n",
    "heartbeat.md": "# Heartbeat\n",
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}\.md", re.ASCII)
_ITEM = re.compile(r"[ \t]*[-*+][ \t]+`?([^`\s]+)`?[ \t]*")

HISTORY = ".history"
DELETED = ".deleted"
WORKSPACE = "workspace"
PRIVATE = ("memory.md", HISTORY, WORKSPACE)  # written by an agent, with people's words
VERSIONS = 10  # per file
_VERSION = re.compile(r"(.+)\.(\d{8}T\d{6}Z)-(\d{6})")
_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class BootConfig:
    """Files that must exist, files that should exist, and their initial contents."""

    required: tuple[str, ...] = REQUIRED
    optional: tuple[str, ...] = OPTIONAL
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BootReport:
    loaded: tuple[str, ...]
    made: tuple[str, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """An earlier text of a file, and when it was replaced (unix seconds)."""

    replaced_at: float
    text: str


def bootstrap(folder: Path, defaults: Mapping[str, str] | None = None) -> BootReport:
    """Create the folder and the missing files that boot.md names, and make the agent's notes private. Never raises. A
    file's initial content is from boot.md, `defaults` (of this agent), the built-in defaults, or else a heading."""
    cache = FileCache()
    config, said = parse_boot(cache.read(folder / FILE)[0])
    loaded, missing, problems = list[str](), list[str](), list(said)
    for name in dict.fromkeys((*config.required, *config.optional)):
        _, error = cache.read(folder / name)
        if error is None:
            loaded.append(name)
        elif isinstance(error, NotFound):
            missing.append(name)
        else:
            problems.append(f"{name}: {error}; skipped")
    made: list[str] = []
    try:
        if missing:
            with os_errors():
                folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            with folder_at(folder) as descriptor, locked(descriptor):  # another process may do the same
                for name in missing:
                    if not os.path.lexists(folder / name):
                        heading = f"# {name.removesuffix('.md').replace('_', ' ').capitalize()}\n"
                        text = {**DEFAULTS, **(defaults or {}), **config.defaults}.get(name, heading)
                        write_whole(descriptor, name, as_bytes(text))
                        made.append(name)
    except PersonaError as error:
        left = [name for name in missing if name not in made]
        problems.append(f"{', '.join(left)}: missing, and creating failed: {error}")
    return BootReport(tuple(loaded), tuple(made), (*problems, *hide_notes(folder)))


def hide_notes(folder: Path) -> tuple[str, ...]:
    """Make the agent's files from earlier runs private. Returns problems, and never raises."""
    problems: list[str] = []
    for name in PRIVATE:
        try:
            hide_from_others(folder / name)
        except PersonaError as error:
            problems.append(f"{name}: everyone on this machine can read it; changing its mode failed: {error}")
    return tuple(problems)


def parse_boot(text: str | None) -> tuple[BootConfig, tuple[str, ...]]:
    problems = Problems(FILE, text)
    if text is None:
        return BootConfig(), ()
    lines = scan(text)
    known = {section.title.casefold(): section for section in sections(lines, 2)}
    required = _names(known.get("required"), REQUIRED, problems)
    optional = _names(known.get("optional"), OPTIONAL, problems)
    defaults: dict[str, str] = {}
    for section in under(lines, "Defaults"):
        name = section.title.strip("`")
        if not _NAME.fullmatch(name) or name in defaults:
            problems.add(section.heading.number, f"{name!r} isn't a file name, or appears twice")
        else:
            defaults[name] = _content(section, lines, plain(text).split("\n"))
    return BootConfig(required, optional, defaults), problems.lines()


def _names(section: Section | None, otherwise: tuple[str, ...], problems: Problems) -> tuple[str, ...]:
    """Return the files in a section's list. Other text is for people."""
    if section is None:
        return otherwise
    found: dict[str, None] = {}
    for line in section.body:
        item = None if line.fence else _ITEM.fullmatch(line.text)
        if item and _NAME.fullmatch(item[1]):
            found[item[1]] = None
        elif line.text.lstrip().startswith(("- ", "* ", "+ ")):
            problems.add(line.number, "expected a file name such as `- user.md`, not a path")
    return tuple(found)


def _content(section: Section, lines: Sequence[Line], source: list[str]) -> str:
    """Return the text below a heading unchanged, including comments: a default may be a comment."""
    start = section.heading.number
    ends = (line.number for line in lines if line.number > start and 0 < line.level <= section.heading.level)
    raw = source[start : next(ends, len(source) + 1) - 1]
    while raw and not raw[0].strip():
        del raw[0]
    while raw and not raw[-1].strip():
        del raw[-1]
    first = scan(raw[0]) if raw else ()
    fence = first[0].fence if first else ""
    if fence and next((n for n, line in enumerate(raw) if n and closes(line, fence)), None) == len(raw) - 1:
        raw = raw[1:-1]  # exactly one code block
    return "\n".join(raw) + "\n" if raw else ""


def change(
    folder: Path,
    name: str,
    edit: Callable[[str | None], str],
    *,
    limit: int = MAX_FILE_BYTES,
    clock: Callable[[], float] = time.time,
) -> str:
    """Replace a file's text (None if it is missing) with the text that `edit` returns. Returns the new text.

    An unchanged text isn't written. `limit` is in bytes. Raises PersonaError and the errors of `edit`; then the file is
    unchanged.
    """
    if name not in PERSONA_FILES:
        raise OutOfBounds("this isn't a persona's file")
    with folder_at(folder) as descriptor, locked(descriptor):
        try:
            old: bytes | None = read_plain(name, MAX_FILE_BYTES, descriptor)
        except NotFound:
            old = None
        before = None if old is None else as_text(old)
        text = edit(before)
        new = as_bytes(text)
        if len(new) > limit:
            raise PersonaError(f"the file would have {len(new):,} bytes, but the limit is {limit:,}")
        if text != before:
            if old is not None:
                _keep_version(descriptor, name, old, clock())
            write_whole(descriptor, name, new)
        return text


def _keep_version(folder: int, name: str, data: bytes, now: float) -> None:
    with folder_at(folder, HISTORY, make=True) as history:
        kept = _kept(history, name)
        number = int(kept[-1][-6:]) + 1 if kept else 1
        write_whole(history, f"{name}.{datetime.fromtimestamp(now, UTC).strftime(_STAMP)}-{number:06d}", data)
        for old in kept[: max(0, len(kept) + 1 - VERSIONS)]:
            with contextlib.suppress(FileNotFoundError), os_errors():
                os.unlink(old, dir_fd=history)


def _kept(history: int, name: str) -> list[str]:
    """Return the versions by number, oldest first: a clock may go back."""
    with os_errors():
        found = [(match[3], entry) for entry in os.listdir(history) if (match := _VERSION.fullmatch(entry))]
    return [entry for _, entry in sorted(found) if entry.startswith(f"{name}.")]


def versions_of(folder: Path, name: str) -> list[Version]:
    """Return a file's earlier versions, oldest first. Raises PersonaError."""
    if name not in PERSONA_FILES:
        raise OutOfBounds("this isn't a persona's file")
    found: list[Version] = []
    with contextlib.suppress(NotFound), folder_at(folder, HISTORY) as kept:
        for entry in _kept(kept, name):
            with contextlib.suppress(NotFound):  # deleted since the listing
                text = as_text(read_plain(entry, MAX_FILE_BYTES, kept))
                replaced_at = 0.0  # for a name with an impossible date
                with contextlib.suppress(ValueError):
                    stamp = entry.rpartition("-")[0].rpartition(".")[2]
                    replaced_at = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp()
                found.append(Version(replaced_at, text))
    return found


def rewrite(folder: Path, name: str, edit: Callable[[str], str]) -> str:
    """Apply `edit` to a file and to each of its versions, without keeping the old texts.

    Returns the file's old text, or "" if it was missing. If nothing changes, the folder is only read. Raises
    PersonaError; some files may already be changed then.
    """
    with folder_at(folder) as descriptor:
        before, changes = _apply(descriptor, name, edit, write=False)
        if changes:
            with locked(descriptor):
                before, _ = _apply(descriptor, name, edit, write=True)
        return before


def _apply(folder: int, name: str, edit: Callable[[str], str], *, write: bool) -> tuple[str, bool]:
    """Return the file's text, and whether `edit` changes it or one of its versions. With `write`, write the changes."""

    def apply_to(place: int, name: str) -> tuple[str, bool]:
        try:
            text = as_text(read_plain(name, MAX_FILE_BYTES, place))
        except NotFound:
            return "", False
        new = edit(text)
        if write and new != text:
            write_whole(place, name, as_bytes(new))
        return text, new != text

    before, changed = apply_to(folder, name)
    with contextlib.suppress(NotFound), folder_at(folder, HISTORY) as history:
        for version in _kept(history, name):
            changed |= apply_to(history, version)[1]
    return before, changed


def create_folder(root: Path, name: str, files: Mapping[str, str]) -> None:
    """Create a persona's folder with these files, all or none of them. Raises PersonaError."""
    with os_errors():
        root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    with folder_at(root) as descriptor, locked(descriptor):
        if os.path.lexists(root / name):
            raise PersonaError("a persona with that name already exists")
        making = f".{secrets.token_hex(8)}.new"
        try:
            with folder_at(descriptor, making, make=True) as folder:
                for file, text in files.items():
                    write_whole(folder, file, as_bytes(text))
            with os_errors():
                os.rename(making, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            shutil.rmtree(root / making, ignore_errors=True)
            raise


def delete_folder(root: Path, name: str, clock: Callable[[], float] = time.time) -> str:
    """Move a persona's folder to DELETED. Returns its new name. Raises PersonaError."""
    kept = f"{name}-{datetime.fromtimestamp(clock(), UTC).strftime(_STAMP)}"
    with folder_at(root) as descriptor, locked(descriptor), folder_at(descriptor, DELETED, make=True) as deleted:
        if os.path.lexists(root / DELETED / kept):
            raise PersonaError("it was deleted a moment ago; try again")
        with os_errors():
            os.rename(name, kept, src_dir_fd=descriptor, dst_dir_fd=deleted)
    return kept


def remove_leftovers(folder: Path) -> int:
    """Delete temporary files of killed processes from a persona's folder, its history, and its workspace.

    They may contain words that a person has had forgotten. This takes the folder's lock, so no temporary file belongs
    to a running write. Returns the number of deleted files. Raises PersonaError.
    """
    removed = 0
    with contextlib.suppress(NotFound), folder_at(folder) as persona:
        places = ((folder_at(persona), 1), (folder_at(persona, HISTORY), 1), (folder_at(folder / WORKSPACE), MAX_DEPTH))
        for opened, depth in places:
            with contextlib.suppress(NotFound), opened as place:
                if next(_leftovers(place, depth), None) is None:  # then the folder is only read
                    continue
                with locked(place if depth > 1 else persona), os_errors():
                    for found, name in _leftovers(place, depth):
                        os.unlink(name, dir_fd=found)
                        removed += 1
    return removed


def _leftovers(folder: int, depth: int) -> Iterator[tuple[int, str]]:
    """Yield temporary files with their folders' descriptors, down to `depth`, except in links and hidden folders."""
    with os_errors():
        for path, folders, names, place in os.fwalk(".", dir_fd=folder):
            yield from ((place, name) for name in names if TEMPORARY.fullmatch(name))
            deep = path.count("/") + 1 >= depth
            folders[:] = [] if deep else [name for name in folders if not name.startswith(".")]
