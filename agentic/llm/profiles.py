"""Differences between providers, their models, and addresses, as data.

A profile says how to shape a request, so that provider modules translate without asking which model it is. Rules apply
from top to bottom; each names a provider, prefixes of model ids ("" for all) and the fields it changes. A model on AWS
Bedrock is the same Claude under a longer name, so Anthropic's rules apply to it before Bedrock's own. A model behind an
OpenAI-compatible address (provider "compatible") is recognized by its maker's prefix, if it has one.

Structured output together with web search: OpenAI, xAI and Gemini from 3 on take both. Anthropic refuses structured
output together with citations, which its web search always gives, and Gemini 2 refuses it together with any tool. There
the schema is given in words.

Which models continue a prefilled answer: Claude up to 4.5, and other makers' models by a documented prefix mode or by
plain completions. Claude from 4.6 on and OpenAI's, Google's and xAI's own models do not. A model that the table does
not know is tried; if its server refuses, PrefillMemory remembers that for the life of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from agentic.llm.errors import PrefillRefused

PROVIDERS = ("openai", "anthropic", "google", "xai", "bedrock", "compatible")
_NOTHING: Mapping[str, Any] = MappingProxyType({})

# How an address takes a prefilled answer:
# - "last": the last message is the assistant's (llama.cpp, Ollama, LM Studio, OpenRouter, Groq)
# - "prefix" and "partial": the same, and the message carries that mark (DeepSeek's beta address and Mistral; Qwen)
# - "continue": vLLM's `continue_final_message`, without which vLLM closes the message
# - "completions": the whole prompt as plain text to `/completions`, for base models
# - "": not supported
Prefill = Literal["last", "prefix", "partial", "continue", "completions", ""]
Api = Literal["openai", "ollama"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Defaults:
    """The good and inexpensive models of a provider. `image_model` is "" if it draws nothing."""

    model: str
    image_model: str = ""


DEFAULTS: Mapping[str, Defaults] = {
    "openai": Defaults("gpt-6-luna", "gpt-image-2.6-flare"),
    "anthropic": Defaults("claude-haiku-5-5"),
    "google": Defaults("gemini-3.8-flash", "gemini-3.1-flash-image"),
    "xai": Defaults("grok-4.7", "grok-imagine-image"),
}


@dataclass(frozen=True, slots=True)
class Profile:
    """The parts of a request that a model accepts."""

    # Output: structured output, also together with web search and with functions; strict mode wants every property
    # required, so optional ones become nullable; JSON schema keywords that are refused.
    schema: bool = True
    schema_with_search: bool = True
    schema_with_tools: bool = True
    all_required: bool = False
    unknown_keywords: frozenset[str] = frozenset({"$schema", "default", "title"})
    effort: str | None = None  # of reasoning, or a thinking level; None to leave it out
    temperature: bool = True
    max_stops: int = 0  # stop sequences in a request

    # Messages
    alternate: bool = False  # roles must
    system_as_message: bool = False  # the first one
    cache_marks: int = 0  # explicit cache breakpoints that a request may carry
    prefill: bool = False  # it continues a prefilled answer

    # Search and drawing: the search tool, and further fields of a request with search, and of one for a picture.
    search: Mapping[str, Any] = field(default_factory=dict)
    search_extra: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)

    # Functions, also together with its web search: if it must choose, our functions win. Further fields of a request
    # with functions, and of one with both. Keywords that are refused in a function's parameters.
    tools: bool = True
    tools_with_search: bool = True
    tool_extra: Mapping[str, Any] = field(default_factory=dict)
    tool_and_search_extra: Mapping[str, Any] = field(default_factory=dict)
    unknown_in_parameters: frozenset[str] = frozenset({"$schema", "$id"})
    pictures_in_results: bool = True  # otherwise they follow as the user's
    foreign_signature: str = ""  # replaces the thought signature of a call that another model made
    escapes_arguments: bool = False  # it writes HTML entities into its calls' arguments, `&amp;` for `&`

    # Pictures: the media types that it takes, up to `picture_bytes` each; one other picture fails the whole request.
    # Above `picture_pixels` on the longest edge the provider scales down itself, so more only costs bytes and time.
    sees: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
    picture_bytes: int = 8_000_000
    picture_pixels: int = 2048
    max_pictures: int = 100  # in a request


def _rule(provider: str, *prefixes: str, **changes: Any) -> tuple[str, tuple[str, ...], Mapping[str, Any]]:
    return provider, prefixes or ("",), changes


_COUNTED = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems"}
)
_NO_KEYWORDS = frozenset({"$schema", "default", "title"})
_OLD_CLAUDE = ("claude-3", "claude-2", "claude-opus-4-0", "claude-sonnet-4-0", "claude-opus-4-2", "claude-sonnet-4-2")
# The last generation that continues a prefilled answer; 4.6 and all later ones answer 400:
# https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6#prefill-removal
_CLAUDE_4_5 = ("claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-1", "claude-opus-4-5")
# The same on OpenRouter, which writes versions with a dot.
_ROUTED_OTHERS = ("openai/gpt-4", "openai/gpt-5", "openai/gpt-6", "openai/o", "x-ai/", "google/gemini")
_ROUTED_CLAUDE = ("anthropic/claude-3", *(f"anthropic/{name[:-2]}.{name[-1]}" for name in _CLAUDE_4_5))
# Bedrock's limit of stop sequences; Anthropic itself states none:
# https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html
_CLAUDE_STOPS = 8191

# With `store: false` reasoning comes encrypted, to be sent back: https://platform.openai.com/docs/guides/reasoning
_SEALED_REASONING: Mapping[str, Any] = {"tool_extra": {"include": ["reasoning.encrypted_content"]}}

_RULES = (
    _rule(
        "openai",
        all_required=True,
        search={"type": "web_search"},
        search_extra={"max_tool_calls": 3},
        image={"size": "1024x1024", "quality": "medium", "output_format": "jpeg"},
        # Fitted into a square of 2,048 pixels: https://platform.openai.com/docs/guides/images-vision
        max_pictures=500,
    ),
    # A model that reasons takes no temperature. The Responses API has no stop sequences.
    _rule("openai", "gpt-5", "gpt-6", "o1", "o3", "o4", effort="low", temperature=False, **_SEALED_REASONING),
    # Explicit breakpoints exist from gpt-5.6 on; a request writes up to four of them.
    _rule("openai", "gpt-5.6", "gpt-5.7", "gpt-5.8", "gpt-5.9", "gpt-6", cache_marks=4),
    _rule(
        "xai",
        all_required=True,
        escapes_arguments=True,
        system_as_message=True,
        search={"type": "web_search"},
        # Links such as [[1]](url) inside the strings of a JSON answer would be posted as they are.
        search_extra={"include": ["no_inline_citations"]},
        **_SEALED_REASONING,
        pictures_in_results=False,
        image={"response_format": "b64_json"},  # size and quality are refused
        sees=frozenset({"image/png", "image/jpeg"}),
    ),
    _rule(
        "anthropic",
        schema_with_search=False,
        unknown_keywords=_NO_KEYWORDS | _COUNTED,
        alternate=True,
        cache_marks=4,
        max_stops=_CLAUDE_STOPS,
        temperature=False,  # gone with API version 2026-10-21
        picture_bytes=3_900_000,  # 5 MiB when it is base64
        # https://platform.claude.com/docs/en/build-with-claude/vision; more than 2,000 pixels are refused if a request
        # has more than 20 pictures.
        picture_pixels=1568,
        search={"type": "web_search_20260318", "name": "web_search", "max_uses": 3, "allowed_callers": ["direct"]},
    ),
    _rule(
        *("anthropic", *_OLD_CLAUDE, "claude-haiku-4", "claude-sonnet-4-5", "claude-opus-4-1", "claude-opus-4-5"),
        search={"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ),
    _rule("anthropic", *_OLD_CLAUDE, schema=False),
    _rule("anthropic", *_OLD_CLAUDE, *_CLAUDE_4_5, prefill=True),
    # No web search there; a request has at most 20 MB. Older models use the older API version, which has a temperature.
    _rule("bedrock", search={}, max_pictures=20),
    _rule("bedrock", *_OLD_CLAUDE, *_CLAUDE_4_5, "claude-opus-4-6", "claude-sonnet-4-6", temperature=True),
    _rule(
        "google",
        alternate=True,
        search={"googleSearch": {}},
        unknown_keywords=_NO_KEYWORDS,
        sees=frozenset({"image/png", "image/jpeg", "image/webp"}),
        max_stops=5,  # https://ai.google.dev/api/generate-content#generationconfig
        picture_pixels=3072,  # https://ai.google.dev/gemini-api/docs/image-understanding
        max_pictures=3000,
    ),
    _rule(
        *("google", "gemini-1", "gemini-2"),
        schema_with_search=False,
        schema_with_tools=False,
        tools_with_search=False,
        pictures_in_results=False,
    ),
    # Both kinds of tools at once: https://ai.google.dev/gemini-api/docs/tool-combination
    # A call without its signature is refused: https://ai.google.dev/gemini-api/docs/thought-signatures
    _rule(
        *("google", "gemini-3", "gemini-4"),
        effort="LOW",
        tool_and_search_extra={"toolConfig": {"includeServerSideToolInvocations": True}},
        foreign_signature="skip_thought_signature_validator",
    ),
    _rule(
        "compatible",
        all_required=True,
        unknown_keywords=_NO_KEYWORDS,
        alternate=True,  # many chat templates raise if roles do not
        system_as_message=True,
        schema_with_tools=False,  # llama.cpp has one grammar for a completion
        prefill=True,
        max_stops=4,  # OpenAI's limit, which gateways pass on
        sees=frozenset({"image/png", "image/jpeg"}),  # what llama.cpp reads
        picture_pixels=1568,
        max_pictures=10,
    ),
    _rule("compatible", *_ROUTED_OTHERS, "gpt-4", "gpt-5", "gpt-6", "grok-", "gemini-", "claude-", prefill=False),
    _rule("compatible", "x-ai/", "xai/", "grok-", escapes_arguments=True),
    _rule("compatible", "anthropic/", prefill=False, cache_marks=4),
    _rule("compatible", *_ROUTED_CLAUDE, prefill=True),
)
_SEARCH_LIMITS = frozenset({"max_uses", "max_tool_calls"})  # fields of a search tool


def profile_of(provider: str, model: str) -> Profile:
    """Return a model's profile. A model that no rule matches gets its provider's."""
    # Bedrock's names have a prefix (`us.anthropic.claude-…`, and ARNs that end so).
    at = max(0, model.rfind("claude-")) if provider == "bedrock" else 0
    bare, profile = model[at:], Profile()
    for name, prefixes, changes in _RULES:
        if (name == provider or (provider == "bedrock" and name == "anthropic")) and bare.startswith(prefixes):
            profile = replace(profile, **changes)
    return profile


def limits_searches(profile: Profile) -> bool:
    """Whether the provider takes a limit of searches."""
    return not _SEARCH_LIMITS.isdisjoint((*profile.search, *profile.search_extra))


def with_max_searches(profile: Profile, limit: int | None) -> Profile:
    """Return the profile with this limit of searches in a call; None for its own."""
    if limit is None:
        return profile

    def limited(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: limit if key in _SEARCH_LIMITS else value for key, value in fields.items()}

    return replace(profile, search=limited(profile.search), search_extra=limited(profile.search_extra))


# --- addresses without a module of their own ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address that speaks OpenAI's Chat Completions. `base_url` includes the version, usually /v1.

    `api` "ollama": chats go to Ollama's own API beside that address, which has a context size. `model`: its model if a
    setting names the provider alone. `fields` are merged into the body of every request and override ours; they come
    from the owner's configuration only. `profile` overrides fields of the models' Profile. `stream_usage`: ask for the
    usage of a stream. Some servers refuse that, or report it anyway.
    """

    name: str
    base_url: str
    model: str = ""
    api: Api = "openai"
    prefill: Prefill = "last"
    fields: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    profile: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    stream_usage: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Aws:
    """A region and credentials: a Bedrock API key, a pair of keys, a profile, or whatever boto3 finds on the
    machine."""

    region: str
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None


