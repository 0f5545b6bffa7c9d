"""Cooldowns, daily maxima, budgets, and mutes, checked and taken in one step; the quota of changes of memories.

Parallel turns cannot pass a limit. While Redis is away the same rules apply in this process's memory, which mirrors the
last known values; turns taken meanwhile are added to the day's count when Redis is back.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentic.state import budgets
from agentic.state.budgets import MINUTE, REFUSED, BudgetRequest, Budgets, Caps, MemoryBudgets
from agentic.state.budgets import Verdict as MoneyVerdict
from agentic.state.silence import LIFTED, Mutes
from agentic.wire import keys
from agentic.wire.connection import RedisAway, RedisLink, or_default

Verdict = Literal["cooldown", "daily_limit", "muted"] | MoneyVerdict
COUNT_SECONDS = 48 * 3600
NOBODY = 0  # in the place of a person: the bots among themselves
UNLIMITED = 10**9

# count_turn(count, turns, id, seconds): counts a turn of the day; one with an id only once.
COUNTING = """
local function count_turn(count, turns, id, seconds)
  if id ~= '' then
    local new = redis.call('SADD', turns, id)
    redis.call('EXPIRE', turns, seconds)
    if new == 0 then return end
  end
  redis.call('INCR', count)
  redis.call('EXPIRE', count, seconds)
end
"""
# take(k, a): KEYS after the first k: cooldown, count, turns counted, muted; then, where money is places for: spent,
# holds, the person's mentions of the last minute. ARGV after the first a: cooldown in ms (0: none), daily maximum,
# lifetime of the count in s, turns taken while Redis was away (a JSON list), the turn's id; then the mention ("" for
# none), how many a person has in a minute, and what budgets.RESERVE wants. Returns the verdict, the
# count and the budgets' totals.
TAKING = f"""{budgets.RESERVE}{COUNTING}
local function called_too_often(mentions, mention, most, now)
  if mention == '' then return false end
  redis.call('ZREMRANGEBYSCORE', mentions, '-inf', now - {MINUTE:.0f})
  return not redis.call('ZSCORE', mentions, mention) and redis.call('ZCARD', mentions) >= tonumber(most)
end
local function take(k, a)
  local cooldown, most, seconds, id = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3], ARGV[a + 5]
  for _, owed in ipairs(cjson.decode(ARGV[a + 4])) do count_turn(KEYS[k + 2], KEYS[k + 3], owed, seconds) end
  local count = tonumber(redis.call('GET', KEYS[k + 2]) or '0')
  local muted = redis.call('GET', KEYS[k + 4])
  if muted and muted ~= '{LIFTED}' then return {{'muted', count, muted}} end
  if count >= most then return {{'daily_limit', count}} end
  if cooldown > 0 and redis.call('EXISTS', KEYS[k + 1]) == 1 then return {{'cooldown', count}} end
  local verdict, totals = 'ok', {{}}
  if #KEYS > k + 4 then
    local mentions, mention, a_minute, now = KEYS[k + 7], ARGV[a + 6], ARGV[a + 7], ARGV[a + 8]
    if called_too_often(mentions, mention, a_minute, tonumber(now)) then return {{'too_often', count}} end
    verdict, totals = reserve(KEYS[k + 5], KEYS[k + 6], a + 8)
    if verdict ~= 'ok' and verdict ~= 'closing' then return {{verdict, count}} end
    if mention ~= '' then
      redis.call('ZADD', mentions, 'NX', now, mention)
      redis.call('EXPIRE', mentions, {MINUTE:.0f})
    end
  end
  if cooldown > 0 then redis.call('SET', KEYS[k + 1], '1', 'PX', cooldown) end
  count_turn(KEYS[k + 2], KEYS[k + 3], id, seconds)
  local taken = {{verdict, tonumber(redis.call('GET', KEYS[k + 2]) or '0')}}
  for i = 1, #totals do taken[i + 2] = totals[i] end
  return taken
