"""Grok, through xAI's API. It draws with xAI's picture models."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class GrokAgentCog(ModelAgentCog):
    provider = "xai"
