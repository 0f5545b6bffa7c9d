"""Addresses of models without a module of their own: OpenAI-compatible endpoints, and AWS. Data only.

The first part of `provider/model` names an endpoint of the table or of the owner's configuration. Endpoints differ in
how they take a prefilled answer, which `prefill` says:

- "last": the last message is the assistant's (llama.cpp, Ollama, LM Studio, OpenRouter, Groq)
- "prefix" and "partial": the same, and the message carries that mark (DeepSeek's beta address and Mistral; Qwen)
- "continue": vLLM's `continue_final_message`, without which vLLM closes the message
- "completions": the whole prompt as plain text to `/completions`, for base models
- "": not supported
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from agentic.llm.profiles import Profile, profile_of

Prefill = Literal["last", "prefix", "partial", "continue", "completions", ""]
Api = Literal["openai", "ollama"]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address that speaks OpenAI's Chat Completions. `base_url` includes the version, usually /v1.

    `api` "ollama": chats go to Ollama's own API beside that address, which has a context size
    (agentic.llm.providers.ollama). `model`: the one where a setting names the provider alone.
    `fields` are merged into the body of every request and override ours; they come from the owner's configuration only.
    `profile` overrides fields of the models' Profile. `stream_usage`: ask for the usage of a stream. Some servers
    refuse that, or report it anyway.
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


_UNBOUNDED: Mapping[str, Any] = {"max_stops": 64}  # these servers have no limit of their own

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
        Endpoint(
            name="ollama",
            base_url="http://127.0.0.1:11434/v1",
            model="gpt-oss:20b",
            api="ollama",
            profile=_UNBOUNDED,
        ),
        Endpoint(name="llamacpp", base_url="http://127.0.0.1:8080/v1", profile=_UNBOUNDED),
        Endpoint(name="lmstudio", base_url="http://127.0.0.1:1234/v1", profile=_UNBOUNDED),
        Endpoint(name="vllm", base_url="http://127.0.0.1:8000/v1", prefill="continue", profile=_UNBOUNDED),
    )
}
"""Name → endpoint. The last four are on this machine and cost nothing."""
