"""A menu or a form of the bots, asked in the terminal one field after another.

A menu's choices are numbered: `1 3` takes the first and the third, names do too, `all` takes all of them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

CANCEL = "/cancel"
_BETWEEN = re.compile(r"[,;]\s*|(?<!\s)\s++(?=\d)")


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a menu; `value` is sent, `about` a line on it."""

    value: str
    label: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A text, or with `choices` a menu of which `fewest` to `most` are taken. `text` stands in it already, `most` is
    the largest number of characters of a text."""

    label: str
    most: int
    fewest: int = 0  # 1: a text is required
    text: str = ""
    hint: str = ""
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a command: words, "" for what everybody sees in the channel, and a menu or form to fill in."""

    text: str = ""
    questions: Questions | None = None


Values = Sequence[str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Questions:
    """The fields of a menu or form. `send` sends what a person put into them, texts or chosen values; it raises
    LookupError, ValueError and TimeoutError."""

    title: str
    fields: tuple[Field, ...]
    send: Callable[[Values], Awaitable[Answer]]


class Asking:
    """Questions as far as they are answered."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        self.values: list[str | Sequence[str]] = []

    @property
    def field(self) -> Field | None:
        """The field that is asked now, None once all are answered."""
        return self.questions.fields[len(self.values)] if len(self.values) < len(self.questions.fields) else None

    def shown(self) -> str:
        """The present question, with what may be typed."""
        field = self.field
        assert field is not None
        if field.choices:
            return "\n".join([f"{field.label}: {_how_many(field)}", *_numbered(field.choices)])
        notes = ["required" if field.fewest and not field.text else "", field.hint and f"such as {field.hint}"]
        notes.append("an empty line keeps it" if field.text else "" if field.fewest else "an empty line skips it")
        asked = f"{field.label} ({', '.join(filter(None, notes))})"
        return f"{asked}:\n{field.text}" if field.text else asked

    def take(self, line: str) -> str | None:
        """Take a typed line as the answer to the present question; return a hint where it does not fit."""
        field = self.field
        assert field is not None
        try:
            self.values.append(_chosen(line, field) if field.choices else _text(line, field))
        except ValueError as error:
            return str(error)
        return None


class Dialog:
    """Shows answers, and asks the questions in them. `note` prints a line, `plain` turns Discord's text into words."""

    def __init__(self, note: Callable[[str], None], plain: Callable[[str], str]) -> None:
        self._note, self._plain = note, plain
        self._asking: Asking | None = None

    @property
    def label(self) -> str:
        """The field that is asked now, "" for none."""
        field = self._asking.field if self._asking is not None else None
        return field.label if field is not None else ""

    def show(self, answer: Answer) -> None:
        if words := self._plain(answer.text):
            self._note(words)
        if answer.questions is not None:
            self._asking = Asking(answer.questions)
            if answer.questions.title:
                self._note(f"{answer.questions.title}; {CANCEL} leaves it")
            self._note(self._asking.shown())

    def takes(self, line: str) -> bool:
        """Whether the line answers an open question. The terminal's other commands remain what they are."""
        command = line.startswith("/") and not line.startswith("//") and line != CANCEL
        return self._asking is not None and not command

    def take(self, line: str) -> Awaitable[Answer] | None:
        """Take a line as an answer. Return what sends the answers, once all are there."""
        asking = self._asking
        assert asking is not None
        if line == CANCEL:
            self._asking = None
            self._note("left, nothing was sent")
            return None
        if hint := asking.take(line.removeprefix("/")):
            self._note(hint)
            return None
        if asking.field is not None:
            self._note(asking.shown())
            return None
        self._asking = None
        return asking.questions.send(asking.values)


def _numbered(choices: Sequence[Choice]) -> list[str]:
    width = max(len(choice.label) for choice in choices)
    return [
        f"{number:>2} {choice.label.ljust(width)}  {choice.about}".rstrip() for number, choice in enumerate(choices, 1)
    ]


def _how_many(field: Field) -> str:
    if field.fewest == field.most == 1:
        return "type a number"
    most = "all" if field.most >= len(field.choices) else str(field.most)
    return f"type {field.fewest} to {most} of these numbers"


def _text(line: str, field: Field) -> str:
    text = line.strip() or field.text
    if field.fewest and not text:
        raise ValueError(f"{field.label} is required; {CANCEL} leaves it")
    if len(text) > field.most:
        raise ValueError(f"that is {len(text):,} characters, {field.label} has at most {field.most:,}")
    return text


def _chosen(line: str, field: Field) -> list[str]:
    if line.strip().lower() == "all":
        wanted = [choice.value for choice in field.choices]
    else:
        wanted = [_choice(word, field.choices) for word in _BETWEEN.split(line.strip()) if word]
    chosen = list(dict.fromkeys(wanted))
    if not field.fewest <= len(chosen) <= field.most:
        raise ValueError(f"{_how_many(field)}; {CANCEL} leaves it")
    return chosen


def _choice(word: str, choices: Sequence[Choice]) -> str:
    """The value that a number or a name means. Raises ValueError."""
    if word.isdecimal() and 0 < int(word[:4]) <= len(choices):
        return choices[int(word[:4]) - 1].value
    meant = word.strip().lower().removeprefix("@")
    for choice in choices:
        if meant in (choice.value.lower(), choice.label.lower()):
            return choice.value
    raise ValueError(f"{word} is none of these; type their numbers")
