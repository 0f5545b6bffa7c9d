"""One record a turn, so that an instruction that comes twice is answered twice and posted once.

The first to claim an id does the turn; the record then keeps the result, which answers every repetition. It lives until
the deadline and 15 minutes. This process also remembers its own turns: when Redis is away or came back empty, what it
did must not be done again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from redis.asyncio import Redis

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

KEEP_AFTER_DEADLINE = 15 * 60.0
LATEST_DEADLINE = 86400.0  # from now; a deadline comes over the wire and may be nonsense
REMEMBERED = 10_000

CLAIM = """
if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('HMGET', KEYS[1], 'state', 'result', 'holder') end
redis.call('HSET', KEYS[1], 'state', 'open', 'holder', ARGV[1], 'claimed_at', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return false
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """`new`: yours to do. `open`: `holder` is at work on it. `done`: `result` is the JSON that was kept."""

    state: Literal["new", "open", "done"]
    result: str | None = None
    holder: str = ""


class Turns:
    """`clock` gives unix seconds, as deadlines are. No method raises RedisAway. `Ledger.settle` ends a turn."""

    def __init__(self, link: RedisLink, clock: Callable[[], float], holder: str = "") -> None:
        self._link = link
        self._clock = clock
        self.holder = holder
        self._ours: dict[str, tuple[float, Claim]] = {}  # key → (forget at, open or done)

    async def claim(self, agent: str, turn_id: str, deadline: float) -> Claim:
        """Claim a turn, atomically among all processes."""
        key, lifetime = keys.turn(agent, turn_id), self.lifetime(deadline)
        try:
            kept = await self._claim(key, lifetime)
        except RedisAway as away:
            log.debug("turn claimed in memory: %s", away)
            kept = Claim("new")
        ours = self._recall(key)
        if ours is not None and kept.state != "done":
            if ours.state == "done":
                await self._write(key, cast(str, ours.result), lifetime)
            return ours
        if kept.state == "new":
            self._remember(key, lifetime, Claim("open", holder=self.holder))
        return kept

    def remember(self, agent: str, turn_id: str, result_json: str, deadline: float) -> None:
        """This process did the turn; `Ledger.settle` writes it to Redis."""
        self._remember(keys.turn(agent, turn_id), self.lifetime(deadline), Claim("done", result_json, self.holder))

    def lifetime(self, deadline: float) -> float:
        """Seconds that the record of a turn with this deadline lives from now."""
        left = min(max(deadline - self._clock(), 0.0), LATEST_DEADLINE)
        return left + KEEP_AFTER_DEADLINE

    async def _claim(self, key: str, lifetime: float) -> Claim:
        kept = await self._link.script(CLAIM, [key], [self.holder, self._clock(), round(lifetime * 1000)])
        if kept is None:
            return Claim("new", holder=self.holder)
        state, result, holder = kept
        return Claim("done" if state == "done" else "open", result, holder or "")

    async def _write(self, key: str, result_json: str, lifetime: float) -> None:
        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=True)
            fields: dict[Any, Any] = {"state": "done", "result": result_json, "holder": self.holder}
            pipe.hset(key, mapping=fields)
            pipe.pexpire(key, round(lifetime * 1000))
            await pipe.execute()

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("a turn's result is kept in memory only: %s", away)

    def _recall(self, key: str) -> Claim | None:
        forget_at, claim = self._ours.get(key, (0.0, None))
        return claim if forget_at > self._clock() else None

    def _remember(self, key: str, lifetime: float, claim: Claim) -> None:
        now = self._clock()
        self._ours.pop(key, None)
        self._ours[key] = (now + lifetime, claim)
        for oldest in list(self._ours)[:2]:  # two out for one in keeps it small without ever sweeping it
            if self._ours[oldest][0] <= now or len(self._ours) > REMEMBERED:
                del self._ours[oldest]
