"""Claude on AWS Bedrock, which draws nothing."""

from __future__ import annotations

from collections.abc import Sequence

from agent_cogs.base import BaseAgentCog
from agentic.llm.types import Drawing, ImagePrompt, Message, Prompt, Reply


class BedrockAgentCog(BaseAgentCog):
    """An agent whose model runs on Bedrock."""

    provider = "bedrock"

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        return await self.model_for(prompt).complete(Prompt.of(prompt), history)

    async def _generate_image(self, prompt: ImagePrompt | str) -> Drawing:
        """By another model of its list, where one draws; CannotDraw otherwise."""
        return await self.model_for(prompt).draw(prompt)
