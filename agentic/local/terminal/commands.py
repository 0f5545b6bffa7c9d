"""The bots' commands as they are typed in the terminal: `/bots mute grok 5`; and the menus and forms in their answers.

Words fill the options in order; a word that doesn't fit an option is tried for the next one. Free text (a topic or a
question) takes all words up to the name of another option: `/room create Tea or coffee? turns: 4`. As in Discord, a
command with errors isn't sent. Messages are numbered from 1, short enough to type, as in `/why 12`; without a number, a
command takes the newest bot message.

A menu or a form is asked one field at a time. A menu's choices are numbered: `1 3` takes the first and the third, names
work too, and `all` takes everything.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_cogs.slash_definitions import CHANNEL, OLD_NAMES, SLASH, SUB_COMMAND, TEXT, USER, WHOLE, YES_NO
from agentic.context.entries import HIDE_MARKS
from agentic.local.discord.dialogs import MENU, Filled, check_value
from agentic.local.discord.world import COMMAND_REPLY, DEFAULT, REPLY

Json = Mapping[str, Any]
Value = str | int
Values = Sequence[Filled]

MIN_ID = 15  # digits of a snowflake; the numbers of messages in the terminal are shorter
CANCEL = "/cancel"
_COMMAND = re.compile(r"(?:#\S+ +)?/(?!/)")  # after the place that it is for, if it is not for the current one
_BETWEEN = re.compile(r"[,;]\s*|(?<!\s)\s++(?=\d)")


@dataclass(frozen=True, slots=True)
class NumberedMessage:
    """A message and its number. `by_bot`: see is_by_bot. `answers`: the texts of its poll's answers."""

    number: int
    id: int
    channel_id: int
    by_bot: bool
    answers: tuple[str, ...] = ()


class MessageNumbers:
    """Every message that the terminal has shown."""

    def __init__(self) -> None:
        self._all: list[NumberedMessage] = []
        self._number_of: dict[int, int] = {}
        self._deleted: set[int] = set()

    def add(self, message_id: int, channel_id: int, *, by_bot: bool, answers: Sequence[str] = ()) -> int:
        """Give a message the next number."""
        number = len(self._all) + 1
        self._all.append(NumberedMessage(number, message_id, channel_id, by_bot, tuple(answers)))
        self._number_of[message_id] = number
        return number

    def delete(self, message_id: int) -> None:
        """Forget a deleted message; its number is not given again."""
        self._deleted.add(message_id)

    def number_of(self, message_id: int) -> int | None:
        return self._number_of.get(message_id)

    def get(self, number: int) -> NumberedMessage | None:
        """Return the message with this number, or None if it's deleted or unknown."""
        found = self._all[number - 1] if 0 < number <= len(self._all) else None
        return None if found is None or found.id in self._deleted else found

    def newest(self, channel_id: int, *, by_bot: bool = False, has_poll: bool = False) -> NumberedMessage | None:
        """The newest message of a channel, or its newest by a bot, or its newest poll."""
        here = (one for one in reversed(self._all) if one.channel_id == channel_id and one.id not in self._deleted)
        return next((one for one in here if (one.by_bot or not by_bot) and (one.answers or not has_poll)), None)


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A command of the bots with its options, as the stand-in expects them. None means the current channel."""

    command: str
    values: Mapping[str, Value] = field(default_factory=dict)
    channel_id: int | None = None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a person can type in any case: channels, `@` words of users and roles, themes, and the bots'
    `commands`, as in agent_cogs.slash_definitions. `guild` is part of a message's link."""

    channels: Mapping[str, int]
    users: Mapping[str, int]
    roles: Mapping[str, int]
    themes: Collection[str] = ()
    commands: Sequence[Json] = ()
    messages: MessageNumbers = field(default_factory=MessageNumbers)
    guild: int = 0


class Unclear(ValueError):
    """A typed line makes no sense. Its text says why."""


