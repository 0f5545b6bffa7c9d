"""Cooldowns, daily maxima and money, checked and taken in one step, so that turns side by side cannot pass a limit.

While Redis is away the same rules are kept in this process's memory: it mirrors what was last seen, and what was taken
meanwhile is added to the day's count when Redis is back.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Literal

from agent_protocol import budgets, keys
from agent_protocol.budgets import Budgets
from agent_protocol.connection import RedisAway, RedisLink
from agent_protocol.money import MINUTE, REFUSED, Caps, MemoryBudgets, Wish
from agent_protocol.money import Verdict as MoneyVerdict
from agent_protocol.mutes import Mutes

Verdict = Literal["cooldown", "daily_limit", "muted"] | MoneyVerdict
COUNT_SECONDS = 48 * 3600

# KEYS: cooldown, count, muted; then, where money is asked for: spent, holds, the person's mentions of the last minute.
# ARGV: cooldown in ms (0: none), daily maximum, lifetime of the count in s, turns taken while Redis was away; then the
# mention ("" for none), how many a person has in a minute (0: any number), and what budgets.RESERVE wants.
TAKE = f"""{budgets.RESERVE}
local function called_too_often(now)
  if ARGV[5] == '' or ARGV[6] == '0' then return false end
  redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now - {MINUTE:.0f})
  return not redis.call('ZSCORE', KEYS[6], ARGV[5]) and redis.call('ZCARD', KEYS[6]) >= tonumber(ARGV[6])
end
local cooldown, most, owed = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local count = tonumber(redis.call('GET', KEYS[2]) or '0')
if owed > 0 then
  count = redis.call('INCRBY', KEYS[2], owed)
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
local muted = redis.call('GET', KEYS[3])
if muted then return {{'muted', count, muted}} end
if count >= most then return {{'daily_limit', count}} end
if cooldown > 0 and redis.call('EXISTS', KEYS[1]) == 1 then return {{'cooldown', count}} end
local verdict, totals = 'ok', {{}}
if #KEYS > 3 then
  if called_too_often(tonumber(ARGV[7])) then return {{'too_often', count}} end
  verdict, totals = reserve(KEYS[4], KEYS[5], 7)
  if verdict ~= 'ok' and verdict ~= 'closing' then return {{verdict, count}} end
  if ARGV[5] ~= '' and ARGV[6] ~= '0' then
    redis.call('ZADD', KEYS[6], 'NX', ARGV[7], ARGV[5])
    redis.call('EXPIRE', KEYS[6], {MINUTE:.0f})
  end
end
if cooldown > 0 then redis.call('SET', KEYS[1], '1', 'PX', cooldown) end
count = redis.call('INCR', KEYS[2])
redis.call('EXPIRE', KEYS[2], ARGV[3])
local told = {{verdict, count}}
for i = 1, #totals do told[i + 2] = totals[i] end
return told
"""

log = logging.getLogger(__name__)


class MemoryLimits:
    """The same rules in one process. `clock` gives unix seconds."""

    def __init__(self, clock: Callable[[], float], money: MemoryBudgets | None = None) -> None:
        self._clock = clock
        self.money = money or MemoryBudgets(Caps(), clock)
        self._cooldowns: dict[tuple[str, int], float] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def take(
        self, agent: str, channel_id: int, *, cooldown: float, daily_max: int, date: str, wish: Wish | None = None
    ) -> Verdict:
        """`cooldown` in seconds, 0 for none."""
        if self.count(agent, date) >= daily_max:
            return "daily_limit"
        if cooldown > 0 and self._cooldowns.get((agent, channel_id), 0.0) > self._clock():
            return "cooldown"
        verdict = "ok" if wish is None else self.money.take(agent, channel_id, wish, date)
        if verdict in ("ok", "closing"):
            self.note_taken(agent, channel_id, cooldown=cooldown, count=self.count(agent, date) + 1, date=date)
        return verdict

    def note_taken(self, agent: str, channel_id: int, *, cooldown: float, count: int, date: str) -> None:
        """Mirror a turn taken elsewhere; `count` is the day's count after it."""
        now = self._clock()
        if cooldown > 0:
            self._cooldowns = {key: until for key, until in self._cooldowns.items() if until > now}
            self._cooldowns[agent, channel_id] = now + cooldown
        if (agent, date) not in self._counts:
            self._counts = {key: n for key, n in self._counts.items() if key[0] != agent}
        self._counts[agent, date] = count

    def release_cooldown(self, agent: str, channel_id: int) -> None:
        self._cooldowns.pop((agent, channel_id), None)

    def count(self, agent: str, date: str) -> int:
        return self._counts.get((agent, date), 0)


