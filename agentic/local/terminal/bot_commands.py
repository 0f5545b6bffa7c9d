"""The bots' commands as they are typed in the terminal: `/bots mute grok 5`, `/why` for the newest message of a bot.

Words fill the options in their order; one that does not fit an option is tried for the next. A free text, such as a
topic or a question, takes all words up to the name of another option: `/room create Tea or coffee? turns: 4`. As in
Discord's own form, a command with errors is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_cogs.slash_definitions import CHANNEL, OLD_NAMES, SLASH, SUB_COMMAND, TEXT, USER, WHOLE, YES_NO
from agentic.local.terminal.message_numbers import MessageNumbers, NumberedMessage

Json = Mapping[str, Any]
Value = str | int

SHORTEST_ID = 15  # digits of a snowflake; the numbers of messages in the terminal are shorter


@dataclass(frozen=True, slots=True)
class Use:
    """A command of the bots with its options, as the stand-in expects them."""

    command: str
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Channels and people by lower-case name, messages by number; `newest` is the newest message of a bot in the
    channel."""

    channels: Mapping[str, int]
    users: Mapping[str, int]
    messages: MessageNumbers = field(default_factory=MessageNumbers)
    newest: NumberedMessage | None = None


@dataclass(frozen=True, slots=True)
class _Filled:
    """A command as far as it is typed: `left` are the options that further words may fill; `by_name`: by their names
    alone."""

    path: str
    values: Mapping[str, Value]
    options: Sequence[Json]
    left: Sequence[Json]
    by_name: bool = False


def command_names(commands: Sequence[Json]) -> list[str]:
    """The commands as they are typed, with the slash."""
    return [f"/{command['name']}" for command in commands if command["type"] == SLASH]


def read_use(words: Sequence[str], commands: Sequence[Json], names: KnownNames) -> Use | str | None:
    """Parse a command: its use, a hint if it is unclear, None if the command is unknown."""
    filled = _filled(words, commands, names)
    if not isinstance(filled, _Filled):
        return filled
    values = dict(filled.values)
    for option in filled.options:
        name = option["name"]
        if name in values or not option.get("required"):
            continue
        if not _is_message(option):
            return f"/{filled.path} needs {name}: {_expected(option)}"
        if names.newest is None:
            return "no bot has written in this channel yet"
        values[name] = str(names.newest.id)
    return Use(filled.path, values)


def next_words(words: Sequence[str], commands: Sequence[Json], names: KnownNames) -> list[str]:
    """The words that may follow these of a command: sub-commands, and values of its next options."""
    command = _command(words[0], commands)
    parts = _parts(command) if command is not None else {}
    if parts and len(words) == 1:
        return list(parts)
    filled = _filled(words, commands, names)
    if not isinstance(filled, _Filled):
        return []
    return [f"{option['name']}:" for option in filled.left] if filled.by_name else list(_values(filled.left, names))


def _values(left: Sequence[Json], names: KnownNames) -> Iterator[str]:
    """The values of the options up to the first required one."""
    for option in left:
        yield from (str(choice["value"]) for choice in option.get("choices", ()))
        if option["type"] == CHANNEL:
            yield from (f"#{name}" for name in names.channels)
        if option["type"] == USER:
            yield from (f"@{name}" for name in names.users)
        if option.get("required"):
            return


def _command(word: str, commands: Sequence[Json]) -> Json | None:
    name = word.removeprefix("/").lower()
    return next((one for one in commands if one["type"] == SLASH and one["name"] == name), None)


def _parts(command: Json) -> dict[str, Json]:
    """The sub-commands by name."""
    return {str(option["name"]): option for option in command.get("options", ()) if option["type"] == SUB_COMMAND}


def _filled(words: Sequence[str], commands: Sequence[Json], names: KnownNames) -> _Filled | str | None:
    """Find the command and fill its options; a hint where a word does not fit, None if the command is unknown."""
    command = _command(words[0], commands)
    if command is None:
        return None
    path, rest, options = str(command["name"]), list(words[1:]), command.get("options", ())
    if parts := _parts(command):
        word = rest[0].lower() if rest else ""
        part = parts.get(OLD_NAMES.get(f"{path} {word}", "").removeprefix(f"{path} ") or word)
        if part is None:
            return f"/{path} needs one of {', '.join(parts)}"
        path, rest, options = f"{path} {part['name']}", rest[1:], part.get("options", ())
    return _with_values(path, rest, options, names)


