"""Cooldowns, daily maxima, budgets, and mutes, checked and taken in one step; the quota of memory changes.

Parallel turns can't pass a limit. The rules are in one Lua script, which gets the time from its caller. While Redis is
unavailable, a process has a small allowance; turns taken meanwhile are added to the day's count when Redis is back.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentic.settings.fields import NO_LIMIT
from agentic.state.budgets import (
    MINUTE,
    MORE,
    REFUSED,
    RESERVE,
    Budgets,
    Caps,
    Charge,
    Costs,
    Kind,
    ReplayCosts,
    Reservation,
    kind_of,
    millionths,
    reservation_name,
    scopes_of,
)
from agentic.state.budgets import Verdict as MoneyVerdict
from agentic.state.silence import Scope, Silence
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, Store, or_default, when_back

Verdict = Literal["cooldown", "daily_limit", "muted"] | MoneyVerdict
COUNT_SECONDS = 48 * 3600
NOBODY = 0  # instead of a person's id: bots among themselves
UNLIMITED = 10**9
OUTAGE_SHARE = 0.25  # four processes that don't see each other stay within the limit

# count_turn(count, id, seconds): counts a turn of the day, with an id only once; returns the count.
COUNTING = """
local function count_turn(count, id, seconds)
  if id ~= '' then
    local turns = count .. ':turns'
    local new = redis.call('SADD', turns, id)
    redis.call('EXPIRE', turns, seconds)
    if new == 0 then return tonumber(redis.call('GET', count) or '0') end
  end
  local counted = redis.call('INCR', count)
  redis.call('EXPIRE', count, seconds)
  return counted
end
"""
# take(k, a): KEYS after the first k: cooldown, count, silence, the person's mentions of the last minute, the day's
# budgets. ARGV after the first a: now in unix seconds, cooldown in seconds (0: none), daily maximum, the count's
# lifetime in seconds, the turn's id, the notice to publish if it may begin ("": none), the scopes of the agent's mutes
# (a JSON list), the mention ("" if there is none, or mentions aren't limited), mentions allowed per minute, and
# RESERVE's arguments. The cooldown's key has its end, which is compared with now; its expiry only removes garbage.
# (Earlier versions stored "1", which applies until the key expires.) Returns the verdict, the count, and what is left
# of each budget.
TAKING = f"""{RESERVE}{COUNTING}
local function called_too_often(mentions, mention, most, now)
  if mention == '' then return false end
  redis.call('ZREMRANGEBYSCORE', mentions, '-inf', now - {MINUTE:.0f})
  return redis.call('ZCARD', mentions) >= tonumber(most) and not redis.call('ZSCORE', mentions, mention)
end
local function publish_notice(notice)
  if notice ~= '' then redis.call('PUBLISH', '{keys.COORDINATOR_TURNS}', notice) end
end
local function is_muted(silence, scopes, now)
  for _, order in ipairs(redis.call('HMGET', silence, unpack(scopes))) do
    local till = order and tonumber(string.match(order, '"until": ?([%d.]+)'))
    if till and till > now then return true end
  end
  return false
end
local function take(k, a)
  local now, cooldown, most = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local count = tonumber(redis.call('GET', KEYS[k + 2]) or '0')
  if is_muted(KEYS[k + 3], cjson.decode(ARGV[a + 7]), now) then return {{'muted', count}} end
  if count >= most then return {{'daily_limit', count}} end
  if cooldown > 0 then
    local ends = tonumber(redis.call('GET', KEYS[k + 1]) or '0')
    if ends == 1 or ends > now then return {{'cooldown', count}} end
  end
  local mentions, mention = KEYS[k + 4], ARGV[a + 8]
  if called_too_often(mentions, mention, ARGV[a + 9], now) then return {{'too_often', count}} end
  local verdict, left = reserve(KEYS[k + 5], a + 10)
  if verdict ~= 'ok' and verdict ~= 'closing' then return {{verdict, count}} end
  if mention ~= '' then
    redis.call('ZADD', mentions, 'NX', now, mention)
    redis.call('EXPIRE', mentions, {MINUTE:.0f})
  end
  if cooldown > 0 then
    redis.call('SET', KEYS[k + 1], string.format('%.3f', now + cooldown), 'PX', math.ceil(cooldown * 1000))
  end
  count = count_turn(KEYS[k + 2], ARGV[a + 5], ARGV[a + 4])
  publish_notice(ARGV[a + 6])
  return {{verdict, count, unpack(left)}}
