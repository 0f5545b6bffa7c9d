"""Daily budgets with a reservation for each running turn, so that parallel calls cannot overspend; cost totals.

Each kind of scope (`all`, `agent:{name}`, `channel:{id}`, `person:{id}`, and `idle` for background tasks) has a cap of
its own, in whole millionths of a US dollar. So has `person:0`, which pays for the debates that members proposed. A free
turn is never refused. Scheduled turns stop before mentions do: the last CLOSING_SHARE of the daily and the channel's
budget is for mentions and for one closing turn per conversation.

A turn reserves its estimated cost before the model is called (in the script that takes its limits), and is settled with
its real cost when it ends. Until then the reservation is treated as spent. If it expires unsettled (its process was
killed, and no other resumed the turn), it is charged to the budgets and to the agent's day, since the call may have
been made, and the history gets a turn of the kind UNKNOWN; a late end reverses that. An owner may raise a budget for
the day: the added sum is stored beside the spent sum, so every process obeys it immediately. While Redis is
unavailable, a process has a small allowance (limits.Allowance); its spending is written when Redis is back.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from redis.asyncio.client import Pipeline

from agentic.llm.types import Usage
from agentic.settings.fields import NO_LIMIT
from agentic.state.record_stream import NOTES_KEPT, NOTES_SECONDS
from agentic.state.turn_records import APPEND, RECORD, UNKNOWN
from agentic.text import finite_number
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, Store
from agentic.wire.entries import ReplayNote
from agentic.wire.messages import TurnUsage

log = logging.getLogger(__name__)

Kind = Literal["mention", "opening", "joining", "round", "idle"]
Verdict = Literal["ok", "closing", "budget", "agent_budget", "person_budget", "idle_budget", "too_often"]
Fields = Mapping[str, float | int]

MICRO = 1_000_000  # of a US dollar
MINUTE = 60.0
COST_SECONDS = 30 * 86400
BUDGET_SECONDS = 48 * 3600
READ_AGAIN_SECONDS = 10
MIXED_SECONDS = 3600  # since a process of an earlier version made or removed a reservation
CLOSING_SHARE = 0.05
NOTICE_SHARE = 0.8
MAX_RAISE = 25.0  # US dollars at a time, so that a typo can't cost more
SCOPES = ("all", "agent", "channel", "person", "idle")
COUNTS = ("calls", "input_tokens", "cached_tokens", "output_tokens", "cost_usd")  # of a replay
MEMBERS = 0  # who pays for a debate that a member proposed, instead of a person's id
MEMBERS_SCOPE = f"person:{MEMBERS}"
RAISED = "raised:"  # field prefix: what an owner added to a scope's cap
REFUSED: Mapping[str, Verdict] = {
    "all": "budget",
    "channel": "budget",
    "agent": "agent_budget",
    "person": "person_budget",
    "idle": "idle_budget",
}

_KEY = re.compile(keys.cost(r"([^:]{1,100})", r"(\d{4}-\d\d-\d\d)"))

# reserve(spent key, at): reserves a sum and returns what is left of each scope's cap (false if it has none), or the
# kind of scope that lacks the money. ARGV from `at` on: now and the reservation's end in unix seconds, its name, the
# sum, the kind of turn, pairs of scope and cap ("-": none). A reservation is stored as "end sum scopes" and replaces
# one of the same name. The end is "booked" if nobody settled it in time: book(…, 1) has charged it, and book(…, -1)
# reverses that. The sums of all reservations by scope are stored, too, so that a turn needn't read hundreds of them.
# "#" is the number of reservations in the sums. "@" is when all are read again: after some seconds, or once one expires
# unsettled. A process of an earlier version doesn't update the sums, which a wrong "#" shows. From then on until "!",
# all are read each time, since such a process may also replace a reservation, which doesn't change the number.
BOOK = f"""
local function book(spent, sum, scopes, sign)
  for scope in string.gmatch(scopes, '%S+') do redis.call('HINCRBY', spent, scope, sign * sum) end
  redis.call('EXPIRE', spent, {BUDGET_SECONDS})
  local agent, date = string.match(scopes, 'agent:(%S+)'), string.match(spent, '[^:]+$')
  local costs = 'agent:' .. agent .. ':cost:' .. date
  for _, field in ipairs({{'total_cost', 'ai_cost'}}) do
    redis.call('HINCRBYFLOAT', costs, field, string.format('%.6f', sign * sum / {MICRO}))
  end
  redis.call('HINCRBY', costs, 'ai_calls', sign)
  redis.call('EXPIRE', costs, {COST_SECONDS})
