"""Grok, through xAI's API; draws with xAI's picture models."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class GrokAgentCog(ModelAgentCog):
    """Grok."""

    provider = "xai"
