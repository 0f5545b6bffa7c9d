"""`/config show` and `/config set`: an agent's options with their sources, and changes while the bots run.

Managers of a server set options for its channels; the bots' owner sets them everywhere, and those that cost money or
keep what people write (OWNERS_LIVE). The record notes who set what.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from agentic.actions.base import (
    MAX_CHOICES,
    MAX_VALUE,
    ActionRequest,
    Choice,
    CommandReply,
    Completion,
    Handle,
    Response,
    unknown_value,
)
from agentic.agent.options import OptionSource, Pins
from agentic.agent.persona import FileRights
from agentic.agent.roster import RosterEntry
from agentic.agent.services import Services
from agentic.context.options import LIVE, OWNERS_LIVE, Options, read_options, wanted
from agentic.state.live_options import ALL, EVERYWHERE, in_channel, in_guild

log = logging.getLogger(__name__)


MAX_SHOWN = 80  # characters
MAX_CHARACTERS = 1_900  # of a reply
HIDDEN = "custom_fields"  # may carry an address or a key of the owner's
DEFAULT = "default"
FULL = "Too many options are set by /config already. Take some back with the value default."
EVERYWHERE_IS_THE_OWNERS = (
    "Only the bots' owner may set options everywhere, because the bots are in other servers too. Choose this channel or"
    " this server."
)
SHOWN_REACH: Mapping[str, str] = {"channel": "in this channel", "server": "in this server", "everywhere": "everywhere"}


def format_options(
    shown: str, options: Options, sources: Mapping[str, OptionSource], only: str | None = None
) -> str | CommandReply:
    """The options of an agent in a channel: those that something sets, then the built-in ones; or one alone. If they do
    not fit into a message they come as a file."""

    def line(name: str) -> str:
        source = sources.get(name, OptionSource("built_in"))
        return f"`{name}` {format_value(name, getattr(options, name))}: {describe_source(source)}"

    if only is not None:
        rights = "the bots' owner" if only in OWNERS_LIVE else "server managers"
        by = f"/config set changes it ({rights})" if only in LIVE else "/config set cannot change it"
        return f"{line(only)}\n{shown} takes {wanted(only)}; {by}."
    others = sorted(set(Options.model_fields) - set(sources))
    built_in = ", ".join(f"{name} {format_value(name, getattr(options, name))}" for name in others)
    text = "\n".join([f"**Options of {shown} here**", *map(line, sorted(sources)), f"-# Built in: {built_in}"])
    if len(text) <= MAX_CHARACTERS:
        return text
    return CommandReply(f"The options of {shown} here are in the file.", file=("options.txt", text))


def format_value(name: str, value: Any) -> str:
    """A value in words, shortened."""
    if name == HIDDEN:
        return f"{len(value)} fields" if value else "none"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    text = " ".join(text.split()).replace("`", "'")
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def describe_source(source: OptionSource) -> str:
    """ "built in", ".env", "identity.md", "config/bots/claude.yaml", "/config set, this server", "a pin"."""
    match source.kind:
        case "env":
            return ".env"
        case "persona":
            return source.place
        case "file":
            return f"config/{source.place}"
        case "live":
            place, _, agent = source.place.partition(":")
            reach = {"*": "everywhere", "s": "this server", "c": "this channel"}[place[:1]]
            return f"/config set, {reach}{', all agents' if agent == '*' else ''}"
        case "pin":
            return f"the pinned .config {source.place}"
        case _:
            return "built in"


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """The channel of a command, as options see it."""

    channel_id: int
    guild_id: int | None
    pins: Pins
    parent: CommandPlace | None = None


class ConfigCommands:
    """The handlers of /config. `managers` need the Manage Server permission."""

    def __init__(self, services: Services, rights: FileRights) -> None:
        self._services, self._rights = services, rights
        self.managers: Mapping[str, Handle] = {"config show": self._show, "config set": self._set}

    async def _show(self, command: ActionRequest) -> Response:
        agent = self._agent(command)
        if agent is None:
            return self._unknown_agent(command)
        option = _option_named(str(command.values.get("option", "")).strip())
        if option and option not in Options.model_fields:
            return read_options({option: None})[1][0]
        place, book = self._place(command), self._services.options
        found, sources = book.options(agent.key, place), book.sources(agent.key, place)
        return format_options(agent.shown, found, sources, option or None)

    async def _set(self, command: ActionRequest) -> Response:
        agent = self._agent(command) if command.values.get("agent") else None
        if agent is None and command.values.get("agent"):
            return self._unknown_agent(command)
        option, written, agent = self._read_words(command, agent)
        reach = str(command.values.get("place", "channel"))
        if reach not in SHOWN_REACH or (reach == "server" and command.guild_id is None):
            return unknown_value("place", reach, [one for one in SHOWN_REACH if one != "server" or command.guild_id])
        if option in OWNERS_LIVE and not await self._rights.is_owner(command.who):
            return (
                f"Only the bots' owner may set {option}, because it costs money or keeps what people write. If that is"
                f" you, set OWNER_USER_IDS={command.who.user_id} in .env and restart the bots."
            )
        if reach == "everywhere" and await self._rights.refusal(command.who, command.guild_id) is not None:
            return EVERYWHERE_IS_THE_OWNERS
        where, who = EVERYWHERE, agent.key if agent else ALL
        if reach == "channel":
            where = in_channel(command.channel_id, command.guild_id)
        elif reach == "server" and command.guild_id is not None:
            where = in_guild(command.guild_id)
        whom = f"for {agent.shown if agent else 'all agents'} {SHOWN_REACH[reach]}"
        if written.strip().lower() == DEFAULT:
            if option not in Options.model_fields:
                return f"Nothing was changed. {read_options({option: None})[1][0]}."
            if not await self._services.live_options.unset(where, who, option):
                return f"{option} was not set by /config {whom}."
            log.info("option %s was taken back by a person, %s", option, whom)
            return f"{option} is no longer set by /config {whom}: files and settings hold again."
        if option in Options.model_fields.keys() - LIVE:
            return f"Nothing was changed. Only the files of the bots' owner set {option}."
        layer, problems = read_options({option: _value_of(written)}, LIVE)
        if problems:
            return f"Nothing was changed. {problems[0]}."
        value = layer[option]
        plain = list(value) if isinstance(value, tuple) else value
        if await self._services.live_options.set(where, who, option, plain) == "full":
            return FULL
        log.info("option %s was set by a person, %s", option, whom)
        above = self._above(command, option, agent, f"{where.partition('@')[0]}:{who}")
        return f"{option} is {format_value(option, value)} {whom} from now on{above}."

    def _read_words(self, command: ActionRequest, agent: RosterEntry | None) -> tuple[str, str, RosterEntry | None]:
        """The option, its value and the agent. People also type the agent's name before the option, or next to a value
        that is none with that name in it."""
        option, written = str(command.values.get("option", "")).strip(), str(command.values.get("value", "")).strip()
        named = self._services.roster.named
        if agent is None and _option_named(option) not in Options.model_fields and (agent := named(option)) is not None:
            option, _, written = written.partition(" ")
        option, written = _option_named(option), written.strip().strip("`")
        words = written.split()
        if agent is None and option in Options.model_fields and not _fits(option, written):
            for cut in range(1, len(words)):
                first, last = " ".join(words[:cut]), " ".join(words[cut:])
                for name, value in ((last, first), (first, last)):
                    if (found := named(name)) is not None and _fits(option, value):
                        return option, value, found
        return option, written, agent

    def _above(self, command: ActionRequest, option: str, agent: RosterEntry | None, now_set: str) -> str:
        """A note if something else decides in this channel all the same: a pinned `.config`, or what was set for a
        narrower place or for one agent. `now_set`: the live entry's place and agent, as in OptionSource."""
        place, names = self._place(command), [agent.key] if agent else list(self._services.names)
        sources = [self._services.options.sources(name, place).get(option) for name in names]
        if any(source is not None and source.kind == "pin" for source in sources):
            return "; a pinned .config here still wins"
        narrower = any(source is not None and source.kind == "live" and source.place != now_set for source in sources)
        return "; here, what was set for a narrower place or for one bot still wins" if narrower else ""

    def _agent(self, command: ActionRequest) -> RosterEntry | None:
        name = str(command.values.get("agent", "")).strip()
        return self._services.roster.of(name) or self._services.roster.named(name)

    def _unknown_agent(self, command: ActionRequest) -> str:
        written = str(command.values.get("agent", ""))
        return unknown_value("agent", written, [entry.shown for entry in self._services.roster])

    def _place(self, command: ActionRequest) -> CommandPlace:
        def pinned(channel_id: int) -> Any:
            return tuple(self._services.transcripts.of(channel_id).pinned())

        above = command.parent_id
        parent = CommandPlace(above, command.guild_id, (pinned(above),)) if above is not None else None
        pins = (*(parent.pins if parent else ()), pinned(command.channel_id))
        return CommandPlace(command.channel_id, command.guild_id, pins, parent)


def option_choices(typed: Completion) -> Sequence[Choice]:
    """The options that fit what was typed so far: all of them to show, and those that may be set."""
    names = sorted(LIVE if typed.command.name == "config set" else Options.model_fields)
    letters = typed.typed.strip().casefold().replace(" ", "_").replace("-", "_")
    found = [name for name in names if letters in name]
    first = sorted(found, key=lambda name: not name.startswith(letters))
    return [Choice(name, name) for name in first[:MAX_CHOICES]]


def _option_named(written: str) -> str:
    """The option's name for what was typed, such as `Always-Search`; the same text if no option has that name."""
    name = written.strip().strip("`").lower().replace("-", "_").replace(" ", "_")
    return name if name in Options.model_fields else written


def _fits(option: str, written: str) -> bool:
    return written.lower() == DEFAULT or not read_options({option: _value_of(written)})[1]


def _value_of(written: str) -> object:
    """The value as a line of a file would have it: `60`, `true`, `[a, b]`; a text where it is no YAML."""
    try:
        return yaml.safe_load(written[:MAX_VALUE])
    except (yaml.YAMLError, ValueError, RecursionError):
        return written
