"""Typed lines, parsed: what a person says, or wants to see or do."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_local.terminal.bot_commands import KnownNames, Use, read_use

MAX_MESSAGE = 2000  # characters, Discord's own limit
Topic = Literal["help", "who", "channels"]
_COMMANDS: Mapping[str, Topic | Literal["quit", "fire"]] = {
    "/help": "help", "/?": "help", "/who": "who", "/channels": "channels",
    "/fire": "fire", "/quit": "quit", "/exit": "quit", "/q": "quit",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Say:
    """Post as the person."""

    channel_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Move:
    channel_id: int


@dataclass(frozen=True, slots=True)
class Fire:
    """Start a conversation; None leaves the choice to the coordinator."""

    channel_id: int | None = None
    theme: str | None = None


@dataclass(frozen=True, slots=True)
class Show:
    topic: Topic


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class Unclear:
    """A line that was not understood; `hint` says why."""

    hint: str


TypedLine = Say | Move | Fire | Use | Show | Quit | Unclear


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a person may type, in upper or lower case: channels, `@` words of users and roles, themes;
    `commands` are those of the bots, as in agent_discord.slash.definitions."""

    channels: Mapping[str, int]
    users: Mapping[str, int]
    roles: Mapping[str, int]
    themes: Collection[str] = ()
    commands: Sequence[Mapping[str, Any]] = ()

    def words(self) -> list[str]:
        """Everything that tab completion offers."""
        mentions = [f"@{name}" for name in (*self.users, *self.roles)]
        return [*mentions, *(f"#{name}" for name in self.channels), *_COMMANDS, *self._bot_commands(), *self.themes]

    def _bot_commands(self) -> list[str]:
        return [f"/{command['name']}" for command in self.commands if command["name"].islower()]


def read_line(line: str, current: int, known: Vocabulary) -> TypedLine | None:
    """Parse a line that was typed in the channel `current`; None for an empty one."""
    line = line.strip()
    if not line:
        return None
    if line.startswith("/"):
        return _command(line.split(), known)
    if line.startswith("#"):
        return _to_channel(line, known)
    return _said(line, current, known)


def _command(words: list[str], known: Vocabulary) -> TypedLine:
    match _COMMANDS.get(words[0].lower()):
        case "quit":
            return Quit()
        case "fire":
            return _fire(words[1:], known)
        case None:
            return _use(words, known)
        case topic:
            return Show(topic)


def _use(words: list[str], known: Vocabulary) -> TypedLine:
    """A command of the bots."""
    known_names = KnownNames(
        *({name.lower(): value for name, value in each.items()} for each in (known.channels, known.users))
    )
    match read_use(words, known.commands, known_names):
        case Use() as use:
            return use
        case None:
            return Unclear(f"unknown command {words[0]}; /help lists the known ones")
        case hint:
            return Unclear(hint)


def _fire(words: list[str], known: Vocabulary) -> TypedLine:
    """A channel, a theme or both; a word that is both counts as the channel first."""
    channel: int | None = None
    theme: str | None = None
    for word in words:
        place = _lookup(known.channels, word.removeprefix("#"))
        if place is not None and channel is None:
            channel = place
        elif (found := _theme(word, known)) and theme is None:
            theme = found
        else:
            themes = ", ".join(known.themes)
            return Unclear(
                f"{word} is neither a channel nor a theme; /channels lists the channels, themes are {themes}"
            )
    return Fire(channel, theme)


def _theme(word: str, known: Vocabulary) -> str | None:
    return next((theme for theme in known.themes if theme.lower() == word.lower()), None)


def _to_channel(line: str, known: Vocabulary) -> TypedLine:
    name, _, text = line[1:].partition(" ")
    channel = _lookup(known.channels, name)
    if channel is None:
        return Unclear(f"there is no channel #{name}; /channels lists them")
    return _said(text.strip(), channel, known) if text.strip() else Move(channel)


def _said(text: str, channel: int, known: Vocabulary) -> TypedLine:
    text = with_mentions(text, known)
    if len(text) > MAX_MESSAGE:
        return Unclear(f"that is {len(text):,} characters, a message has at most {MAX_MESSAGE:,}")
    return Say(channel, text)


def with_mentions(text: str, known: Vocabulary) -> str:
    """Replace `@claude` by `<@id>` and `@bots` by `<@&id>`, anywhere; a user takes precedence over a role of that
    name."""
    marks = {name.lower(): f"<@&{role}>" for name, role in known.roles.items()}
    marks |= {name.lower(): f"<@{user}>" for name, user in known.users.items()}
    if not marks:
        return text
    names = "|".join(re.escape(name) for name in sorted(marks, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w@<])@({names})(?!\w)", re.IGNORECASE)
    return pattern.sub(lambda match: marks[match[1].lower()], text)


def _lookup(names: Mapping[str, int], word: str) -> int | None:
    return next((value for name, value in names.items() if name.lower() == word.lower()), None)
