"""The options of each agent in each channel, merged from layers, lowest first:

    built in < .env < front matter < files < live (/config set) < pins of a thread's channel < pins, older first

OptionBook merges the layers and caches each result while its layers stay the same. It reads nothing: files and live
options are read outside of turns, and pins are in the transcripts.

OptionFiles reads the owner's YAML files: shared.yaml, guilds/<guild>.yaml, bots/<bot>.yaml, bots/<bot>.<guild>.yaml. It
checks them every few seconds. An invalid option is logged once and skipped; a file that isn't valid YAML (perhaps half
written) keeps its previous layer.
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
from agentic.state.live_options import ALL, LiveOptions
from agentic.state.posts import Notices

Layer = Mapping[str, Any]
Pins = tuple[tuple[Entry, ...], ...]  # in a thread's channel, then in the channel itself
Stamp = tuple[int, int]  # modification time in nanoseconds, size in bytes

MAX_CACHED = 2000  # results: agents times channels
MARGIN = 200  # messages besides a window's: hidden messages, and parts of others

CHECK_EVERY = 3.0  # seconds
MAX_BYTES = 200_000  # of an option file
UNREAD: Stamp = (-1, -1)  # unlike any file's, so the file is read again
_FILE_NAME = re.compile(r"shared\.yaml|guilds/\d{1,20}\.yaml|bots/(?P<bot>[^./]+)(?:\.\d{1,20})?\.yaml")

MAX_LINE = 300  # characters of one problem
MAX_TEXT = 1_900  # characters of a reply; Discord allows 2,000
MAX_NAMES = 500  # characters of the names of options whose problems don't fit

log = logging.getLogger(__name__)


class OptionScope(Protocol):
    """A channel with options of its own: an outlet's view, or a LookupScope."""

    @property
    def channel_id(self) -> int: ...
    @property
    def guild_id(self) -> int | None: ...
    @property
    def pins(self) -> Pins: ...
    @property
    def parent(self) -> OptionScope | None: ...


@dataclass(frozen=True, slots=True)
class LookupScope:
    """A scope for lookups outside of turns: a command's place, an arena (without pins), or a check."""

    guild_id: int | None
    channel_id: int = 0
    pins: Pins = ()
    parent: OptionScope | None = None


@dataclass(frozen=True, slots=True)
class _Spot:
    """A channel as a cache key. `channels` has a thread's parent first, then the channel itself."""

    channels: tuple[int, ...]
    guild_id: int | None
    pins: Pins

    @classmethod
    def of(cls, place: OptionScope) -> _Spot:
        above = () if place.parent is None else (place.parent.channel_id,)
        return cls((*above, place.channel_id), place.guild_id, place.pins)


@dataclass(frozen=True, slots=True)
class OptionSource:
    """Where an option's value comes from: `kind` is env, persona, file, live, or pin; `place` names the file, the live
    entry's place and agent ("c7:claude"), or the pinned message."""

    kind: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class EffectiveOptions:
    """An agent's options in a channel, its names there, and the pins among the layers. `own_depth`: a layer above .env
    sets how many messages it sees, so the theme's number doesn't apply."""

    options: Options
    names: frozenset[str]
    pins: tuple[Pin, ...]
    own_depth: bool = False


def no_layer(_: str) -> Layer:
    return {}


