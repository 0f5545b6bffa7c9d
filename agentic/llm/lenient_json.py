"""Read JSON answers without a guaranteed shape: a missing or mistyped value reads as empty and never raises."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from agentic.llm.errors import BadAnswer
from agentic.llm.types import Picture

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
