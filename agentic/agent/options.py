"""The options of each agent in each channel, from layers. Lowest first:

    built in < .env < front matter < files < live (/config set) < pins of a thread's channel < pins, older first

OptionBook merges the layers and caches a result while its layers stay the same. It reads nothing: files and live
options are read outside of turns, and pins are in the transcripts.

OptionFiles has the owner's YAML files: shared.yaml, guilds/<guild>.yaml, bots/<bot>.yaml, bots/<bot>.<guild>.yaml. They
are checked every few seconds. A wrong option is logged once, with its place, and skipped; a file that isn't valid
YAML (perhaps half written) keeps its previous layer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import yaml
from cachetools import LRUCache

from agent_config import Settings
from agentic.chat.outlet import CommandReplies, Outlet
from agentic.context.commands import CommandProblem
from agentic.context.entries import Entry
from agentic.context.options import LIVE, MAX_MESSAGES, Options, Pin, options_of, read_options, read_pins
from agentic.process.tasks import BackgroundTasks
from agentic.state.live_options import LiveOptions
from agentic.state.posts import Notices

Layer = Mapping[str, Any]
Pins = tuple[tuple[Entry, ...], ...]  # of a thread's channel, then of the channel itself
Stamp = tuple[int, int]  # modification time in nanoseconds, size in bytes

REMEMBERED = 2000  # results: agents times channels
MARGIN = 200  # messages besides a window's: hidden ones, and parts of others

CHECK_EVERY = 3.0  # seconds
MAX_BYTES = 200_000  # of an option file
UNREAD: Stamp = (-1, -1)  # unlike any file's, so it is read again
_FILE_NAME = re.compile(r"shared\.yaml|guilds/\d{1,20}\.yaml|bots/(?P<bot>[^./]+)(?:\.\d{1,20})?\.yaml")

MAX_LINE = 300  # characters of one problem
MAX_TEXT = 1_900  # characters of a reply; Discord takes 2,000
MAX_NAMES = 500  # characters of the names of options whose problems have no room

log = logging.getLogger(__name__)


class OptionScope(Protocol):
    """A channel that options are set for: an outlet's view, the place of a command, an arena."""

    @property
    def channel_id(self) -> int: ...
    @property
    def guild_id(self) -> int | None: ...
    @property
    def pins(self) -> Pins: ...
    @property
    def parent(self) -> OptionScope | None: ...


@dataclass(frozen=True, slots=True)
class _Spot:
    """A channel as options see it; `channels`: of a thread its parent, then itself."""

    channels: tuple[int, ...]
    guild_id: int | None
    pins: Pins

    @classmethod
    def of(cls, place: OptionScope) -> _Spot:
        above = () if place.parent is None else (place.parent.channel_id,)
        return cls((*above, place.channel_id), place.guild_id, place.pins)


@dataclass(frozen=True, slots=True)
class OptionSource:
    """The source of an option's value: `kind` is built_in, env, persona, file, live or pin; `place` names the file,
    the live entry's place and agent ("c7:claude"), or the pinned message."""

    kind: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class EffectiveOptions:
    """An agent's options in a channel, its names there, and the pins among the layers. `own_depth`: the number of
    messages that it sees is set there, in place of the theme's."""

    options: Options
    names: frozenset[str]
    pins: tuple[Pin, ...]
    own_depth: bool = False


def no_layer(_: str) -> Layer:
    return {}