end
"""
TAKE = f"{TAKING} return take(0, 0)"

# KEYS: count, turns counted. ARGV: their lifetime in s, the turns (a JSON list).
COUNT = f"""{COUNTING}
for _, id in ipairs(cjson.decode(ARGV[2])) do count_turn(KEYS[1], KEYS[2], id, ARGV[1]) end"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A turn's request before it begins: one of the day's `daily_max` turns, the channel's cooldown (seconds, 0 for
    none), and a budget reservation. `date` is local, YYYY-MM-DD. A `free` turn, whose model costs nothing or
    that is in a private chat, is counted apart and not limited by `daily_max`."""

    agent: str
    channel_id: int
    cooldown: float
    daily_max: int
    date: str
    budget: BudgetRequest | None = None
    free: bool = False

    @property
    def most(self) -> int:
        return UNLIMITED if self.free else self.daily_max

    @property
    def counted_on(self) -> str:
        """The day under which it is counted."""
        return free_day(self.date) if self.free else self.date

    @property
    def turn_id(self) -> str:
        """The id of the turn, "" without a reservation."""
        return self.budget.turn_id if self.budget is not None else ""


def free_day(date: str) -> str:
    """The day under which free turns are counted."""
    return f"{date}:free"


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A TurnRequest as TAKING reads it. `owed`: turns taken while Redis was away, counted by the same script."""

    request: TurnRequest
    keys: list[str]
    args: list[object]
    owed: list[str]


class MemoryLimits:
    """The rules in one process. `clock` gives unix seconds."""

    def __init__(self, clock: Callable[[], float], money: MemoryBudgets | None = None) -> None:
        self._clock = clock
        self.money = money or MemoryBudgets(Caps(), clock)
        self._cooldowns: dict[tuple[str, int], float] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def take(self, request: TurnRequest) -> Verdict:
        if self.count(request.agent, request.counted_on) >= request.most:
            return "daily_limit"
        if request.cooldown > 0 and self._cooldowns.get((request.agent, request.channel_id), 0.0) > self._clock():
            return "cooldown"
        verdict: Verdict = "ok"
        if request.budget is not None:
            verdict = self.money.take(request.agent, request.channel_id, request.budget, request.date)
        if verdict in ("ok", "closing"):
            self.note_taken(request, self.count(request.agent, request.counted_on) + 1)
        return verdict

    def note_taken(self, request: TurnRequest, count: int) -> None:
        """Mirror a turn that was taken in Redis; `count` is the day's count after it."""
        now = self._clock()
        if request.cooldown > 0:
            self._cooldowns = {key: until for key, until in self._cooldowns.items() if until > now}
            self._cooldowns[request.agent, request.channel_id] = now + request.cooldown
        if (request.agent, request.counted_on) not in self._counts:
            today = (request.date, free_day(request.date))
            self._counts = {key: n for key, n in self._counts.items() if key[0] != request.agent or key[1] in today}
        self._counts[request.agent, request.counted_on] = count

    def release_cooldown(self, agent: str, channel_id: int) -> None:
        self._cooldowns.pop((agent, channel_id), None)

    def count(self, agent: str, date: str) -> int:
        return self._counts.get((agent, date), 0)


