"""ChatGPT, through OpenAI's Responses API; draws with OpenAI's picture models."""

from __future__ import annotations

from collections.abc import Sequence

from agent_cogs.base import BaseAgentCog
from agentic.llm.types import Drawing, ImagePrompt, Message, Prompt, Reply


class OpenAIAgentCog(BaseAgentCog):
    """ChatGPT."""

    provider = "openai"

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        return await self.model_for(prompt).complete(Prompt.of(prompt), history)

    async def _generate_image(self, prompt: ImagePrompt | str) -> Drawing:
        return await self.model_for(prompt).draw(prompt)
