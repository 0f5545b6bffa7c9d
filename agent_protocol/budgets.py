"""What may be spent in a day, and what is put aside for the turns that run: so that parallel calls cannot overspend.

A turn puts its estimated cost aside before the model is called (in the script that takes its limits) and is settled by
its real cost when it ends. What is put aside counts as spent until then, or until its time is over: a process that was
killed holds nothing for long. Money is counted for scopes: `all`, `agent:{name}`, `channel:{id}`, `person:{id}`, each
kind with a cap of its own; in Redis as whole millionths of a US dollar. What costs nothing is never refused.

Scheduled work stops before people do: the last CLOSING_SHARE of the day's and the channel's money is for mentions and
for one closing turn of each running conversation.

While Redis is away a process may spend a share of what was left when it was seen last; this is written when it is back.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from redis.asyncio import Redis

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

Kind = Literal["mention", "opening", "joining", "round"]
Verdict = Literal["ok", "closing", "budget", "agent_budget", "person_budget", "too_often"]

MICRO = 1_000_000  # of a US dollar
KEEP_SECONDS = 48 * 3600
MINUTE = 60.0
CLOSING_SHARE = 0.05
NOTICE_SHARE = 0.8
AWAY_SHARE = 0.25  # four processes that do not see each other stay within the whole
REFUSED: Mapping[str, Verdict] = {
    "all": "budget",
    "channel": "budget",
    "agent": "agent_budget",
    "person": "person_budget",
}

# reserve(spent key, holds key, at): puts a sum aside, or says which kind of scope stands against it.
# ARGV from `at` on: now and the hold's end in unix seconds, its name, the sum, the kind of turn, pairs of scope and cap
# ("-": none). A hold is kept as "end sum scopes"; one of the same name is replaced.
RESERVE = f"""
local function reserve(spent, holds, at)
  local now, till, name, sum, kind = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local amount, held, live = tonumber(sum), {{}}, redis.call('HGETALL', holds)
  for i = 1, #live, 2 do
    local ends, its_sum, scopes = string.match(live[i + 1], '^(%S+) (%S+) (.+)$')
    if tonumber(ends) <= now then
      redis.call('HDEL', holds, live[i])
    elseif live[i] ~= name then
      for scope in string.gmatch(scopes, '%S+') do held[scope] = (held[scope] or 0) + tonumber(its_sum) end
    end
  end
  local verdict, totals, scopes = 'ok', {{}}, {{}}
  for i = at + 5, #ARGV, 2 do
    local scope, cap, what = ARGV[i], tonumber(ARGV[i + 1]), string.match(ARGV[i], '^%a+')
    local total = tonumber(redis.call('HGET', spent, scope) or '0') + (held[scope] or 0) + amount
    if cap and amount > 0 then
      if total > cap then return what, {{}} end
      local short = cap - total < math.max(amount, cap * {CLOSING_SHARE})
      if short and kind ~= 'mention' and (what == 'all' or what == 'channel') then
        if kind ~= 'round' then return what, {{}} end
        verdict = 'closing'
      end
    end
    totals[#totals + 1], scopes[#scopes + 1] = total, scope
  end
  if amount > 0 then
    redis.call('HSET', holds, name, till .. ' ' .. sum .. ' ' .. table.concat(scopes, ' '))
    redis.call('EXPIRE', holds, {KEEP_SECONDS})
  end
  return verdict, totals
end
"""

MORE = f"{RESERVE} local verdict = reserve(KEYS[1], KEYS[2], 1) return verdict"

# The end of `Ledger.settle`'s script. KEYS 3 and 4: spent, holds. The last of ARGV is the bill, in lines: the sum, the
# scopes where no hold tells them, caps as "kind=cap", the hold's name. Returns the scopes that now near their cap.
SPEND = f"""
local sum, scopes, caps, name = string.match(ARGV[#ARGV], '^(%d+)\\n([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local near, hold = {{}}, redis.call('HGET', KEYS[4], name)
if hold then
  scopes = string.match(hold, '^%S+ %S+ (.+)$')
  redis.call('HDEL', KEYS[4], name)
end
if sum ~= '0' then
  for scope in string.gmatch(scopes, '%S+') do
    local total, what = redis.call('HINCRBY', KEYS[3], scope, sum), string.match(scope, '^%a+')
    local cap = string.match(caps, what .. '=(%d+)')
    if cap and what ~= 'person' and total >= tonumber(cap) * {NOTICE_SHARE}
      and redis.call('HSETNX', KEYS[3], 'told:' .. scope, '1') == 1 then near[#near + 1] = scope end
  end
  redis.call('EXPIRE', KEYS[3], {KEEP_SECONDS})
end
return near
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caps:
    """US dollars a day, None for no cap; `mentions`: of one person in a minute, 0 for any number."""

    all: float | None = None
    agent: float | None = None
    channel: float | None = None
    person: float | None = None
    mentions: int = 0

    def of(self, scope: str) -> int | None:
        """The cap of a scope, in millionths."""
        dollars: float | None = getattr(self, kind_of(scope))
        return None if dollars is None else round(dollars * MICRO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a turn asks for: `estimate` in US dollars, put aside until it is settled, at the latest `until` (unix
    seconds). `person_id` and `message_id` are of the person who called."""

    turn_id: str
    estimate: float
    until: float
    kind: Kind
    person_id: int | None = None
    message_id: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A sum put aside, in millionths."""

    date: str
    until: float
    amount: int
    scopes: tuple[str, ...]
    in_redis: bool = False


@dataclass(frozen=True, slots=True)
class Bill:
    """The real cost of a turn, in millionths, and whom it is counted for."""

    name: str
    date: str
    amount: int
    scopes: tuple[str, ...]


def kind_of(scope: str) -> str:
    return scope.partition(":")[0]


def hold_name(agent: str, turn_id: str) -> str:
    return f"{agent}:{turn_id}"


def scopes_of(agent: str, channel_id: int, person_id: int | None) -> tuple[str, ...]:
    person = () if person_id is None else (f"person:{person_id}",)
    return ("all", f"agent:{agent}", f"channel:{channel_id}", *person)


def millionths(dollars: float) -> int:
    """Rounded up: a sum that is not zero never counts as nothing."""
    return math.ceil(dollars * MICRO - 1e-6)


class MemoryBudgets:
    """The same rules in one process. `share`: the part of what is left in Redis that may be spent here. `clock` gives
    unix seconds."""

    def __init__(self, caps: Caps, clock: Callable[[], float], *, share: float = 1.0) -> None:
        self.caps = caps
        self.owed: dict[tuple[str, str], int] = {}  # (date, scope) → spent here, not in Redis
        self.holds: dict[str, Hold] = {}
        self._clock, self._share = clock, share
        self._seen: dict[tuple[str, str], int] = {}  # (date, scope) → spent and held in Redis
        self._mentions: dict[int, dict[int, float]] = {}  # person → message → when

    def take(self, agent: str, channel_id: int, wish: Wish, date: str) -> Verdict:
        if self._calls_too_often(wish):
            return "too_often"
        amount, scopes = millionths(wish.estimate), scopes_of(agent, channel_id, wish.person_id)
        name = hold_name(agent, wish.turn_id)
        verdict = self._judge(name, Hold(date, wish.until, amount, scopes), wish.kind)
        if verdict in ("ok", "closing"):
            self.note_taken(name, Hold(date, wish.until, amount, scopes), wish)
        return verdict

    def note_taken(self, name: str, hold: Hold, wish: Wish, seen: Sequence[int] = ()) -> None:
        """Mirror what was put aside; `seen`: the totals that Redis told of its scopes."""
        now = self._clock()
        if name not in self.holds:
            self.holds = {other: kept for other, kept in self.holds.items() if kept.until > now}
        self.holds[name] = hold
        for scope, total in zip(hold.scopes, seen, strict=False):
            if (hold.date, scope) not in self._seen:
                self._seen = {key: value for key, value in self._seen.items() if key[0] >= hold.date}
            self._seen[hold.date, scope] = total
        if wish.person_id is not None and wish.message_id is not None:
            self._recent(wish.person_id).setdefault(wish.message_id, now)

    def more(self, name: str, amount: int) -> bool:
        """Put `amount` aside instead of what the hold has; False where that is too much."""
        hold = self.holds.get(name)
        if hold is None:
            return True
        wider = replace(hold, amount=amount, in_redis=False)
        if self._judge(name, wider, "mention") != "ok":
            return False
        self.holds[name] = wider
        return True

    def spend(self, bill: Bill) -> None:
        self.holds.pop(bill.name, None)
        for scope in bill.scopes if bill.amount else ():
            self.owed[bill.date, scope] = self.owed.get((bill.date, scope), 0) + bill.amount

    def _judge(self, name: str, hold: Hold, kind: Kind) -> Verdict:
        if hold.amount == 0:
            return "ok"
        verdict: Verdict = "ok"
        for scope in hold.scopes:
            cap = self.caps.of(scope)
            if cap is None:
                continue
            room = (cap - self._seen.get((hold.date, scope), 0)) * self._share - self._here(name, hold.date, scope)
            left, what = room - hold.amount, kind_of(scope)
            if left < 0:
                return REFUSED[what]
            if left < max(hold.amount, cap * CLOSING_SHARE) and kind != "mention" and what in ("all", "channel"):
                if kind != "round":
                    return REFUSED[what]
                verdict = "closing"
        return verdict

    def _here(self, name: str, date: str, scope: str) -> int:
        """What is spent or put aside here, by other turns, and Redis does not know."""
        now = self._clock()
        others = (hold for other, hold in self.holds.items() if other != name and not hold.in_redis)
        held = sum(h.amount for h in others if h.date == date and h.until > now and scope in h.scopes)
        return held + self.owed.get((date, scope), 0)

    def _calls_too_often(self, wish: Wish) -> bool:
        if not self.caps.mentions or wish.person_id is None:
            return False
        recent = self._recent(wish.person_id)
        return wish.message_id not in recent and len(recent) >= self.caps.mentions

    def _recent(self, person_id: int) -> dict[int, float]:
        """The person's mentions of the last minute; who had none is forgotten."""
        after = self._clock() - MINUTE
        young = {p: {m: at for m, at in found.items() if at > after} for p, found in self._mentions.items()}
        self._mentions = {p: found for p, found in young.items() if found or p == person_id}
        return self._mentions.setdefault(person_id, {})


class Budgets:
    """The money of all processes. No method raises RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float], caps: Caps) -> None:
        self._link, self._clock, self._caps = link, clock, caps
        self.memory = MemoryBudgets(caps, clock, share=AWAY_SHARE)
        self._near: list[str] = []

    def question(self, agent: str, channel_id: int, wish: Wish, date: str) -> tuple[list[str], list[str | int | float]]:
        """Keys and arguments with which the limits' script asks for the money."""
        scopes = scopes_of(agent, channel_id, wish.person_id)
        asked = [keys.budget(date), keys.budget_holds(date), keys.mentions(wish.person_id or 0)]
        mention = "" if wish.person_id is None or wish.message_id is None else str(wish.message_id)
        hold = [self._clock(), wish.until, hold_name(agent, wish.turn_id), millionths(wish.estimate), wish.kind]
        return asked, [mention, self._caps.mentions, *hold, *self._pairs(date, scopes)]

    def granted(self, agent: str, channel_id: int, wish: Wish, date: str, totals: Sequence[int]) -> None:
        scopes = scopes_of(agent, channel_id, wish.person_id)
        hold = Hold(date, wish.until, millionths(wish.estimate), scopes, in_redis=True)
        self.memory.note_taken(hold_name(agent, wish.turn_id), hold, wish, totals)

    async def more(self, agent: str, turn_id: str, dollars: float) -> bool:
        """Put this sum aside for the whole turn, before another of its calls; False where there is no money for it."""
        name = hold_name(agent, turn_id)
        hold, amount = self.memory.holds.get(name), millionths(dollars)
        if hold is None or amount <= hold.amount:
            return True
        arguments = [self._clock(), hold.until, name, amount, "mention", *self._pairs(hold.date, hold.scopes)]
        try:
            verdict = await self._link.script(MORE, [keys.budget(hold.date), keys.budget_holds(hold.date)], arguments)
        except RedisAway:
            return self.memory.more(name, amount)
        if verdict == "ok":
            self.memory.holds[name] = replace(hold, amount=amount, in_redis=True)
        return bool(verdict == "ok")

    def bill(self, agent: str, turn_id: str, date: str, dollars: float) -> Bill:
        """For the end of a turn: counted on the day on which it began, as far as this process knows it."""
        name = hold_name(agent, turn_id)
        hold = self.memory.holds.get(name)
        scopes = hold.scopes if hold else ("all", f"agent:{agent}")
        return Bill(name, hold.date if hold else date, millionths(dollars), scopes)

    def bill_text(self, bill: Bill) -> str:
        """As SPEND reads it."""
        caps = {kind_of(scope): self._caps.of(scope) for scope in ("all", "agent", "channel")}
        shown = " ".join(f"{kind}={cap}" for kind, cap in caps.items() if cap is not None)
        return f"{bill.amount}\n{' '.join(bill.scopes)}\n{shown}\n{bill.name}"

    def settled(self, bill: Bill, near: Sequence[str]) -> None:
        self.memory.holds.pop(bill.name, None)
        self._near += near

    def notices(self) -> list[str]:
        """Once for each scope and day, over all processes: a line for the owner, when four fifths are spent."""
        near, self._near = self._near, []
        return [self._notice(scope) for scope in near]

    def _notice(self, scope: str) -> str:
        whose = {"all": "the day's budget", "agent": f"the day's budget of {scope.partition(':')[2]}"}
        cap = self._caps.of(scope) or 0
        name = whose.get(kind_of(scope), f"the day's budget of the channel {scope.partition(':')[2]}")
        return f"{NOTICE_SHARE:.0%} of {name} ({cap / MICRO:.2f} USD) is spent"

    async def pay(self) -> None:
        """Write what was spent while Redis was away."""
        if not self.memory.owed:
            return
        owed, self.memory.owed = self.memory.owed, {}
        try:
            await self._link.call(lambda redis: _write(redis, owed))
        except RedisAway as away:
            if not away.maybe_done:  # what may have been written must not be charged twice
                for key, amount in owed.items():
                    self.memory.owed[key] = self.memory.owed.get(key, 0) + amount

    def _pairs(self, date: str, scopes: Sequence[str]) -> list[str | int | float]:
        """Scopes and caps, less what is spent and not written yet; "-" for no cap."""
        found: list[str | int | float] = []
        for scope in scopes:
            cap = self._caps.of(scope)
            found += [scope, "-" if cap is None else cap - self.memory.owed.get((date, scope), 0)]
        return found


async def _write(redis: Redis, owed: Mapping[tuple[str, str], int]) -> None:
    pipe = redis.pipeline(transaction=True)
    for (date, scope), amount in owed.items():
        pipe.hincrby(keys.budget(date), scope, amount)
        pipe.expire(keys.budget(date), KEEP_SECONDS)
    await pipe.execute()
