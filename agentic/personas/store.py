"""Creates, changes, versions persona files; first start.

The first start: create the files that boot.md names and that are missing.

    ## Required
    - soul.md
    - identity.md

    ## Optional
    - user.md

    ## Defaults

    ### user.md
    The initial content: all the text here, or the content of a single code block.

Without boot.md, or without one of its sections, built-in defaults apply. Existing files are never overwritten.

Change a persona's file: under the folder's lock, atomically, keeping the last ten versions. Create and delete the
folders of personas.

    .history/memory.md.20261120T091500Z-000001      a former content, oldest first by name
    .deleted/ada-20261120T091500Z                   beside the folders: a persona that was deleted

A change is a function from the old text to the new. It runs under the lock, so no concurrent write is lost. Text that
must be forgotten is removed from the versions too. All functions block: call them in a thread.

Remove temporary files of writes whose process was killed, at the start.

Such a file may contain what a person has had forgotten since, so it must not stay. Writers hold the folder's lock;
while this holds it, no temporary file belongs to a running write.
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
    Ambiguous,
    NotFound,
    NotStored,
    OutOfBounds,
    PersonaError,
    TooLarge,
    as_bytes,
    as_text,
    below,
    folder_at,
    hide_from_others,
    locked,
    os_errors,
    read_persona,
    read_plain,
    write_whole,
)
from agentic.personas.markdown import Line, Section, closes, plain, scan, sections, under
from agentic.personas.schedules import Problems
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
PRIVATE = ("memory.md", ".history", "workspace")  # what an agent writes, with the words of people in it
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}\.md", re.ASCII)
_ITEM = re.compile(r"[ \t]*[-*+][ \t]+`?([^`\s]+)`?[ \t]*")


@dataclass(frozen=True, slots=True)
class BootConfig:
    """Files that must exist, files that should exist, and their initial contents."""

    required: tuple[str, ...] = REQUIRED
    optional: tuple[str, ...] = OPTIONAL
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.required, *self.optional)))


@dataclass(frozen=True, slots=True)
class BootReport:
    """Files that were read, files that were created, and problems: each worth a log line."""

    loaded: tuple[str, ...]
    made: tuple[str, ...]
    problems: tuple[str, ...] = ()


def parse_boot(text: str | None) -> tuple[BootConfig, tuple[str, ...]]:
    """Parse boot.md. Returns problems with file and line."""
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
            problems.add(section.heading.number, f"{name!r} is not a file name, or is given twice")
        else:
            defaults[name] = _content(section, lines, plain(text).split("\n"))
    return BootConfig(required, optional, defaults), problems.lines()


def _names(section: Section | None, otherwise: tuple[str, ...], problems: Problems) -> tuple[str, ...]:
    """Return the files of a list. Other text is for people."""
    if section is None:
        return otherwise
    found: dict[str, None] = {}
    for line in section.body:
        item = None if line.fence else _ITEM.fullmatch(line.text)
        if item and _NAME.fullmatch(item[1]):
            found[item[1]] = None
        elif line.text.lstrip().startswith(("- ", "* ", "+ ")):
            problems.add(line.number, "expected a file name, as in `- user.md`, not a path")
    return tuple(found)


def _content(section: Section, lines: Sequence[Line], source: list[str]) -> str:
    """Return the text below a heading unchanged, with its comments: a default may consist of a comment."""
    start = section.heading.number
    end = next(
        (line.number for line in lines if line.number > start and 0 < line.level <= section.heading.level),
        len(source) + 1,
    )
    raw = source[start : end - 1]
    while raw and not raw[0].strip():
        del raw[0]
    while raw and not raw[-1].strip():
        del raw[-1]
    if _is_code(raw):
        raw = raw[1:-1]
    return "\n".join(raw) + "\n" if raw else ""


def _is_code(raw: list[str]) -> bool:
    """Whether the lines are exactly one code block."""
    first = scan(raw[0]) if raw else ()
    fence = first[0].fence if first else ""
    return bool(fence) and [n for n, line in enumerate(raw) if n and closes(line, fence)][:1] == [len(raw) - 1]


def bootstrap(folder: Path, defaults: Mapping[str, str] | None = None) -> BootReport:
    """Create the folder and the missing files that boot.md names, and hide from others what the agent noted. Never
    raises.

    A file's initial content comes from boot.md, else `defaults` (of this agent), else the built-in default, else a
    heading.
    """
    found = read_persona(folder)
    config, said = parse_boot(found.boot)
    loaded, missing, problems = list[str](), list[str](), list(said)
    for name in config.files:
        try:
            as_text(read_plain(str(folder / name), MAX_FILE_BYTES, follow=True))
            loaded.append(name)
        except NotFound:
            missing.append(name)
        except PersonaError as error:
            problems.append(f"{name}: skipped, {error}")
    beginnings = {name: _beginning(name, config, defaults or {}) for name in missing}
    made = _make(folder, beginnings, problems)
    return BootReport(tuple(loaded), made, (*problems, *hide_notes(folder)))


def hide_notes(folder: Path) -> tuple[str, ...]:
    """Let the owner alone read what the agent wrote in earlier runs; return what is wrong. Never raises."""
    problems: list[str] = []
    for name in PRIVATE:
        try:
            hide_from_others(folder / name)
        except PersonaError as error:
            problems.append(f"{name}: everybody on this machine can read it, and its mode cannot be changed: {error}")
    return tuple(problems)


def _make(folder: Path, beginnings: Mapping[str, str], problems: list[str]) -> tuple[str, ...]:
    """Write the missing files under the lock, since another process may do the same. A complete folder is not
    touched."""
    if not beginnings:
        return ()
    made: list[str] = []
    try:
        with os_errors():
            folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        with folder_at(folder) as descriptor, locked(descriptor):
            for name, text in beginnings.items():
                if not os.path.lexists(folder / name):
                    write_whole(descriptor, name, as_bytes(text))
                    made.append(name)
    except PersonaError as error:
        left = [name for name in beginnings if name not in made]
        problems.append(f"{', '.join(left)}: missing, and could not be created: {error}")
    return tuple(made)


def _beginning(name: str, config: BootConfig, given: Mapping[str, str]) -> str:
    for source in (config.defaults, given, DEFAULTS):
        if name in source:
            return source[name]
    return f"# {name.removesuffix('.md').replace('_', ' ').capitalize()}\n"


HISTORY = ".history"
DELETED = ".deleted"
VERSIONS = 10
_VERSION = re.compile(r"(.+)\.(\d{8}T\d{6}Z)-(\d{6})")
_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class Version:
    """A former content of a file, and when it was replaced (unix seconds)."""

    replaced_at: float
    text: str


def change(
    folder: Path,
    name: str,
    edit: Callable[[str | None], str],
    *,
    limit: int = MAX_FILE_BYTES,
    clock: Callable[[], float] = time.time,
) -> str:
    """Replace a file's text (None if it is missing) with what `edit` returns, and return that. An equal text is not
    written.

    `limit` is in bytes. Raises PersonaError and whatever `edit` raises; the file is then unchanged.
    """
    if name not in PERSONA_FILES:
        raise OutOfBounds("this is not a persona's file")
    with folder_at(folder) as descriptor, locked(descriptor):
        try:
            old: bytes | None = read_plain(name, MAX_FILE_BYTES, descriptor)
        except NotFound:
            old = None
        before = None if old is None else as_text(old)
        text = edit(before)
        new = as_bytes(text)
        if len(new) > limit:
            raise TooLarge(f"the file would have {len(new):,} bytes; the limit is {limit:,}")
        if text != before:
            if old is not None:
                _keep(descriptor, name, old, clock())
            write_whole(descriptor, name, new)
        return text


def create_folder(root: Path, name: str, files: Mapping[str, str]) -> None:
    """Create a persona's folder with these files, all of them or none. Raises PersonaError."""
    with os_errors():
        root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    with folder_at(root) as descriptor, locked(descriptor):
        if os.path.lexists(root / name):
            raise Ambiguous("there is a persona of that name already")
        making = f".{secrets.token_hex(8)}.new"
        try:
            with below(descriptor, (making,), make=True) as folder:
                for file, text in files.items():
                    write_whole(folder, file, as_bytes(text))
            with os_errors():
                os.rename(making, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            shutil.rmtree(root / making, ignore_errors=True)
            raise


def delete_folder(root: Path, name: str, clock: Callable[[], float] = time.time) -> str:
    """Move a persona's folder aside, and return its new name in DELETED. Raises PersonaError."""
    kept = f"{name}-{datetime.fromtimestamp(clock(), UTC).strftime(_STAMP)}"
    with folder_at(root) as descriptor, locked(descriptor), below(descriptor, (DELETED,), make=True) as deleted:
        if os.path.lexists(root / DELETED / kept):
            raise NotStored("it was deleted a moment ago; try again")
        with os_errors():
            os.rename(name, kept, src_dir_fd=descriptor, dst_dir_fd=deleted)
    return kept


def rewrite(folder: Path, name: str, edit: Callable[[str], str]) -> str:
    """Apply `edit` to a file and to each of its kept versions, keeping nothing of before. Returns the file's former
    text, "" if it was missing.

    If nothing changes the folder is only read. Raises PersonaError; some of the files may then be changed already.
    """
    with folder_at(folder) as descriptor:
        before, changed = _rewritten(descriptor, name, edit, write=False)
        if changed:
            with locked(descriptor):
                before, _ = _rewritten(descriptor, name, edit, write=True)
        return before


def before(folder: Path, name: str, changes: int) -> str:
    """Return a file's content before its last so many changes, 1 to VERSIONS. Raises NotFound if fewer are kept."""
    try:
        with folder_at(folder) as descriptor, below(descriptor, (HISTORY,)) as history:
            kept = _kept(history, name)
            if changes <= len(kept):
                return as_text(read_plain(kept[-changes], MAX_FILE_BYTES, history))
    except NotFound:
        kept = []
    raise NotFound(f"its history holds {len(kept)} changes")


def versions_of(folder: Path, name: str) -> list[Version]:
    """Return a file's kept former contents, oldest first. Raises PersonaError."""
    if name not in PERSONA_FILES:
        raise OutOfBounds("this is not a persona's file")
    found: list[Version] = []
    with contextlib.suppress(NotFound), folder_at(folder) as descriptor, below(descriptor, (HISTORY,)) as kept:
        for entry in _kept(kept, name):
            with contextlib.suppress(NotFound):  # dropped since it was listed
                text = as_text(read_plain(entry, MAX_FILE_BYTES, kept))
                found.append(Version(_replaced_at(entry), text))
    return found


def _rewritten(folder: int, name: str, edit: Callable[[str], str], *, write: bool) -> tuple[str, bool]:
    """Return the file's text, and whether `edit` changes it or one of its versions; with `write`, change them."""
    before, changed = _rewritten_one(folder, name, edit, write=write)
    with contextlib.suppress(NotFound), below(folder, (HISTORY,)) as history:
        for kept in _kept(history, name):
            changed |= _rewritten_one(history, kept, edit, write=write)[1]
    return before, changed


def _rewritten_one(folder: int, name: str, edit: Callable[[str], str], *, write: bool) -> tuple[str, bool]:
    try:
        text = as_text(read_plain(name, MAX_FILE_BYTES, folder))
    except NotFound:
        return "", False
    new = edit(text)
    if write and new != text:
        write_whole(folder, name, as_bytes(new))
    return text, new != text


def _keep(folder: int, name: str, data: bytes, now: float) -> None:
    with below(folder, (HISTORY,), make=True) as history:
        kept = _kept(history, name)
        number = int(kept[-1][-6:]) + 1 if kept else 1
        write_whole(history, f"{name}.{datetime.fromtimestamp(now, UTC).strftime(_STAMP)}-{number:06d}", data)
        for old in kept[: max(0, len(kept) + 1 - VERSIONS)]:
            with contextlib.suppress(FileNotFoundError), os_errors():
                os.unlink(old, dir_fd=history)


def _kept(history: int, name: str) -> list[str]:
    """Return the versions by their number, oldest first: a clock may go back."""
    with os_errors():
        found = [(match[3], entry) for entry in os.listdir(history) if (match := _VERSION.fullmatch(entry))]
    return [entry for _, entry in sorted(found) if entry.startswith(f"{name}.")]


def _replaced_at(entry: str) -> float:
    """When the content in that version was replaced; 0 for a name that no program of ours wrote."""
    match = _VERSION.fullmatch(entry)
    try:
        return datetime.strptime(match[2], _STAMP).replace(tzinfo=UTC).timestamp() if match else 0.0
    except ValueError:  # the 31st of February
        return 0.0


WORKSPACE = "workspace"


def remove_leftovers(folder: Path) -> int:
    """Clean a persona's folder, its history and its workspace. Returns the number removed. Blocks; raises
    PersonaError."""
    removed = 0
    with contextlib.suppress(NotFound), folder_at(folder) as persona:
        removed += _removed(persona, persona, 1)
        with contextlib.suppress(NotFound), below(persona, (HISTORY,)) as history:
            removed += _removed(history, persona, 1)
        with contextlib.suppress(NotFound), folder_at(folder / WORKSPACE) as workspace:
            removed += _removed(workspace, workspace, MAX_DEPTH)
    return removed


def _removed(folder: int, owner: int, depth: int) -> int:
    """Remove leftovers from a folder whose writers hold the lock of `owner`. A folder without any is only read."""
    if next(_leftovers(folder, depth), None) is None:
        return 0
    removed = 0
    with locked(owner), os_errors():
        for place, name in _leftovers(folder, depth):
            os.unlink(name, dir_fd=place)
            removed += 1
    return removed


def _leftovers(folder: int, depth: int) -> Iterator[tuple[int, str]]:
    """Yield each with the descriptor of its folder, down to `depth`. Links and hidden folders are not entered."""
    with os_errors():
        for path, folders, names, place in os.fwalk(".", dir_fd=folder):
            yield from ((place, name) for name in names if TEMPORARY.fullmatch(name))
            deep = path.count("/") + 1 >= depth
            folders[:] = [] if deep else [name for name in folders if not name.startswith(".")]