class TurnLimits:
    """An agent's limits, shared by all processes. No method raises RedisAway."""

    def __init__(
        self, link: RedisLink, clock: Callable[[], float], money: Budgets | None = None, mutes: Mutes | None = None
    ) -> None:
        self._link = link
        self._mutes = mutes or Mutes(link, clock)
        self._money = money or Budgets(link, clock, Caps())
        self._memory = MemoryLimits(clock, self._money.memory)
        self._owed: dict[tuple[str, str], list[str]] = {}
        self._away_said = False

    async def take(self, request: TurnRequest) -> Verdict:
        """Take a turn's request, all of it or nothing.

        Only "ok" and "closing" (a conversation's last turn, since money runs out) take anything.
        """
        call = self.script_call(request)
        try:
            outcome = await self._link.script(TAKE, call.keys, call.args)
        except RedisAway as away:
            return self.take_in_memory(call, away)
        return self.read_verdict(call, outcome)

    def script_call(self, request: TurnRequest) -> ScriptCall:
        """For a script of TAKING; pass the outcome to one of the three methods below."""
        agent, day = request.agent, request.counted_on
        owed = self._owed.pop((agent, day), [])
        redis_keys = [keys.cooldown(agent, request.channel_id), keys.daily_count(agent, day)]
        redis_keys += [keys.counted_turns(agent, day), keys.muted(agent)]
        args = [round(request.cooldown * 1000), request.most, COUNT_SECONDS, json.dumps(owed), request.turn_id]
        if request.budget is not None:
            more_keys, more_args = self._money.script_args(agent, request.channel_id, request.budget, request.date)
            redis_keys, args = [*redis_keys, *more_keys], [*args, *more_args]
        return ScriptCall(request, redis_keys, args, owed)

    def read_verdict(self, call: ScriptCall, outcome: Sequence[Any]) -> Verdict:
        request, (word, count, *totals) = call.request, outcome
        self._away_said = False
        verdict: Verdict = REFUSED.get(word, word)
        if verdict == "muted":
            self._mutes.saw(request.agent, float(totals[0]))
        if verdict in ("ok", "closing"):
            self._memory.note_taken(request, int(count))
            if request.budget is not None:
                self._money.granted(request.agent, request.channel_id, request.budget, request.date, totals)
        return verdict

    def take_in_memory(self, call: ScriptCall, away: RedisAway) -> Verdict:
        """Apply the same rules in memory, since Redis is away."""
        self.give_back(call)
        if not self._away_said:
            log.warning("limits are kept in memory while Redis is away: %s", away)
            self._away_said = True
        request = call.request
        if self._mutes.holds(request.agent):
            return "muted"
        verdict = self._memory.take(request)
        if verdict in ("ok", "closing"):
            self._owed.setdefault((request.agent, request.counted_on), []).append(request.turn_id)
        return verdict

    def give_back(self, call: ScriptCall) -> None:
        """Owe the turns again: the script did not run, or may not have. One that is counted again counts once."""
        if call.owed:
            self._owed.setdefault((call.request.agent, call.request.counted_on), []).extend(call.owed)

    async def pay(self) -> None:
        """Count the turns that were taken while Redis was away. Never raises RedisAway."""
        for (agent, date), owed in list(self._owed.items()):
            places = [keys.daily_count(agent, date), keys.counted_turns(agent, date)]
            del self._owed[agent, date]
            try:
                await self._link.script(COUNT, places, [COUNT_SECONDS, json.dumps(owed)])
            except RedisAway:
                self._owed.setdefault((agent, date), []).extend(owed)
                return

    def resume(self, request: TurnRequest, dollars: float) -> None:
        """Reserve for a turn that another process began and this one resumes; it has cost `dollars` so far."""
        if request.budget is not None:
            self._money.memory.resume(request.agent, request.channel_id, request.budget, request.date, dollars)

    async def afford(self, agent: str, turn_id: str, dollars: float) -> bool:
        """Whether the turn may cost this sum in all; raises its reservation where needed."""
        return await self._money.more(agent, turn_id, dollars)

    @or_default(None, "a cooldown is not released and will expire")
    async def release_cooldown(self, agent: str, channel_id: int) -> None:
        """End the channel's cooldown, since the turn posted nothing."""
        self._memory.release_cooldown(agent, channel_id)
        await self._link.call(lambda redis: redis.delete(keys.cooldown(agent, channel_id)))

    async def cooldown_left(self, agent: str, channel_id: int) -> float:
        """Seconds until the agent's cooldown in the channel is over, 0 if there is none. Raises RedisAway."""
        left = await self._link.call(lambda redis: redis.pttl(keys.cooldown(agent, channel_id)))
        return max(0.0, int(left) / 1000)

    async def all(self, agent: str, date: str) -> int:
        """Turns taken on that day, free ones included."""
        return await self.count(agent, date) + await self.count(agent, free_day(date))

    async def count(self, agent: str, date: str) -> int:
        """Turns taken on that day that count against the daily maximum."""
        try:
            kept = await self._link.call(lambda redis: redis.get(keys.daily_count(agent, date)))
        except RedisAway:
            return self._memory.count(agent, date)
        return int(kept or 0) + len(self._owed.get((agent, date), ()))


class MemoryQuota:
    """Limit an agent's memory changes a day and person, so that nobody floods its memory.

    A hash a day: user id ("0" for the bots among themselves) → changes. While Redis is away each process counts alone.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._here: Counter[tuple[str, str, int]] = Counter()

    async def take(self, agent: str, date: str, person: int | None, most: int) -> bool:
        """Count a change that the person caused; whether it is within `most`.

        The higher of the two counts holds, so that changes while Redis was away count too.
        """
        who = (agent, date, person or NOBODY)
        if self._here[who] >= most:
            return False
        if any(date != day for _, day, _ in self._here):
            self._here = Counter({key: count for key, count in self._here.items() if key[1] == date})
        self._here[who] += 1
        return await self._count(keys.memory_writes(agent, date), str(who[2])) <= most

    @or_default(0, "a change of a memory is counted in this process only")
    async def _count(self, key: str, person: str) -> int:
        counted = await self._link.batch(
            lambda pipe: (pipe.hincrby(key, person, 1), pipe.expire(key, COUNT_SECONDS)), transaction=True
        )
        return int(counted[0])
