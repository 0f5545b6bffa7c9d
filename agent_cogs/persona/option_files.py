"""The owner's option files: YAML on this machine, each a layer of options.

    config/shared.yaml                  all bots
    config/guilds/<guild id>.yaml       all bots in one server
    config/bots/<bot>.yaml              one bot
    config/bots/<bot>.<guild id>.yaml   one bot in one server

They are looked at every few seconds, away from the turns, and read again when one of them has changed. What is wrong
in one is told once, with its place, and left out; a file that is no YAML (one that is being written, perhaps) keeps
what it said before.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agent_context.steering.options import read_options

LOOK_EVERY = 3.0  # seconds
MAX_BYTES = 200_000

_GUILD = re.compile(r"guilds/(\d{1,20})\.yaml")
_BOT = re.compile(r"bots/([^./]+)(?:\.(\d{1,20}))?\.yaml")

log = logging.getLogger(__name__)

Layer = Mapping[str, Any]
Stamp = tuple[int, int]  # when it was written, in nanoseconds, and bytes


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: Stamp
    layer: Layer = field(default_factory=dict)


class OptionFiles:
    """The files below `folder`, which need not be there; `bots` are the names that a file may be for.

    `version` changes whenever a layer may have.
    """

    def __init__(self, folder: Path, bots: Collection[str]) -> None:
        self._folder, self._bots = folder, frozenset(bots)
        self._files: dict[str, _Read] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._looked = False
        self.version = 0

    def layers(self, bot: str, guild_id: int | None) -> list[Layer]:
        """A bot's layers in a server, lowest first."""
        names = ("shared.yaml", f"guilds/{guild_id}.yaml", f"bots/{bot}.yaml", f"bots/{bot}.{guild_id}.yaml")
        return [self._files[name].layer for name in names if name in self._files]

    def problems(self) -> list[str]:
        """One line for each thing that is wrong, as it was told, with its file."""
        return [f"{self._folder / name}: {problem}" for name, told in sorted(self._told.items()) for problem in told]

    async def run(self) -> None:
        """Looks for changes until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Reads what has changed since the last look. Blocks for as long as the disk takes."""
        found, first = self._found(), not self._looked
        self._looked = True
        changed = {name: stamp for name, stamp in found.items() if self._stamp_of(name) != stamp}
        gone = self._files.keys() - found.keys()
        if not changed and not gone:
            return
        files = {name: read for name, read in self._files.items() if name in found}
        files |= {name: self._read(name, stamp) for name, stamp in changed.items()}
        self._told = {name: told for name, told in self._told.items() if name in found}
        before, self._files = self._files, files  # at once: turns read meanwhile
        self.version += 1
        if not first:
            self._tell_of_models(before)

    def _tell_of_models(self, before: Mapping[str, _Read]) -> None:
        """Only the option `model` is read at the start (agent_settings/models.py)."""
        for name in sorted(before.keys() | self._files.keys()):
            was, now = (files[name].layer.get("model") if name in files else None for files in (before, self._files))
            if was != now and not self._odd(name):
                log.warning("%s: model: has changed, which counts from the next start on", self._folder / name)

    def _stamp_of(self, name: str) -> Stamp | None:
        read = self._files.get(name)
        return None if read is None else read.stamp

    def _found(self) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        for path in (*self._folder.glob("*.yaml"), *self._folder.glob("*/*.yaml")):
            name = path.relative_to(self._folder).as_posix()
            if name != "shared.yaml" and not name.startswith(("guilds/", "bots/")):
                continue  # somebody else's
            try:
                stat = path.stat()
            except OSError as error:
                log.debug("%s is gone again: %s", name, type(error).__name__)
                continue
            found[name] = (stat.st_mtime_ns, stat.st_size)
        return found

    def _read(self, name: str, stamp: Stamp) -> _Read:
        before = self._files.get(name, _Read(stamp)).layer
        problems: list[str] = []
        if (odd := self._odd(name)) is not None:
            layer: Layer | None = {}
            problems.append(odd)
        elif stamp[1] > MAX_BYTES:
            layer = None
            problems.append(f"more than {MAX_BYTES} bytes")
        else:
            layer = self._layer(name, problems)
        self._tell(name, problems)
        return _Read(stamp, before if layer is None else layer)

    def _odd(self, name: str) -> str | None:
        if name == "shared.yaml" or _GUILD.fullmatch(name):
            return None
        bot = _BOT.fullmatch(name)
        if bot is None:
            return "is not used: expected guilds/<guild id>.yaml, bots/<bot>.yaml or bots/<bot>.<guild id>.yaml"
        return None if bot[1] in self._bots else "is not used: there is no such bot"

    def _layer(self, name: str, problems: list[str]) -> Layer | None:
        """What of the file can be used; None where it cannot be read at all."""
        try:
            text = (self._folder / name).read_text(encoding="utf-8-sig")
            layer, wrong = read_layer(text)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
            problems.append(_reason(error))
            return None
        problems += wrong
        return layer

    def _tell(self, name: str, problems: list[str]) -> None:
        if self._told.get(name, ()) == tuple(problems):
            return
        self._told[name] = tuple(problems)
        for problem in problems:
            log.warning("%s: %s", self._folder / name, problem)


def read_layer(text: str) -> tuple[dict[str, Any], list[str]]:
    """The usable part of an option file and one line for each option that is not, with its place.

    Raises yaml.YAMLError for what is no YAML, ValueError for a YAML text that is no map of options.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    loaded = yaml.safe_load(text)
    if node is None or loaded is None:
        return {}, []
    if not isinstance(loaded, dict) or not isinstance(node, yaml.MappingNode):
        raise ValueError("expected lines like `option: value`")
    lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    layer: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in loaded.items():
        usable, wrong = read_options({key: value})
        layer |= usable
        problems += [f"line {lines.get(str(key), 1)}: {problem}" for problem in wrong]
    return layer, problems


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: this is no YAML ({error.problem})"
    if isinstance(error, OSError | UnicodeDecodeError):
        return f"cannot be read as UTF-8 text ({type(error).__name__})"
    return str(error) if isinstance(error, ValueError) else "this is no YAML"
