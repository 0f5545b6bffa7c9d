"""Responses to a slash command: a private line, a public message, a file, or a form to submit."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import discord

MOST_FIELDS = 5  # Discord's limits for a form, as are the next two
FIELD_CHARACTERS = 4000
TITLE_CHARACTERS = 45
FORM_SECONDS = 3600.0  # until a form that is not submitted expires


@dataclass(frozen=True, slots=True)
class CommandReply:
    """A text reply. `public`: everyone in the channel sees it, with the name of the person who used the command.
    `file`: name and text of an attachment."""

    text: str
    public: bool = False
    file: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A text to edit in a form. `id` is returned when the form is submitted."""

    id: str
    title: str
    text: str

    @property
    def fields(self) -> tuple[str, ...]:
        """The text split into fields between lines. Raises ValueError where it does not fit."""
        fields = tuple(_parts(self.text)) or ("",)
        if len(fields) > MOST_FIELDS:
            raise ValueError(f"a form holds {MOST_FIELDS} fields of {FIELD_CHARACTERS} characters")
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
    """The form as py-cord's modal. Raises ValueError where the text does not fit."""
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
    """The text of a submitted form, its parts joined."""
    rows = data.get("components")
    parts = [part for row in rows if isinstance(row, dict) for part in _inner(row)] if isinstance(rows, list) else []
    return "\n".join(str(part.get("value") or "") for part in parts)


def _inner(row: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The inputs of an action row, or of a label."""
    inner = row.get("components") or row.get("component")
    found = inner if isinstance(inner, list) else [inner]
    return [one for one in found if isinstance(one, dict)]


def text_file(name: str, text: str) -> discord.File:
    return discord.File(io.BytesIO(text.encode("utf-8", "replace")), filename=name)
