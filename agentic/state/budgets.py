"""Daily budgets, with a reservation for each running turn, so that parallel calls cannot overspend.

A turn reserves its estimated cost before the model is called (in the script that takes its limits) and is settled by
its real cost when it ends. A reservation counts as spent until then. One that expires unsettled (its process was
killed, and no other resumed the turn) is booked as spent, in the budgets and on the agent's day, since its call may
have been made; a late end takes this back. budget_rules.py has the rules; RESERVE repeats them in Lua.

An owner may raise a budget for the day: what was added stands beside what was spent, so every process obeys it at once.

While Redis is away a process may spend a share of the last known rest; this is written when Redis is back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from agentic.state.budget_rules import (
    CLOSING_SHARE,
    MICRO,
    Bill,
    BudgetRequest,
    Caps,
    Hold,
    MemoryBudgets,
    hold_name,
    kind_of,
    millionths,
    scopes_for,
    scopes_of,
)
from agentic.state.budget_use import RAISED, BudgetUse, uses_of
from agentic.state.costs import KEEP_SECONDS as COSTS_KEPT
from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

KEEP_SECONDS = 48 * 3600
NOTICE_SHARE = 0.8
Argument = str | int | float
LARGEST_RAISE = 25.0  # US dollars at once: a typing mistake must not cost more
AWAY_SHARE = 0.25  # four processes that do not see each other stay within the whole

# reserve(spent key, holds key, at): reserves a sum, or returns the kind of scope that lacks the money.
# ARGV from `at` on: now and the hold's end in unix seconds, its name, the sum, the kind of turn, pairs of scope and cap
# ("-": none). A hold is kept as "end sum scopes"; one of the same name is replaced. The end is "booked" where nobody
# has settled it in time: book(…, 1) has charged it then, and book(…, -1) takes it back. raised(spent key, scope): what
# an owner added to the scope's cap.
BOOK = f"""
local function book(spent, holds, sum, scopes, sign)
  for scope in string.gmatch(scopes, '%S+') do redis.call('HINCRBY', spent, scope, sign * sum) end
  redis.call('EXPIRE', spent, {KEEP_SECONDS})
  local agent, date = string.match(scopes, 'agent:(%S+)'), string.match(holds, '([^:]+):holds$')
  local costs = 'agent:' .. agent .. ':cost:' .. date
  for _, field in ipairs({{'total_cost', 'ai_cost'}}) do
    redis.call('HINCRBYFLOAT', costs, field, string.format('%.6f', sign * sum / {MICRO}))
  end
  redis.call('HINCRBY', costs, 'ai_calls', sign)
  redis.call('EXPIRE', costs, {COSTS_KEPT})
