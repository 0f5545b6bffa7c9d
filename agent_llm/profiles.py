"""What differs between providers and between their models, as data.

A profile says how a request must be shaped, so that the provider modules translate and never ask which model it is.
Rules apply from top to bottom; each names a provider, a prefix of the model's id ("" for all) and what it changes.

Structured output next to web search: OpenAI, xAI and Gemini from 3 on take both. Anthropic refuses structured output
together with citations, which its web search always gives, and Gemini 2 refuses it together with any tool: there the
format is asked for in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

PROVIDERS = ("openai", "anthropic", "google", "xai")


@dataclass(frozen=True, slots=True)
class Defaults:
    """The models of a provider that are good and cheap; `image_model` is "" where it draws nothing."""

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
    """How a model wants to be asked.

    `schema`: it has structured output at all. `schema_with_search`: also next to its web search.
    `all_required`: strict mode wants every property required, so optional ones become nullable.
    `unknown_keywords`: JSON schema keywords that it refuses. `alternate`: roles must alternate.
    `system_as_message`: the system prompt is the first message. `cache_marks`: how many explicit cache breakpoints a
    request may carry. `effort`: reasoning effort or thinking level, None to leave it out. `search`: its search tool.
    `search_extra` and `image`: further fields of a request with search, and of one for a picture. `sees`: the media
    types that it looks at, up to `picture_bytes` each; one picture of another kind fails the whole request.
    `prefill`: it goes on with an answer that was begun for it. `tools`: it calls functions; `schema_with_tools`: with
    structured output at once. `max_stops`: stop sequences in a request, 0 for none. `temperature`: it takes one.
    """

    schema: bool = True
    schema_with_search: bool = True
    all_required: bool = False
    unknown_keywords: frozenset[str] = frozenset({"$schema", "default", "title"})
    alternate: bool = False
    system_as_message: bool = False
    cache_marks: int = 0
    effort: str | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    search_extra: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    sees: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
    picture_bytes: int = 8_000_000
    prefill: bool = False
    tools: bool = True
    schema_with_tools: bool = True
    max_stops: int = 0
    temperature: bool = True


_COUNTED = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems"}
)
_NO_KEYWORDS = frozenset({"$schema", "default", "title"})
_OLD_CLAUDE = ("claude-3", "claude-2", "claude-opus-4-0", "claude-sonnet-4-0", "claude-opus-4-2", "claude-sonnet-4-2")

_RULES: tuple[tuple[str, tuple[str, ...], Mapping[str, Any]], ...] = (
    (
        "openai",
        ("",),
        {
            "all_required": True,
            "search": {"type": "web_search"},
            "search_extra": {"max_tool_calls": 3},
            "image": {"size": "1024x1024", "quality": "medium", "output_format": "jpeg"},
        },
    ),
    ("openai", ("gpt-5", "gpt-6", "o1", "o3", "o4"), {"effort": "low"}),
    # Explicit breakpoints exist from gpt-5.6 on; a request writes up to four of them.
    ("openai", ("gpt-5.6", "gpt-5.7", "gpt-5.8", "gpt-5.9", "gpt-6"), {"cache_marks": 4}),
    (
        "xai",
        ("",),
        {
            "all_required": True,
            "system_as_message": True,
            "search": {"type": "web_search"},
            # Links such as [[1]](url) inside the strings of a JSON answer would be posted as they are.
            "search_extra": {"include": ["no_inline_citations"]},
            "image": {"response_format": "b64_json"},  # size and quality are refused
            "sees": frozenset({"image/png", "image/jpeg"}),
        },
    ),
    (
        "anthropic",
        ("",),
        {
            "schema_with_search": False,
            "unknown_keywords": _NO_KEYWORDS | _COUNTED,
            "alternate": True,
            "cache_marks": 4,
            "picture_bytes": 3_900_000,  # 5 MiB when it is base64
            "search": {
                "type": "web_search_20260318",
                "name": "web_search",
                "max_uses": 3,
                "allowed_callers": ["direct"],
            },
        },
    ),
    (
        "anthropic",
        (*_OLD_CLAUDE, "claude-haiku-4", "claude-sonnet-4-5", "claude-opus-4-1", "claude-opus-4-5"),
        {"search": {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}},
    ),
    ("anthropic", _OLD_CLAUDE, {"schema": False}),
    (
        "google",
        ("",),
        {
            "alternate": True,
            "search": {"googleSearch": {}},
            "unknown_keywords": _NO_KEYWORDS,
            "sees": frozenset({"image/png", "image/jpeg", "image/webp"}),
        },
    ),
    ("google", ("gemini-1", "gemini-2"), {"schema_with_search": False}),
    ("google", ("gemini-3", "gemini-4"), {"effort": "LOW"}),
)


def profile_of(provider: str, model: str) -> Profile:
    """The profile of a model; one that no rule knows gets its provider's."""
    profile = Profile()
    for name, prefixes, changes in _RULES:
        if name == provider and model.startswith(prefixes):
            profile = replace(profile, **changes)
    return profile
