"""The personas of local mode: the program's own files, and a memory apart.

    data/local/personas/claude/soul.md → personas/claude/soul.md    a link, so an edit there counts here too
    data/local/personas/claude/memory.md, .history/, workspace/     local mode's own

What is tried here writes nothing into the folder that the real bots read, and that may be under version control.
Where PERSONAS_DIR names a folder, that one is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_personas.files import PERSONA_FILES

OWN = ("memory.md",)


def personas_apart(source: Path, folder: Path, agents: Iterable[str]) -> Path:
    """Makes `folder` the personas of `source` with memories of their own, and gives it back. Raises OSError."""
    for agent in agents:
        (folder / agent).mkdir(parents=True, exist_ok=True)
        for name in PERSONA_FILES:
            if name not in OWN:
                _link(folder / agent / name, (source / agent / name).absolute())
    return folder


def _link(here: Path, target: Path) -> None:
    """A file that local mode has made since nothing was there gives way to one that is there now."""
    if here.is_symlink() and here.readlink() == target and target.exists():
        return  # another local session of this folder may be reading it
    if here.is_symlink() or target.exists():
        here.unlink(missing_ok=True)
    if target.exists():
        here.symlink_to(target)
