"""The first start: create the files that boot.md names and that are missing.

    ## Required
    - soul.md
    - identity.md

    ## Optional
    - user.md

    ## Defaults

    ### user.md
    The initial content: all the text here, or the content of a single code block.

Without boot.md, or without one of its sections, built-in defaults apply. Existing files are never overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentic.personas.errors import NotFound, PersonaError
from agentic.personas.fields import Problems
from agentic.personas.files import MAX_FILE_BYTES, read_persona
from agentic.personas.markdown import Line, Section, closes, plain, scan, sections, under
from agentic.personas.safe_files import (
    PRIVATE_FOLDER,
    as_bytes,
    as_text,
    folder_at,
    hide_from_others,
    locked,
    os_errors,
    read_plain,
    write_whole,
)

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