end
"""
TAKE = f"{TAKING} return take(0, 0)"

# KEYS: the count. ARGV: its lifetime in seconds, the turn.
COUNT = f"{COUNTING} count_turn(KEYS[1], ARGV[2], ARGV[1])"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """What a turn takes from its agent's limits before it begins: one of the day's `daily_max` turns, the channel's
    cooldown (seconds, 0 for none), and `estimate` US dollars, reserved until the turn is settled, at the latest `until`
    (unix seconds).

    `date` is local, YYYY-MM-DD. `person_id` and `message_id` are the caller's. `is_free`: the model costs nothing, or
    the chat is private, so the turn is counted apart and not limited by `daily_max`. A turn of the `kind` "idle" is a
    background task's and has a budget of its own. `under_way`: what the turn's record stores during its first call, ""
    for nothing. `notice` is published on `coordinator:turns` when the turn may begin.
    """

    agent: str
    channel_id: int
    date: str
    turn_id: str = ""  # a turn without one counts each time
    guild_id: int | None = None
    cooldown: float = 0.0
    daily_max: int = UNLIMITED
    is_free: bool = False
    estimate: float = 0.0
    until: float = 0.0
    kind: Kind = "mention"
    person_id: int | None = None
    message_id: int | None = None
    under_way: str = ""
    notice: str = ""

    @property
    def most(self) -> int:
        return UNLIMITED if self.is_free else self.daily_max

    @property
    def counted_on(self) -> str:
        """Return the day under which it is counted."""
        return free_day(self.date) if self.is_free else self.date

    @property
    def reservation_name(self) -> str:
        return reservation_name(self.agent, self.turn_id)

    @property
    def reservation(self) -> Reservation:
        scopes = scopes_of(self.agent, self.channel_id, self.person_id, idle=self.kind == "idle")
        return Reservation(self.date, self.until, millionths(self.estimate), scopes)

    @property
    def mention(self) -> tuple[int, int] | None:
        """Return the ids of the person and the message that called, or None."""
        return None if self.person_id is None or self.message_id is None else (self.person_id, self.message_id)


def free_day(date: str) -> str:
    """Return the day under which free turns are counted."""
    return f"{date}:free"


class Allowance:
    """What this process may begin while Redis is unavailable and it can't see other processes.

    It may spend OUTAGE_SHARE of what each budget had left at the script's last answer. `reserve` and `settle` remember
    sums that Redis doesn't know, until `forget`. Cooldowns, mentions per minute, and the day's turns continue from the
    last answers. Free turns aren't limited by money. Only scheduled turns that begin just when Redis fails come here;
    later ones wait in the inbox.
    """

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._left: dict[tuple[str, str], int] = {}  # (date, scope) → millionths at the last answer
        self._holds: dict[str, Reservation] = {}  # unknown to Redis: reservations, and charges to be written
        self._cooldowns: dict[tuple[str, int], float] = {}
        self._counts: dict[tuple[str, str], int] = {}  # (agent, day) → turns
        self._mentions: dict[tuple[int, int], float] = {}  # (person, message) → when

    def take(self, request: LimitRequest, now: float) -> Verdict:
        count = self.count(request.agent, request.counted_on)
        if count >= request.most:
            return "daily_limit"
        if request.cooldown > 0 and self._cooldowns.get((request.agent, request.channel_id), 0.0) > now:
            return "cooldown"
        if (mention := request.mention) is not None:
            recent = [each for each, at in self._mentions.items() if each[0] == mention[0] and at > now - MINUTE]
            if mention not in recent and len(recent) >= self._caps.mentions:
                return "too_often"
        verdict = self.reserve(request.reservation_name, request.reservation, now)
        if verdict == "ok":
            self.note(request, count + 1, now)
        return verdict

    def reserve(self, name: str, reservation: Reservation, now: float) -> MoneyVerdict:
        """Reserve the sum, replacing an earlier reservation of that name. Returns "ok", or the budget that lacks it."""
        self._holds = {other: kept for other, kept in self._holds.items() if kept.until > now}
        if reservation.amount == 0:
            return "ok"
        others = [kept for other, kept in self._holds.items() if other != name and kept.date == reservation.date]
        for scope in reservation.scopes:
            if (cap := self._caps.of(scope)) is not None:
                left = self._left.get((reservation.date, scope), cap) * OUTAGE_SHARE
                if left < reservation.amount + sum(kept.amount for kept in others if scope in kept.scopes):
                    return REFUSED[kind_of(scope)]
        self._holds[name] = reservation
        return "ok"

    def settle(self, charge: Charge) -> None:
        """Replace the turn's reservation by its real cost, until that is written."""
        self.forget(charge.name)
        if charge.amount:
            self._holds[charge.name] = Reservation(charge.date, math.inf, charge.amount, charge.scopes)

    def forget(self, name: str) -> None:
        """Drop what was reserved or spent under that name: Redis knows it."""
        self._holds.pop(name, None)

    def note(self, request: LimitRequest, count: int, now: float) -> None:
        """Remember a turn that was taken, after which the day's count is `count`."""
        if request.cooldown > 0:
            self._cooldowns = {key: until for key, until in self._cooldowns.items() if until > now}
            self._cooldowns[request.agent, request.channel_id] = now + request.cooldown
        if (request.agent, request.counted_on) not in self._counts:
            today = (request.date, free_day(request.date))
            self._counts = {key: n for key, n in self._counts.items() if key[0] != request.agent or key[1] in today}
        self._counts[request.agent, request.counted_on] = count
        if (mention := request.mention) is not None:
            while (oldest := next(iter(self._mentions), None)) is not None and self._mentions[oldest] <= now - MINUTE:
                del self._mentions[oldest]
            self._mentions.setdefault(mention, now)

    def note_left(self, reservation: Reservation, left: Sequence[int | None]) -> None:
        """Remember what is left of the reservation's budgets (None: no cap), by the script's answer."""
        if (reservation.date, reservation.scopes[0]) not in self._left:
            self._left = {key: value for key, value in self._left.items() if key[0] >= reservation.date}
        pairs = zip(reservation.scopes, left, strict=False)
        self._left.update({(reservation.date, scope): amount for scope, amount in pairs if amount is not None})

    def release_cooldown(self, agent: str, channel_id: int) -> None:
        self._cooldowns.pop((agent, channel_id), None)

    def count(self, agent: str, date: str) -> int:
        return self._counts.get((agent, date), 0)


