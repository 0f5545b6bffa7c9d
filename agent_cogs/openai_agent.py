"""ChatGPT, through OpenAI's Responses API. It draws with OpenAI's picture models."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class OpenAIAgentCog(ModelAgentCog):
    provider = "openai"
