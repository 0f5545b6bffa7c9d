"""Convert an MCP server's answers for models: text and pictures.

A result may hold text, a structured value (which the standard says to repeat as text), pictures, sounds, and resources,
whole or as links. What a model cannot take is mentioned in square brackets instead of silently dropped. A picture's
type is taken from its bytes, not from the server (agentic/net/images.py).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.net.images import as_picture, size_of
from agentic.tools.tool import ToolOutput

MAX_CHARACTERS = 50_000  # of one result; the tool loop cuts further, this keeps the rest out of memory
MAX_PICTURES = 4
MAX_PICTURE_BYTES = 5_000_000
MAX_LISTED = 200
_NAME_CHARACTERS, _LINK_CHARACTERS = 200, 500


def output_of(result: CallToolResult) -> ToolOutput:
    """Convert the result of a call."""
    gathered = _Gathered()
    for block in result.content:
        gathered.add(block)
    if result.structured_content is not None:
        gathered.add_structured(result.structured_content)
    return gathered.output(result.is_error)


def output_of_resource(result: ReadResourceResult) -> ToolOutput:
    """Convert the contents of a resource: several if its address stands for several."""
    gathered = _Gathered()
    for contents in result.contents:
        gathered.add_contents(contents, named=len(result.contents) > 1)
    return gathered.output()


def output_of_listing(resources: Sequence[Resource], templates: Sequence[ResourceTemplate]) -> ToolOutput:
    """List resources, one a line: address, name, description."""
    lines = [_described(one.uri, one) for one in resources]
    lines += [_described(f"{one.uri_template} (fill in what stands in braces)", one) for one in templates]
    left = len(lines) - MAX_LISTED
    if left > 0:
        lines = [*lines[:MAX_LISTED], f"[and {left} more]"]
    gathered = _Gathered()
    gathered.add_text("\n".join(lines) or "[no resources]")
    return gathered.output()


class _Gathered:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._room = MAX_CHARACTERS
        self._cut = False
        self._pictures: list[Picture] = []

    def add(self, block: ContentBlock) -> None:
        match block:
            case TextContent():
                self.add_text(block.text)
            case ImageContent():
                self._add_picture(block.data, "picture")
            case AudioContent():
                self.add_text(f"[sound, {_short(block.mime_type)}: it cannot be heard here]")
            case ResourceLink():
                self.add_text(f"[resource {_described(block.uri, block)}]")
            case EmbeddedResource():
                self.add_contents(block.resource, named=True)

    def add_text(self, text: str) -> None:
        self._cut = self._cut or len(text) > self._room
        text = text[: self._room]
        self._room -= len(text)
        if text:
            self._texts.append(text)

    def add_structured(self, value: object) -> None:
        """Add a structured value, unless its text is there already."""
        if not any(_says(text, value) for text in self._texts):
            self.add_text(json.dumps(value, ensure_ascii=False, default=str))

    def add_contents(self, contents: TextResourceContents | BlobResourceContents, *, named: bool) -> None:
        name = f"resource {_short(contents.uri, _LINK_CHARACTERS)}"
        if isinstance(contents, BlobResourceContents):
            self._add_picture(contents.blob, name, contents.mime_type or "unknown kind")
            return
        if named:
            self.add_text(f"[{name}]")
        self.add_text(contents.text)

    def _add_picture(self, data: str, what: str, kind: str = "") -> None:
        """Add a picture in base64, or a mention of it if it cannot be used."""
        size = len(data) * 3 // 4
        if len(self._pictures) == MAX_PICTURES:
            self.add_text(f"[{what}: left out, there are {MAX_PICTURES} already]")
            return
        if size > MAX_PICTURE_BYTES:
            self.add_text(f"[{what}: left out, {size} bytes are too many]")
            return
        picture = _picture(data)
        if picture is None:
            self.add_text(f"[{what}: {_short(kind) or 'no picture that can be shown'}, {size} bytes]")
            return
        self._pictures.append(picture)

    def output(self, is_error: bool = False) -> ToolOutput:
        if self._cut:
            self._texts.append(f"[cut here, at {MAX_CHARACTERS} characters]")
        text = "\n".join(self._texts)
        return ToolOutput(text or ("" if self._pictures else "[nothing]"), tuple(self._pictures), is_error)


def _picture(data: str) -> Picture | None:
    """Decode a picture. None if it is not base64, not a picture, too large or cut off: a provider would refuse it."""
    try:
        found = as_picture(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError, FetchRefused):
        return None
    whole = size_of(found.data, found.media_type) is not None
    return Picture(found.data, found.media_type) if whole else None


def _says(text: str, value: object) -> bool:
    """Whether a text is the value in JSON. The official server wraps a non-object as {"result": …}."""
    if value == {"result": text}:
        return True
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(said == value or {"result": said} == value)


def _described(address: str, one: Resource | ResourceTemplate) -> str:
    parts: Iterable[str | None] = (one.title or one.name, one.mime_type, one.description)
    about = ", ".join(_short(part) for part in parts if part)
    return f"{_short(address, _LINK_CHARACTERS)}: {about}" if about else _short(address, _LINK_CHARACTERS)


def _short(text: str, most: int = _NAME_CHARACTERS) -> str:
    """Return the text on one line, at most `most` characters."""
    return " ".join(text.split())[:most]