def look_up(names: Mapping[str, int], word: str) -> int | None:
    return next((value for name, value in names.items() if name.lower() == word.lower()), None)


@dataclass(frozen=True, slots=True)
class _Filled:
    """A typed command. `left`: options that further words may fill; `by_name`: by their names alone."""

    path: str
    values: Mapping[str, Value]
    options: Sequence[Json]
    left: Sequence[Json]
    by_name: bool = False


def command_names(commands: Sequence[Json]) -> list[str]:
    """The commands as they are typed, with the slash."""
    return [f"/{command['name']}" for command in commands if command["type"] == SLASH]


def command_parts(command: Json) -> list[tuple[str, str]]:
    """A command with what it does, or its sub-commands; none if it isn't typed but chosen for a message."""
    if command["type"] != SLASH:
        return []
    name, parts = str(command["name"]), _parts(command)
    if not parts:
        return [(name, str(command["description"]))]
    return [(f"{name} {part}", str(option["description"])) for part, option in parts.items()]


def is_by_bot(text: str, kind: int, *, bot: bool, in_thread: bool) -> bool:
    """Return whether a bot said this: not Discord's report of a pin, thread, or poll (`kind`), or a room's notice."""
    is_notice = in_thread and text.startswith(HIDE_MARKS)
    return bot and not is_notice and kind in (DEFAULT, REPLY, COMMAND_REPLY)


def read_use(words: Sequence[str], current: int, known: Vocabulary) -> TypedCommand | None:
    """Parse a command typed in the channel `current`. Return None if it is unknown. Raises Unclear."""
    filled = _fill_options(words, known)
    if filled is None:
        return None
    values = dict(filled.values)
    for option in filled.options:
        name = option["name"]
        if name in values or not option.get("required"):
            continue
        if not _is_text_named("message", option):
            raise Unclear(f"/{filled.path} needs {name}: {_expected(option)}")
        values[name] = str(newest_by_bot(current, known).id)
    return TypedCommand(filled.path, values)


def newest_by_bot(channel_id: int, known: Vocabulary) -> NumberedMessage:
    newest = known.messages.newest(channel_id, by_bot=True)
    if newest is None:
        raise Unclear("no bot has written in this channel yet")
    return newest


def next_words(words: Sequence[str], known: Vocabulary) -> list[str]:
    """The words that may follow these of a command: sub-commands, and values of its next options."""
    command = _command(words[0], known.commands)
    parts = _parts(command) if command is not None else {}
    if parts and len(words) == 1:
        return list(parts)
    try:
        filled = _fill_options(words, known)
    except Unclear:
        return []
    if filled is None:
        return []
    if filled.by_name:
        return [f"{option['name']}:" for option in filled.left]
    follow: list[str] = []
    for option in filled.left:  # up to the first required one
        follow += (str(choice["value"]) for choice in option.get("choices", ()))
        if option["type"] == CHANNEL:
            follow += (f"#{name.lower()}" for name in known.channels)
        if option["type"] == USER:
            follow += (f"@{name.lower()}" for name in known.users)
        if option.get("required"):
            break
    return follow


def _command(word: str, commands: Sequence[Json]) -> Json | None:
    name = word.removeprefix("/").lower()
    return next((one for one in commands if one["type"] == SLASH and one["name"] == name), None)


def _parts(command: Json) -> dict[str, Json]:
    """The sub-commands by name."""
    return {str(option["name"]): option for option in command.get("options", ()) if option["type"] == SUB_COMMAND}


