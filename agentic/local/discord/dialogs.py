"""Running interactions, with the menus and forms in a bot's answers.

https://discord.com/developers/docs/components/reference
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Filled = str | Sequence[str]
"""What a person puts into a field of a form: a text, or the chosen values of a menu."""

ROW, MENU = 1, 3  # types of components
MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, MODAL = 4, 5, 6, 7, 9  # types of a first answer
EPHEMERAL = 1 << 6

TOKEN_SECONDS = 15 * 60
ANSWER_SECONDS = 3.0


@dataclass(slots=True)
class Interaction:
    """A command that is being answered, a form that was filled in, or a choice from a menu.

    `answers` has the JSON of all its messages, including hidden (ephemeral) messages, which aren't in the channel.
    `source`: for a choice, the message with the menu, which the answer may replace.
    """

    id: int
    token: str
    application_id: int
    user_id: int
    channel_id: int
    created: float
    command: str = ""
    callback: dict[str, Any] | None = None
    source: dict[str, Any] | None = None
    original_id: int | None = None
    hidden: dict[int, dict[str, Any]] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def form(self) -> dict[str, Any] | None:
        return self.callback["data"] if self.callback is not None and self.callback["type"] == MODAL else None

    @property
    def menu(self) -> dict[str, Any] | None:
        """Return the first menu of the newest answer."""
        rows = self.answers[-1].get("components") or () if self.answers else ()
        shown = (one for row in rows if row["type"] == ROW for one in row["components"])
        return next((one for one in shown if one["type"] == MENU), None)

    @property
    def done(self) -> bool:
        """Whether the person has something to read or to fill in."""
        return bool(self.answers) or self.form is not None

    @property
    def deferred(self) -> bool:
        return self.callback is not None and self.callback["type"] == DEFERRED_MESSAGE


def fields(form: Mapping[str, Any]) -> list[Json]:
    """Return the fields of a form in their order: inputs and menus, each with its label."""
    return [
        {**field, "label": field.get("label") or row.get("label") or ""}
        for row in form["components"]
        for field in _inner(row)
    ]


def form_data(form: Mapping[str, Any], values: Sequence[Filled]) -> Json:
    """Return the data of a form with its fields filled in order. Raises ValueError if Discord wouldn't accept it."""
    if len(values) != len(fields(form)):
        raise ValueError(f"the form has {len(fields(form))} fields")
    left = iter(values)
    rows = []
    for row in form["components"]:
        filled = []
        for each, value in zip(_inner(row), left, strict=False):
            check_value(each, value)
            key = "values" if each["type"] == MENU else "value"
            filled.append({"type": each["type"], "custom_id": each["custom_id"], key: value})
        content = {"component": filled[0]} if "component" in row else {"components": filled}
        rows.append({"type": row["type"], **content})
    return {"custom_id": form["custom_id"], "components": rows}


def _inner(row: Json) -> list[Json]:
    """Return the components of a row, or the single one of a label; none for a text."""
    if "component" in row:
        return [row["component"]]
    return list(row.get("components") or ())


def check_value(field: Mapping[str, Any], value: Filled) -> None:
    """Raise ValueError if Discord wouldn't accept this text, or these choices, in this field."""
    if field["type"] != MENU:
        label = field.get("label") or field["custom_id"]
        if field.get("required", True) and not value:
            raise ValueError(f"{label} is required")
        if len(value) > field.get("max_length", 4000):
            raise ValueError(f"{label} has at most {field['max_length']} characters")
        return
    known = [option["value"] for option in field.get("options", ())]
    fewest, most = field.get("min_values", 1), min(field.get("max_values", 1), len(known))
    if unknown := [each for each in value if each not in known]:
        raise ValueError(f"{unknown[0]} isn't among the choices")
    if not fewest <= len(set(value)) <= most:
        raise ValueError(f"choose {fewest}" if fewest == most else f"choose {fewest} to {most}")
