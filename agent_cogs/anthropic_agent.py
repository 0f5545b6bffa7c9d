"""Claude, through Anthropic's Messages API. Anthropic has no picture models."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class AnthropicAgentCog(ModelAgentCog):
    provider = "anthropic"