def _fill_options(words: Sequence[str], known: Vocabulary) -> _Filled | None:
    """Find the command and fill its options. Return None if the command is unknown. Raises Unclear.

    Options are filled by position, then by name: `turns: 4`. Free text extends to the next name.
    """
    command = _command(words[0], known.commands)
    if command is None:
        return None
    path, rest, options = str(command["name"]), list(words[1:]), command.get("options", ())
    if parts := _parts(command):
        word = rest[0].lower() if rest else ""
        part = parts.get(OLD_NAMES.get(f"{path} {word}", "").removeprefix(f"{path} ") or word)
        if part is None:
            raise Unclear(f"/{path} needs one of {', '.join(parts)}")
        path, rest, options = f"{path} {part['name']}", rest[1:], part.get("options", ())
    texts, left, open_text = dict[str, list[str]](), list(options), ""
    for word in rest:
        name, colon, value_text = word.partition(":")
        named = next((option for option in options if colon and option["name"] == name.lower()), None)
        if named is not None and named["name"] not in texts:
            open_text = named["name"]
            texts[open_text] = [value_text] if value_text else []
        elif open_text:
            texts[open_text].append(word)
        else:
            fitting = next((option for option in left if _value(word, option, known) is not None), None)
            if fitting is None:
                expected = "; ".join(f"{option['name']} is {_expected(option)}" for option in left)
                raise Unclear(f"{word} does not fit /{path}: {expected or 'it takes no more options'}")
            texts[fitting["name"]] = [word]
            # Free text takes all words that follow if it's the last option or names nothing. Ids and links have no
            # max_length.
            is_free = fitting["type"] == TEXT and "max_length" in fitting
            takes_all = is_free and (fitting is left[-1] or not fitting.get("autocomplete"))
            open_text = fitting["name"] if takes_all else ""
            left = left[left.index(fitting) + 1 :]
    values: dict[str, Value] = {}
    for option in (option for option in options if option["name"] in texts):
        text, longest = " ".join(texts[option["name"]]), option.get("max_length")
        if longest is not None and len(text) > longest:
            raise Unclear(f"{option['name']} is {len(text)} characters long; {longest} is the most")
        value = _value(text, option, known)
        if value is None:
            raise Unclear(f"{text} does not fit /{path}: {option['name']} is {_expected(option)}")
        values[option["name"]] = value
    left = [option for option in (options if open_text else left) if option["name"] not in values]
    return _Filled(path, values, options, left, by_name=bool(open_text))


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
    if _is_text_named("message", option):
        return "the number before a message, or its id"
    if _is_text_named("room", option):
        return "a room: #room-1, or its topic"
    return f"one of {', '.join(choices)}" if choices else f"a text ({option['description']})"


def _is_text_named(name: str, option: Json) -> bool:
    return bool(option["type"] == TEXT and option["name"] == name)


