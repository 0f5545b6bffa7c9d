"""What a model server is asked and what it answers, in no provider's own shape."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# One grey pixel.
SMALL_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request as it came.

    `texts` are all texts of the history and the tail in order, `tail` the last of them. `results` are (call's id, text)
    of the tool results that it brings. `kind` is "text", "picture" or "models". `pictures` counts the pictures sent
    along. `received_at` is `time.perf_counter()` when the head was read.
    """

    provider: str
    model: str
    kind: str = "text"
    system: str = ""
    texts: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    pictures: int = 0
    has_schema: bool = False
    tools: tuple[str, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    received_at: float = 0.0

    @property
    def tail(self) -> str:
        return self.texts[-1] if self.texts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to answer. Token counts are ours: input includes cached, output includes reasoning.

    `calls` are (name, arguments as JSON text) of the tools that the model wants. `stop` is "stop", "length", "refusal"
    or "pause" (Anthropic's pause_turn). `status` other than 200 sends an error in the provider's shape with
    `error_code` and `error_message`. `delay` in seconds, infinite to hang until the server closes. `cut` closes the
    connection in mid-answer, after so many bytes where it is a number; `stalls` keeps it open after the last byte,
    `endless` never comes to an end of it. `body` replaces the whole answer, that of a stream too, `edit` changes its
    object before it is sent. `sources` are (title, url). `compressed`: it goes as gzip.
    """

    text: str = "ok"
    stop: str = "stop"
    thinking: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    searches: int = 0
    input_tokens: int = 100
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 20
    reasoning_tokens: int = 0
    picture: bytes = field(default=SMALL_PNG, repr=False)
    delay: float = 0.0
    status: int = 200
    error_code: str = ""
    error_message: str = "as asked for"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool | int = False
    stalls: bool = False
    endless: bool = False
    body: bytes | None = None
    edit: Callable[[dict[str, Any]], object] | None = None
    media_type: str = "application/json"
    compressed: bool = False
