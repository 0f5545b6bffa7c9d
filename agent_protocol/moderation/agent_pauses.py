"""Agents that people silenced for a while: a key that runs out by itself.

What a turn needs of it is read in the script that takes its limits (limits.py). This process remembers what it saw
last, for as long as Redis is away. Who lifts a mute leaves LIFTED in its place: where there is nothing although this
process knows of a mute, Redis was emptied, and it is written once more.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable

from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.wire import keys

LONGEST = 7 * 86400.0  # seconds

LOOK_EVERY = 2.0

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

    async def run(self, agents: Iterable[str], every: float = LOOK_EVERY) -> None:
        """Sees what people want of these agents, and reminds a Redis that was emptied, until cancelled."""
        names = list(agents)
        while True:
            await self._link.present.wait()
            try:
                await self.read(names)
            except RedisAway as away:
                log.debug("who is muted is read when Redis is back: %s", away)
            await asyncio.sleep(every)

    async def mute(self, agent: str, seconds: float) -> float:
        """Silences the agent in all channels for `seconds`, a week at most; until when."""
        lasting = min(max(seconds, 1.0), LONGEST)
        until = self._clock() + lasting
        await self._write(agent, until)
        self.saw(agent, until)
        return until

    async def lift(self, agent: str) -> bool:
        """Whether it was muted."""
        lifted = await self._link.script(LIFT, [keys.muted(agent)], [round(LONGEST * 1000)])
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
                self.saw(name, _read(name, str(text)))
            elif self._until.get(name, 0.0) > now:
                await self._write(name, self._until[name])
        return {name: until for name in names if (until := self._until.get(name, 0.0)) > now}

    async def _write(self, agent: str, until: float) -> None:
        left = max(1, round((until - self._clock()) * 1000))
        await self._link.call(lambda redis: redis.set(keys.muted(agent), str(until), px=left))

    def saw(self, agent: str, until: float | None) -> None:
        """Remembers how it stands in Redis."""
        if until is None:
            self._until.pop(agent, None)
        else:
            self._until[agent] = until

    def holds(self, agent: str) -> bool:
        """As far as this process knows."""
        return self._until.get(agent, 0.0) > self._clock()


def _read(agent: str, text: str) -> float | None:
    """None for what is no time, and for one that was lifted."""
    try:
        return float(text) or None
    except ValueError:
        log.warning("the mute of %s cannot be read: %.40r", agent, text)
        return None


LONGEST_BACKOFF = 3600.0  # seconds; a clock that is wrong must not silence an agent for long


class BackoffStore:
    """All methods raise RedisAway. `clock` gives unix seconds."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock

    async def put(self, agent: str, until: float) -> None:
        """The agent rests until then, in unix seconds: an hour from now at most."""
        left = min(until - self._clock(), LONGEST_BACKOFF)
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
        ends = {
            name: _read_backoff(name, str(text)) for name, text in zip(names, found, strict=True) if text is not None
        }
        now = self._clock()
        return {name: min(until, now + LONGEST_BACKOFF) for name, until in ends.items() if until > now}


def _read_backoff(agent: str, text: str) -> float:
    """0 for what is no time."""
    try:
        until = float(text)
    except ValueError:
        until = math.nan
    if not math.isfinite(until):
        log.warning("the rest of %s cannot be read: %.40r", agent, text)
        return 0.0
    return until
