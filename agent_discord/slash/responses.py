"""What a command is answered with: a line for one person, words for all, or a form that comes back filled in."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import discord

MOST_FIELDS = 5  # of a form: Discord's own limits, as the next two
FIELD_CHARACTERS = 4000
TITLE_CHARACTERS = 45
FORM_SECONDS = 3600.0  # for which a form that nobody sends back is remembered


@dataclass(frozen=True, slots=True)
class CommandReply:
    """A text. `public`: everybody in the channel sees it, under the name of whoever used the command. `file`: a file's
    name and its text go along."""

    text: str
    public: bool = False
    file: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A text to be changed in a form. `id` comes back with it."""

    id: str
    title: str
    text: str

    @property
    def fields(self) -> tuple[str, ...]:
        """The text in as many parts as fields are needed, cut between lines; ValueError where it does not fit."""
        fields = tuple(_parts(self.text)) or ("",)
        if len(fields) > MOST_FIELDS:
            raise ValueError(f"a form takes {MOST_FIELDS} fields of {FIELD_CHARACTERS} characters")
        return fields


Response = str | CommandReply | Form


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


def modal_of(form: Form) -> discord.ui.Modal:
    """As Discord shows it. Raises ValueError where the text does not fit."""
    modal = discord.ui.Modal(title=form.title[:TITLE_CHARACTERS], custom_id=form.id, timeout=FORM_SECONDS)
    fields = form.fields
    for number, value in enumerate(fields, 1):
        label = "Text" if len(fields) == 1 else f"Text, part {number} of {len(fields)}"
        modal.add_item(
            discord.ui.InputText(
                style=discord.InputTextStyle.long,
                label=label,
                custom_id=f"part{number}",
                value=value or None,
                required=False,
                max_length=FIELD_CHARACTERS,
            )
        )
    return modal


def filled_in(data: Mapping[str, object]) -> str:
    """The text that a form came back with, its parts together again."""
    rows = data.get("components")
    parts = [part for row in rows if isinstance(row, dict) for part in _inner(row)] if isinstance(rows, list) else []
    return "\n".join(str(part.get("value") or "") for part in parts)


def _inner(row: Mapping[str, object]) -> list[Mapping[str, object]]:
    """An action row's inputs, or the one that a label stands for."""
    inner = row.get("components") or row.get("component")
    found = inner if isinstance(inner, list) else [inner]
    return [one for one in found if isinstance(one, dict)]


def text_file(name: str, text: str) -> discord.File:
    return discord.File(io.BytesIO(text.encode("utf-8", "replace")), filename=name)
