"""Menus and forms, which a bot shows in answers to commands, and the data of what a person chooses or fills in.

https://discord.com/developers/docs/components/reference
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
Filled = str | Sequence[str]
"""What a person puts into a field of a form: a text, or the chosen values of a menu."""

ROW, BUTTON, MENU, INPUT, LABEL = 1, 2, 3, 4, 18  # types of components


def menus(message: Mapping[str, Any]) -> list[Json]:
    """The menus of a message, in their order."""
    rows = [row for row in message.get("components") or () if row["type"] == ROW]
    return [one for row in rows for one in row["components"] if one["type"] == MENU]


def menu_data(menu: Json, values: Sequence[str]) -> Json:
    """The data of a choice from a menu. Raises ValueError for one that Discord would not let a person make."""
    _check(menu, values)
    return {"custom_id": menu["custom_id"], "component_type": menu["type"], "values": list(values)}


def fields(form: Mapping[str, Any]) -> list[Json]:
    """The fields of a form in their order: inputs and menus, each with its label."""
    return [_with_label(row, one) for row in form["components"] for one in _inner(row)]


def form_data(form: Mapping[str, Any], values: Sequence[Filled]) -> Json:
    """The data of a form that is submitted, its fields filled in order. Raises ValueError for one that Discord would
    not take."""
    if len(values) != len(fields(form)):
        raise ValueError(f"the form has {len(fields(form))} fields")
    left = iter(values)
    return {"custom_id": form["custom_id"], "components": [_filled(row, left) for row in form["components"]]}


def _filled(row: Json, values: Iterator[Filled]) -> Json:
    filled = [_of_field(one, next(values)) for one in _inner(row)]
    content = {"component": filled[0]} if "component" in row else {"components": filled}
    return {"type": row["type"], **content}


def _of_field(field: Json, value: Filled) -> Json:
    given = {key: field[key] for key in ("type", "custom_id")}
    if field["type"] == MENU:
        chosen = [value] if isinstance(value, str) else list(value)
        _check(field, chosen)
        return {**given, "values": chosen}
    text = str(value)
    if field.get("required", True) and not text:
        raise ValueError(f"{field.get('label') or field['custom_id']} is required")
    if len(text) > field.get("max_length", 4000):
        raise ValueError(f"{field.get('label') or field['custom_id']} has at most {field['max_length']} characters")
    return {**given, "value": text}


def _inner(row: Json) -> list[Json]:
    """The components of a row, or the one of a label; none of a text."""
    if "component" in row:
        return [row["component"]]
    return list(row.get("components") or ())


def _with_label(row: Json, field: Json) -> Json:
    return {**field, "label": field.get("label") or row.get("label") or ""}


def _check(menu: Json, values: Sequence[str]) -> None:
    known = [option["value"] for option in menu.get("options", ())]
    fewest, most = menu.get("min_values", 1), menu.get("max_values", 1)
    unknown = [value for value in values if value not in known]
    if unknown:
        raise ValueError(f"{unknown[0]} is not one of {', '.join(known)}")
    if not fewest <= len(set(values)) <= most:
        raise ValueError(f"choose {fewest}" if fewest == most else f"choose {fewest} to {most}")
