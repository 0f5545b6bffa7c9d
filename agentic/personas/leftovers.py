"""Remove temporary files of writes whose process was killed, at the start.

Such a file may contain what a person has had forgotten since, so it must not stay. Writers hold the folder's lock;
while this holds it, no temporary file belongs to a running write.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from agentic.personas.errors import NotFound
from agentic.personas.safe_files import TEMPORARY, below, folder_at, locked, os_errors
from agentic.personas.store import HISTORY
from agentic.personas.workspace import MAX_DEPTH

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
