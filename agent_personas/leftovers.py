"""Temporary files that a write left behind when its process was killed: removed at the start.

A leftover may hold what somebody has had forgotten since, so it may not stay. Whoever writes holds the folder's lock;
under the same lock no temporary file belongs to a living write.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from agent_personas.errors import NotFound
from agent_personas.safe_files import TEMPORARY, below, folder_at, locked, told
from agent_personas.store import HISTORY
from agent_personas.workspace import MAX_DEPTH

WORKSPACE = "workspace"


def remove_leftovers(folder: Path) -> int:
    """Removes them from a persona's folder, its history and its workspace; how many. Blocks; raises PersonaError."""
    removed = 0
    with contextlib.suppress(NotFound), folder_at(folder) as persona:
        removed += _removed(persona, persona, 1)
        with contextlib.suppress(NotFound), below(persona, (HISTORY,)) as history:
            removed += _removed(history, persona, 1)
        with contextlib.suppress(NotFound), folder_at(folder / WORKSPACE) as workspace:
            removed += _removed(workspace, workspace, MAX_DEPTH)
    return removed


def _removed(folder: int, owner: int, depth: int) -> int:
    """How many are gone from a folder, whose writers hold the lock of `owner`. One without any is only read."""
    if next(_leftovers(folder, depth), None) is None:
        return 0
    removed = 0
    with locked(owner), told():
        for place, name in _leftovers(folder, depth):
            os.unlink(name, dir_fd=place)
            removed += 1
    return removed


def _leftovers(folder: int, depth: int) -> Iterator[tuple[int, str]]:
    """Each with the descriptor of the folder that it is in, so many folders deep. No link is followed, and no folder
    whose name begins with a period is entered."""
    with told():
        for path, folders, names, place in os.fwalk(".", dir_fd=folder):
            yield from ((place, name) for name in names if TEMPORARY.fullmatch(name))
            deep = path.count("/") + 1 >= depth
            folders[:] = [] if deep else [name for name in folders if not name.startswith(".")]
