"""Claude, through Anthropic's Messages API. Anthropic has no picture model."""

from __future__ import annotations

from collections.abc import Sequence

from agent_cogs.base import BaseAgentCog
from agentic.llm.types import Drawing, ImagePrompt, Message, Prompt, Reply


class AnthropicAgentCog(BaseAgentCog):
    """Claude."""

    provider = "anthropic"

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        return await self.model_for(prompt).complete(Prompt.of(prompt), history)

    async def _generate_image(self, prompt: ImagePrompt | str) -> Drawing:
        return await self.model_for(prompt).draw(prompt)