def _value(word: str, option: Json, known: Vocabulary) -> Value | None:
    """Convert a word for this option, of a free text several; None if it does not fit."""
    kind, name = option["type"], word.lower()
    if kind == CHANNEL:
        return look_up(known.channels, name.removeprefix("#"))
    if kind == USER:
        return look_up(known.users, name.removeprefix("@"))
    if kind == WHOLE:
        number = int(name) if name.isdecimal() and len(name) < MIN_ID else None  # int() refuses very long ones
        return number if number is not None and option["min_value"] <= number <= option["max_value"] else None
    if kind == YES_NO:
        return {"yes": True, "true": True, "no": False, "false": False}.get(name)
    if kind != TEXT:
        return None
    is_short_number = word.isdecimal() and len(word) < MIN_ID
    if _is_text_named("message", option):  # a number, an id or a link
        message = known.messages.get(int(word)) if is_short_number else None
        if message is not None:
            return str(message.id)
        return word if not is_short_number and (word.isdecimal() or "://" in word) else None
    if _is_text_named("room", option):  # the id of a `#room-1`, else a link or topic
        thread = look_up(known.channels, name.removeprefix("#"))
        if thread is not None:
            return str(thread)
        return None if is_short_number else word
    choices = option.get("choices", ())
    fits = (choice for choice in choices if name.removeprefix("@") in (choice["value"], choice["name"].lower()))
    if len(choices) == 1 and name == option["name"]:  # people write what the bots' texts say: `/privacy export`
        return str(choices[0]["value"])
    return word if not choices else next((str(choice["value"]) for choice in fits), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a command: text, "" if everybody sees it in the channel, and a menu or form. `fields`: Discord's,
    each with a label. `send` sends the texts or choices; it raises LookupError, ValueError, and TimeoutError."""

    text: str = ""
    title: str = ""
    fields: Sequence[Json] = ()
    send: Callable[[Values], Awaitable[Answer]] | None = None


class Dialog:
    """Shows answers, and asks the questions in them. `note` prints a line, `plain` turns Discord's text into words."""

    def __init__(self, note: Callable[[str], None], plain: Callable[[str], str]) -> None:
        self._note, self._plain = note, plain
        self._open = Answer()  # whose fields are asked
        self._values: list[Filled] = []  # of the first of them

    @property
    def label(self) -> str:
        """The field that is asked now, "" for none."""
        return str(self._open.fields[len(self._values)]["label"]) if self._open.fields else ""

    def show(self, answer: Answer) -> None:
        if words := self._plain(answer.text):
            self._note(words)
        if answer.fields:
            self._open, self._values = answer, []
            if answer.title:
                self._note(f"{answer.title} ({CANCEL} to leave)")
            self._note(render_question(answer.fields[0]))

    def takes(self, line: str) -> bool:
        """Whether the line answers an open question. The terminal's other commands remain what they are."""
        is_command = _COMMAND.match(line) is not None and line != CANCEL
        return bool(self._open.fields) and not is_command

    def take(self, line: str) -> Awaitable[Answer] | None:
        """Take a line as an answer. Return what sends the answers, once all are there."""
        asked, number = self._open, len(self._values)
        if line == CANCEL:
            self._open = Answer()
            self._note("canceled; nothing was sent")
            return None
        try:
            value = read_value(line.removeprefix("/"), asked.fields[number])
            check_value(asked.fields[number], value)
        except ValueError as error:
            self._note(f"{error} ({CANCEL} to leave)")
            return None
        self._values.append(value)
        if number + 1 < len(asked.fields):
            self._note(render_question(asked.fields[number + 1]))
            return None
        self._open = Answer()
        return asked.send(self._values) if asked.send is not None else None


def render_question(field: Json) -> str:
    """The question for a field, with what may be typed."""
    if field["type"] == MENU:
        fewest, most, options = field.get("min_values", 1), field.get("max_values", 1), field["options"]
        numbers = f"{fewest} to {'all' if most >= len(options) else most} of these numbers"
        width = max(len(option["label"]) for option in options)
        lines = (
            f"{number:>2} {option['label'].ljust(width)}  {option.get('description') or ''}".rstrip()
            for number, option in enumerate(options, 1)
        )
        return "\n".join([f"{field['label']}: type {'a number' if fewest == most == 1 else numbers}", *lines])
    if field.get("value"):
        return f"{field['label']} (an empty line keeps it):\n{field['value']}"
    notes = (
        "required" if field.get("required", True) else "an empty line skips it",
        (field.get("placeholder") or "").rstrip("."),
    )
    return f"{field['label']} ({'; '.join(filter(None, notes))})"


def read_value(line: str, field: Json) -> Filled:
    """Read a typed text, or the values that numbers or names mean."""
    if field["type"] != MENU:
        return line.strip() or str(field.get("value") or "")
    options = field["options"]
    if line.strip().lower() == "all":
        return [option["value"] for option in options]
    meant = {option[key].lower(): option["value"] for option in reversed(options) for key in ("label", "value")}
    meant |= {str(number): option["value"] for number, option in enumerate(options, 1)}
    words = (word.strip().removeprefix("@") for word in filter(None, _BETWEEN.split(line.strip())))
    return list(dict.fromkeys(meant.get(word.lower(), word) for word in words))
