"""The Model protocol, and the values that go in and come out: no provider's own shapes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol

Role = Literal["user", "assistant"]
StopReason = Literal["stop", "length", "refusal", "other"]
CacheTtl = Literal["5m", "1h"]
NO_LABELS: Mapping[str, str] = MappingProxyType({})
NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as bytes. `media_type` is one of image/png, image/jpeg, image/gif, image/webp."""

    data: bytes = field(repr=False)
    media_type: str


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a history. `cache` marks the end of the part that stays the same from call to call."""

    role: Role
    text: str
    pictures: tuple[Picture, ...] = ()
    cache: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. `parameters` is the JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call: data, never orders."""

    call_id: str
    name: str
    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolRound:
    """One step of the tool loop: what the model asked for and what came back, results in the order of the calls.

    `text` is what it said beside its calls. `echo` is the answer in its provider's own shape (thinking, signatures),
    which goes back unchanged to the same provider and means nothing to another.
    """

    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    text: str = ""
    echo: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What frames a history: `system` before it (stable to the byte), `text` after it (what changes).

    `stable`: so many of `system`'s first characters change even less than the rest, 0 where there is no difference; a
    cache may end there.

    `schema` asks for one JSON object of that JSON schema. `search` offers the provider's own web search, `tools` are
    functions of ours, and `rounds` what has come of them in this turn; they follow `text`. With `call` a model that
    runs tools by itself has those of `tools` run in the midst of its answer. `timeout` is in seconds, for
    all attempts together. `labels` say what the turn is about (agent, theme, ...), for logs and stand-ins; they are
    never sent.

    `conversation` is the channel whose conversation goes on, for a model that keeps a session of its own; it began
    after the message `since`, where somebody had it begin anew.

    `prefill` is the beginning of the model's own answer, the last thing that it reads; `text` is empty then. `stop`
    ends the answer where one of these would come. `retries`: how often a call that failed is made again, None for as
    often as the model does by itself. `fields` go into the request as they are, where the address is OpenAI-compatible:
    they come from the owner's configuration only. `on_text` asks for a streamed answer and hears the whole text so far
    each time it grows; a second attempt begins again with "".
    """

    text: str
    system: str = ""
    stable: int = 0
    pictures: tuple[Picture, ...] = ()
    schema: Mapping[str, Any] | None = None
    schema_name: str = "decision"
    search: bool = False
    max_output_tokens: int = 4000
    timeout: float = 75.0
    cache_key: str | None = None
    conversation: int | None = None
    since: int = 0
    cache_ttl: CacheTtl = "5m"
    tools: tuple[Tool, ...] = ()
    rounds: tuple[ToolRound, ...] = ()
    stop: tuple[str, ...] = ()
    prefill: str | None = None
    temperature: float | None = None
    retries: int | None = None
    fields: Mapping[str, Any] = field(default_factory=lambda: NO_FIELDS)
    on_text: Callable[[str], None] | None = field(default=None, compare=False)
    call: Callable[[ToolCall], Awaitable[ToolResult]] | None = field(default=None, compare=False)
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)

    @classmethod
    def of(cls, prompt: Prompt | str) -> Prompt:
        """A plain string is a prompt with nothing around it."""
        return cls(text=prompt) if isinstance(prompt, str) else prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, calls and US dollars. `input_tokens` includes the cached ones, `output_tokens` the reasoning ones.

    `cache_write_tokens` includes `hour_write_tokens`, those of an hour's cache, which cost more.
    """

    model: str = ""
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    hour_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    searches: int = 0
    pictures: int = 0
    text_cost_usd: float = 0.0
    picture_cost_usd: float = 0.0

    @property
    def cost_usd(self) -> float:
        return self.text_cost_usd + self.picture_cost_usd

    def __add__(self, other: Usage) -> Usage:
        """The sum; keeps the first named model."""
        return Usage(
            model=self.model or other.model,
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            hour_write_tokens=self.hour_write_tokens + other.hour_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            searches=self.searches + other.searches,
            pictures=self.pictures + other.pictures,
            text_cost_usd=self.text_cost_usd + other.text_cost_usd,
            picture_cost_usd=self.picture_cost_usd + other.picture_cost_usd,
        )


@dataclass(frozen=True, slots=True)
class Source:
    """A page that a search-backed answer rests on."""

    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A finished completion. `text` never contains reasoning; it may be empty beside `tool_calls`.

    `echo` is for `ToolRound.echo`.
    """

    text: str
    usage: Usage = Usage()
    model: str = ""
    request_id: str | None = None
    stop: StopReason = "stop"
    sources: tuple[Source, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    echo: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A generated picture."""

    picture: Picture
    usage: Usage = Usage()
    model: str = ""


class Model(Protocol):
    """The interface of every model, real or scripted. Retries within `prompt.timeout`; raises `ModelError` only."""

    @property
    def name(self) -> str:
        """`provider/model`, for logs and prices."""
        ...

    @property
    def can_draw(self) -> bool: ...

    @property
    def free(self) -> bool:
        """Its calls cost nothing: it is scripted, or runs on the owner's machine."""
        ...

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply: ...

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - all attempts
        """One picture; `CannotDraw` where the model has none to give."""
        ...

    async def aclose(self) -> None: ...
