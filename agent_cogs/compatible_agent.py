"""Any model behind an OpenAI-compatible address: gateways, and servers on an own machine; they draw nothing."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class CompatibleAgentCog(ModelAgentCog):
    """An agent whose model has such an address; its provider is the endpoint's name."""

    provider = "compatible"
