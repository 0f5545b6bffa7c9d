"""Any model behind an OpenAI-compatible address: gateways, and servers on an own machine; they draw nothing."""

from __future__ import annotations

from collections.abc import Sequence

from agent_cogs.base import BaseAgentCog
from agentic.llm.types import Drawing, ImagePrompt, Message, Prompt, Reply


class CompatibleAgentCog(BaseAgentCog):
    """An agent whose model has such an address; its provider is the endpoint's name."""

    provider = "compatible"

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        return await self.model_for(prompt).complete(Prompt.of(prompt), history)

    async def _generate_image(self, prompt: ImagePrompt | str) -> Drawing:
        """By another model of its list, where one draws; CannotDraw otherwise."""
        return await self.model_for(prompt).draw(prompt)
