"""Which agents rest because their provider refuses them: a key each that runs out with the rest.

So a rest outlives a restart, and every process sees it: who stands by for the agent, who gives turns, who shows the
bots' state. Who decides on it is the agent's own process; see agent_cogs.bench.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable

from agent_protocol import keys
from agent_protocol.connection import RedisLink

LONGEST = 3600.0  # seconds; a clock that is wrong must not silence an agent for long

log = logging.getLogger(__name__)


class Rests:
    """All methods raise RedisAway. `clock` gives unix seconds."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock

    async def put(self, agent: str, until: float) -> None:
        """The agent rests until then, in unix seconds: an hour from now at most."""
        left = min(until - self._clock(), LONGEST)
        if left > 0:
            await self._link.call(lambda redis: redis.set(keys.bench(agent), str(until), px=max(1, round(left * 1000))))

    async def until(self, agent: str) -> float | None:
        """When the agent's rest ends, in unix seconds; None while it works."""
        return (await self.read([agent])).get(agent)

    async def read(self, agents: Iterable[str]) -> dict[str, float]:
        """Those of `agents` that rest, and until when."""
        names = list(agents)
        if not names:
            return {}
        found = await self._link.call(lambda redis: redis.mget([keys.bench(name) for name in names]))
        ends = {name: _read(name, str(text)) for name, text in zip(names, found, strict=True) if text is not None}
        now = self._clock()
        return {name: min(until, now + LONGEST) for name, until in ends.items() if until > now}


def _read(agent: str, text: str) -> float:
    """0 for what is no time."""
    try:
        until = float(text)
    except ValueError:
        until = math.nan
    if not math.isfinite(until):
        log.warning("the rest of %s cannot be read: %.40r", agent, text)
        return 0.0
    return until