def profile_at(endpoint: Endpoint, model: str) -> Profile:
    """Return the profile of a model there: the profile for its name, overridden by the endpoint's settings."""
    profile = profile_of("compatible", model)
    if endpoint.prefill in ("", "completions"):  # plain completions continue any text
        profile = replace(profile, prefill=bool(endpoint.prefill))
    return replace(profile, **endpoint.profile)


_MANY_STOPS: Mapping[str, Any] = {"max_stops": 64}
ENDPOINTS: Mapping[str, Endpoint] = {
    endpoint.name: endpoint
    for endpoint in (
        Endpoint(name="openrouter", base_url="https://openrouter.ai/api/v1"),
        # https://api-docs.deepseek.com/guides/chat_prefix_completion
        Endpoint(
            name="deepseek", base_url="https://api.deepseek.com/beta", prefill="prefix", profile={"max_stops": 16}
        ),
        Endpoint(name="mistral", base_url="https://api.mistral.ai/v1", prefill="prefix", stream_usage=False),
        Endpoint(name="groq", base_url="https://api.groq.com/openai/v1"),
        # https://www.alibabacloud.com/help/en/model-studio/partial-mode
        Endpoint(name="qwen", base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1", prefill="partial"),
        # The servers below have no limit of their own.
        Endpoint(
            name="ollama", base_url="http://127.0.0.1:11434/v1", model="gpt-oss:20b", api="ollama", profile=_MANY_STOPS
        ),
        Endpoint(name="llamacpp", base_url="http://127.0.0.1:8080/v1", profile=_MANY_STOPS),
        Endpoint(name="lmstudio", base_url="http://127.0.0.1:1234/v1", profile=_MANY_STOPS),
        Endpoint(name="vllm", base_url="http://127.0.0.1:8000/v1", prefill="continue", profile=_MANY_STOPS),
    )
}
"""Name → endpoint. The last four are on this machine and cost nothing."""


def takes_prefill(name: str) -> bool:
    """Look `provider/model` up in the table. An unknown provider counts as an OpenAI-compatible address."""
    provider, _, model = name.partition("/")
    return profile_of(provider if provider in PROVIDERS else "compatible", model).prefill


class PrefillMemory:
    """The table, corrected by experience. One for the process.

    if options.mode == "prefill" and memory.takes(model.name):
        try:
            return await model.complete(prefilled, history)
        except PrefillRefused as error:
            memory.refused(error)
    return await model.complete(prompt, chat_history)
    """

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def takes(self, name: str) -> bool:
        """Whether it is worth asking `provider/model` to continue a prefilled answer."""
        if name not in self._refused and not takes_prefill(name):
            self._note(name)
        return name not in self._refused

    def refused(self, error: PrefillRefused) -> None:
        """Remember the model that refused."""
        self._note(f"{error.provider}/{error.model}")

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            log.warning("%s does not continue a prefilled answer: its turns use chat mode", name)
