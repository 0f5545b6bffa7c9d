"""Which agents are online: a key per agent that its process renews, and that runs out when it does not."""

from __future__ import annotations

from collections.abc import Iterable

from agent_protocol import keys
from agent_protocol.connection import RedisLink

TTL_SECONDS = 15


class Presence:
    """For people and consoles to read. A missing key excludes nobody from a turn. All methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def renew(self, agent: str, text: str) -> None:
        """Say for 15 more seconds that the agent is online. `text` is free."""
        await self._link.call(lambda redis: redis.set(keys.ready(agent), text, ex=TTL_SECONDS))

    async def clear(self, agent: str) -> None:
        await self._link.call(lambda redis: redis.delete(keys.ready(agent)))

    async def online(self, agents: Iterable[str]) -> set[str]:
        """Those of `agents` that are online."""
        return set(await self.read(agents))

    async def read(self, agents: Iterable[str]) -> dict[str, str]:
        """What each of `agents` that is online says of itself."""
        names = list(agents)
        if not names:
            return {}
        found = await self._link.call(lambda redis: redis.mget([keys.ready(name) for name in names]))
        return {name: str(text) for name, text in zip(names, found, strict=True) if text is not None}
