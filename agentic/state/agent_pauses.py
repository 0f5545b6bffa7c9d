"""Pauses of agents: mutes by people, and back-offs after a provider refused an agent.

Each is a key an agent that holds when it ends (unix seconds) and expires then.

A turn learns of a mute in the script that takes its limits (turns/limits.py). A process remembers the mutes it knows,
for as long as Redis is away. Lifting a mute leaves LIFTED in its place: where a key is missing although this process
knows a mute, Redis was emptied, and the mute is written again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

LONGEST_MUTE = 7 * 86400.0  # seconds
LONGEST_BACKOFF = 3600.0  # seconds; a clock that is wrong must not silence an agent for long
POLL_SECONDS = 2.0
LIFTED = "0"

LIFT = f"""
local was = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '{LIFTED}', 'PX', ARGV[1])
return was and was ~= '{LIFTED}' and 1 or 0
"""

log = logging.getLogger(__name__)


class Mutes:
    """`clock` gives unix seconds. `mute`, `lift` and `read` raise RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float]) -> None:
        self._link, self._clock = link, clock
        self._until: dict[str, float] = {}

    async def run(self, agents: Iterable[str], every: float = POLL_SECONDS) -> None:
        """Until cancelled: learn the mutes of these agents, and write them again if Redis was emptied."""
        names = list(agents)
        while True:
            await self._link.present.wait()
            try:
                await self.read(names)
            except RedisAway as away:
                log.debug("mutes cannot be read, will retry: %s", away)
            await asyncio.sleep(every)

    async def mute(self, agent: str, seconds: float) -> float:
        """Mute the agent in all channels for `seconds`, at most a week; until when."""
        lasting = min(max(seconds, 1.0), LONGEST_MUTE)
        until = self._clock() + lasting
        await self._write(agent, until)
        self.saw(agent, until)
        return until

    async def lift(self, agent: str) -> bool:
        """Whether it was muted."""
        lifted = await self._link.script(LIFT, [keys.muted(agent)], [round(LONGEST_MUTE * 1000)])
        self.saw(agent, None)
        return bool(lifted)

    async def read(self, agents: Iterable[str]) -> dict[str, float]:
        """Those of `agents` that are muted, and until when."""
        names = list(agents)
        if not names:
            return {}
        found = await self._link.call(lambda redis: redis.mget([keys.muted(name) for name in names]))
        now = self._clock()
        for name, text in zip(names, found, strict=True):
            if text is not None:
                self.saw(name, _end_of("mute", name, str(text)) or None)
            elif self._until.get(name, 0.0) > now:
                await self._write(name, self._until[name])
        return {name: until for name in names if (until := self._until.get(name, 0.0)) > now}

    def saw(self, agent: str, until: float | None) -> None:
        """Remember what Redis has."""
        if until is None:
            self._until.pop(agent, None)
        else:
            self._until[agent] = until

    def holds(self, agent: str) -> bool:
        """As far as this process knows."""
        return self._until.get(agent, 0.0) > self._clock()

    async def _write(self, agent: str, until: float) -> None:
        left = max(1, round((until - self._clock()) * 1000))
        await self._link.call(lambda redis: redis.set(keys.muted(agent), str(until), px=left))


class BackoffStore:
    """All methods raise RedisAway. `clock` gives unix seconds."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock

    async def put(self, agent: str, until: float) -> None:
        """Set when the agent's back-off ends, in unix seconds; at most an hour from now."""
        left = min(until - self._clock(), LONGEST_BACKOFF)
        if left > 0:
            await self._link.call(lambda redis: redis.set(keys.bench(agent), str(until), px=max(1, round(left * 1000))))

    async def until(self, agent: str) -> float | None:
        """When the agent's back-off ends, in unix seconds; None for none."""
        return (await self.read([agent])).get(agent)

    async def read(self, agents: Iterable[str]) -> dict[str, float]:
        """Those of `agents` that are in back-off, and until when."""
        names = list(agents)
        if not names:
            return {}
        found = await self._link.call(lambda redis: redis.mget([keys.bench(name) for name in names]))
        texts = {name: str(text) for name, text in zip(names, found, strict=True) if text is not None}
        ends = {name: _end_of("back-off", name, text) for name, text in texts.items()}
        now = self._clock()
        return {name: min(until, now + LONGEST_BACKOFF) for name, until in ends.items() if until > now}


def _end_of(pause: str, agent: str, text: str) -> float:
    """0 for a text that is not a time, and for LIFTED."""
    try:
        until = float(text)
    except ValueError:
        until = math.nan
    if not math.isfinite(until):
        log.warning("the %s of %s cannot be read and is ignored: %.40r", pause, agent, text)
        return 0.0
    return until
