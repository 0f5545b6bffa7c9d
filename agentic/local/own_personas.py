"""The personas of local mode: the program's own files, with a separate memory.

    data/local/personas/claude/soul.md → personas/claude/soul.md    a link, so an edit there counts here too
    data/local/personas/claude/memory.md, .history/, workspace/     local mode's own

So local mode writes nothing into the folder of the real bots, be it `personas` or that of PERSONAS_DIR.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from agentic.agent.roster import PersonaFolders
from agentic.personas.files import PERSONA_FILES

OWN = ("memory.md",)

log = logging.getLogger(__name__)


def link_personas(source: Path, folder: Path, agents: Iterable[str]) -> Path:
    """Link the persona files of `source` into `folder`, except for memories; return `folder`. `agents` have one even
    where `source` has none; links to a persona that is gone from there go too. Raises OSError."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    before = (entry.name for entry in folder.iterdir() if entry.is_dir())
    for agent in sorted({*agents, *PersonaFolders(source).refresh(), *before}):
        (folder / agent).mkdir(0o700, exist_ok=True)
        for name in PERSONA_FILES:
            if name not in OWN:
                _link(folder / agent / name, (source / agent / name).absolute())
    return folder


def to_edit(file: Path) -> Path:
    """The file to edit: a link's target, since many editors replace a link by a file."""
    return file.readlink() if file.is_symlink() else file


def _link(here: Path, target: Path) -> None:
    """Replace a file in the place of the link: one that local mode created while the target did not exist, or one
    that an editor put there, which is kept under another name."""
    if here.is_symlink() and here.readlink() == target and target.exists():
        return  # another local session of this folder may be reading it
    if not here.is_symlink() and here.is_file() and target.exists() and here.read_bytes() != target.read_bytes():
        kept = here.with_name(f"{here.name}.edited")
        os.replace(here, kept)
        log.warning("%s was edited and is not used, %s is: the edited text is kept in %s", here, target, kept.name)
    elif here.is_symlink() or target.exists():
        here.unlink(missing_ok=True)
    if target.exists():
        here.symlink_to(target)