end
"""
RESERVE = f"""{BOOK}{RECORD}
local function record_unsettled(spent, name, sum, scopes, now)
  local agent, channel = string.match(scopes, 'agent:(%S+)'), string.match(scopes, 'channel:(%d+)')
  if not channel then return end -- a replay's
  local turn, person = cjson.encode(string.sub(name, #agent + 2)), string.match(scopes, 'person:([1-9]%d*)')
  record('agent:' .. agent .. ':turns', string.format(
    '{{"v":1,"id":%s,"agent":"%s","at":%.3f,"day":"%s","kind":"{UNKNOWN}","trigger":"{UNKNOWN}","channel_id":%s,'
      .. '"asked_by":%s,"cost_usd":%.6f,"reason":"interrupted"}}',
    turn, agent, now, string.match(spent, '[^:]+$'), channel, person or 'null', sum / {MICRO}))
end
local function add_up(spent, reserved, held, name, now, mixed)
  local sums, live, again = {{}}, redis.call('HGETALL', reserved), now + {READ_AGAIN_SECONDS}
  for i = 1, #live, 2 do
    local ends, its_sum, scopes = string.match(live[i + 1], '^(%S+) (%S+) (.+)$')
    if ends ~= 'booked' and tonumber(ends) <= now and live[i] ~= name then
      book(spent, its_sum, scopes, 1)
      record_unsettled(spent, live[i], its_sum, scopes, now)
      redis.call('HSET', reserved, live[i], 'booked ' .. its_sum .. ' ' .. scopes)
    elseif ends ~= 'booked' then
      if tonumber(ends) > now then again = math.min(again, tonumber(ends)) end
      for scope in string.gmatch(scopes, '%S+') do sums[scope] = (sums[scope] or 0) + tonumber(its_sum) end
    end
  end
  redis.call('DEL', held)
  if #live == 0 then return end
  for scope, sum in pairs(sums) do redis.call('HSET', held, scope, string.format('%.0f', sum)) end
  if mixed > now then again = 0 end
  redis.call('HSET', held, '#', #live / 2, '@', string.format('%.3f', again), '!', string.format('%.3f', mixed))
  redis.call('EXPIRE', held, {BUDGET_SECONDS})
end
local function reserve(spent, at)
  local now, till, name, sum, kind = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local reserved, held, amount = spent .. ':holds', spent .. ':held', tonumber(sum)
  local scopes, fields = {{}}, {{}}
  for i = at + 5, #ARGV, 2 do
    scopes[#scopes + 1] = ARGV[i]
    fields[#fields + 1], fields[#fields + 2] = ARGV[i], 'raised:' .. ARGV[i]
  end
  local count, its = redis.call('HLEN', reserved), {{}}
  local others = redis.pcall('HMGET', held, '#', '@', '!', unpack(scopes))
  if others.err then -- no hash: another program wrote it
    redis.call('DEL', held)
    others = {{}}
  end
  local till_then, mixed = tonumber(others[2] or '0') - now, tonumber(others[3] or '0')
  if count ~= tonumber(others[1] or '0') then mixed = now + {MIXED_SECONDS} end
  if mixed > now or others[1] and (count == 0 or till_then <= 0 or till_then > {READ_AGAIN_SECONDS}) then
    add_up(spent, reserved, held, name, now, mixed)
    others = redis.call('HMGET', held, '#', '@', '!', unpack(scopes))
  end
  local before, ends, its_sum, its_scopes = count > 0 and redis.call('HGET', reserved, name)
  if before then
    ends, its_sum, its_scopes = string.match(before, '^(%S+) (%S+) (.+)$')
    for scope in string.gmatch(its_scopes, '%S+') do its[scope] = (its[scope] or 0) + tonumber(its_sum) end
  end
  local verdict, left, sums = 'ok', {{}}, redis.call('HMGET', spent, unpack(fields))
  for i, scope in ipairs(scopes) do
    local cap, what = tonumber(ARGV[at + 4 + 2 * i]), string.match(scope, '^%a+')
    local total = tonumber(sums[2 * i - 1] or '0') + tonumber(others[i + 3] or '0') - (its[scope] or 0) + amount
    if cap then cap = cap + tonumber(sums[2 * i] or '0') end
    if cap and amount > 0 then
      if total > cap then return what, {{}} end
      local short = cap - total < math.max(amount, cap * {CLOSING_SHARE})
      if short and kind ~= 'mention' and (what == 'all' or what == 'channel') then
        if kind ~= 'round' then return what, {{}} end
        verdict = 'closing'
      end
    end
    left[i] = cap and cap - total or false
  end
  if amount > 0 then
    redis.call('HSET', reserved, name, till .. ' ' .. sum .. ' ' .. table.concat(scopes, ' '))
    redis.call('EXPIRE', reserved, {BUDGET_SECONDS})
    if ends == 'booked' then
      book(spent, its_sum, its_scopes, -1)
    else
      for scope, reserved in pairs(its) do redis.call('HINCRBY', held, scope, -reserved) end
    end
    for _, scope in ipairs(scopes) do redis.call('HINCRBY', held, scope, sum) end
    redis.call('HSET', held, '#', redis.call('HLEN', reserved))
    redis.call('HSETNX', held, '@', string.format('%.3f', now + {READ_AGAIN_SECONDS}))
    redis.call('EXPIRE', held, {BUDGET_SECONDS})
  end
  return verdict, left
end
"""
MORE = f"{RESERVE} local verdict, left = reserve(KEYS[1], 1) return {{verdict, unpack(left)}}"

# The end of `Turns.settle`'s script. KEYS[3]: spent. The last ARGV is the charge, in lines: the sum, the scopes if
# there is no reservation, caps as "kind=cap", the reservation's name. Returns "scope cap" for each scope that nears its
# cap.
SPEND = f"""{BOOK}
local sum, scopes, caps, name = string.match(ARGV[#ARGV], '^(%d+)\\n([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local spent, reserved, held, near = KEYS[3], KEYS[3] .. ':holds', KEYS[3] .. ':held', {{}}
local reservation = redis.call('HGET', reserved, name)
if reservation then
  local ends, its_sum
  ends, its_sum, scopes = string.match(reservation, '^(%S+) (%S+) (.+)$')
  if ends == 'booked' then book(spent, its_sum, scopes, -1) end
  redis.call('HDEL', reserved, name)
  if redis.call('EXISTS', reserved) == 0 then
    redis.call('DEL', held)
  elseif redis.call('TYPE', held).ok == 'hash' then
    redis.call('HINCRBY', held, '#', -1)
    if ends ~= 'booked' then
      for scope in string.gmatch(scopes, '%S+') do redis.call('HINCRBY', held, scope, -its_sum) end
    end
  end
end
if sum ~= '0' then
  for scope in string.gmatch(scopes, '%S+') do
    local total, what = redis.call('HINCRBY', spent, scope, sum), string.match(scope, '^%a+')
    local cap = tonumber(string.match(caps, what .. '=(%d+)'))
    if cap then cap = cap + tonumber(redis.call('HGET', spent, 'raised:' .. scope) or '0') end
    if cap and what ~= 'person' and total >= cap * {NOTICE_SHARE}
      and redis.call('HSETNX', spent, 'told:' .. scope, '1') == 1 then near[#near + 1] = scope .. ' ' .. cap end
  end
  redis.call('EXPIRE', spent, {BUDGET_SECONDS})
end
return near
"""
# KEYS: the day's budget. ARGV: the scope, the sum, the raise's id, seconds to keep. A known id changes nothing. The
# notice that a budget is nearly used up is sent again for the new cap. Returns the sum of all raises.
RAISE = """
if redis.call('HSETNX', KEYS[1], 'raise:' .. ARGV[3], ARGV[1] .. ' ' .. ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], 'raised:' .. ARGV[1], ARGV[2])
  redis.call('HDEL', KEYS[1], 'told:' .. ARGV[1])
  redis.call('EXPIRE', KEYS[1], ARGV[4])
end
return redis.call('HGET', KEYS[1], 'raised:' .. ARGV[1])
"""
# KEYS: the note's stream, the agent's costs of the day, the day's budgets. ARGV: the reservation's name, the costs'
# lifetime in seconds, the note, pairs of field and amount, and last the charge. Works once: it removes the reservation.
SETTLE_REPLAY = f"""{APPEND}
if redis.call('HEXISTS', KEYS[3] .. ':holds', ARGV[1]) == 0 then return {{}} end
append(KEYS[1], KEYS[1] .. ':count', 0, {NOTES_KEPT}, {NOTES_SECONDS}, {{{{'kind', 'replay', 'data', ARGV[3]}}}})
for i = 4, #ARGV - 1, 2 do redis.call('HINCRBYFLOAT', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[2], ARGV[2])
{SPEND}"""


@dataclass(frozen=True, slots=True)
class Caps:
    """US dollars a day (None: no cap), and `mentions` per person and minute. 0 allows nothing."""

    all: float | None = None
    agent: float | None = None
    channel: float | None = None
    person: float | None = None
    members: float | None = None
    idle: float | None = None
    mentions: int = NO_LIMIT

    def of(self, scope: str) -> int | None:
        """Return a scope's cap in millionths."""
        dollars: float | None = getattr(self, "members" if scope == MEMBERS_SCOPE else kind_of(scope))
        return None if dollars is None else round(dollars * MICRO)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation, in millionths."""

    date: str
    until: float
    amount: int
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Charge:
    """A turn's real cost, in millionths, and the scopes that it is charged to."""

    name: str
    date: str
    amount: int
    scopes: tuple[str, ...]


def kind_of(scope: str) -> str:
    return scope.partition(":")[0]


def reservation_name(agent: str, turn_id: str) -> str:
    return f"{agent}:{turn_id}"


def scopes_of(agent: str, channel_id: int, person_id: int | None, *, idle: bool = False) -> tuple[str, ...]:
    person = () if person_id is None else (f"person:{person_id}",)
    return ("all", f"agent:{agent}", f"channel:{channel_id}", *person, *(("idle",) if idle else ()))


def millionths(dollars: float) -> int:
    """Round up, so that only zero is free."""
    return math.ceil(dollars * MICRO - 1e-6)


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A scope (`all`, `agent:{name}`, `channel:{id}`, `person:{id}`, `idle`) on a day, in US dollars. `reserved` is for
    running turns. `cap` includes `raised`, and is None without a limit."""

    scope: str
    spent: float
    reserved: float
    cap: float | None
    raised: float

    @property
    def is_nearly_used_up(self) -> bool:
        """Whether only the part that is kept for mentions is left, or less."""
        return self.cap is not None and self.spent + self.reserved >= self.cap * (1 - CLOSING_SHARE)


class Budgets:
    """The budgets of all processes. `used_up`, `uses`, and `raise_cap` raise StateUnavailable."""

    def __init__(self, link: RedisConnection, caps: Caps) -> None:
        self._link, self.caps = link, caps
        self.holds: dict[str, Reservation] = {}  # of this process's turns
        self._near: list[str] = []  # "scope cap"

    def reserve_args(
        self, name: str, reservation: Reservation, kind: Kind = "mention", *, now: float
    ) -> tuple[list[str], list[object]]:
        """Return keys and arguments for RESERVE. A running turn that needs more may use the last of the daily budget,
        as a mention may (the default `kind`)."""
        redis_keys = [keys.budget(reservation.date)]
        arguments: list[object] = [now, reservation.until, name, reservation.amount, kind]
        for scope in reservation.scopes:
            cap = self.caps.of(scope)
            arguments += [scope, "-" if cap is None else cap]
        return redis_keys, arguments

    async def used_up(self, agent: str, channel_id: int, date: str, *, idle: bool = False) -> list[str]:
        """Return which of the daily budgets that the agent needs there are used up, or nearly: "all", "agent",
        "channel", and, for background tasks, "idle"."""
        wanted = scopes_of(agent, channel_id, None, idle=idle)
        scopes = [scope for scope in wanted if self.caps.of(scope) is not None]
        if not scopes:
            return []
        fields = [*scopes, *(f"{RAISED}{scope}" for scope in scopes)]
        texts = await self._link.redis.hmget(keys.budget(date), fields)
        found = {field: int(text or 0) for field, text in zip(fields, texts, strict=True)}
        limits = {scope: (self.caps.of(scope) or 0) + found[f"{RAISED}{scope}"] for scope in scopes}
        return [kind_of(scope) for scope in scopes if found[scope] >= limits[scope] * (1 - CLOSING_SHARE)]

    async def raise_cap(self, scope: str, dollars: float, date: str, raise_id: str) -> float:
        """Add `dollars` to the scope's cap on that day, for all processes. Returns the new cap in US dollars. A known
        `raise_id` changes nothing, so the call may be repeated.

        Raises StateUnavailable, and ValueError for a sum that is not between 0 and MAX_RAISE, or a scope without a cap.
        """
        cap = self.caps.of(scope)
        if cap is None:
            raise ValueError("it has no limit to raise")
        if not 0 < dollars <= MAX_RAISE:
            raise ValueError(f"a raise is between 0 and {MAX_RAISE:.0f} US dollars")
        arguments = [scope, millionths(dollars), raise_id, BUDGET_SECONDS]
        added = int(await self._link.script(RAISE, [keys.budget(date)], arguments))
        return (cap + added) / MICRO

    async def uses(self, date: str, wanted: Iterable[str]) -> dict[str, BudgetUse]:
        """Return scope → its use on that day, for the wanted scopes and all others with any use. Raises
        StateUnavailable."""
        spent, holds = await self._link.batch(
            lambda pipe: (pipe.hgetall(keys.budget(date)), pipe.hgetall(keys.budget_holds(date)))
        )
        reserved: Counter[str] = Counter()
        for reservation in holds.values():
            end, amount, scopes = reservation.split(" ", 2)
            if end != "booked":  # a booked reservation is in `spent`
                reserved.update(dict.fromkeys(scopes.split(), int(amount)))
        sums = {field: int(amount) for field, amount in spent.items() if kind_of(field) in SCOPES}
        raises = ((field.removeprefix(RAISED), amount) for field, amount in spent.items() if field.startswith(RAISED))
        raised, found = {scope: int(amount) for scope, amount in raises}, dict[str, BudgetUse]()
        for scope in dict.fromkeys([*wanted, *sums, *reserved, *raised]):
            cap, more, used = self.caps.of(scope), raised.get(scope, 0), sums.get(scope, 0) / MICRO
            dollars = None if cap is None else (cap + more) / MICRO
            found[scope] = BudgetUse(scope, used, reserved[scope] / MICRO, dollars, more / MICRO)
        return found

    def charge(self, agent: str, turn_id: str, date: str, dollars: float) -> Charge:
        """Return a turn's charge, for the day on which it began, if this process knows it, else for `date`."""
        name = reservation_name(agent, turn_id)
        reservation = self.holds.get(name)
        scopes = reservation.scopes if reservation else ("all", f"agent:{agent}")
        return Charge(name, reservation.date if reservation else date, millionths(dollars), scopes)

    def charge_text(self, charge: Charge) -> str:
        """Encode the charge for SPEND."""
        caps = {kind_of(scope): self.caps.of(scope) for scope in ("all", "agent", "channel")}
        shown = " ".join(f"{kind}={cap}" for kind, cap in caps.items() if cap is not None)
        return f"{charge.amount}\n{' '.join(charge.scopes)}\n{shown}\n{charge.name}"

    def settled(self, charge: Charge, near: Sequence[str]) -> None:
        self.holds.pop(charge.name, None)
        self._near += near

    def notices(self) -> list[str]:
        """Return lines for the owner about budgets that are 80% spent; once per scope and day among all processes."""
        near, self._near = self._near, []
        lines = []
        for scope, cap in map(str.split, near):
            kind, _, name = scope.partition(":")
            whose = {"all": "", "agent": f" for {name}"}.get(kind, f" for the channel {name}")
            lines.append(f"{NOTICE_SHARE:.0%} of today's budget{whose} (${int(cap) / MICRO:.2f}) is spent")
        return lines


class Costs(Store):
    """Daily totals of each agent's usage and costs, written by `Turns.settle`: hashes, kept for 30 days.

    Fields: total_cost, ai_cost, image_cost (US dollars), input_tokens, cached_tokens, output_tokens, reasoning_tokens,
    ai_calls, image_calls, web_search_calls, emoji_reactions; replay_cost (US dollars), the replays' part of total_cost.
    """

    async def read(self, agent: str, date: str) -> dict[str, float]:
        """Return a day's totals, {} if there are none."""
        kept = await self._link.redis.hgetall(keys.cost(agent, date))
        return {str(field): float(value) for field, value in kept.items()}

    async def all_days(self) -> dict[tuple[str, str], dict[str, float]]:
        """Return the totals of all agents and days in Redis: (agent, YYYY-MM-DD) → field → amount. Includes totals that
        the public agentic-discord wrote."""
        found = {}
        async for page in self._link.scan(keys.cost("*", "*"), "hash"):
            matches = [match for key in page if (match := _KEY.fullmatch(key))]
            fields = await self._link.batch(partial(_read_all, [match[0] for match in matches]))
            for match, kept in zip(matches, fields, strict=True):
                # Skip anything that isn't an amount: other programs may write into the same Redis.
                amounts = {str(field): finite_number(text) for field, text in kept.items()}
                found[match[1], match[2]] = {field: n for field, n in amounts.items() if n is not None and n >= 0}
        return found


def _read_all(names: Iterable[str], pipe: Pipeline) -> None:
    for name in names:
        pipe.hgetall(name)


def cost_fields(usage: Usage | TurnUsage, *, reactions: int = 0) -> dict[str, float | int]:
    """Return the usage with the field names of Costs."""
    return {
        "total_cost": usage.cost_usd,
        "ai_cost": usage.cost_usd - usage.picture_cost_usd,
        "image_cost": usage.picture_cost_usd,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "ai_calls": usage.calls - usage.pictures,
        "image_calls": usage.pictures,
        "web_search_calls": usage.searches,
        "emoji_reactions": reactions,
    }


class ReplayCosts:
    """The costs of replays: calls of an agent's model outside of its turns.

    They are charged to the daily budget and the agent's, as turns are, but to no channel or person. A replay reserves
    the most that it may cost and is settled with its real cost; an unsettled reservation is charged. The agent's day
    has their sum as `replay_cost`, part of `total_cost` and `ai_cost`, and the record has each as a ReplayNote. `clock`
    gives unix seconds; dates are local, YYYY-MM-DD.
    """

    def __init__(self, link: RedisConnection, clock: Callable[[], float], budgets: Budgets) -> None:
        self._link, self._clock, self._budgets = link, clock, budgets

    async def reserve(self, agent: str, replay_id: str, date: str, dollars: float, seconds: float) -> Verdict | None:
        """Reserve `dollars` for `seconds`. Returns the budget that is too small, or None. Raises
        StateUnavailable."""
        name, now = reservation_name(agent, replay_id), self._clock()
        reservation = Reservation(date, now + seconds, millionths(dollars), ("all", f"agent:{agent}"))
        # The owner asks for it, as for a mention, so the last of the daily budget may be spent.
        verdict, *_ = await self._link.script(MORE, *self._budgets.reserve_args(name, reservation, now=now))
        return REFUSED.get(verdict)

    async def settle(self, agent: str, replay_id: str, date: str, usage: Usage, model: str) -> None:
        """Book what a replay that has reserved on this day has used, and record it. If Redis is unavailable, the
        reserved amount is charged."""
        counts = {name: getattr(usage, name) for name in COUNTS}
        note = ReplayNote(id=replay_id, at=self._clock(), day=date, agent=agent, model=model, **counts)
        charge = Charge(reservation_name(agent, note.id), date, millionths(note.cost_usd), ("all", f"agent:{agent}"))
        spent = {**cost_fields(usage), "replay_cost": note.cost_usd}
        costs = {field: amount for field, amount in spent.items() if amount}
        pairs = [part for pair in costs.items() for part in pair]
        places = [keys.COORDINATOR_RECORD, keys.cost(agent, date), keys.budget(date)]
        arguments = [charge.name, COST_SECONDS, note.to_json(), *pairs, self._budgets.charge_text(charge)]
        try:
            self._budgets.settled(charge, await self._link.script(SETTLE_REPLAY, places, arguments))
        except StateUnavailable as away:
            log.error("%s: could not charge the cost of %s: %s; its reserved amount is charged", agent, replay_id, away)
