"""Gemini, through Google's Gemini API; draws with Gemini's picture models."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class GeminiAgentCog(ModelAgentCog):
    """Gemini."""

    provider = "google"
