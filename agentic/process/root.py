"""The program's folder, which contains run_all.py, pyproject.toml, docs/, and personas/; a probe of any folder."""

import errno
import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROBE = bytes(4096)  # a full disk still creates empty files


def write_probe(folder: Path) -> None:
    """Create the folder if it's missing, and write a file that vanishes. Raises OSError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(PROBE)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error  # not the vanished file's name