class OptionBook:
    """Options of all agents. `names` maps keys to shown names, `base` is the layer of .env, `extra_layer` returns the
    layer of an agent's persona."""

    def __init__(
        self,
        names: Mapping[str, str],
        base: Layer,
        files: OptionFiles | None = None,
        extra_layer: Callable[[str], Mapping[Any, Any]] = no_layer,
        live: LiveOptions | None = None,
        reporter: PinProblemReporter | None = None,
    ) -> None:
        self._names, self._base, self._extra = names, base, extra_layer
        self._files, self._live, self._reporter = files, live, reporter
        self._known: OrderedDict[tuple[str, int], tuple[tuple[object, ...], EffectiveOptions]] = OrderedDict()
        self._channel_names: LRUCache[int, tuple[tuple[object, ...], Mapping[str, str]]] = LRUCache(REMEMBERED)

    async def run(self) -> None:
        if self._files is not None:
            await self._files.run()

    @property
    def usual_reach(self) -> int:
        """The messages of a channel that must be known with the options of .env alone."""
        return reach_of(options_of([self._base]))

    def options(self, agent: str, place: OptionScope) -> Options:
        return self.of(agent, place).options

    def of(self, agent: str, place: OptionScope) -> EffectiveOptions:
        return self._of(agent, _Spot.of(place))

    def sources(self, agent: str, place: OptionScope) -> dict[str, OptionSource]:
        """Return the source of each option's value in a channel; options that no layer sets are built in."""
        spot = _Spot.of(place)
        layers: list[tuple[OptionSource, Layer]] = [(OptionSource("env"), self._base)]
        layers.append((OptionSource("persona", "identity.md"), read_options(self._extra(agent))[0]))
        if self._files is not None:
            named = self._files.named(agent, spot.guild_id)
            layers += [(OptionSource("file", name), layer) for name, layer in named]
        layers += [
            (OptionSource("live", f"{place}:{who}"), layer) for (place, who), layer in self._set_live(agent, spot)
        ]
        layers += [(OptionSource("pin", str(pin.message_id)), pin.layer) for pin in self._of(agent, spot).pins]
        return {option: source for source, layer in layers for option in layer}

    def report(self, agent: str, faults: Iterable[CommandProblem], outlet: Outlet) -> None:
        """Tell people what of their commands in a channel can't be used."""
        if self._reporter is not None:
            self._reporter.report(agent, faults, outlet)

    def _of(self, agent: str, spot: _Spot) -> EffectiveOptions:
        key, extra = (agent, spot.channels[-1]), self._extra(agent)
        made_of = (self._versions(), extra, spot)
        known = self._known.get(key)
        if known is not None and known[0] == made_of:
            return known[1]
        front, _ = read_options(extra)
        files = self._files.layers(agent, spot.guild_id) if self._files is not None else ()
        layers, live = [self._base, front, *files], [layer for _, layer in self._set_live(agent, spot)]
        below = options_of(layers, live)
        names = self._goes_by(agent, below)
        pins = tuple(pin for pinned in spot.pins for pin in read_pins(pinned, below.config_roles, names))
        above = [*live, *(pin.layer for pin in pins)]
        options = options_of(layers, above) if pins else below
        own_depth = any("max_messages" in layer for layer in (*layers[1:], *above))
        found = EffectiveOptions(options, self._goes_by(agent, options), pins, own_depth)
        self._known[key] = (made_of, found)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    def channel_names(self, place: OptionScope) -> Mapping[str, str]:
        """Return the agents with another name than their own in the channel: key → that name. A persona's layer sets no
        name, so only the other layers change them."""
        spot = _Spot.of(place)
        made_of = (self._versions(), tuple(self._names), spot)
        known = self._channel_names.get(spot.channels[-1])
        if known is not None and known[0] == made_of:
            return known[1]
        found = {agent: self._of(agent, spot).options.name for agent in self._names}
        names = {agent: name for agent, name in found.items() if name is not None}
        self._channel_names[spot.channels[-1]] = (made_of, names)
        return names

    def _versions(self) -> tuple[int, ...]:
        return tuple(0 if source is None else source.version for source in (self._files, self._live))

    def _set_live(self, agent: str, spot: _Spot) -> list[tuple[tuple[str, str], Layer]]:
        """Return the valid live layers that apply to an agent there, lowest first."""
        if self._live is None:
            return []
        places = self._live.layers(agent, spot.guild_id, spot.channels)
        return [(place, read_options(self._live.layer(*place), LIVE)[0]) for place in places]

    def _goes_by(self, agent: str, options: Options) -> frozenset[str]:
        """The agent's key, and its inner name or else its shown name."""
        return frozenset({agent, options.name or self._names.get(agent, agent)})


def load_options(
    settings: Settings,
    names: Mapping[str, str],
    extra_layer: Callable[[str], Mapping[Any, Any]] = no_layer,
    live: LiveOptions | None = None,
    notices: Notices | None = None,
) -> OptionBook:
    """Build the options from the files of these settings, as they are now."""
    files = OptionFiles(settings.config_files_dir, tuple(settings.agents))
    files.refresh()
    reporter = PinProblemReporter(notices) if notices is not None else None
    return OptionBook(names, base_layer(settings), files, extra_layer, live, reporter)


def reach_of(options: Options) -> int:
    """The messages of a channel that must be known for a window to roll as it should."""
    return options.max_messages + options.step(options.max_messages) + MARGIN


def base_layer(settings: Settings) -> dict[str, Any]:
    return {"max_messages": min(settings.context_window_size, MAX_MESSAGES)}