class OptionBook:
    """The options of all agents. `names` maps keys to display names, `base` is the layer from .env, and `extra_layer`
    returns the layer from an agent's persona. People are told about unusable pins if there are `notices`."""

    def __init__(
        self,
        names: Mapping[str, str],
        base: Layer,
        files: OptionFiles | None = None,
        extra_layer: Callable[[str], Mapping[Any, Any]] = no_layer,
        live: LiveOptions | None = None,
        notices: Notices | None = None,
    ) -> None:
        self._names, self._base, self._extra = names, base, extra_layer
        self._files, self._live, self._notices = files, live, notices
        self._replies = BackgroundTasks()
        self._reported: set[tuple[str, CommandProblem]] = set()
        self._known: OrderedDict[tuple[str, int], tuple[tuple[object, ...], EffectiveOptions]] = OrderedDict()
        self._channel_names: LRUCache[int, tuple[tuple[object, ...], Mapping[str, str]]] = LRUCache(MAX_CACHED)

    async def run(self) -> None:
        if self._files is not None:
            await self._files.run()

    @property
    def usual_reach(self) -> int:
        """The number of a channel's messages that must be known with only the options in .env."""
        return reach_of(options_of([self._base]))

    def options(self, agent: str, place: OptionScope) -> Options:
        return self.of(agent, place).options

    def of(self, agent: str, place: OptionScope) -> EffectiveOptions:
        return self._of(agent, _Spot.of(place))

    def sources(self, agent: str, place: OptionScope) -> dict[str, OptionSource]:
        """Return the source of each option's value in a channel, without options at their defaults."""
        spot = _Spot.of(place)
        files = self._files.named(agent, spot.guild_id) if self._files is not None else []
        live = self._live_layers(agent, spot)
        layers: list[tuple[OptionSource, Layer]] = [
            (OptionSource("env"), self._base),
            (OptionSource("persona", "identity.md"), read_options(self._extra(agent))[0]),
            *((OptionSource("file", name), layer) for name, layer in files),
            *((OptionSource("live", f"{scope}:{who}"), layer) for (scope, who), layer in live),
            *((OptionSource("pin", str(pin.message_id)), pin.layer) for pin in self._of(agent, spot).pins),
        ]
        return {option: source for source, layer in layers for option in layer}

    def moderator_roles(self, guild_id: int | None) -> tuple[int, ...]:
        """Return the roles that moderate the bots in a server, in addition to MODERATOR_IDS."""
        files = self._files.layers(ALL, guild_id) if self._files is not None else ()
        live = self._live_layers(ALL, _Spot((), guild_id, ()))
        return options_of([self._base, *files], [layer for _, layer in live]).moderator_roles

    def report(self, agent: str, faults: Iterable[CommandProblem], outlet: Outlet) -> None:
        """Tell people which of their commands in a channel can't be used. Replies are sent in the background."""
        if self._notices is None:
            return
        for fault in faults:
            if (agent, fault) in self._reported:
                continue
            self._reported.add((agent, fault))
            log.info(".%s in message %d is not used: %s", fault.command, fault.message_id, "; ".join(fault.lines))
            if (replies := outlet.sink.command_replies) is not None:
                here = fault.command == "history" or any(entry.id == fault.message_id for entry in outlet.view.pins[-1])
                reply = self._reply_once(fault, replies, in_parent=not here)  # a thread's channel may have the pin
                self._replies.start(reply, f"{fault.command} {fault.message_id}")

    async def _reply_once(self, fault: CommandProblem, replies: CommandReplies, *, in_parent: bool) -> None:
        if self._notices is not None and await self._notices.first(fault.message_id, "\n".join(fault.lines)):
            occasion = f"pin:{fault.message_id}:{len(fault.lines)}"
            await replies.reply(fault.message_id, problem_text(fault), occasion, in_parent=in_parent)

    def _of(self, agent: str, spot: _Spot) -> EffectiveOptions:
        key, extra = (agent, spot.channels[-1]), self._extra(agent)
        made_of = (self._versions(), extra, spot)
        known = self._known.get(key)
        if known is not None and known[0] == made_of:
            return known[1]
        front, _ = read_options(extra)
        files = self._files.layers(agent, spot.guild_id) if self._files is not None else ()
        layers, live = [self._base, front, *files], [layer for _, layer in self._live_layers(agent, spot)]
        below = options_of(layers, live)
        names = self._names_of(agent, below)
        pins = tuple(pin for pinned in spot.pins for pin in read_pins(pinned, below.config_roles, names))
        above = [*live, *(pin.layer for pin in pins)]
        options = options_of(layers, above) if pins else below
        own_depth = any("max_messages" in layer for layer in (*layers[1:], *above))
        found = EffectiveOptions(options, self._names_of(agent, options), pins, own_depth)
        self._known[key] = (made_of, found)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return found

    def channel_names(self, place: OptionScope) -> Mapping[str, str]:
        """Map the agents that have a special name in the channel to that name. Personas' layers don't set names."""
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

    def _live_layers(self, agent: str, spot: _Spot) -> list[tuple[tuple[str, str], Layer]]:
        """Return the valid live layers that apply to an agent there, lowest first."""
        if self._live is None:
            return []
        places = self._live.layers(agent, spot.guild_id, spot.channels)
        return [(place, read_options(self._live.layer(*place), LIVE)[0]) for place in places]

    def _names_of(self, agent: str, options: Options) -> frozenset[str]:
        """Return the agent's key, and its option `name` or else its display name."""
        return frozenset({agent, options.name or self._names.get(agent, agent)})


def load_options(
    settings: Settings,
    names: Mapping[str, str],
    extra_layer: Callable[[str], Mapping[Any, Any]] = no_layer,
    live: LiveOptions | None = None,
    notices: Notices | None = None,
) -> OptionBook:
    """Build the options, and read the settings' option files."""
    files = OptionFiles(settings.config_files_dir, tuple(settings.agents))
    files.refresh()
    return OptionBook(names, base_layer(settings), files, extra_layer, live, notices)


def reach_of(options: Options) -> int:
    """Return how many of a channel's messages must be known for its window to roll correctly."""
    return options.max_messages + options.step(options.max_messages) + MARGIN


