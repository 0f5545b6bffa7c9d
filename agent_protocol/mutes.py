"""Agents that people silenced for a while: a key that runs out by itself.

What a turn needs of it is read in the script that takes its limits (limits.py). This process remembers what it saw
last, for as long as Redis is away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent_protocol import keys
from agent_protocol.connection import RedisLink

LONGEST = 7 * 86400.0  # seconds


class Mutes:
    """`clock` gives unix seconds. `mute`, `lift` and `read` raise RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float]) -> None:
        self._link, self._clock = link, clock
        self._until: dict[str, float] = {}

    async def mute(self, agent: str, seconds: float) -> float:
        """Silences the agent in all channels for `seconds`, a week at most; until when."""
        lasting = min(max(seconds, 1.0), LONGEST)
        until = self._clock() + lasting
        await self._link.call(lambda redis: redis.set(keys.muted(agent), str(until), px=round(lasting * 1000)))
        self.saw(agent, until)
        return until

    async def lift(self, agent: str) -> bool:
        """Whether it was muted."""
        lifted = await self._link.call(lambda redis: redis.delete(keys.muted(agent)))
        self.saw(agent, None)
        return bool(lifted)

    async def read(self, agents: Iterable[str]) -> dict[str, float]:
        """Those of `agents` that are muted, and until when."""
        names = list(agents)
        if not names:
            return {}
        found = await self._link.call(lambda redis: redis.mget([keys.muted(name) for name in names]))
        muted = {name: float(text) for name, text in zip(names, found, strict=True) if text is not None}
        for name in names:
            self.saw(name, muted.get(name))
        return muted

    def saw(self, agent: str, until: float | None) -> None:
        """Remembers how it stands in Redis."""
        if until is None:
            self._until.pop(agent, None)
        else:
            self._until[agent] = until

    def holds(self, agent: str) -> bool:
        """As far as this process knows."""
        return self._until.get(agent, 0.0) > self._clock()
