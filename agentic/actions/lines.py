"""The text of `/config show`: each option with its value and its source. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentic.actions.responses import CommandReply
from agentic.agent.options import OptionSource
from agentic.context.options import LIVE, OWNERS_LIVE, Options, wanted

SHOWN_VALUE = 80  # characters
MOST_CHARACTERS = 1_900  # of a reply
HIDDEN = "custom_fields"  # may carry an address or a key of the owner's

_BUILT_IN = OptionSource("built_in")


def options_text(
    shown: str, options: Options, sources: Mapping[str, OptionSource], only: str | None = None
) -> str | CommandReply:
    """The options of an agent in a channel: those that something sets, then the built-in ones; or one alone. Where they
    do not fit into a message they come as a file."""
    if only is not None:
        return _one(shown, only, options, sources.get(only, _BUILT_IN))
    lines = [_line(name, options, sources[name]) for name in sorted(sources)]
    others = sorted(set(Options.model_fields) - set(sources))
    built_in = ", ".join(f"{name} {said(name, getattr(options, name))}" for name in others)
    text = "\n".join([f"**Options of {shown} here**", *lines, f"-# Built in: {built_in}"])
    if len(text) <= MOST_CHARACTERS:
        return text
    return CommandReply(f"The options of {shown} here are in the file.", file=("options.txt", text))


def _one(shown: str, name: str, options: Options, source: OptionSource) -> str:
    rights = "the bots' owner" if name in OWNERS_LIVE else "server managers"
    by = f"/config set changes it ({rights})" if name in LIVE else "/config set cannot change it"
    return f"{_line(name, options, source)}\n{shown} takes {wanted(name)}; {by}."


def _line(name: str, options: Options, source: OptionSource) -> str:
    return f"`{name}` {said(name, getattr(options, name))}: {from_where(source)}"


def said(name: str, value: Any) -> str:
    """A value in words, shortened."""
    if name == HIDDEN:
        return f"{len(value)} fields" if value else "none"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    text = " ".join(text.split()).replace("`", "'")
    return text if len(text) <= SHOWN_VALUE else f"{text[: SHOWN_VALUE - 1]}…"


def from_where(source: OptionSource) -> str:
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