class Limits:
    """An agent's limits, shared by all processes. No method raises RedisAway."""

    def __init__(
        self,
        link: RedisLink,
        clock: Callable[[], float],
        money: Budgets | None = None,
        mutes: Mutes | None = None,
    ) -> None:
        self._link = link
        self._mutes = mutes or Mutes(link, clock)
        self._money = money or Budgets(link, clock, Caps())
        self._memory = MemoryLimits(clock, self._money.memory)
        self._owed: Counter[tuple[str, str]] = Counter()
        self._away_said = False

    async def take(
        self,
        agent: str,
        channel_id: int,
        *,
        cooldown: float,
        daily_max: int,
        date: str,
        use_cooldown: bool,
        wish: Wish | None = None,
    ) -> Verdict:
        """Take one turn of the day's `daily_max`, the channel's cooldown (seconds, 0 for none) if `use_cooldown`, and
        the money that the turn wishes to put aside.

        Only "ok" and "closing" (a conversation's last turn, since money runs out) take anything. `date` is the local
        date, YYYY-MM-DD.
        """
        cooldown = cooldown if use_cooldown else 0.0
        owed = self._owed.pop((agent, date), 0)
        redis_keys = [keys.cooldown(agent, channel_id), keys.daily_count(agent, date), keys.muted(agent)]
        args: list[str | int | float] = [round(cooldown * 1000), daily_max, COUNT_SECONDS, owed]
        if wish is not None:
            more_keys, more_args = self._money.question(agent, channel_id, wish, date)
            redis_keys, args = [*redis_keys, *more_keys], [*args, *more_args]
        try:
            told, count, *totals = await self._link.script(TAKE, redis_keys, args)
        except RedisAway as away:
            self._owed[agent, date] += 0 if away.maybe_done else owed
            return self._take_in_memory(agent, channel_id, cooldown, daily_max, date, wish, away)
        self._away_said = False
        verdict: Verdict = REFUSED.get(told, told)
        self._mutes.saw(agent, float(totals[0]) if verdict == "muted" else None)
        if verdict in ("ok", "closing"):
            self._memory.note_taken(agent, channel_id, cooldown=cooldown, count=int(count), date=date)
            if wish is not None:
                self._money.granted(agent, channel_id, wish, date, totals)
        return verdict

    async def afford(self, agent: str, turn_id: str, dollars: float) -> bool:
        """Whether the turn may come to this sum as a whole: asked before each of its calls but the first."""
        return await self._money.more(agent, turn_id, dollars)

    async def release_cooldown(self, agent: str, channel_id: int) -> None:
        """End the channel's cooldown: the turn came to nothing."""
        self._memory.release_cooldown(agent, channel_id)
        try:
            await self._link.call(lambda redis: redis.delete(keys.cooldown(agent, channel_id)))
        except RedisAway as away:
            log.debug("cooldown left to run out: %s", away)

    async def cooldown_left(self, agent: str, channel_id: int) -> float:
        """Seconds until the agent's cooldown in the channel is over, 0 where there is none. Raises RedisAway."""
        left = await self._link.call(lambda redis: redis.pttl(keys.cooldown(agent, channel_id)))
        return max(0.0, int(left) / 1000)

    async def count(self, agent: str, date: str) -> int:
        """Turns taken on that day."""
        try:
            kept = await self._link.call(lambda redis: redis.get(keys.daily_count(agent, date)))
        except RedisAway:
            return self._memory.count(agent, date)
        return int(kept or 0) + self._owed[agent, date]

    def _take_in_memory(
        self,
        agent: str,
        channel_id: int,
        cooldown: float,
        daily_max: int,
        date: str,
        wish: Wish | None,
        away: RedisAway,
    ) -> Verdict:
        if not self._away_said:
            log.warning("limits are kept in memory while Redis is away: %s", away)
            self._away_said = True
        if self._mutes.holds(agent):
            return "muted"
        verdict = self._memory.take(agent, channel_id, cooldown=cooldown, daily_max=daily_max, date=date, wish=wish)
        if verdict in ("ok", "closing"):
            self._owed[agent, date] += 1
        return verdict