class OptionFiles:
    """The option files below `folder`, which need not exist; `bots` are the valid bot names.

    `version` changes whenever a layer may have changed.
    """

    def __init__(self, folder: Path, bots: Collection[str]) -> None:
        self._folder, self._bots = folder, frozenset(bots)
        self._files: dict[str, tuple[Stamp, Layer]] = {}
        self._reported: dict[str, tuple[str, ...]] = {}
        self._checked = False
        self.version = 0

    def layers(self, bot: str, guild_id: int | None) -> list[Layer]:
        """A bot's layers in a server, lowest first."""
        return [layer for _, layer in self.named(bot, guild_id)]

    def named(self, bot: str, guild_id: int | None) -> list[tuple[str, Layer]]:
        """The same layers with the names of their files, below the folder."""
        names = ("shared.yaml", f"guilds/{guild_id}.yaml", f"bots/{bot}.yaml", f"bots/{bot}.{guild_id}.yaml")
        return [(name, self._files[name][1]) for name in names if name in self._files]

    def problems(self) -> list[str]:
        """One line for each problem, as logged, with its file."""
        return [
            f"{self._folder / name}: {problem}" for name, found in sorted(self._reported.items()) for problem in found
        ]

    async def run(self) -> None:
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
        changed = {n: stamp for n, stamp in found.items() if n not in self._files or self._files[n][0] != stamp}
        gone = self._files.keys() - found.keys()
        if not changed and not gone:
            return
        files = {name: read for name, read in self._files.items() if name in found}
        files |= {name: self._read(name, stamp) for name, stamp in changed.items()}
        self._reported = {name: problems for name, problems in self._reported.items() if name in found}
        before, self._files = self._files, files  # in one assignment: turns read concurrently
        self.version += 1
        for name in sorted(before.keys() | files.keys()) if not first else ():
            was, now = (read[name][1].get("model") if name in read else None for read in (before, files))
            if was != now and not self._name_problem(name):  # read at the start only (agentic/settings/models.py)
                log.warning("%s: model: changed; restart the bots to use it", self._folder / name)

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

    def _read(self, name: str, stamp: Stamp) -> tuple[Stamp, Layer]:
        before: Layer = self._files[name][1] if name in self._files else {}
        still = "the options that it had before stay in effect" if before else "none of its options is in effect"
        layer = before
        if (problem := self._name_problem(name)) is not None:
            layer, problems = {}, [problem]
        elif stamp[1] > MAX_BYTES:
            problems = [f"more than {MAX_BYTES} bytes; {still}"]
        else:
            try:
                layer, problems = read_layer((self._folder / name).read_text(encoding="utf-8-sig"))
            except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
                problems = [f"{_reason(error)}; {still}"]
                if isinstance(error, OSError):
                    stamp = UNREAD
        self._report(name, problems)
        return stamp, layer

    def _name_problem(self, name: str) -> str | None:
        if (form := _FILE_NAME.fullmatch(name)) is None:
            return "is not used: name it guilds/<guild id>.yaml, bots/<bot>.yaml or bots/<bot>.<guild id>.yaml"
        return None if form["bot"] is None or form["bot"] in self._bots else "is not used: there is no such bot"

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


class PinProblemReporter:
    """Send the replies in the background; nothing waits for them or depends on them."""

    def __init__(self, reported: Notices) -> None:
        self._reported = reported
        self._background = BackgroundTasks()
        self._seen: set[tuple[str, CommandProblem]] = set()

    def report(self, agent: str, faults: Iterable[CommandProblem], outlet: Outlet) -> None:
        """`faults` as they are found in a channel; in a thread, its channel may hold some of the pins."""
        for fault in faults:
            if (agent, fault) in self._seen:
                continue
            self._seen.add((agent, fault))
            here = fault.command == "history" or any(entry.id == fault.message_id for entry in outlet.view.pins[-1])
            log.info(".%s of message %d not used: %s", fault.command, fault.message_id, "; ".join(fault.lines))
            if (replies := outlet.sink.command_replies) is not None:
                telling = self._send(fault, replies, in_parent=not here)
                self._background.start(telling, f"{fault.command} {fault.message_id}")

    async def _send(self, fault: CommandProblem, replies: CommandReplies, *, in_parent: bool) -> None:
        if await self._reported.first(fault.message_id, "\n".join(fault.lines)):
            occasion = f"pin:{fault.message_id}:{len(fault.lines)}"
            await replies.reply(fault.message_id, problem_text(fault), occasion, in_parent=in_parent)


def problem_text(fault: CommandProblem) -> str:
    """Say what of a command can't be used and what can, in one message. Problems that have no room are counted."""
    if fault.command == "history":
        return f"I can't use this `.history`, so I'm ignoring it:\n{fault.lines[0][:MAX_LINE]}"
    if fault.used:
        head = "I can't use these lines of this `.config`:"
        last = f"I'm using the rest, unless a newer pin sets it: {', '.join(sorted(fault.used))}."
    else:
        head, last = "I can't use this `.config`:", "None of its options are in effect."
    lines = [line[:MAX_LINE] for line in fault.lines]
    left = MAX_TEXT - len(head) - len(last) - MAX_NAMES
    shown = _take_that_fit(lines, left, len("\n"))
    rest = [line.partition(": ")[0] for line in lines[len(shown) :]]
    if rest:  # the names of as many options as there is room for, and the number of the other ones
        names = _take_that_fit(rest, MAX_NAMES - 80, len(", "))
        more = f", and {len(rest) - len(names)} more" if len(rest) > len(names) else ""
        shown.append(f"I can't use these either: {', '.join(names)}{more}")
    return "\n".join((head, *shown, last))


def _take_that_fit(texts: Sequence[str], room: int, separator: int) -> list[str]:
    """Return the first texts whose characters, each with a separator, fit into `room`."""
    ends = accumulate(len(text) + separator for text in texts)
    return [text for text, end in zip(texts, ends, strict=True) if end <= room]
