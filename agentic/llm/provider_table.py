"""The table of providers. PROVIDERS has a row for each provider with its own API, and ENDPOINTS for each address that
speaks OpenAI's Chat Completions or Ollama's API.

A new provider is a module in agentic/llm/providers, a row here, and a cog. Settings, prices, setup, and checks read the
row.

A provider's rules say how its models' profiles differ. They apply from top to bottom; each has prefixes of model ids
and the fields that it changes. A model on AWS Bedrock is the same Claude under a longer name, so Anthropic's rules
apply to it before Bedrock's own. A model behind an OpenAI-compatible address is recognized by its maker's prefix, if it
has one.

Structured output together with web search: OpenAI, xAI, and Gemini 3 and later accept both. Anthropic rejects
structured output together with citations, which its web search always adds, and Gemini 2 rejects it together with any
tool. They get the schema in words.

Models that continue a prefilled answer: Claude up to 4.5, and other makers' models with a documented prefix mode or
with plain completions. Claude from 4.6 on and the models of OpenAI, Google, and xAI don't. An unknown model is tried;
if its server refuses, PrefillMemory remembers that for the life of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from agentic.llm.errors import PrefillRefused
from agentic.llm.profiles import ApiKey, Endpoint, Profile
from agentic.llm.types import Thinking

log = logging.getLogger(__name__)

# Prefixes of models, and what they change in a Profile.
Rule = tuple[tuple[str, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PicturePrice:
    """US dollars per million tokens in and out if the answer counts them, otherwise per picture."""

    each: float
    input_mtok: float = 0.0
    output_mtok: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider with its own API.

    `adapter` is "module:Class" of its ProviderModel, whose SDK takes about `import_seconds` to import; `cog` is the
    class of its bots. `model` and `image_model` are the defaults (good and inexpensive), or "". `search_prices` (US
    dollars per search) and `picture_prices` are by model prefix; the first match is used. `price_list` and
    `convention` are its names in genai-prices and in OpenTelemetry's conventions, if they differ.
    """

    name: str
    title: str
    adapter: str
    cog: str
    import_seconds: float
    key: ApiKey
    base_url_setting: str = ""  # as its own SDK names it
    model: str = ""
    image_model: str = ""
    embeds: bool = False
    price_list: str = ""
    convention: str = ""
    search_prices: tuple[tuple[str, float], ...] = ()
    picture_prices: tuple[tuple[str, PicturePrice], ...] = ()
    rules: tuple[Rule, ...] = ()


# --- rules ----------------------------------------------------------------------------------------------------------


def _rule(*prefixes: str, **changes: Any) -> Rule:
    return prefixes or ("",), changes


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

_LEVELS: Mapping[Thinking, str] = {"low": "low", "medium": "medium", "high": "high"}
_LEVELS_OR_NONE: Mapping[Thinking, str] = {"none": "none", **_LEVELS}

# With `store: false` reasoning comes encrypted, to be sent back: https://platform.openai.com/docs/guides/reasoning
_SEALED_REASONING: Mapping[str, Any] = {"tool_extra": {"include": ["reasoning.encrypted_content"]}}

