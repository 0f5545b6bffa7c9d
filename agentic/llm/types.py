"""The Model protocol, and its provider-independent values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["user", "assistant"]
StopReason = Literal["stop", "length", "refusal", "other"]
CacheTtl = Literal["5m", "1h"]
Thinking = Literal["none", "low", "medium", "high"]
# At a busy model server at home: "person" goes first, "yield" may be interrupted for it (server_queue.py).
Priority = Literal["person", "usual", "yield"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as bytes. `media_type` is one of image/png, image/jpeg, image/gif, image/webp."""

    data: bytes = field(repr=False)
    media_type: str


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a history. `cache` marks the end of the part that does not change from call to call."""

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
    """A call that the model makes."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call: data, never instructions."""

    call_id: str
    name: str
    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolRound:
    """One step of the tool loop: the model's calls and their results, in the same order.

    `text`: the model's text in addition to its calls. `echo`: the answer in the provider's own shape (thinking,
    signatures), which goes back unchanged to the same provider and is meaningless to others.
    """

    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    text: str = ""
    echo: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Everything around a history: `system` comes before it (stable to the byte), `text` after it (changing)."""

    text: str
    system: str = ""
    stable: int = 0  # this many first characters of `system` change even less, so a cache may end there
    pictures: tuple[Picture, ...] = ()
    schema: Mapping[str, Any] | None = None  # asks for one JSON object of this JSON schema
    schema_name: str = "decision"
    search: bool = False  # offers the provider's own web search
    max_searches: int | None = None  # in this call, if the provider takes a limit; None: its profile's
    max_output_tokens: int = 4000
    timeout: float = 75.0  # seconds for all attempts together
    cache_key: str | None = None
    guild_id: int | None = None  # for which it is asked: an agent may have another model there
    conversation: int | None = None  # the channel, for a model that keeps a session of its own per channel
    since: int = 0  # the message after which the conversation was last restarted
    cache_ttl: CacheTtl = "5m"
    tools: tuple[Tool, ...] = ()  # our functions
    rounds: tuple[ToolRound, ...] = ()  # their calls and results in this turn, which follow `text`
    stop: tuple[str, ...] = ()  # sequences that end the answer
    prefill: str | None = None  # the beginning of the model's own answer, the last thing it reads; `text` is then empty
    temperature: float | None = None
    thinking: Thinking | None = None  # None, or a level that the model doesn't have: its profile's
    retries: int | None = None  # of a failed call; None for the model's own policy
    priority: Priority = "usual"
    # Go into the request unchanged, at OpenAI-compatible addresses; they come from the owner's configuration only.
    fields: Mapping[str, Any] = field(default_factory=dict)
    # Asks for a streamed answer and gets the whole text so far each time it grows; a further attempt begins with "".
    on_text: Callable[[str], None] | None = field(default=None, compare=False)
    # Gets the number of calls ahead at a busy model server at home when it changes, and 0 when the call begins.
    on_wait: Callable[[int], None] | None = field(default=None, compare=False)
    # Runs a call of `tools` for a model that runs tools itself, in the middle of its answer.
    call: Callable[[ToolCall], Awaitable[ToolResult]] | None = field(default=None, compare=False)
    # Describe the turn (agent, theme, …) for logs and stand-ins; never sent.
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, prompt: Prompt | str) -> Prompt:
        """Wrap a plain string in a Prompt."""
        return cls(text=prompt) if isinstance(prompt, str) else prompt


class ImagePrompt(str):
    """The description of a picture to draw, and the guild for which it is drawn."""

    __slots__ = ("guild_id",)
    guild_id: int | None

    def __new__(cls, text: str, guild_id: int | None = None) -> ImagePrompt:
        prompt = super().__new__(cls, text)
        prompt.guild_id = guild_id
        return prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, calls, and US dollars. `input_tokens` includes cached tokens, `output_tokens` reasoning tokens.

    `cache_write_tokens` includes `hour_write_tokens`, written to a one-hour cache, which costs more.
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
        """Add up all fields. The result has the first known model."""
        if self == NO_USAGE:
            return other
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__ if name != "model"}
        return Usage(model=self.model or other.model, **sums)


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Source:
    """A page that an answer with web search cites."""

    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A finished completion. `text` never contains reasoning, and may be empty if there are `tool_calls`. `reasoning`
    is what the provider returned of it, for the record only. `echo`: see ToolRound. `labels`: a stand-in's additions to
    the prompt's labels, so that the same call gives the same answer."""

    text: str
    usage: Usage = Usage()
    model: str = ""
    request_id: str | None = None
    stop: StopReason = "stop"
    sources: tuple[Source, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = field(default="", repr=False)
    echo: object = field(default=None, repr=False, compare=False)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A generated picture."""

    picture: Picture
    usage: Usage = Usage()
    model: str = ""


class Model(Protocol):
    """The interface of every model, real or scripted. Retries within `prompt.timeout`. Raises only ModelError."""

    @property
    def name(self) -> str:
        """`provider/model`, for logs and prices."""
        ...

    @property
    def can_draw(self) -> bool: ...

    @property
    def free(self) -> bool:
        """Whether its calls cost nothing, because it is scripted or runs on the owner's machine."""
        ...

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply: ...

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - all attempts
        """Return one picture. Raises CannotDraw if the model can't draw."""
        ...

    async def aclose(self) -> None: ...
