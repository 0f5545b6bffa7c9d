"""Claude on AWS Bedrock, which can't draw."""

from __future__ import annotations

from agent_cogs.base import ModelAgentCog


class BedrockAgentCog(ModelAgentCog):
    provider = "bedrock"