end
"""
ADDED = """
local function raised(spent, scope) return tonumber(redis.call('HGET', spent, 'raised:' .. scope) or '0') end
"""
RESERVE = f"""{BOOK}{ADDED}
local function reserve(spent, holds, at)
  local now, till, name, sum, kind = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local amount, held, live = tonumber(sum), {{}}, redis.call('HGETALL', holds)
  for i = 1, #live, 2 do
    local ends, its_sum, scopes = string.match(live[i + 1], '^(%S+) (%S+) (.+)$')
    if live[i] == name then
      if ends == 'booked' then book(spent, holds, its_sum, scopes, -1) end
    elseif ends ~= 'booked' and tonumber(ends) <= now then
      book(spent, holds, its_sum, scopes, 1)
      redis.call('HSET', holds, live[i], 'booked ' .. its_sum .. ' ' .. scopes)
    elseif ends ~= 'booked' then
      for scope in string.gmatch(scopes, '%S+') do held[scope] = (held[scope] or 0) + tonumber(its_sum) end
    end
  end
  local verdict, totals, scopes, raises = 'ok', {{}}, {{}}, {{}}
  for i = at + 5, #ARGV, 2 do
    local scope, cap, what = ARGV[i], tonumber(ARGV[i + 1]), string.match(ARGV[i], '^%a+')
    local total = tonumber(redis.call('HGET', spent, scope) or '0') + (held[scope] or 0) + amount
    raises[#raises + 1] = raised(spent, scope)
    if cap and amount > 0 then
      cap = cap + raises[#raises]
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
  for i = 1, #raises do totals[#totals + 1] = raises[i] end
  return verdict, totals
end
"""

MORE = f"{RESERVE} local verdict = reserve(KEYS[1], KEYS[2], 1) return verdict"

# The end of `Ledger.settle`'s script. KEYS 3 and 4: spent, holds. The last of ARGV is the bill, in lines: the sum, the
# scopes where no hold tells them, caps as "kind=cap", the hold's name. Returns "scope cap" of those that now near it.
SPEND = f"""{BOOK}{ADDED}
local sum, scopes, caps, name = string.match(ARGV[#ARGV], '^(%d+)\\n([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local near, hold = {{}}, redis.call('HGET', KEYS[4], name)
if hold then
  local ends, its_sum
  ends, its_sum, scopes = string.match(hold, '^(%S+) (%S+) (.+)$')
  if ends == 'booked' then book(KEYS[3], KEYS[4], its_sum, scopes, -1) end
  redis.call('HDEL', KEYS[4], name)
end
if sum ~= '0' then
  for scope in string.gmatch(scopes, '%S+') do
    local total, what = redis.call('HINCRBY', KEYS[3], scope, sum), string.match(scope, '^%a+')
    local cap = tonumber(string.match(caps, what .. '=(%d+)'))
    if cap then cap = cap + raised(KEYS[3], scope) end
    if cap and what ~= 'person' and total >= cap * {NOTICE_SHARE}
      and redis.call('HSETNX', KEYS[3], 'told:' .. scope, '1') == 1 then near[#near + 1] = scope .. ' ' .. cap end
  end
  redis.call('EXPIRE', KEYS[3], {KEEP_SECONDS})
end
return near
"""

# KEYS: the day's budget. ARGV: the scope, the sum, the id of the raise, seconds to keep. A raise of a known id changes
# nothing. The notice of a budget that is nearly used up comes again for the new cap. Returns what was added in all.
RAISE = """
if redis.call('HSETNX', KEYS[1], 'raise:' .. ARGV[3], ARGV[1] .. ' ' .. ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], 'raised:' .. ARGV[1], ARGV[2])
  redis.call('HDEL', KEYS[1], 'told:' .. ARGV[1])
  redis.call('EXPIRE', KEYS[1], ARGV[4])
end
return redis.call('HGET', KEYS[1], 'raised:' .. ARGV[1])
"""


class Budgets:
    """The budgets of all processes. `used_up`, `uses` and `raise_cap` raise RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float], caps: Caps) -> None:
        self._link, self._clock, self._caps = link, clock, caps
        self.memory = MemoryBudgets(caps, clock, share=AWAY_SHARE)
        self._near: list[str] = []  # "scope cap"

    def script_args(
        self, agent: str, channel_id: int, request: BudgetRequest, date: str
    ) -> tuple[list[str], list[Argument]]:
        """Keys and arguments for the limits' script."""
        scopes = scopes_for(agent, channel_id, request)
        places = [keys.budget(date), keys.budget_holds(date), keys.mentions(request.person_id or 0)]
        mention = "" if request.person_id is None or request.message_id is None else str(request.message_id)
        now, name, amount = self._clock(), hold_name(agent, request.turn_id), millionths(request.estimate)
        hold: list[Argument] = [now, request.until, name, amount, request.kind]
        return places, [mention, self._caps.mentions, *hold, *self.pairs(date, scopes)]

    def granted(self, agent: str, channel_id: int, request: BudgetRequest, date: str, totals: Sequence[int]) -> None:
        scopes = scopes_for(agent, channel_id, request)
        hold = Hold(date, request.until, millionths(request.estimate), scopes, in_redis=True)
        self.memory.note_raised(date, dict(zip(scopes, totals[len(scopes) :], strict=False)))
        self.memory.note_taken(hold_name(agent, request.turn_id), hold, request, totals)

    async def more(self, agent: str, turn_id: str, dollars: float) -> bool:
        """Raise the turn's reservation to this sum, before another of its calls; False where the money is lacking."""
        name = hold_name(agent, turn_id)
        hold, amount = self.memory.holds.get(name), millionths(dollars)
        if hold is None or amount <= hold.amount:
            return True
        arguments = [self._clock(), hold.until, name, amount, "mention", *self.pairs(hold.date, hold.scopes)]
        try:
            verdict = await self._link.script(MORE, [keys.budget(hold.date), keys.budget_holds(hold.date)], arguments)
        except RedisAway:
            return self.memory.more(name, amount)
        if verdict == "ok":
            self.memory.holds[name] = replace(hold, amount=amount, in_redis=True)
        return bool(verdict == "ok")

    async def used_up(self, agent: str, channel_id: int, date: str, *, idle: bool = False) -> list[str]:
        """Which of the day's budgets that the agent needs there are used up, or nearly so: "all", "agent", "channel",
        and "idle" where it is for something that it does while nobody writes.

        Raises RedisAway.
        """
        wanted = scopes_of(agent, channel_id, None, idle=idle)
        scopes = [scope for scope in wanted if self._caps.of(scope) is not None]
        if not scopes:
            return []
        fields = [*scopes, *map(raised_field, scopes)]
        found = [int(text or 0) for text in await self._link.call(lambda redis: redis.hmget(keys.budget(date), fields))]
        caps = {
            scope: (self._caps.of(scope) or 0) + extra
            for scope, extra in zip(scopes, found[len(scopes) :], strict=True)
        }
        sums = dict(zip(scopes, found, strict=False))
        return [kind_of(scope) for scope in scopes if sums[scope] >= caps[scope] * (1 - CLOSING_SHARE)]

    async def raise_cap(self, scope: str, dollars: float, date: str, raise_id: str) -> float:
        """Add `dollars` to the scope's cap on that day, for all processes; the new cap in US dollars. A raise of a
        known id changes nothing, so it may be tried again.

        Raises RedisAway, and ValueError for a sum that is not between 0 and LARGEST_RAISE, or a scope without a cap.
        """
        cap = self._caps.of(scope)
        if cap is None:
            raise ValueError("there is no limit to raise")
        if not 0 < dollars <= LARGEST_RAISE:
            raise ValueError(f"a raise is between 0 and {LARGEST_RAISE:.0f} US dollars")
        arguments: list[Argument] = [scope, millionths(dollars), raise_id, KEEP_SECONDS]
        added = int(await self._link.script(RAISE, [keys.budget(date)], arguments))
        self.memory.note_raised(date, {scope: added})
        return (cap + added) / MICRO

    async def uses(self, date: str, wanted: Iterable[str]) -> dict[str, BudgetUse]:
        """Scope → its use on that day: the scopes that are wanted, and all others with any use. Raises RedisAway."""
        spent, holds = [await self._hash(key) for key in (keys.budget(date), keys.budget_holds(date))]
        return uses_of(wanted, spent, holds, self._caps)

    async def _hash(self, key: str) -> dict[str, str]:
        kept = await self._link.call(lambda redis: redis.hgetall(key))
        return {str(field): str(text) for field, text in kept.items()}

    def bill(self, agent: str, turn_id: str, date: str, dollars: float) -> Bill:
        """The bill of a turn, for the day on which it began as far as this process knows."""
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
        """Lines for the owner about budgets of which 80% are spent; once per scope and day over all processes."""
        near, self._near = self._near, []
        return [self._notice(*one.split()) for one in near]

    def _notice(self, scope: str, cap: str) -> str:
        whose = {"all": "the day's budget", "agent": f"the day's budget of {scope.partition(':')[2]}"}
        name = whose.get(kind_of(scope), f"the day's budget of the channel {scope.partition(':')[2]}")
        return f"{NOTICE_SHARE:.0%} of {name} ({int(cap) / MICRO:.2f} USD) is spent"

    def pairs(self, date: str, scopes: Sequence[str]) -> list[Argument]:
        """Scopes and caps, less what is owed to Redis; "-" for no cap."""
        found: list[Argument] = []
        for scope in scopes:
            cap = self._caps.of(scope)
            found += [scope, "-" if cap is None else cap - self.memory.owed.get((date, scope), 0)]
        return found


def raised_field(scope: str) -> str:
    """The field with what an owner added to the scope's cap, in the hash of the day's budget."""
    return f"{RAISED}{scope}"