class Limits(Store):
    """An agent's limits, shared by all processes. Only `cooldown_left` raises StateUnavailable."""

    def __init__(
        self, link: RedisConnection, clock: Callable[[], float], budgets: Budgets, silence: Silence | None = None
    ) -> None:
        super().__init__(link, clock)
        self._silence = silence
        self.budgets = budgets
        self.allowance = Allowance(budgets.caps)
        self.costs = Costs(link)
        self.replay_costs = ReplayCosts(link, clock, budgets)
        self.memory_quota = MemoryQuota(link)
        self._away_said = False

    async def take(self, request: LimitRequest) -> Verdict:
        """Take a turn's request, all of it or nothing. Only "ok" and "closing" (a conversation's last turn, since the
        budget is nearly used up) take anything."""
        if self._link.has_queued:
            await self._link.write_queued()  # turns of an outage come first
        try:
            outcome = await self._link.script(TAKE, *self.script_args(request))
        except StateUnavailable as away:
            return await self.take_in_outage(request, away)
        return self.read_verdict(request, outcome)

    def script_args(self, request: LimitRequest) -> tuple[list[str], list[object]]:
        """Return keys and arguments for a script of TAKING; its outcome goes to `read_verdict`."""
        agent, day = request.agent, request.counted_on
        redis_keys = [keys.cooldown(agent, request.channel_id), keys.daily_count(agent, day), keys.SILENCE]
        mutes = json.dumps([str(Scope.agent(agent, guild)) for guild in {None, request.guild_id}])
        now = self._clock()
        is_limited = request.mention is not None and self.budgets.caps.mentions < NO_LIMIT
        mention = request.message_id if is_limited else ""
        args = [now, request.cooldown, request.most, COUNT_SECONDS, request.turn_id, request.notice, mutes]
        args += [mention, self.budgets.caps.mentions]
        money_keys, money_args = self.budgets.reserve_args(
            request.reservation_name, request.reservation, request.kind, now=now
        )
        return [*redis_keys, keys.mentions(request.person_id or 0), *money_keys], [*args, *money_args]

    def read_verdict(self, request: LimitRequest, outcome: Sequence[Any]) -> Verdict:
        word, count, *rest = outcome
        self._away_said = False
        verdict: Verdict = REFUSED.get(word, word)
        if verdict in ("ok", "closing"):
            reservation = request.reservation
            self.allowance.note(request, int(count), self._clock())
            self.allowance.note_left(reservation, rest)
            self.budgets.holds[request.reservation_name] = reservation
        return verdict

    async def take_in_outage(self, request: LimitRequest, away: StateUnavailable) -> Verdict:
        """Take the request from this process's allowance."""
        if not self._away_said:
            log.warning("limits are kept in memory while Redis is unavailable: %s", away)
            self._away_said = True
        if self._silence is not None and request.agent in self._silence.muted_agents(request.guild_id):
            return "muted"
        verdict = self.allowance.take(request, self._clock())
        if verdict == "ok":
            self.budgets.holds[request.reservation_name] = request.reservation
            await self._count_turn(request.agent, request.counted_on, request.turn_id)
        return verdict

    @when_back("turns taken during an outage")
    async def _count_turn(self, agent: str, date: str, turn_id: str) -> None:
        """Count a turn of the day once."""
        await self._link.script(COUNT, [keys.daily_count(agent, date)], [COUNT_SECONDS, turn_id])

    def resume(self, request: LimitRequest, dollars: float) -> None:
        """Take over the reservation of a turn that this process resumes; it has cost `dollars` so far."""
        self.budgets.holds[request.reservation_name] = replace(request.reservation, amount=millionths(dollars))

    async def reserve_more(self, agent: str, turn_id: str, total: float) -> bool:
        """Raise the turn's reservation to `total` US dollars before another of its calls. Returns False if a budget
        lacks the money."""
        name = reservation_name(agent, turn_id)
        reservation, amount = self.budgets.holds.get(name), millionths(total)
        if reservation is None or amount <= reservation.amount:
            return True
        reservation, now = replace(reservation, amount=amount), self._clock()
        try:
            verdict, *left = await self._link.script(MORE, *self.budgets.reserve_args(name, reservation, now=now))
        except StateUnavailable:
            verdict = self.allowance.reserve(name, reservation, now)
        else:
            if verdict == "ok":
                self.allowance.forget(name)
                self.allowance.note_left(reservation, left)
        if verdict == "ok":
            self.budgets.holds[name] = reservation
        return bool(verdict == "ok")

    @or_default(None, "a cooldown is not released and will expire")
    async def release_cooldown(self, agent: str, channel_id: int) -> None:
        """End the channel's cooldown, since the turn posted nothing."""
        self.allowance.release_cooldown(agent, channel_id)
        await self._link.redis.delete(keys.cooldown(agent, channel_id))

    async def cooldown_left(self, agent: str, channel_id: int) -> float:
        """Return the seconds left of the agent's cooldown in the channel, or 0. Raises StateUnavailable."""
        ends = await self._link.redis.get(keys.cooldown(agent, channel_id))
        return max(0.0, float(ends or 0) - self._clock())

    async def all(self, agent: str, date: str) -> int:
        """Return the turns taken on that day, including free ones."""
        return await self.count(agent, date) + await self.count(agent, free_day(date))

    async def count(self, agent: str, date: str) -> int:
        """Return the turns taken on that day, without free ones."""
        try:
            kept = await self._link.redis.get(keys.daily_count(agent, date))
        except StateUnavailable:
            return self.allowance.count(agent, date)
        return int(kept or 0)


class MemoryQuota:
    """Limit an agent's memory changes per day and person, so that nobody floods its memory.

    A hash per day: user id ("0" for bots among themselves) → changes. While Redis is unavailable, each process counts
    by itself.
    """

    def __init__(self, link: RedisConnection) -> None:
        self._link = link
        self._here: Counter[tuple[str, str, int]] = Counter()

    async def take(self, agent: str, date: str, person: int | None, most: int) -> bool:
        """Count a change that the person caused. Returns whether it is within `most`, by the higher of Redis's and this
        process's count, so that an outage doesn't reset it."""
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
