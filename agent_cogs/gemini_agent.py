"""Gemini, through Google's Gemini API. It draws with Gemini's picture models."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class GeminiAgentCog(ModelAgentCog):
    provider = "google"
