"""JSON schemas and lenient JSON.

Read JSON answers without a guaranteed shape: a missing or mistyped value reads as empty and never raises.

JSON schemas in the dialect of each provider: converted once, or described in words where a provider takes none.

Pure functions.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

from agentic.llm.errors import BadAnswer
from agentic.llm.profiles import Profile
from agentic.llm.types import Picture, Prompt

MOST_COUNTED = 10_000_000  # no call takes so many tokens; JSON may hold 1e400 and NaN too
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


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


def number(value: Mapping[str, Any], *path: str) -> int:
    """Return a count of tokens or calls under a path of keys; 0 if the value cannot be a count."""
    found = part(value, *path[:-1]).get(path[-1])
    counts = isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found <= MOST_COUNTED
    return int(found) if counts else 0  # type: ignore[arg-type]


def picture_of(encoded: str) -> Picture:
    """Decode a picture from base64. Raises BadAnswer if it is not one."""
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise BadAnswer("the picture is not base64") from None
    return picture_from(data)


def picture_from(data: bytes) -> Picture:
    """Return a picture, with its type taken from the bytes and not from the answer."""
    for magic, media_type in _MAGIC:
        if data.startswith(magic):
            return Picture(data, media_type)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Picture(data, "image/webp")
    raise BadAnswer("no picture of a known type")


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
