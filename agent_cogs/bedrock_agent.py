"""Claude on AWS Bedrock, which draws nothing."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class BedrockAgentCog(ModelAgentCog):
    """An agent whose model runs on Bedrock."""

    provider = "bedrock"
