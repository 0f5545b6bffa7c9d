"""Forms, menus and files as py-cord's objects, and what came back of them as plain values.

py-cord keeps none of them (`store=False`): what a person fills in or chooses reaches agent_cogs/cog.py as an
interaction, in whichever process the bot runs by then.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import discord

from agentic.actions.responses import (
    CHOICE_CHARACTERS,
    HINT_CHARACTERS,
    LABEL_CHARACTERS,
    MOST_CHOICES,
    TITLE_CHARACTERS,
    Choice,
    Field,
    Form,
    Menu,
)

Json = Mapping[str, object]


def modal_of(form: Form) -> discord.ui.Modal:
    modal = discord.ui.Modal(title=form.title[:TITLE_CHARACTERS], custom_id=form.id, store=False)
    for field in form.fields:
        modal.add_item(_input(field))
    return modal


def _input(field: Field) -> discord.ui.InputText:
    return discord.ui.InputText(
        style=discord.InputTextStyle.long if field.long else discord.InputTextStyle.short,
        label=field.label[:LABEL_CHARACTERS],
        placeholder=field.hint[:HINT_CHARACTERS] or None,
        custom_id=field.id,
        value=field.text[: field.most] or None,
        required=field.required,
        max_length=field.most,
    )


def view_of(menu: Menu) -> discord.ui.View:
    choices = menu.choices[:MOST_CHOICES]
    select: discord.ui.Select[Any, Any, Any] = discord.ui.Select(
        custom_id=menu.id,
        placeholder=menu.hint[:HINT_CHARACTERS] or None,
        min_values=min(menu.fewest, len(choices)),
        max_values=min(menu.most, len(choices)),
        options=[_option(choice) for choice in choices],
    )
    return discord.ui.View(select, timeout=None, store=False)


def _option(choice: Choice) -> discord.SelectOption:
    return discord.SelectOption(
        label=choice.label[:CHOICE_CHARACTERS],
        value=choice.value,
        description=choice.about[:CHOICE_CHARACTERS] or None,
    )


def option_choice(choice: Choice) -> discord.OptionChoice:
    """A choice for an option that is being typed."""
    return discord.OptionChoice(choice.label[:CHOICE_CHARACTERS], choice.value[:CHOICE_CHARACTERS])


def filled_in(data: Json) -> dict[str, str]:
    """The texts of a submitted form, by the fields' ids."""
    rows = data.get("components")
    fields = [field for row in rows if isinstance(row, dict) for field in _inner(row)] if isinstance(rows, list) else []
    return {str(field.get("custom_id", "")): str(field.get("value") or "") for field in fields}


def _inner(row: Json) -> list[Json]:
    """The inputs of an action row, or of a label."""
    inner = row.get("components") or row.get("component")
    found = inner if isinstance(inner, list) else [inner]
    return [one for one in found if isinstance(one, dict)]


def text_file(name: str, text: str) -> discord.File:
    return discord.File(io.BytesIO(text.encode("utf-8", "replace")), filename=name)
