"""xAI: https://docs.x.ai/docs/api-reference. It speaks OpenAI's Responses and Images APIs, so that SDK is used.

The differences are in its profile: the system prompt is a message, searches leave no marks in the text, pictures take
no size.
"""

from __future__ import annotations

from typing import Any

from agentic.llm.providers.openai import OpenAIModel, load

__all__ = ["GrokModel", "load"]


class GrokModel(OpenAIModel):
    """A Grok model."""

    provider = "xai"
    home = "https://api.x.ai/v1"

    def _headers(self) -> dict[str, Any]:
        """Omit OPENAI_ORG_ID and OPENAI_PROJECT_ID, which the SDK reads from the environment: xAI must not get them."""
        import openai

        return {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
