"""The values that people give with an action: how an action declares its options, and the one check of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from agentic.actions.base import ActionContext, ActionRefused, ActionRequest, Surface
from agentic.agent.roster import AgentName, nearest
from agentic.chat.directory import clean_name
from agentic.ids import MAX_ID
from agentic.text import named

Kind = Literal["", "bot", "agent", "channel", "person", "message", "room", "option", "model"]

MAX_NAMED = 25  # values that are listed


class Values(BaseModel):
    """The values given with an action. A subclass declares the options with `option`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True, allow_inf_nan=False)


V = TypeVar("V", bound=Values)


def option(
    about: str,
    default: Any = ...,
    *,
    name: str = "",
    kind: Kind = "",
    choices: Mapping[str, str] | Collection[str] = (),
    only: Surface | None = None,
    needed: Surface | None = None,
    most: int | None = None,
    **bounds: Any,
) -> Any:
    """Declare an option: a line for people, its name if it isn't the field's, what its text names, and its choices
    (value → shown). `only` this surface has it; on the surface `needed` it has no default. Forms accept `most`
    characters; `bounds` are pydantic's."""
    known = dict(choices) if isinstance(choices, Mapping) else {value: value for value in choices}
    extra: dict[str, Any] = {"kind": kind, "choices": known, "only": only, "needed": needed, "most": most}
    return Field(default, alias=name or None, description=about, json_schema_extra=extra, **bounds)


def _number(written: object) -> object:
    return int(written) if isinstance(written, str) and written.isdecimal() and len(written) < 20 else written


Snowflake = Annotated[int, BeforeValidator(_number), Field(ge=1, le=MAX_ID)]
"""An id of Discord: services write it as a text."""


def read_values(context: ActionContext, kind: type[V], request: ActionRequest) -> V:
    """Return the values of a request. Raises ActionRefused if they don't fit."""
    fields = kind.model_fields
    for key, field in fields.items():
        given = {key, field.alias} & request.values.keys()
        if given and extra_of(field)["only"] not in (None, request.surface):
            raise ActionRefused("unknown_option", option=key)
    try:
        values = kind.model_validate(dict(request.values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        wrong = next((field for key, field in fields.items() if name in (key, field.alias)), None)
        if wrong is None:
            raise ActionRefused("unknown_option", option=name) from error
        if first["type"] == "missing":
            raise ActionRefused("missing_value", option=name) from error
        raise ActionRefused("bad_value", option=name, wanted=_describe(wrong)) from error
    agents = context.services.agents.names if request.surface == "slash" else context.services.agents.roster.names
    changed = {}
    for key, field in fields.items():
        value, extra = getattr(values, key), extra_of(field)
        if extra["needed"] == request.surface and value in (None, ""):
            raise ActionRefused("missing_value", option=field.alias or key)
        if not isinstance(value, str) or not value:
            continue
        if extra["kind"] == "bot":
            found = [value] if value in agents else named(agents, value)  # by key, or by name
            if len(found) != 1:
                raise unknown_value("bot", value, [*agents.values()])
            changed[key] = found[0]
        elif extra["choices"] and value not in extra["choices"]:
            choices = extra["choices"]
            labels = [each if each == label else f"{each} ({label})" for each, label in choices.items()]
            raise unknown_value(field.alias or key, value, [*choices], labels)
    return values.model_copy(update=changed)


def extra_of(field: FieldInfo) -> dict[str, Any]:
    """Return what `option` declared besides pydantic's own: kind, choices, only, needed, most."""
    assert isinstance(field.json_schema_extra, dict)
    return dict(field.json_schema_extra)


def bounds_of(field: FieldInfo) -> dict[str, Any]:
    """Return the bounds of an option: ge, gt, le, lt, max_length."""
    return {
        name: value
        for limit in field.metadata
        for name in ("ge", "gt", "le", "lt", "max_length", "pattern")
        if (value := getattr(limit, name, None)) is not None
    }


def _describe(field: FieldInfo) -> str:
    """Say what a value must be, for a person."""
    bounds = bounds_of(field)
    if extra_of(field)["kind"] in ("channel", "person"):
        return "a Discord ID"
    low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
    if "pattern" in bounds:
        return "written as HH:MM"
    if "max_length" in bounds:
        return f"a text of at most {bounds['max_length']} characters"
    if low is not None and high is not None:
        return f"{'a' if field.annotation is float else 'a whole'} number from {low:g} to {high:g}"
    return "yes or no" if field.annotation is bool else "a text"


def unknown_value(kind: str, written: str, known: Sequence[str], shown: Sequence[str] = ()) -> ActionRefused:
    """Refuse a value that an option doesn't have: suggest the closest one, and list the choices."""
    listed = shown or known
    close = nearest([AgentName(name, name) for name in known], written)
    meant = f" Did you mean {close}?" if close else ""
    more = ", …" if len(listed) > MAX_NAMED else ""
    choices = f" Choose from: {', '.join(listed[:MAX_NAMED])}{more}." if listed else ""
    return ActionRefused("unknown_value", kind=kind, written=clean_name(written), more=f"{meant}{choices}")
