"""The options of each agent in each channel, from layers, the lowest first.

    built in < .env < front matter < files (option_files.py) < live (/config set) < pins, older first (of a thread's
    channel, then its own)

Nothing is read here: option files and live options are read outside of turns, and pins are in the transcripts. A result
is cached while its layers stay the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agent_config import Settings
from agentic.agent.option_files import Layer, OptionFiles
from agentic.context.entries import Entry
from agentic.context.options import LIVE, MAX_MESSAGES, Options, options_of, read_options
from agentic.context.pins import Pin, read_pins

REMEMBERED = 2000  # results: agents times channels
MARGIN = 200  # messages besides a window's: hidden ones, and parts of others

Pins = tuple[tuple[Entry, ...], ...]  # of a thread's channel, then of the channel itself


class OptionScope(Protocol):
    """A channel that options are set for; implemented by an outlet."""

    @property
    def channel_id(self) -> int: ...
    @property
    def guild_id(self) -> int | None: ...
    @property
    def pins(self) -> Pins: ...
    @property
    def parent(self) -> OptionScope | None: ...


class LiveLayers(Protocol):
    """The options that people set while the program runs; implemented by agentic.state.live_options."""

    @property
    def version(self) -> int: ...

    def layer(self, place: str, agent: str) -> Layer: ...

    def layers(self, agent: str, guild_id: int | None, channels: Iterable[int]) -> list[tuple[str, str]]: ...


class NothingLive:
    """No live options."""

    version = 0

    def layer(self, place: str, agent: str) -> Layer:
        del place, agent
        return {}

    def layers(self, agent: str, guild_id: int | None, channels: Iterable[int]) -> list[tuple[str, str]]:
        del agent, guild_id, channels
        return []


@dataclass(frozen=True, slots=True)
class _Spot:
    """A channel as options see it; `channels`: of a thread its parent, then itself."""

    channels: tuple[int, ...]
    guild_id: int | None
    pins: Pins

    @classmethod
    def of(cls, place: OptionScope) -> _Spot:
        above = place.parent
        channels = (*((above.channel_id,) if above is not None else ()), place.channel_id)
        return cls(channels, place.guild_id, place.pins)


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
        live: LiveLayers | None = None,
    ) -> None:
        self._names, self._base, self._extra = names, base, extra_layer
        self._files, self._live = files, live or NothingLive()
        self._known: OrderedDict[tuple[str, int], tuple[tuple[object, ...], EffectiveOptions]] = OrderedDict()

    async def run(self) -> None:
        """Read changes of the option files until cancelled."""
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

    def _of(self, agent: str, spot: _Spot) -> EffectiveOptions:
        key, extra = (agent, spot.channels[-1]), self._extra(agent)
        made_of = (self._files.version if self._files is not None else 0, self._live.version, extra, spot)
        known = self._known.get(key)
        if known is not None and known[0] == made_of:
            return known[1]
        found = self._make(agent, spot, extra)
        self._known[key] = (made_of, found)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    def inner_names(self, place: OptionScope) -> dict[str, str]:
        """Agents with another name than their own in the channel: key → that name."""
        spot = _Spot.of(place)
        found = {agent: self._of(agent, spot).options.name for agent in self._names}
        return {agent: name for agent, name in found.items() if name is not None}

    def _set_live(self, agent: str, spot: _Spot) -> list[tuple[tuple[str, str], Layer]]:
        """The live layers that hold for an agent there, lowest first, as far as they are valid."""
        places = self._live.layers(agent, spot.guild_id, spot.channels)
        return [(place, read_options(self._live.layer(*place), LIVE)[0]) for place in places]

    def _make(self, agent: str, spot: _Spot, extra: Mapping[Any, Any]) -> EffectiveOptions:
        front, _ = read_options(extra)
        files = self._files.layers(agent, spot.guild_id) if self._files is not None else ()
        layers, live = [self._base, front, *files], [layer for _, layer in self._set_live(agent, spot)]
        below = options_of(layers, live)
        names = self._goes_by(agent, below)
        found = tuple(pin for pinned in spot.pins for pin in read_pins(pinned, below.config_roles, names))
        above = [*live, *(pin.layer for pin in found)]
        options = options_of(layers, above) if found else below
        own_depth = any("max_messages" in layer for layer in (*layers[1:], *above))
        return EffectiveOptions(options, self._goes_by(agent, options), found, own_depth)

    def _goes_by(self, agent: str, options: Options) -> frozenset[str]:
        """The agent's key, and its inner name or else its shown name."""
        return frozenset({agent, options.name or self._names.get(agent, agent)})


def load_options(
    settings: Settings,
    names: Mapping[str, str],
    extra_layer: Callable[[str], Mapping[Any, Any]] = no_layer,
    live: LiveLayers | None = None,
) -> OptionBook:
    """Build the options from the files of these settings, as they are now."""
    files = OptionFiles(settings.config_files_dir, tuple(settings.agents))
    files.refresh()
    return OptionBook(names, base_layer(settings), files, extra_layer, live)


def reach_of(options: Options) -> int:
    """The messages of a channel that must be known for a window to roll as it should."""
    return options.max_messages + options.step(options.max_messages) + MARGIN


def base_layer(settings: Settings) -> dict[str, Any]:
    """The layer of .env."""
    return {"max_messages": min(settings.context_window_size, MAX_MESSAGES)}
