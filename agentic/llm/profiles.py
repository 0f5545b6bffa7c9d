"""How to reach a model and which requests it accepts, as data (provider_table.py has the rows).

A Profile lists the parts of a request that a model accepts, so that provider modules don't depend on the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from agentic.llm.types import Thinking

_NOTHING: Mapping[str, Any] = MappingProxyType({})

# How an address takes a prefilled answer:
# - "last": the last message is the assistant's (llama.cpp, Ollama, LM Studio, OpenRouter, Groq)
# - "prefix" and "partial": the same, and the message carries that mark (DeepSeek's beta address and Mistral; Qwen)
# - "continue": vLLM's `continue_final_message`, without which vLLM closes the message
# - "completions": the whole prompt as plain text to `/completions`, for base models
# - "": not supported
Prefill = Literal["last", "prefix", "partial", "continue", "completions", ""]
Api = Literal["openai", "ollama"]


@dataclass(frozen=True, slots=True)
class Profile:
    """The parts of a request that a model accepts."""

    # Output: structured output, also together with web search and with functions; strict mode wants every property
    # required, so optional ones become nullable; JSON schema keywords that are refused.
    schema: bool = True
    schema_with_search: bool = True
    schema_with_tools: bool = True
    all_required: bool = False
    unknown_keywords: frozenset[str] = frozenset({"$schema", "default", "title", "minLength", "maxLength"})
    effort: str | None = None  # of reasoning, or a thinking level; None to leave it out
    thinking: Mapping[Thinking, str] = field(default_factory=dict)  # the levels that can be chosen → its word for them
    temperature: bool = True
    max_stops: int = 0  # stop sequences in a request
    max_tokens: bool = True  # in Chat Completions; otherwise the limit is called max_completion_tokens
    stream_usage: bool = True  # it takes `stream_options`

    # Messages
    alternate: bool = False  # roles must
    system_as_message: bool = False  # the first one
    cache_marks: int = 0  # explicit cache breakpoints that a request may carry
    prefill: bool = False  # it continues a prefilled answer

    # Search and drawing: the search tool, and further fields of a request with search, and of one for a picture.
    search: Mapping[str, Any] = field(default_factory=dict)
    search_extra: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)

    # Functions, also together with the model's web search; if it can't have both, our functions win. Further fields of
    # a request with functions, and of a request with both. Keywords that are rejected in a function's parameters.
    tools: bool = True
    tools_with_search: bool = True
    tool_extra: Mapping[str, Any] = field(default_factory=dict)
    tool_and_search_extra: Mapping[str, Any] = field(default_factory=dict)
    unknown_in_parameters: frozenset[str] = frozenset({"$schema", "$id"})
    pictures_in_results: bool = True  # otherwise they follow as the user's
    foreign_signature: str = ""  # replaces the thought signature of a call that another model made
    escapes_arguments: bool = False  # it writes HTML entities into its calls' arguments, `&amp;` for `&`

    # Pictures: the accepted media types, up to `picture_bytes` each; any other picture fails the whole request. Above
    # `picture_pixels` on the longest edge the provider scales down itself, so more only costs bytes and time.
    sees: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
    picture_bytes: int = 8_000_000
    picture_pixels: int = 2048
    max_pictures: int = 100  # in a request


_SEARCH_LIMITS = frozenset({"max_uses", "max_tool_calls"})  # fields of a search tool


def limits_searches(profile: Profile) -> bool:
    """Return whether the provider accepts a limit on searches."""
    return not _SEARCH_LIMITS.isdisjoint((*profile.search, *profile.search_extra))


def with_max_searches(profile: Profile, limit: int | None) -> Profile:
    """Return the profile with this limit on searches per call, or unchanged if it is None."""
    if limit is None:
        return profile

    def limited(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: limit if key in _SEARCH_LIMITS else value for key, value in fields.items()}

    return replace(profile, search=limited(profile.search), search_extra=limited(profile.search_extra))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The setting for a key ("": ENDPOINT_<NAME>_KEY), the page where keys are created, and a regular expression that
    matches only this provider's keys."""

    setting: str = ""
    page: str = ""
    shape: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address that speaks OpenAI's Chat Completions. `base_url` includes the version, usually /v1.

    `api` "ollama": chats go to Ollama's own API beside that address, which has a context size. `model`: its model if a
    setting names the provider alone. `fields` are merged into the body of every request and override ours; they come
    from the owner's configuration only. `profile` overrides fields of the models' Profile. `stream_usage`: ask for the
    usage of a stream. Some servers refuse that, or report it anyway. `key`: None if it needs none, as on this machine.
    `slots`: how many requests a server at home answers at the same time (server_queue.py). `title`,
    `base_url_setting`, `convention`: see Provider.
    """

    name: str
    base_url: str = field(repr=False)  # an address may carry a password
    model: str = ""
    api: Api = "openai"
    prefill: Prefill = "last"
    fields: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)
    profile: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    stream_usage: bool = True
    slots: int = 1
    title: str = ""
    key: ApiKey | None = None
    base_url_setting: str = ""
    convention: str = ""
    image_model: ClassVar[str] = ""
    embeds: ClassVar[bool] = True

    @property
    def adapter(self) -> str:
        """ "module:Class" of its ProviderModel."""
        adapters = "agentic.llm.providers"
        return f"{adapters}.ollama:OllamaModel" if self.api == "ollama" else f"{adapters}.compatible:CompatibleModel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aws:
    """A region and credentials: a Bedrock API key, a pair of keys, a profile, or whatever boto3 finds on the
    machine."""

    region: str
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConfig:
    """How the Claude Agent SDK runs an agent's turns. `workspace` is the working folder; `home`, outside it, has the
    sessions.

    `hidden`: environment variables that are empty for the program; it inherits all others. `base_url`: Anthropic's own
    if None. A query makes at most `max_turns` model calls and costs at most `max_usd` US dollars.
    """

    model: str
    workspace: Path
    home: Path
    api_key: str = field(default="", repr=False)
    base_url: str | None = field(default=None, repr=False)
    allowed_tools: tuple[str, ...] = ()
    permission_mode: str = "dontAsk"
    max_turns: int = 20
    max_usd: float = 0.5
    hidden: tuple[str, ...] = ()
