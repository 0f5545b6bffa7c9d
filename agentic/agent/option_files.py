"""Read the owner's option files: YAML, each a layer of options.

    config/shared.yaml                  all bots
    config/guilds/<guild id>.yaml       all bots in one server
    config/bots/<bot>.yaml              one bot
    config/bots/<bot>.<guild id>.yaml   one bot in one server

They are checked every few seconds, outside of turns, and read again after a change. A wrong option is logged once, with
its place, and skipped; a file that is not valid YAML (perhaps half written) keeps its previous layer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agentic.context.options import read_options

CHECK_EVERY = 3.0  # seconds
MAX_BYTES = 200_000

_GUILD = re.compile(r"guilds/(\d{1,20})\.yaml")
_BOT = re.compile(r"bots/([^./]+)(?:\.(\d{1,20}))?\.yaml")

log = logging.getLogger(__name__)

Layer = Mapping[str, Any]
Stamp = tuple[int, int]  # modification time in nanoseconds, size in bytes
UNREAD: Stamp = (-1, -1)  # unlike any file's, so it is read again


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: Stamp
    layer: Layer = field(default_factory=dict)


class OptionFiles:
    """The option files below `folder`, which need not exist; `bots` are the valid bot names.

    `version` changes whenever a layer may have changed.
    """

    def __init__(self, folder: Path, bots: Collection[str]) -> None:
        self._folder, self._bots = folder, frozenset(bots)
        self._files: dict[str, _Read] = {}
        self._reported: dict[str, tuple[str, ...]] = {}
        self._checked = False
        self.version = 0

    def layers(self, bot: str, guild_id: int | None) -> list[Layer]:
        """A bot's layers in a server, lowest first."""
        return [layer for _, layer in self.named(bot, guild_id)]

    def named(self, bot: str, guild_id: int | None) -> list[tuple[str, Layer]]:
        """The same layers with the names of their files, below the folder."""
        names = ("shared.yaml", f"guilds/{guild_id}.yaml", f"bots/{bot}.yaml", f"bots/{bot}.{guild_id}.yaml")
        return [(name, self._files[name].layer) for name in names if name in self._files]

    def problems(self) -> list[str]:
        """One line for each problem, as logged, with its file."""
        return [
            f"{self._folder / name}: {problem}" for name, found in sorted(self._reported.items()) for problem in found
        ]

    async def run(self) -> None:
        """Read changes until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read the files that have changed since the last call. Blocks while reading from disk.

        What cannot be listed or read keeps its previous options, and is tried again.
        """
        try:
            found = self._found()
        except OSError as error:
            self._report(".", [f"{_reason(error)}; the options stay as they are"])
            return
        self._report(".", [])
        first, self._checked = not self._checked, True
        changed = {name: stamp for name, stamp in found.items() if self._stamp_of(name) != stamp}
        gone = self._files.keys() - found.keys()
        if not changed and not gone:
            return
        files = {name: read for name, read in self._files.items() if name in found}
        files |= {name: self._read(name, stamp) for name, stamp in changed.items()}
        self._reported = {name: problems for name, problems in self._reported.items() if name in found}
        before, self._files = self._files, files  # in one assignment: turns read concurrently
        self.version += 1
        if not first:
            self._warn_of_models(before)

    def _warn_of_models(self, before: Mapping[str, _Read]) -> None:
        """Warn that the option `model` is read at the start only (agentic/settings/models.py)."""
        for name in sorted(before.keys() | self._files.keys()):
            was, now = (files[name].layer.get("model") if name in files else None for files in (before, self._files))
            if was != now and not self._name_problem(name):
                log.warning("%s: model: changed; restart the bots to use it", self._folder / name)

    def _stamp_of(self, name: str) -> Stamp | None:
        read = self._files.get(name)
        return None if read is None else read.stamp

    def _found(self) -> dict[str, Stamp]:
        """The option files that exist. Raises OSError."""
        found: dict[str, Stamp] = {}
        for folder in ("", "guilds/", "bots/"):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder / folder) as entries:
                for entry in entries:
                    name = folder + entry.name
                    if name.endswith(".yaml") and (folder or name == "shared.yaml"):
                        with suppress(FileNotFoundError):  # removed just now, or a link to nothing
                            stat = entry.stat()
                            found[name] = (stat.st_mtime_ns, stat.st_size)
        return found

    def _read(self, name: str, stamp: Stamp) -> _Read:
        before = self._files.get(name, _Read(stamp)).layer
        still = "the options that it had before stay in effect" if before else "none of its options is in effect"
        problems: list[str] = []
        is_unread = False
        if (problem := self._name_problem(name)) is not None:
            layer: Layer | None = {}
            problems.append(problem)
        elif stamp[1] > MAX_BYTES:
            layer = None
            problems.append(f"more than {MAX_BYTES} bytes; {still}")
        else:
            try:
                layer = self._layer(name, problems, still)
            except OSError as error:
                layer, is_unread = None, True
                problems.append(f"{_reason(error)}; {still}")
        self._report(name, problems)
        return _Read(UNREAD if is_unread else stamp, before if layer is None else layer)

    def _name_problem(self, name: str) -> str | None:
        if name == "shared.yaml" or _GUILD.fullmatch(name):
            return None
        bot = _BOT.fullmatch(name)
        if bot is None:
            return "is not used: name it guilds/<guild id>.yaml, bots/<bot>.yaml or bots/<bot>.<guild id>.yaml"
        return None if bot[1] in self._bots else "is not used: there is no such bot"

    def _layer(self, name: str, problems: list[str], still: str) -> Layer | None:
        """The usable options of the file; None if it is no such text. `still`: what is in effect then. Raises OSError
        if it cannot be read now."""
        try:
            text = (self._folder / name).read_text(encoding="utf-8-sig")
            layer, wrong = read_layer(text)
        except (UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
            problems.append(f"{_reason(error)}; {still}")
            return None
        problems += wrong
        return layer

    def _report(self, name: str, problems: list[str]) -> None:
        if self._reported.get(name, ()) == tuple(problems):
            return
        self._reported[name] = tuple(problems)
        for problem in problems:
            log.warning("%s: %s", self._folder / name, problem)


def read_layer(text: str) -> tuple[dict[str, Any], list[str]]:
    """The usable options of a file, and one line with its place for each other one.

    Raises yaml.YAMLError for invalid YAML, ValueError for YAML that is not a map of options.
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
        return f"line {mark.line + 1}, column {mark.column + 1}: not valid YAML ({error.problem})"
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror or error})"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    return str(error) if isinstance(error, ValueError) else "not valid YAML"