def _with_values(path: str, words: Sequence[str], options: Sequence[Json], names: KnownNames) -> _Filled | str:
    """Fill options by their places, then by their names: `turns: 4`. Free text goes on to the next name."""
    texts, left, open_text = dict[str, list[str]](), list(options), ""
    for word in words:
        named, rest = _option_named(word, options)
        if named is not None and named["name"] not in texts:
            open_text = named["name"]
            texts[open_text] = [rest] if rest else []
        elif open_text:
            texts[open_text].append(word)
        else:
            fitting = next((option for option in left if _value(word, option, names) is not None), None)
            if fitting is None:
                return f"{word} does not fit /{path}: {_fits(left)}"
            texts[fitting["name"]] = [word]
            open_text = fitting["name"] if _takes_all(fitting, left) else ""
            left = left[left.index(fitting) + 1 :]
    filled = _converted(path, {name: " ".join(said) for name, said in texts.items()}, options, names)
    if not isinstance(filled, dict):
        return filled
    further = options if open_text else left
    left = [option for option in further if option["name"] not in filled]
    return _Filled(path, filled, options, left, by_name=bool(open_text))


def _option_named(word: str, options: Sequence[Json]) -> tuple[Json | None, str]:
    """The option whose name begins the word, as in `turns:4`, and the rest of the word."""
    name, colon, rest = word.partition(":")
    return next((option for option in options if colon and option["name"] == name.lower()), None), rest


def _takes_all(option: Json, left: Sequence[Json]) -> bool:
    """Whether the option takes all words that follow: the last free text, and one that is no name of something."""
    return _is_free(option) and (option is left[-1] or not option.get("autocomplete"))


def _converted(
    path: str, texts: Mapping[str, str], options: Sequence[Json], names: KnownNames
) -> dict[str, Value] | str:
    """The values of the options, in the options' order; a hint where a text does not fit."""
    values: dict[str, Value] = {}
    for option in (option for option in options if option["name"] in texts):
        text, most = texts[option["name"]], option.get("max_length")
        if most is not None and len(text) > most:
            return f"{option['name']} is {len(text)} characters long; {most} is the most"
        value = _value(text, option, names)
        if value is None:
            return f"{text} does not fit /{path}: {option['name']} is {_expected(option)}"
        values[option["name"]] = value
    return values


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
    if kind == YES_NO:
        return "yes or no"
    if _is_message(option):
        return "the number before a message, or its id"
    if _is_room(option):
        return "a room: #room-1, or its topic"
    return f"one of {', '.join(choices)}" if choices else "a text"


def _is_free(option: Json) -> bool:
    """Whether the option is free text; ids and links have no max_length."""
    return option["type"] == TEXT and "max_length" in option


def _message_id(word: str, names: KnownNames) -> str | None:
    """The message that a number, an id or a link means."""
    if word.isdecimal() and len(word) < SHORTEST_ID:
        message = names.messages.get(int(word))
        return str(message.id) if message is not None else None
    return word if word.isdecimal() or "://" in word else None


def _is_message(option: Json) -> bool:
    return bool(option["type"] == TEXT and option["name"] == "message")


def _is_room(option: Json) -> bool:
    return bool(option["type"] == TEXT and option["name"] == "room")


def _room(word: str, names: KnownNames) -> str | None:
    """Convert a word for a room: the id of a `#room-1`, else a link or topic. A short number is none of these."""
    thread = names.channels.get(word.lower().removeprefix("#"))
    if thread is not None:
        return str(thread)
    return None if word.isdecimal() and len(word) < SHORTEST_ID else word


def _value(word: str, option: Json, names: KnownNames) -> Value | None:
    """Convert a word for this option, of a free text several; None if it does not fit."""
    kind, name = option["type"], word.lower()
    if kind == CHANNEL:
        return names.channels.get(name.removeprefix("#"))
    if kind == USER:
        return names.users.get(name.removeprefix("@"))
    if kind == WHOLE:
        number = int(name) if name.isdecimal() and len(name) < SHORTEST_ID else None  # int() refuses very long ones
        return number if number is not None and option["min_value"] <= number <= option["max_value"] else None
    if kind == YES_NO:
        return {"yes": True, "true": True, "no": False, "false": False}.get(name)
    if kind != TEXT:
        return None
    if _is_message(option):
        return _message_id(word, names)
    if _is_room(option):
        return _room(word, names)
    choices = option.get("choices", ())
    fits = (choice for choice in choices if name.removeprefix("@") in (choice["value"], choice["name"].lower()))
    return word if not choices else next((str(choice["value"]) for choice in fits), None)
