"""The world of local mode: the same guild, channels, people and bots at every start.

Their ids are kept in data/local/ids.json, so that data/local still refers to them: the channels of notes, stops, what
`/forget me` looks for. Messages are not kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from agentic.local.discord.world import World

FILE = "ids.json"
MOST = 2**63


def kept_world(folder: Path, make: Callable[[Mapping[str, int]], World]) -> World:
    """Make a world with the ids of earlier starts, and keep new ids. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = _read(folder / FILE)
    world = make(known)
    ids = {**known, **world.named_ids()}
    if ids != known:
        beside = folder / f"{FILE}.new"
        beside.write_text(json.dumps(ids, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, folder / FILE)
    return world


def _read(path: Path) -> dict[str, int]:
    """Read the known ids; a missing or unreadable file counts as empty, and everything gets a new id."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(read, dict):
        return {}
    return {name: number for name, number in read.items() if type(number) is int and 0 < number < MOST}
