"""JSON schemas in the dialect of each provider: converted once, or described in words where a provider takes none.

Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agentic.llm.profiles import Profile
from agentic.llm.types import Prompt

_IN_WORDS = (
    "\n\nAnswer with exactly one JSON object that fits the JSON schema below, and with nothing else: no prose before "
    "or after it, no code fence, no citation marks inside its strings.\n"
)


Schema = Mapping[str, Any]


class ConvertedSchemas:
    """Caches schemas converted by `convert`: they live as long as the program and go with each request.

    A returned schema is shared and must not be changed.
    """

    def __init__(self, convert: Callable[[Schema, Any], dict[str, Any]], most: int) -> None:
        self._convert, self._most = convert, most
        # By id, with the objects themselves: while they are kept no other object has their ids.
        self._converted: dict[tuple[int, int], tuple[Schema, object, dict[str, Any]]] = {}

    def of(self, schema: Schema, rules: object) -> dict[str, Any]:
        key = (id(schema), id(rules))
        known = self._converted.get(key)
        if known is None:
            if len(self._converted) >= self._most:
                self._converted.clear()
            known = self._converted[key] = (schema, rules, self._convert(schema, rules))
        return known[2]


def wants_schema(prompt: Prompt, profile: Profile) -> bool:
    """Whether the request carries the schema. False if there is none, or if it must be given in words."""
    if prompt.schema is None or (prompt.tools and not profile.schema_with_tools):
        return False
    return profile.schema and (profile.schema_with_search or not prompt.search)


def tail_of(prompt: Prompt, profile: Profile) -> str:
    """Return the prompt's text, with the schema in words if the provider cannot take it."""
    if prompt.schema is None or wants_schema(prompt, profile):
        return prompt.text
    return f"{prompt.text}{_IN_WORDS}{json.dumps(prompt.schema, ensure_ascii=False, default=dict)}"


def schema_of(schema: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Convert a schema for strict structured output: closed objects, no keyword that the provider refuses."""
    return _SCHEMAS.of(schema, profile)


def _strict(schema: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            converted[key] = {name: _strict(part, profile) for name, part in value.items()}
        elif key not in profile.unknown_keywords:
            converted[key] = _converted(value, profile)
    if "properties" in converted:
        _close(converted, profile)
    return converted


def _converted(value: Any, profile: Profile) -> Any:
    if isinstance(value, Mapping):
        return _strict(value, profile)
    if isinstance(value, (list, tuple)):
        return [_converted(item, profile) for item in value]
    return value


def _close(schema: dict[str, Any], profile: Profile) -> None:
    schema["additionalProperties"] = False
    if not profile.all_required:
        return
    required = schema.get("required", [])
    for name, part in schema["properties"].items():
        if name not in required:
            schema["properties"][name] = _nullable(part)
    schema["required"] = list(schema["properties"])


def _nullable(part: dict[str, Any]) -> dict[str, Any]:
    """Return the property's schema with null allowed."""
    kinds = part.get("type")
    if kinds is None or "enum" in part:
        return part if _takes_null(part) else {"anyOf": [part, {"type": "null"}]}
    listed = [kinds] if isinstance(kinds, str) else list(kinds)
    return part if "null" in listed else {**part, "type": [*listed, "null"]}


def _takes_null(part: Mapping[str, Any]) -> bool:
    return None in part.get("enum", ()) or any(option.get("type") == "null" for option in part.get("anyOf", ()))


_SCHEMAS = ConvertedSchemas(_strict, most=100)