def base_layer(settings: Settings) -> dict[str, Any]:
    window = min(settings.context_window_size, MAX_MESSAGES)
    return {"max_messages": window, "prompt_profile": settings.prompt_profile}


class OptionFiles:
    """The option files below `folder`, which doesn't have to exist; `bots` are the valid bot names. `version` changes
    whenever a layer may have changed."""

    def __init__(self, folder: Path, bots: Collection[str]) -> None:
        self._folder, self._bots = folder, frozenset(bots)
        self._files: dict[str, tuple[Stamp, Layer]] = {}
        self._reported: dict[str, tuple[str, ...]] = {}
        self._checked = False
        self.version = 0

    def layers(self, bot: str, guild_id: int | None) -> list[Layer]:
        return [layer for _, layer in self.named(bot, guild_id)]

    def named(self, bot: str, guild_id: int | None) -> list[tuple[str, Layer]]:
        """Return a bot's layers in a server with their files' names, lowest first."""
        names = ("shared.yaml", f"guilds/{guild_id}.yaml", f"bots/{bot}.yaml", f"bots/{bot}.{guild_id}.yaml")
        return [(name, self._files[name][1]) for name in names if name in self._files]

    def problems(self) -> list[str]:
        """Return one line for each problem, as logged, with its file."""
        return [
            f"{self._folder / name}: {problem}" for name, found in sorted(self._reported.items()) for problem in found
        ]

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read the files that changed since the last call. Blocks on the disk. An unreadable file or folder keeps its
        previous options, and is read again at the next call."""
        try:
            found = self._found()
        except OSError as error:
            self._report(".", [f"{_reason(error)}; its options stay as they are"])
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
        before, self._files = self._files, files  # in one assignment, since turns read it concurrently
        self.version += 1
        for name in sorted(before.keys() | files.keys()) if not first else ():
            was, now = (read[name][1].get("model") if name in read else None for read in (before, files))
            if was != now and not self._name_problem(name):  # read at the start only (agentic/settings/models.py)
                log.warning("%s: model: changed; restart the bots to use it", self._folder / name)

    def _found(self) -> dict[str, Stamp]:
        """Return the option files that exist. Raises OSError."""
        found: dict[str, Stamp] = {}
        for folder in ("", "guilds/", "bots/"):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder / folder) as entries:
                for entry in entries:
                    name = folder + entry.name
                    if name.endswith(".yaml") and (folder or name == "shared.yaml"):
                        with suppress(FileNotFoundError):  # just removed, or a broken link
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
        return None if form["bot"] is None or form["bot"] in self._bots else "is not used: unknown bot"

    def _report(self, name: str, problems: list[str]) -> None:
        if self._reported.get(name, ()) == tuple(problems):
            return
        self._reported[name] = tuple(problems)
        for problem in problems:
            log.warning("%s: %s", self._folder / name, problem)


def read_layer(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the valid options in a file, and a line for each problem with its place. Raises yaml.YAMLError for invalid
    YAML, ValueError for YAML that isn't a map of options."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    loaded = yaml.safe_load(text)
    if node is None or loaded is None:
        return {}, []
    if not isinstance(loaded, dict) or not isinstance(node, yaml.MappingNode):
        raise ValueError("expected lines like `option: value`")
    lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    layer, problems = dict[str, Any](), list[str]()
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


def problem_text(fault: CommandProblem) -> str:
    """Say in one message which lines of a command can't be used and which can. Problems that don't fit are counted."""
    if fault.command == "history":
        return f"I can't use this `.history`, so I'm ignoring it:\n{fault.lines[0][:MAX_LINE]}"
    if fault.used:
        head = "I can't use these lines of this `.config`:"
        last = f"I'm using the rest, unless a newer pin sets it: {', '.join(sorted(fault.used))}."
    else:
        head, last = "I can't use this `.config`:", "None of its options are in effect."
    lines = [line[:MAX_LINE] for line in fault.lines]
    left = MAX_TEXT - len(head) - len(last) - MAX_NAMES
    shown = _fitting(lines, left, len("\n"))
    rest = [line.partition(": ")[0] for line in lines[len(shown) :]]
    if rest:  # the names that fit, and the number of other options
        names = _fitting(rest, MAX_NAMES - 80, len(", "))
        more = f", and {len(rest) - len(names)} more" if len(rest) > len(names) else ""
        shown.append(f"I can't use these either: {', '.join(names)}{more}")
    return "\n".join((head, *shown, last))


def _fitting(texts: Sequence[str], room: int, separator: int) -> list[str]:
    """Return the first texts that fit into `room` characters, each with a separator."""
    ends = accumulate(len(text) + separator for text in texts)
    return [text for text, end in zip(texts, ends, strict=True) if end <= room]
