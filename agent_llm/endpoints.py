"""Where models are reached that have no module of their own: OpenAI-compatible addresses, and AWS. Data.

An endpoint of the table is named by the first part of `provider/model`; one of the owner's is any `Endpoint`. How a
begun answer is sent differs, which `prefill` says:

- "last": the last message is the assistant's, nothing else (llama.cpp, Ollama, LM Studio, OpenRouter, Groq)
- "prefix" and "partial": that message is marked so (DeepSeek's beta address and Mistral; Qwen)
- "continue": vLLM's `continue_final_message`, since it would close the message otherwise
- "completions": the whole prompt as plain text to `/completions`, which every base model goes on with
- "": never
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from agent_llm.profiles import Profile, profile_of

Prefill = Literal["last", "prefix", "partial", "continue", "completions", ""]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address that speaks OpenAI's Chat Completions; `base_url` ends in /v1 or what stands for it.

    `fields` are merged into every request's body and win over ours: they come from the owner's configuration only.
    `profile` changes what `profiles.py` says of its models. `stream_usage`: a stream is asked to tell its usage; some
    refuse the wish, or tell it anyway.
    """

    name: str
    base_url: str
    prefill: Prefill = "last"
    fields: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    profile: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    stream_usage: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Aws:
    """A region, and who calls: a Bedrock API key, a pair of keys, a profile, or whom boto3 finds on the machine."""

    region: str
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None


def profile_at(endpoint: Endpoint, model: str) -> Profile:
    """The profile of a model there: what is known of its name, and what the endpoint says of all behind it."""
    profile = profile_of("compatible", model)
    if endpoint.prefill in ("", "completions"):  # plain completions go on with anything
        profile = replace(profile, prefill=bool(endpoint.prefill))
    return replace(profile, **endpoint.profile)


_UNBOUNDED: Mapping[str, Any] = {"max_stops": 64}  # a server's own limit is none

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
        Endpoint(name="ollama", base_url="http://127.0.0.1:11434/v1", profile=_UNBOUNDED),
        Endpoint(name="llamacpp", base_url="http://127.0.0.1:8080/v1", profile=_UNBOUNDED),
        Endpoint(name="lmstudio", base_url="http://127.0.0.1:1234/v1", profile=_UNBOUNDED),
        Endpoint(name="vllm", base_url="http://127.0.0.1:8000/v1", prefill="continue", profile=_UNBOUNDED),
    )
}
"""Name → endpoint. The last four are on the own machine and cost nothing."""
