"""Our own record of what our webhooks posted: their messages carry a name that anybody can take, so only ids count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class OwnPosts(Protocol):
    """Shared by all processes; agent_protocol.webhook_posts is the one in Redis. No method raises."""

    async def add(self, channel_id: int, message_id: int, agent: str) -> None: ...
    async def read(self, channel_id: int) -> Mapping[int, str]: ...
