"""Whether a call's arguments fit the tool's JSON schema, in the part of it that models get wrong.

Types, required and unknown properties, choices, bounds, lists, `anyOf` and references inside of the schema. What is
not looked at is left to the tool, which judges its arguments itself. A schema may come from another program: nothing in
it is fetched, and `pattern` is not run, because a regular expression can take for ever. (The `jsonschema` package does
both by default, and its import takes 120 ms.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

MAX_DEPTH = 32
RAW = "_raw"  # where a provider's module puts arguments that are no JSON

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": lambda value: _is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_BOUNDS: Mapping[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool], str]] = {
    "minimum": ((int, float), lambda value, bound: value >= bound, "at least {}"),
    "maximum": ((int, float), lambda value, bound: value <= bound, "at most {}"),
    "exclusiveMinimum": ((int, float), lambda value, bound: value > bound, "more than {}"),
    "exclusiveMaximum": ((int, float), lambda value, bound: value < bound, "less than {}"),
    "minLength": (str, lambda value, bound: len(value) >= bound, "at least {} characters"),
    "maxLength": (str, lambda value, bound: len(value) <= bound, "at most {} characters"),
    "minItems": (list, lambda value, bound: len(value) >= bound, "at least {} items"),
    "maxItems": (list, lambda value, bound: len(value) <= bound, "at most {} items"),
}


def problem_with(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """What does not fit, in one line that the model can act on; None where everything does."""
    if set(arguments) == {RAW} and RAW not in schema.get("properties", {}):
        return "the arguments are not one JSON object"
    return next(_problems(dict(arguments), {"type": "object", **schema}, "", schema, 0), None)


def _problems(value: Any, schema: Any, path: str, root: Mapping[str, Any], depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{path or 'it'} is not wanted"
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    if isinstance(schema.get("$ref"), str):
        yield from _problems(value, _referred(schema["$ref"], root), path, root, depth + 1)
    yield from _own_problems(value, schema, path or "the arguments")
    for part in _listed(schema.get("allOf")):
        yield from _problems(value, part, path, root, depth + 1)
    for key in ("anyOf", "oneOf"):
        options = _listed(schema.get(key))
        if options and all(any(_problems(value, option, path, root, depth + 1)) for option in options):
            yield f"{path or 'it'} fits none of its allowed forms"
    if isinstance(value, dict):
        yield from _problems_of_properties(value, schema, path, root, depth)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, schema.get("items"), f"{path}[{index}]", root, depth + 1)


def _own_problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    kinds = schema.get("type")
    wanted = [kinds] if isinstance(kinds, str) else _listed(kinds)
    checks = [_TYPES[kind] for kind in wanted if kind in _TYPES]
    if checks and not any(check(value) for check in checks):
        yield f"{path} must be {' or '.join(map(str, wanted))}"
        return
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{path} must be {schema['const']!r}"
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_same(value, choice) for choice in choices):
        yield f"{path} must be one of {', '.join(map(repr, choices[:20]))}"
    for key, (kind, holds, words) in _BOUNDS.items():
        bound = schema.get(key)
        bounded = _is_number(value) if isinstance(value, bool | int | float) else isinstance(value, kind)
        if bounded and isinstance(value, kind) and _is_number(bound) and not holds(value, bound):
            yield f"{path} must be {words.format(bound)}"


def _problems_of_properties(
    value: dict[str, Any], schema: Mapping[str, Any], path: str, root: Mapping[str, Any], depth: int
) -> Iterator[str]:
    known = schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    for name in _listed(schema.get("required")):
        if name not in value:
            yield f"{_within(path, name)} is missing"
    others = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name not in known and others is False and not schema.get("patternProperties"):
            yield f"{_within(path, name[:100])} is not one of its arguments"
        else:
            yield from _problems(item, known.get(name, others), _within(path, name), root, depth + 1)


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    """The part of the schema that `#/…` names; one that takes anything where there is none."""
    place: Any = root
    for step in reference.removeprefix("#").strip("/").split("/") if reference.startswith("#") else ("/",):
        name = step.replace("~1", "/").replace("~0", "~")
        if name:
            place = place.get(name) if isinstance(place, Mapping) else None
    return place


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _within(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)
