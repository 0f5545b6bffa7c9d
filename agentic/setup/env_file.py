"""Find `.env` and write settings to it atomically. Only its owner can read it, and the old file is kept.

Lines that don't set a changed setting stay as they are, byte for byte.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dotenv.parser import parse_stream

from agentic.process.root import ROOT

NAME = ".env"
EXAMPLE = ".env.example"
_OWNER_ONLY = 0o600
_WORLD = stat.S_IROTH | stat.S_IWOTH
_PLAIN = re.compile(r"[A-Za-z0-9_./:,+=@%~-]*")
# The parts of a line as dotenv's parser reads it: up to the value, the value, and a comment with the line's end.
_LINE = re.compile(
    r"""
      (?P<head>\s*(?:export[^\S\r\n]+)?(?:'[^']+'|[^=\#\s]+)[^\S\r\n]*=(?:[^\S\r\n]*(?![\s\#]))?)
      (?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\r\n]*?)
      (?P<tail>(?:[^\S\r\n]+\#[^\r\n]*)?[^\S\r\n]*(?:\r\n|\r|\n)?)\Z
    """,
    re.VERBOSE | re.DOTALL,
)
_SHOWN = re.compile(r"\s*#+[^\S\r\n]*(?P<key>[A-Za-z_][A-Za-z0-9_]*)=")


class CannotWriteError(Exception):
    """`.env` can't be written; the text says why and what to do, in one line."""


@dataclass(frozen=True, slots=True)
class EnvPlace:
    """`path` is the file itself, with links resolved. `is_link`: the folder's `.env` is a link."""

    path: Path
    is_link: bool = False

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def open_to_others(self) -> bool:
        """Whether every user of the machine can read or change it."""
        return self.exists and bool(self.path.stat().st_mode & _WORLD)

    @property
    def open_to_group(self) -> bool:
        return self.exists and bool(self.path.stat().st_mode & stat.S_IRGRP)


def find_place(folder: Path) -> EnvPlace:
    """Return the place of the folder's `.env`. Raises CannotWriteError if it can't be written."""
    named = folder / NAME
    try:
        path = named.resolve()
        found = path.stat() if path.exists() else None
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise CannotWriteError(f"{path} isn't a regular file. Move it away, then start again.")
        if found is not None:
            read_text(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        reason = (isinstance(error, OSError) and error.strerror) or "it is a link to itself"
        raise CannotWriteError(f"{named} can't be read ({reason}). Fix that, then start again.") from None
    if found is not None and (not found.st_mode & stat.S_IWUSR or not os.access(path, os.W_OK)):
        raise CannotWriteError(f"{path} is read-only. Make it writable: chmod u+w {path}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        advice = "Run the setup as the owner of that folder, or in another folder."
        raise CannotWriteError(f"This user can't write to {path.parent}. {advice}")
    return EnvPlace(path, is_link=named.is_symlink())


def read_text(path: Path) -> str:
    """Return the file's text with its line endings, or "" if it doesn't exist. Raises OSError, CannotWriteError."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise CannotWriteError(f"{path} isn't UTF-8 text. Move it away, then start again.") from None


def template(folder: Path) -> str:
    """Return the text for a new `.env`: the .env.example of the folder, or else of the program."""
    for path in (folder / EXAMPLE, ROOT / EXAMPLE):
        with contextlib.suppress(OSError, CannotWriteError):
            if text := read_text(path):
                return text
    return ""


def write_settings(place: EnvPlace, changes: Mapping[str, str], first_text: str, now: float) -> Path | None:
    """Put the settings into the file, or into `first_text` if there is no file yet.

    Returns the path of the backup, or None if there was no file. Raises OSError; then nothing has changed. The file
    keeps its owner, so that root can do this for the user that runs the bots; a new file gets the folder's owner.
    """
    path, existed = place.path, place.exists
    before = path.stat() if existed else path.parent.stat()
    # The group keeps its access if only the group had access, as for a service's user.
    shared = existed and before.st_mode & stat.S_IRGRP and not before.st_mode & _WORLD
    mode = _OWNER_ONLY | (stat.S_IRGRP if shared else 0)
    text = with_settings(read_text(path) if existed else first_text, changes)
    made: list[Path] = []
    try:
        fresh = _create(path.parent, [f".env.new-{os.getpid()}"], text.encode(), before, mode)
        made.append(fresh)
        old = None
        if existed:
            stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
            names = [f"{path.name}.old-{stamp}{more}" for more in ("", *(f"-{n}" for n in range(2, 10)))]
            old = _create(path.parent, names, path.read_bytes(), before, _OWNER_ONLY)
            made.append(old)
        os.rename(fresh, path)
    except BaseException:
        # Clean up only if the new file isn't in its place: an interruption may come after the rename.
        if made and made[0].exists():
            for one in made:
                one.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return old


def _create(folder: Path, names: list[str], data: bytes, owner: os.stat_result, mode: int) -> Path:
    """Write a new file under the first unused name, and flush it to disk."""
    for name in names:
        path = folder / name
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
        except FileExistsError:
            continue
        try:
            with open(descriptor, "wb") as file:
                now = os.fstat(file.fileno())
                try:  # give it to the owner (as root) and to the group that can read it
                    if os.geteuid() == 0 and (now.st_uid, now.st_gid) != (owner.st_uid, owner.st_gid):
                        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
                    elif mode & stat.S_IRGRP and now.st_gid != owner.st_gid:
                        os.fchown(file.fileno(), -1, owner.st_gid)
                except PermissionError:
                    mode &= ~stat.S_IRGRP
                os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path
    raise FileExistsError(17, "a file of that name exists", str(folder / names[-1]))


def with_settings(text: str, changes: Mapping[str, str]) -> str:
    """Return the text with these settings; an empty value empties a setting. Keys are compared in any case.

    A line that sets a key keeps its comment. A key without a line gets one below the last comment that shows it
    (`# KEY=…`), or else at the end.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    end = "\r\n" if "\r\n" in text else "\n"
    bindings = list(parse_stream(io.StringIO(text.removeprefix(mark))))
    pieces: list[str] = []
    present: set[str] = set()
    shown: dict[str, int] = {}  # keys that a comment shows
    for number, binding in enumerate(bindings):
        original = binding.original.string
        pieces.append(original)
        if not binding.key and not binding.error and (match := _SHOWN.match(original)):
            shown[match["key"].upper()] = number
        key = binding.key.upper() if binding.key and not binding.error else ""
        present.add(key)
        if key not in changes or (binding.value or "").strip() == changes[key]:
            continue
        if match := _LINE.match(original):
            pieces[-1] = f"{match['head']}{quoted(changes[key])}{match['tail']}"
        else:  # a key alone, without an equals sign
            bare = original.rstrip("\r\n")
            pieces[-1] = f"{bare}={quoted(changes[key])}{original[len(bare) :]}"
    for key, value in changes.items():
        if key in present or not value:
            continue
        line = f"{key}={quoted(value)}{end}"
        if key in shown:
            pieces[shown[key]] = _with_end(pieces[shown[key]], end) + line
        else:
            pieces[-1:] = [_with_end(pieces[-1], end), line] if pieces else [line]
    return mark + "".join(pieces)


def quoted(value: str) -> str:
    """Quote the value for a .env file, if it needs quotation marks."""
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _with_end(piece: str, end: str) -> str:
    return piece if not piece or piece.endswith(("\r", "\n")) else piece + end