_CLAUDE_RULES = (
    _rule(
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
        thinking=_LEVELS_OR_NONE,
    ),
    _rule("claude-opus-5-5", "claude-fable", thinking=_LEVELS),  # they refuse disabled thinking
    _rule(
        *(*_OLD_CLAUDE, "claude-haiku-4", "claude-sonnet-4-5", "claude-opus-4-1", "claude-opus-4-5"),
        search={"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ),
    _rule(*_OLD_CLAUDE, schema=False),
    _rule(*_OLD_CLAUDE, *_CLAUDE_4_5, prefill=True, thinking={}),  # theirs has a budget in tokens
)
_COMPATIBLE_RULES = (
    _rule(
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
    _rule(*_ROUTED_OTHERS, "gpt-4", "gpt-5", "gpt-6", "grok-", "gemini-", "claude-", prefill=False),
    _rule("gpt-oss", "openai/gpt-oss", "openai/gpt-5", "openai/gpt-6", "openai/o", thinking=_LEVELS),
    _rule("x-ai/", "xai/", "grok-", escapes_arguments=True),
    _rule("anthropic/", prefill=False, cache_marks=4),
    _rule(*_ROUTED_CLAUDE, prefill=True),
)

# --- providers ------------------------------------------------------------------------------------------------------

COMPATIBLE_COG = "agent_cogs.compatible_agent:CompatibleAgentCog"
PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            title="OpenAI",
            adapter="agentic.llm.providers.openai:OpenAIModel",
            cog="agent_cogs.openai_agent:OpenAIAgentCog",
            import_seconds=0.1,
            key=ApiKey(
                setting="OPENAI_API_KEY",
                page="https://platform.openai.com/api-keys",
                shape="sk-(proj|svcacct|admin)-.+",
            ),
            base_url_setting="OPENAI_BASE_URL",
            model="gpt-6-luna",
            image_model="gpt-image-2.6-flare",
            embeds=True,
            search_prices=(("", 0.010),),
            picture_prices=(
                ("gpt-image-1-mini", PicturePrice(0.02, 2.0, 8.0)),
                ("gpt-image-1.5", PicturePrice(0.05, 5.0, 32.0)),
                # gpt-image-2.6 is not listed anywhere yet: assume the price of 2 and 2.5.
                ("gpt-image-2", PicturePrice(0.06, 5.0, 30.0)),
            ),
            rules=(
                _rule(
                    all_required=True,
                    search={"type": "web_search"},
                    search_extra={"max_tool_calls": 3},
                    image={"size": "1024x1024", "quality": "medium", "output_format": "jpeg"},
                    sees=frozenset({"image/png", "image/jpeg", "image/webp"}),  # an animated GIF is refused
                    # Fitted into a square of 2,048 pixels: https://platform.openai.com/docs/guides/images-vision
                    max_pictures=500,
                ),
                # A model that reasons takes no temperature. The Responses API has no stop sequences.
                _rule(
                    *("gpt-5", "gpt-6", "o1", "o3", "o4"),
                    effort="low",
                    thinking=_LEVELS,
                    temperature=False,
                    **_SEALED_REASONING,
                ),
                _rule("gpt-5.", "gpt-6", thinking=_LEVELS_OR_NONE),
                # Explicit breakpoints exist from gpt-5.6 on; a request writes up to four of them.
                _rule("gpt-5.6", "gpt-5.7", "gpt-5.8", "gpt-5.9", "gpt-6", cache_marks=4),
            ),
        ),
        Provider(
            name="anthropic",
            title="Anthropic",
            adapter="agentic.llm.providers.anthropic:AnthropicModel",
            cog="agent_cogs.anthropic_agent:AnthropicAgentCog",
            import_seconds=0.4,
            key=ApiKey(
                setting="ANTHROPIC_API_KEY", page="https://console.anthropic.com/settings/keys", shape="sk-ant-.+"
            ),
            base_url_setting="ANTHROPIC_BASE_URL",
            model="claude-haiku-5-5",
            search_prices=(("", 0.010),),
            rules=_CLAUDE_RULES,
        ),
        Provider(
            name="google",
            title="Google",
            adapter="agentic.llm.providers.gemini:GeminiModel",
            cog="agent_cogs.gemini_agent:GeminiAgentCog",
            import_seconds=0.4,
            key=ApiKey(setting="GEMINI_API_KEY", page="https://aistudio.google.com/apikey", shape=r"AIza[\w-]{30,}"),
            base_url_setting="GOOGLE_GEMINI_BASE_URL",
            model="gemini-3.8-flash",
            image_model="gemini-3.1-flash-image",
            convention="gcp.gemini",
            search_prices=(("gemini-2", 0.035), ("", 0.014)),
            picture_prices=(
                ("gemini-2.5-flash-image", PicturePrice(0.039, 0.3, 30.0)),
                ("gemini-3.1-flash-lite-image", PicturePrice(0.034, 0.25, 30.0)),
                ("gemini-3.1-flash-image", PicturePrice(0.067, 0.5, 60.0)),
                ("gemini-nano-banana-2", PicturePrice(0.067, 1.5, 30.0)),
            ),
            rules=(
                _rule(
                    alternate=True,
                    search={"googleSearch": {}},
                    unknown_keywords=_NO_KEYWORDS,
                    sees=frozenset({"image/png", "image/jpeg", "image/webp"}),
                    max_stops=5,  # https://ai.google.dev/api/generate-content#generationconfig
                    picture_pixels=3072,  # https://ai.google.dev/gemini-api/docs/image-understanding
                    max_pictures=3000,
                ),
                _rule(
                    *("gemini-1", "gemini-2"),
                    schema_with_search=False,
                    schema_with_tools=False,
                    tools_with_search=False,
                    pictures_in_results=False,
                ),
                # Both kinds of tools at once: https://ai.google.dev/gemini-api/docs/tool-combination
                # A call without its signature is refused: https://ai.google.dev/gemini-api/docs/thought-signatures
                _rule(
                    *("gemini-3", "gemini-4"),
                    effort="LOW",
                    thinking={"low": "LOW", "medium": "MEDIUM", "high": "HIGH"},
                    tool_and_search_extra={"toolConfig": {"includeServerSideToolInvocations": True}},
                    foreign_signature="skip_thought_signature_validator",
                ),
            ),
        ),
        Provider(
            name="xai",
            title="xAI",
            adapter="agentic.llm.providers.openai:GrokModel",
            cog="agent_cogs.grok_agent:GrokAgentCog",
            import_seconds=0.1,
            key=ApiKey(setting="XAI_API_KEY", page="https://console.x.ai/", shape="xai-.+"),
            base_url_setting="XAI_BASE_URL",
            model="grok-4.7",
            image_model="grok-imagine-image",  # https://docs.x.ai/developers/model-capabilities/images/generation
            price_list="x-ai",
            convention="x_ai",
            search_prices=(("", 0.010),),
            picture_prices=(
                ("grok-imagine-image-pro", PicturePrice(0.07)),
                ("grok-imagine-image-quality", PicturePrice(0.07)),
                ("grok-imagine-image", PicturePrice(0.02)),
                ("grok-2-image", PicturePrice(0.07)),
            ),
            rules=(
                _rule(
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
                # Older models refuse an effort: https://docs.x.ai/developers/model-capabilities/text/reasoning
                _rule(*(f"grok-4.{n}" for n in range(3, 10)), "grok-5", "grok-latest", thinking=_LEVELS),
                _rule("grok-4.3", thinking=_LEVELS_OR_NONE),  # later ones always reason
            ),
        ),
        Provider(
            name="bedrock",
            title="AWS Bedrock",
            adapter="agentic.llm.providers.bedrock:BedrockModel",
            cog="agent_cogs.bedrock_agent:BedrockAgentCog",
            import_seconds=1.0,
            key=ApiKey(setting="AWS_BEARER_TOKEN_BEDROCK"),  # or AWS's other credentials
            price_list="aws",
            convention="aws.bedrock",
            rules=(
                *_CLAUDE_RULES,
                # No web search there; a request has at most 20 MB. Older models use the older API version, which has a
                # temperature.
                _rule(search={}, max_pictures=20),
                _rule(*_OLD_CLAUDE, *_CLAUDE_4_5, "claude-opus-4-6", "claude-sonnet-4-6", temperature=True),
            ),
        ),
    )
}
"""Name → provider, in the order in which they are listed everywhere."""

_MANY_STOPS: Mapping[str, Any] = {"max_stops": 64}
ENDPOINTS: Mapping[str, Endpoint] = {
    endpoint.name: endpoint
    for endpoint in (
        Endpoint(
            name="openrouter",
            title="OpenRouter",
            base_url="https://openrouter.ai/api/v1",
            key=ApiKey(page="https://openrouter.ai/settings/keys", shape="sk-or-.+"),
        ),
        # https://api-docs.deepseek.com/guides/chat_prefix_completion
        Endpoint(
            name="deepseek",
            title="DeepSeek",
            base_url="https://api.deepseek.com/beta",
            key=ApiKey(page="https://platform.deepseek.com/api_keys"),
            prefill="prefix",
            profile={"max_stops": 16},
        ),
        Endpoint(
            name="mistral",
            title="Mistral",
            base_url="https://api.mistral.ai/v1",
            key=ApiKey(page="https://console.mistral.ai/api-keys"),
            prefill="prefix",
            stream_usage=False,
            convention="mistral_ai",
        ),
        Endpoint(
            name="groq",
            title="Groq",
            base_url="https://api.groq.com/openai/v1",
            key=ApiKey(page="https://console.groq.com/keys"),
        ),
        # https://www.alibabacloud.com/help/en/model-studio/partial-mode
        Endpoint(
            name="qwen",
            base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            key=ApiKey(),
            prefill="partial",
        ),
        # The servers below have no limit of their own.
        Endpoint(
            name="ollama",
            base_url="http://127.0.0.1:11434/v1",
            base_url_setting="OLLAMA_BASE_URL",
            model="gpt-oss:20b",
            api="ollama",
            profile=_MANY_STOPS,
        ),
        Endpoint(name="llamacpp", base_url="http://127.0.0.1:8080/v1", profile=_MANY_STOPS),
        Endpoint(name="lmstudio", base_url="http://127.0.0.1:1234/v1", profile=_MANY_STOPS),
        Endpoint(name="vllm", base_url="http://127.0.0.1:8000/v1", prefill="continue", profile=_MANY_STOPS, slots=16),
    )
}
"""Name → endpoint. Those without a key are on this machine and cost nothing."""

KNOWN: Mapping[str, Provider | Endpoint] = {**PROVIDERS, **ENDPOINTS}


# --- profiles -------------------------------------------------------------------------------------------------------


def profile_of(provider: str, model: str) -> Profile:
    """Return a model's profile. A model that no rule matches gets its provider's; a provider without a row is an
    OpenAI-compatible address."""
    # Bedrock's names have a prefix (`us.anthropic.claude-…`, and ARNs that end so).
    bare = model[max(0, model.rfind("claude-")) :] if provider == "bedrock" else model
    row, profile = PROVIDERS.get(provider), Profile()
    for prefixes, changes in _COMPATIBLE_RULES if row is None else row.rules:
        if bare.startswith(prefixes):
            profile = replace(profile, **changes)
    return profile


@lru_cache(maxsize=64)
def profile_named(name: str) -> Profile:
    """Return the profile of `provider/model`."""
    provider, _, model = name.partition("/")
    return profile_of(provider, model)


def profile_at(endpoint: Endpoint, model: str) -> Profile:
    """Return the profile of a model there: the profile for its name, overridden by the endpoint's settings."""
    profile = profile_of(endpoint.name, model)
    if endpoint.prefill in ("", "completions"):  # plain completions continue any text
        profile = replace(profile, prefill=bool(endpoint.prefill))
    return replace(profile, stream_usage=endpoint.stream_usage, **endpoint.profile)


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
        if name not in self._refused and not profile_named(name).prefill:
            self._note(name)
        return name not in self._refused

    def refused(self, error: PrefillRefused) -> None:
        """Remember the model that refused."""
        self._note(f"{error.provider}/{error.model}")

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            log.warning("%s can't continue a prefilled answer; its turns use chat mode", name)
