"""The bots' commands as they are typed in the terminal: `/bots mute grok 5`, `/why` for the newest message of a bot.

Words fill the options in their order; one that does not fit an option is tried for the next. If the last option is free
text, it takes all remaining words. As in Discord's own form, a command with errors is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_discord.slash.definitions import CHANNEL, SLASH, SUB_COMMAND, TEXT, USER, WHOLE

Json = Mapping[str, Any]
Value = str | int


@dataclass(frozen=True, slots=True)
class Use:
    """A command of the bots with its options, as the stand-in expects them."""

    command: str
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Channels and people by lower-case name."""

    channels: Mapping[str, int]
    users: Mapping[str, int]


def read_use(words: Sequence[str], commands: Sequence[Json], names: KnownNames) -> Use | str | None:
    """Parse a command: its use, a hint if it is unclear, None if the command is unknown."""
    name = words[0].removeprefix("/").lower()
    command = next((one for one in commands if one["type"] == SLASH and one["name"] == name), None)
    if command is None:
        return None
    path, rest, options = name, list(words[1:]), command.get("options", ())
    if options and options[0]["type"] == SUB_COMMAND:
        parts = {str(option["name"]): option for option in options}
        part = parts.get(rest[0].lower()) if rest else None
        if part is None:
            return f"/{name} needs one of {', '.join(parts)}"
        path, rest, options = f"{name} {part['name']}", rest[1:], part.get("options", ())
    return _filled(path, rest, options, names)


def _filled(path: str, words: Sequence[str], options: Sequence[Json], names: KnownNames) -> Use | str:
    values: dict[str, Value] = {}
    left = list(options)
    for number, word in enumerate(words):
        fitting = next((option for option in left if _value(word, option, names) is not None), None)
        if fitting is None:
            return f"{word} does not fit /{path}: {_fits(left)}"
        if fitting is left[-1] and _is_free(fitting):
            values[fitting["name"]] = " ".join(words[number:])
            break
        value = _value(word, fitting, names)
        assert value is not None
        values[fitting["name"]] = value
        left = left[left.index(fitting) + 1 :]
    missing = [option["name"] for option in options if option.get("required") and option["name"] not in values]
    if missing and missing != ["message"]:
        return f"/{path} needs {', '.join(missing)}"
    return Use(path, values)


def _fits(left: Sequence[Json]) -> str:
    """Describe the options that are left."""
    return "; ".join(f"{option['name']} is {_expected(option)}" for option in left) or "it takes no more options"


def _expected(option: Json) -> str:
    kind, choices = option["type"], [str(choice["value"]) for choice in option.get("choices", ())]
    if kind == CHANNEL:
        return "a channel, as /channels lists them"
    if kind == USER:
        return "a person or bot, as /who lists them"
    if kind == WHOLE:
        return f"a whole number from {option['min_value']} to {option['max_value']}"
    return f"one of {', '.join(choices)}" if choices else "a text"


def _is_free(option: Json) -> bool:
    """Whether the option is free text; ids and links have no max_length."""
    return option["type"] == TEXT and "max_length" in option


def _value(word: str, option: Json, names: KnownNames) -> Value | None:
    """Convert a word for this option; None if it does not fit."""
    kind, name = option["type"], word.lower()
    if kind == CHANNEL:
        return names.channels.get(name.removeprefix("#"))
    if kind == USER:
        return names.users.get(name.removeprefix("@"))
    if kind == WHOLE:
        fits = name.isdecimal() and option["min_value"] <= int(name) <= option["max_value"]
        return int(name) if fits else None
    if kind != TEXT:
        return None
    choices = option.get("choices", ())
    fits = (choice for choice in choices if name.removeprefix("@") in (choice["value"], choice["name"].lower()))
    return word if not choices else next((str(choice["value"]) for choice in fits), None)
