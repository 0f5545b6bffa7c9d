"""Any model behind an OpenAI-compatible address: gateways, and servers on the owner's machines. They can't draw."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class CompatibleAgentCog(ModelAgentCog):
    provider = "compatible"
