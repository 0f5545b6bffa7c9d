"""JSON on the way to and from providers.

Answers have no guaranteed shape: a missing or mistyped value reads as empty and never raises. Schemas go in the dialect
of each provider: converted once, or described in words if a provider takes none. Pure functions.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Container, Mapping
from typing import Any

from agentic.llm.errors import BadAnswer
from agentic.llm.profiles import Profile
from agentic.llm.types import Picture, Prompt

MAX_COUNT = 10_000_000  # no call takes so many tokens; JSON may hold 1e400 and NaN too
_IN_WORDS = (
    "\n\nAnswer with one JSON object that fits this JSON schema, and nothing else: no text around it, no code fence, no"
    " citation marks in its strings.\n"
)

Schema = Mapping[str, Any]


def closed_object(properties: Schema) -> dict[str, Any]:
    """Return the schema of an object with all of these properties and no others, as OpenAI's structured outputs need
    it. Other providers accept that."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def json_object(body: bytes | str) -> Mapping[str, Any]:
    """Parse the JSON object in a response's body. Raises BadAnswer if it is not one.

    JSON can contain halves of surrogate pairs, which cannot be encoded again; they become question marks.
    """
    try:
        answer = json.loads(body)
        if (b"\\ud" if isinstance(body, bytes) else "\\ud") in body.lower():  # type: ignore[operator]
            answer = json.loads(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise BadAnswer("not JSON") from None
    if not isinstance(answer, dict):
        raise BadAnswer("not a JSON object")
    return answer


def part(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the object under a path of keys, empty if there is none."""
    for key in path:
        found = value.get(key)
        value = found if isinstance(found, Mapping) else {}
    return value


def parts(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list under a key."""
    found = value.get(key)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def number(value: Mapping[str, Any], *path: str, calls: int = 1) -> int:
    """Return a count of tokens or calls under a path of keys; 0 if the value cannot be the count of that many calls."""
    found = part(value, *path[:-1]).get(path[-1])
    counts = isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found <= MAX_COUNT * calls
    return int(found) if counts else 0  # type: ignore[arg-type]


def picture_of(encoded: str) -> Picture:
    """Decode a picture from base64. Its type is taken from the bytes and not from the answer. Raises BadAnswer."""
    from agentic.net.images import media_type_of  # it imports aiohttp

    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise BadAnswer("the picture is not base64") from None
    if (media_type := media_type_of(data)) is None:
        raise BadAnswer("no picture of a known type")
    return Picture(data, media_type)


class ConvertedSchemas:
    """Caches schemas converted by `convert`: they live as long as the program and go with each request.

    A returned schema is shared and must not be changed.
    """

    def __init__(self, convert: Callable[[Schema, Any], dict[str, Any]], limit: int) -> None:
        self._convert, self._limit = convert, limit
        # By id, with the objects themselves: while they are kept no other object has their ids.
        self._converted: dict[tuple[int, int], tuple[Schema, object, dict[str, Any]]] = {}

    def of(self, schema: Schema, rules: object) -> dict[str, Any]:
        key = (id(schema), id(rules))
        known = self._converted.get(key)
        if known is None:
            if len(self._converted) >= self._limit:
                self._converted.clear()
            known = self._converted[key] = (schema, rules, self._convert(schema, rules))
        return known[2]


def schema_for(prompt: Prompt, profile: Profile) -> dict[str, Any] | None:
    """Return the schema that the request carries for structured output. None if there is none, or if it must be given
    in words."""
    if prompt.schema is None or not profile.schema:
        return None
    if (prompt.tools and not profile.schema_with_tools) or (prompt.search and not profile.schema_with_search):
        return None
    return _SCHEMAS.of(prompt.schema, profile)


def text_for(prompt: Prompt, profile: Profile) -> str:
    """Return the prompt's text, with the schema in words if the provider cannot take it."""
    if prompt.schema is None or schema_for(prompt, profile) is not None:
        return prompt.text
    return f"{prompt.text}{_IN_WORDS}{json.dumps(prompt.schema, ensure_ascii=False, default=dict)}"


def _strict(schema: Schema, profile: Profile) -> dict[str, Any]:
    """Convert a schema for strict structured output: closed objects, no keyword that the provider refuses."""

    def close(converted: dict[str, Any]) -> None:
        if "properties" not in converted:
            return
        converted["additionalProperties"] = False
        if profile.all_required:
            required = converted.get("required", [])
            for name, part in converted["properties"].items():
                if name not in required:
                    converted["properties"][name] = _allow_null(part)
            converted["required"] = list(converted["properties"])

    return without_keywords(schema, profile.unknown_keywords, close)


def without_keywords(
    schema: Schema, unknown: Container[str], finish: Callable[[dict[str, Any]], None] = lambda _: None
) -> dict[str, Any]:
    """Return the schema without these keywords at every depth, each part of it changed by `finish`. Names of properties
    and values of enums are not keywords."""

    def convert(value: Any) -> Any:
        if isinstance(value, Mapping):
            return without_keywords(value, unknown, finish)
        return [convert(item) for item in value] if isinstance(value, (list, tuple)) else value

    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            cleaned[key] = {name: convert(part) for name, part in value.items()}
        elif key not in unknown:
            cleaned[key] = value if key in ("enum", "const", "default") else convert(value)
    finish(cleaned)
    return cleaned


def _allow_null(part: dict[str, Any]) -> dict[str, Any]:
    kinds = part.get("type")
    if kinds is None or "enum" in part:
        takes_null = None in part.get("enum", ()) or any(each.get("type") == "null" for each in part.get("anyOf", ()))
        return part if takes_null else {"anyOf": [part, {"type": "null"}]}
    listed = [kinds] if isinstance(kinds, str) else list(kinds)
    return part if "null" in listed else {**part, "type": [*listed, "null"]}


_SCHEMAS = ConvertedSchemas(_strict, limit=100)
