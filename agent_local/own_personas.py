"""The personas of local mode: the program's own files, and a memory apart.

    data/local/personas/claude/soul.md → personas/claude/soul.md    a link, so an edit there counts here too
    data/local/personas/claude/memory.md, .history/, workspace/     local mode's own

What is tried here writes nothing into the folder that the real bots read, and that may be under version control.
Where PERSONAS_DIR names a folder, that one is taken as it is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from agent_personas.files import PERSONA_FILES

OWN = ("memory.md",)

log = logging.getLogger(__name__)


def personas_apart(source: Path, folder: Path, agents: Iterable[str]) -> Path:
    """Makes `folder` the personas of `source` with memories of their own, and gives it back. Raises OSError."""
    for agent in agents:
        (folder / agent).mkdir(parents=True, exist_ok=True)
        for name in PERSONA_FILES:
            if name not in OWN:
                _link(folder / agent / name, (source / agent / name).absolute())
    return folder


def to_edit(file: Path) -> Path:
    """The file whose edit stays: of a link what it leads to, since many an editor puts a file in the place of a
    link."""
    return file.readlink() if file.is_symlink() else file


def _link(here: Path, target: Path) -> None:
    """A file that local mode has made since nothing was there gives way to one that is there now, and so does one that
    an editor has put in the place of the link: that is kept beside it."""
    if here.is_symlink() and here.readlink() == target and target.exists():
        return  # another local session of this folder may be reading it
    if not here.is_symlink() and here.is_file() and target.exists() and here.read_bytes() != target.read_bytes():
        kept = here.with_name(f"{here.name}.edited")
        os.replace(here, kept)
        log.warning("%s counts instead of %s, which was edited: its text is kept in %s", target, here, kept.name)
    elif here.is_symlink() or target.exists():
        here.unlink(missing_ok=True)
    if target.exists():
        here.symlink_to(target)
