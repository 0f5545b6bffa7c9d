"""ActionRequest, Actor, Outcome, replies, rights.

Values of an action: the request of the page, and the end of it.

Responses to a command as plain values: a private line, a public message, a file, a form, a menu.

A form or a menu has an id, which comes back with what the person filled in or chose, as a command of its own: the part
of the id before the first colon names it, "form room" for the form "room:…" (components.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field


class Request(BaseModel):
    """The body of an action. `id` is the click's: the same click twice is one action."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    id: str
    channel: str | None = Field(default=None, max_length=20)
    agent: str | None = Field(default=None, max_length=100)
    theme: str | None = None
    topic: str | None = None
    minutes: int | None = None
    at: float | None = None  # unix seconds: the scheduled time that is meant
    time: str | None = None  # HH:MM, in the owner's time zone
    scope: str | None = None  # all, agent:{name}, channel:{id}
    dollars: float | None = None
    personas: list[str] | None = Field(default=None, max_length=50)  # those who take part in a room, by key
    policy: str | None = None
    turns: int | None = None
    archive: int | None = None  # minutes
    audience: int | None = None  # seconds
    goodbye_ends: bool | None = None
    rules: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an action. `outcome` is a word for the record, `text` a line for the owner."""

    outcome: str
    text: str
    detail: str = ""


Act = Callable[[Request], Awaitable[Done]]


MOST_FIELDS = 5  # Discord's limits for a form, as are the next five
FIELD_CHARACTERS = 4000
TITLE_CHARACTERS = 45
LABEL_CHARACTERS = 45
HINT_CHARACTERS = 100
ID_CHARACTERS = 100
MOST_CHOICES = 25  # of a menu
CHOICE_CHARACTERS = 100
_PART = "part"  # of a text that is split into fields


@dataclass(frozen=True, slots=True)
class CommandReply:
    """A text reply. `public`: everyone in the channel sees it, with the name of the person who used the command.
    `file`: name and text of an attachment."""

    text: str
    public: bool = False
    file: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesField:
    """A field of a form. `id` names its text in what comes back; it is never "id". `hint` is shown while it is
    empty."""

    id: str
    label: str
    text: str = ""
    hint: str = ""
    long: bool = False  # several lines
    required: bool = False
    most: int = FIELD_CHARACTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Up to five fields to fill in."""

    id: str
    title: str
    fields: tuple[ResponsesField, ...]

    @property
    def text(self) -> str:
        """All that stands in its fields."""
        return "\n".join(field.text for field in self.fields)


def given_back(reason: str, values: Mapping[str, str], file: str) -> CommandReply:
    """The reason, with all that was written in a form, which would be lost, as a file of that name."""
    written = "\n\n".join(f"{name}:\n{text}" for name, text in values.items() if name != "id")
    return CommandReply(reason, file=(file, written))


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a menu. `value` comes back; `about` is a line below its label."""

    value: str
    label: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """A line with choices below it, of which the person takes `fewest` to `most`."""

    id: str
    text: str
    choices: tuple[Choice, ...]
    hint: str = ""
    fewest: int = 1
    most: int = 1


Response = str | CommandReply | Form | Menu


def text_form(form_id: str, title: str, text: str) -> Form:
    """A form to edit one text, split into fields between lines. Raises ValueError where it does not fit."""
    parts = tuple(_parts(text)) or ("",)
    if len(parts) > MOST_FIELDS:
        raise ValueError(f"a form holds {MOST_FIELDS} fields of {FIELD_CHARACTERS} characters")
    label = "Text" if len(parts) == 1 else f"Text, part {{}} of {len(parts)}"
    fields = (
        ResponsesField(id=f"{_PART}{number}", label=label.format(number), text=part, long=True)
        for number, part in enumerate(parts, 1)
    )
    return Form(id=form_id, title=title, fields=tuple(fields))


def text_in(values: Mapping[str, object]) -> str:
    """The text of such a form that came back."""
    parts = (values.get(f"{_PART}{number}") for number in range(1, MOST_FIELDS + 1))
    return "\n".join(str(part) for part in parts if part is not None)


def _parts(text: str) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        if len(line) > FIELD_CHARACTERS:
            raise ValueError(f"a line has more than {FIELD_CHARACTERS} characters")
        if lines and size + len(line) + 1 > FIELD_CHARACTERS:
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + (1 if len(lines) > 1 else 0)
    yield "\n".join(lines)
