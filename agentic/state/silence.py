"""Silence: whether an agent may speak in a channel now, and if not, why.

People stop a channel with its threads, pause all bots, mute an agent, or ignore a person. Each of these is an order for
a scope. The newest order of a scope applies, whenever a process learns of it. Every process has all orders in memory,
where a check is cheap, and Redis has them in one hash, so they survive restarts. A notice publishes each order.

An order takes effect immediately in the process that receives it, even while Redis is unavailable, and is written when
Redis is back. A resume is kept for a day, so that an earlier stop that is found later in a channel's history changes
nothing. The hash has a random MARKER: if it changed, Redis is new or was emptied, and each process writes its orders
again. The first to do so imports the keys of earlier versions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from agentic.state.former_silence import find_former_keys, read_former_orders
from agentic.wire import keys
from agentic.wire.bus import Bus, Mirror
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.messages import SilenceNotice, read

DAY = 86400.0  # seconds
MAX_STOP_SECONDS = DAY  # a stop ends by itself after this
MAX_PAUSE_SECONDS = 366 * DAY
MAX_MUTE_SECONDS = 7 * DAY
MAX_IGNORED = 1000  # people, in each guild and everywhere
CHECK_EVERY = 5.0  # seconds between two checks that Redis still has the hash
TICK = 0.001  # seconds: the precision of orders' times
MARKER, INCOMPLETE = "-", "?"  # not a scope; prefix of its value while a process fills an empty hash

Kind = Literal["all", "channel", "agent", "person"]
S = TypeVar("S", int, str)
SilencedKind = Literal["paused", "stopped", "muted"]
Outcome = Literal["first", "known", "outdated", "full"]

SILENCED: Mapping[Kind, SilencedKind] = {"all": "paused", "channel": "stopped", "agent": "muted"}
LONGEST = {  # seconds
    "all": MAX_PAUSE_SECONDS,
    "channel": MAX_STOP_SECONDS,
    "agent": MAX_MUTE_SECONDS,
    "person": 100 * 365 * DAY,
}

# KEYS: the hash. ARGV: the scope, until when, the order's time, its source, now, seconds to keep an order after its
# end, the channel of notices, how to compare it, how many people of a guild may be ignored. A "live" order comes after
# all known orders, "late" and "merge" may be older; "merge" is from a process's memory: the newer order applies,
# whoever was first. Returns the outcome and the order that applies now.
GIVE = f"""
local field, source, now, how = ARGV[1], ARGV[4], tonumber(ARGV[5]), ARGV[8]
local till, at, known = tonumber(ARGV[2]), tonumber(ARGV[3]), nil
local last, others = math.max(till, at, now), 0
local ignored = string.match(field, '^u:') or string.match(field, '^g:%d+/u:')
local kept = redis.call('HGETALL', KEYS[1])
for i = 1, #kept, 2 do
  if kept[i] ~= '{MARKER}' then
    local readable, order = pcall(cjson.decode, kept[i + 1])
    order = readable and type(order) == 'table' and order or {{}}
    order = {{till = tonumber(order['until']), at = tonumber(order.at), source = tostring(order.source or '')}}
    if not order.till or not order.at or not (math.max(order.till, order.at) + ARGV[6] >= now) then
      redis.call('HDEL', KEYS[1], kept[i])
    else
      last = math.max(last, order.till, order.at)
      if kept[i] == field then
        known = order
      elseif ignored and order.till > now and string.sub(kept[i], 1, #ignored) == ignored then
        others = others + 1
      end
    end
  end
end
local function reply(outcome, order)
  return {{outcome, string.format('%.3f', order.till), string.format('%.3f', order.at), order.source}}
end
local outcome = 'first'
if ignored and till > 0 and others >= tonumber(ARGV[9]) then
  return reply('full', known or {{till = 0, at = 0, source = ''}})
end
if known then
  local active, same = known.till > now, source ~= '' and source == known.source
  local newer = at > known.at
  if at == known.at then newer = till > known.till or (till == known.till and source > known.source) end
  local again = same and (active or at <= known.at) or source == '' and active and how == 'live'
  if how ~= 'merge' and till > 0 and again then return reply('known', known) end
  if how ~= 'live' and not newer then return reply('outdated', known) end
  if how == 'live' then at = math.max(at, known.at + {TICK}) end
  if till == 0 then
    if not active then outcome = 'known' end
    if source == '' then source = known.source end
  end
elseif till == 0 then
  outcome = 'known'
end
local order = string.format('{{"until":%.3f,"at":%.3f,"source":%s}}', till, at, cjson.encode(source))
redis.call('HSET', KEYS[1], field, order)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', (last + ARGV[6] - now) * 1000))
redis.call('PUBLISH', ARGV[7], '{{"protocol_version":1,"scope":' .. cjson.encode(field) .. ',' .. string.sub(order, 2))
return reply(outcome, {{till = till, at = at, source = source}})
"""

# KEYS: the hash. ARGV: what MARKER was set to, what it becomes, and how long the hash is kept if it has no order, in
# seconds. If MARKER changed meanwhile, Redis was emptied, or another process began to fill it. Returns MARKER.
COMPLETE = f"""
if redis.call('HGET', KEYS[1], '{MARKER}') == ARGV[1] then redis.call('HSET', KEYS[1], '{MARKER}', ARGV[2]) end
if redis.call('TTL', KEYS[1]) == -1 then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
return redis.call('HGET', KEYS[1], '{MARKER}') or ''
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelRef:
    """A channel or thread with its parent and guild, which orders may be for, too. A direct message has no guild."""

    channel_id: int
    parent_id: int | None = None
    guild_id: int | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """What an order is for. Without a guild it applies everywhere, including direct messages. A channel's scope has
    none."""

    kind: Kind
    subject: int | str = ""
    guild: int | None = None

    @classmethod
    def channel(cls, channel_id: int) -> Scope:
        """Return the scope of a channel with its threads, or of one thread."""
        return cls("channel", channel_id)

    @classmethod
    def agent(cls, name: str, guild: int | None = None) -> Scope:
        return cls("agent", name, guild)

    @classmethod
    def person(cls, user_id: int, guild: int | None = None) -> Scope:
        return cls("person", user_id, guild)

    @classmethod
    def parse(cls, text: str) -> Scope | None:
        """Read `*`, `c:123`, `g:7/a:grok`, `u:42`; None for other text."""
        found = re.fullmatch(r"(?:g:(\d{1,20})/)?(?:(\*)|([cu]):(\d{1,20})|a:(.+))", text, re.ASCII)
        if found is None:
            return None
        guild, everything, kind, number, agent = found.groups()
        where = None if guild is None else int(guild)
        if everything:
            return cls("all", guild=where)
        if agent:
            return cls("agent", agent, where)
        return cls("channel" if kind == "c" else "person", int(number), where)

    def __str__(self) -> str:
        letter = {"channel": "c", "agent": "a", "person": "u"}
        subject = "*" if self.kind == "all" else f"{letter[self.kind]}:{self.subject}"
        return subject if self.guild is None else f"g:{self.guild}/{subject}"

    @property
    def name(self) -> str:
        """Return its name for the log."""
        where = "" if self.guild is None else f" in guild {self.guild}"
        names = {"all": "all bots", "channel": f"channel {self.subject}", "person": f"person {self.subject}"}
        return f"{names.get(self.kind, self.subject)}{where}"

    def covers(self, channel: ChannelRef) -> bool:
        """Whether this silences all agents in the channel."""
        is_there = self.kind == "channel" and self.subject in (channel.channel_id, channel.parent_id)
        return self.guild in (None, channel.guild_id) and (self.kind == "all" or is_there)


EVERYTHING = Scope("all")


@dataclass(frozen=True, slots=True)
class Silenced:
    """Why an agent may not speak, and until when (unix seconds) unless someone resumes it."""

    kind: SilencedKind
    scope: Scope
    until: float

    @property
    def channel_id(self) -> int | None:
        """Return the stopped channel or thread; None if it's a pause or a mute."""
        return int(self.scope.subject) if self.scope.kind == "channel" else None


@dataclass(frozen=True, slots=True)
class SilenceOrder:
    """The last order of a scope; times in unix seconds. A resume has `until` 0. By `source`, the id of a message or
    click, processes that receive the same order know which of them was first."""

    scope: Scope
    until: float
    at: float
    source: str = ""

    @property
    def rank(self) -> tuple[float, float, str]:
        """Return the order's rank: of two orders for a scope, the higher one applies."""
        return self.at, self.until, self.source

    @property
    def ended(self) -> float:
        return max(self.at, self.until)


@dataclass(frozen=True, slots=True)
class SilenceChange:
    """A scope is silenced now. With `person_id`: the replies to this person there are canceled instead."""

    scope: Scope
    person_id: int | None = None


OnChange = Callable[[SilenceChange], Awaitable[None]]


class Silence(Mirror):
    """All orders. Call `start()` before the bus runs, and `run()` in a task. `clock` gives unix seconds. Only `read`
    raises StateUnavailable."""

    def __init__(
        self,
        link: RedisConnection,
        bus: Bus,
        clock: Callable[[], float] = time.time,
        *,
        check_every: float = CHECK_EVERY,
    ) -> None:
        super().__init__(link, bus, check_every)
        self._clock = clock
        self._orders: dict[Scope, SilenceOrder] = {}
        self._marker = ""  # of the hash that has all orders
        self._unwritten: set[Scope] = set()
        self._in_flight: set[SilenceOrder] = set()  # on their way to Redis
        self._callbacks: list[OnChange] = []

    def start(self) -> None:
        self._bus.subscribe(keys.SILENCE_NOTICES, self._on_notice)
        self._bus.on_resubscribed(self._behind.set)

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Call `callback` with each change as it happens, perhaps twice for one order, until the returned function is
        called."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            self._callbacks = [each for each in self._callbacks if each != callback]

        return unsubscribe

    # -- the answers --------------------------------------------------------------------------------------------------

    def check(self, channel: ChannelRef, agent: str | None = None) -> Silenced | None:
        """Return why the agent may not speak in the channel now; None if it may. Without an agent, mutes are
        ignored."""
        return next(iter(self.reasons(channel, agent)), None)

    def reasons(self, channel: ChannelRef, agent: str | None = None) -> list[Silenced]:
        """Return everything that keeps the agent silent in the channel now: pauses first, then stops, then mutes."""
        if not self._orders:
            return []
        guilds = dict.fromkeys((None, channel.guild_id))
        scopes = [Scope("all", guild=guild) for guild in guilds]
        scopes += [Scope.channel(each) for each in (channel.channel_id, channel.parent_id) if each is not None]
        scopes += [Scope.agent(agent, guild) for guild in guilds] if agent is not None else []
        orders = (self._active(scope) for scope in scopes)
        return [Silenced(SILENCED[order.scope.kind], order.scope, order.until) for order in orders if order is not None]

    @property
    def is_paused(self) -> bool:
        """Whether all bots are paused everywhere."""
        return self._active(EVERYTHING) is not None

    @property
    def is_out_of_sync(self) -> bool:
        """Whether Redis lacks an order of this process, or may have an order that this process doesn't know."""
        return self._behind.is_set()

    def active(self) -> list[SilenceOrder]:
        """Return the orders that silence somebody now."""
        now = self._clock()
        return [order for order in self._orders.values() if order.until > now]

    def stopped_channels(self) -> dict[int, float]:
        """Return channel or thread → when its own stop ends (unix seconds)."""
        return self._active_of("channel", int)

    def muted_agents(self, guild: int | None = None) -> dict[str, float]:
        """Return agent → when its mute, everywhere or in the guild, ends (unix seconds)."""
        return self._active_of("agent", str, guild)

    def ignored_people(self, guild: int | None = None) -> frozenset[int]:
        """Return the people who are ignored everywhere or in the guild."""
        return frozenset(self._active_of("person", int, guild))

    def _active_of(self, kind: Kind, read_subject: type[S], guild: int | None = None) -> dict[S, float]:
        active = (order for order in self.active() if order.scope.kind == kind and order.scope.guild in (None, guild))
        return {read_subject(order.scope.subject): order.until for order in sorted(active, key=lambda one: one.until)}

    def is_ignored(self, person: int, guild: int | None = None) -> bool:
        return any(self._active(Scope.person(person, where)) is not None for where in {None, guild})

    def answered_until(self, channel: ChannelRef) -> float:
        """Return the time (unix seconds, 0 if none) before which messages get no answer anymore: it was stopped, or
        they came during the stop."""
        return max((order.ended for scope, order in self._orders.items() if scope.covers(channel)), default=0.0)

    def _active(self, scope: Scope) -> SilenceOrder | None:
        order = self._orders.get(scope)
        return order if order is not None and order.until > self._clock() else None

    # -- orders -------------------------------------------------------------------------------------------------------

    async def stop(
        self,
        scope: Scope,
        seconds: float | None = None,
        *,
        source: str = "",
        at: float | None = None,
        late: bool = False,
        parent_id: int | None = None,
    ) -> Outcome:
        """Silence the scope for `seconds`, by default and at most as long as its kind allows. Takes effect in this
        process first. `at`: time of the order, by default now. `late`: it was found in a channel's history.

        Returns "first" to the first caller with this `source` among all processes, "known" if the scope is silenced
        already (without a source, or by the same one), "full" if too many people are ignored, "outdated" if a `late`
        order is older than one that applies, or than a resume of a thread's channel `parent_id`.
        """
        now, longest = self._clock(), LONGEST[scope.kind]
        said = now if at is None else at
        until = min(said, now) + min(max(seconds or longest, 1.0), longest)
        parent = self._orders.get(Scope.channel(parent_id)) if parent_id is not None else None
        if late and parent is not None and not parent.until and parent.at > said:
            return "outdated"
        outcome = await self._give(SilenceOrder(scope, round(until, 3), round(said, 3), source), late=late)
        return "known" if outcome == "first" and until <= now else outcome  # it replaced an earlier order, and is over

    async def resume(self, scope: Scope, *, at: float | None = None, late: bool = False) -> bool:
        """End the scope's silence; `at` and `late` as in `stop`. Returns True to the first caller among all
        processes."""
        said = self._clock() if at is None else at
        return await self._give(SilenceOrder(scope, 0.0, round(said, 3)), late=late) == "first"

    async def resume_all(self, scopes: Iterable[Scope], *, at: float | None = None, late: bool = False) -> bool:
        """End the silence of these scopes. Returns False if none was silenced."""
        return any([await self.resume(scope, at=at, late=late) for scope in scopes])

    async def resume_channel(
        self, channel_id: int, parent_of: Callable[[int], int | None], *, at: float | None = None, late: bool = False
    ) -> bool:
        """Resume a channel and its threads. Returns False if none was stopped."""
        threads = (other for other in self.stopped_channels() if parent_of(other) == channel_id)
        return await self.resume_all(map(Scope.channel, (channel_id, *threads)), at=at, late=late)

    async def cancel_replies(self, person: int, channel_id: int) -> None:
        """Cancel the replies to this person there, in all processes; only in this one while Redis is unavailable."""
        scope = Scope.channel(channel_id)
        await self._notify(SilenceChange(scope, person))
        notice = SilenceNotice(scope=str(scope), person_id=person).to_wire()
        try:
            await self._link.redis.publish(keys.SILENCE_NOTICES, notice)
        except StateUnavailable as away:
            log.warning("replies in %s are canceled in this process only: Redis is unavailable (%s)", scope.name, away)

    async def _give(self, given: SilenceOrder, *, late: bool) -> Outcome:
        scope, now = given.scope, self._clock()
        known, order = self._orders.get(scope), given
        was_active = known is not None and known.until > now
        outcome: Outcome = "first" if order.until or was_active else "known"
        if known is not None:
            if order.until and (
                (was_active and order.source in ("", known.source))
                or (order.source and order.source == known.source and order.at <= known.at)
            ):
                return "known"
            if not order.until and not order.source:  # or the stop would apply again if it is found later
                order = replace(order, source=known.source)
            if late and known.rank >= order.rank:
                return "outdated"
            if not late:  # it comes after all known orders, whatever the clocks say
                order = replace(order, at=round(max(order.at, known.at + TICK), 3))
        self._in_flight.add(order)
        if not late:
            await self._learn(order)
        try:
            outcome, there = await self._write(order, "late" if late else "live")
        except StateUnavailable as away:
            log.warning("an order for %s takes effect here only: Redis is unavailable (%s)", scope.name, away)
            self._unwritten.add(scope)
            self._behind.set()
            await self._learn(order)
            return outcome
        finally:
            self._in_flight.discard(order)
        if self._orders.get(scope) is order:
            self._orders[scope] = there
        await self._learn(there)
        if outcome == "first" and not 0 < there.until <= now:  # a late order may be over
            level = logging.WARNING if scope.kind == "all" else logging.INFO
            if scope.kind in ("all", "person") and there.until:
                log.log(level, "a person silenced %s until an order to resume", scope.name)
            elif there.until:
                log.log(level, "a person silenced %s for %.0f minutes", scope.name, (there.until - now) / 60)
            else:
                log.log(level, "a person resumed %s", scope.name)
        return outcome

    async def _write(self, order: SilenceOrder, how: str) -> tuple[Outcome, SilenceOrder]:
        """Store and publish the order. Returns the outcome, and the order that applies in Redis now."""
        places = [order.until, order.at, order.source, self._clock(), DAY, keys.SILENCE_NOTICES, how, MAX_IGNORED]
        outcome, until, at, source = await self._link.script(GIVE, [keys.SILENCE], [str(order.scope), *places])
        there = self._bounded(order.scope, float(until), float(at), str(source))
        if there.rank >= order.rank or outcome == "full":
            self._unwritten.discard(order.scope)
        return outcome, there

    # -- the mirror ---------------------------------------------------------------------------------------------------

    async def is_lost(self) -> bool:
        """Whether Redis is new, or was emptied since the last `read`."""
        return await self._link.redis.hget(keys.SILENCE, MARKER) != self._marker

    async def read(self) -> None:
        """Learn all orders from Redis, and write the orders that are newer here. Raises StateUnavailable."""
        texts = await self._link.redis.hgetall(keys.SILENCE)
        marker, token, former = str(texts.get(MARKER, INCOMPLETE)), secrets.token_hex(8), list[str]()
        is_new, was_emptied = marker.startswith(INCOMPLETE), marker != self._marker
        theirs = {order.scope: order for order in self._parse(texts)}
        for order in theirs.values():
            await self._learn(order)
        if is_new:
            await self._link.redis.hset(keys.SILENCE, MARKER, f"{INCOMPLETE}{token}")
            former = await find_former_keys(self._link)
            for order in filter(None, map(self._order_of, await read_former_orders(self._link, former))):
                await self._learn(order)
        now = self._clock()
        for scope, order in list(self._orders.items()):
            there = theirs.get(scope)
            # If Redis no longer has an old order, it was resumed so long ago that the resume has expired, too.
            forgotten = there is None and not was_emptied and order.at <= now - DAY and scope not in self._unwritten
            if order.ended + DAY < now or forgotten:
                if self._orders.get(scope) is order:
                    del self._orders[scope]
            elif order not in self._in_flight and (there is None or order.rank > there.rank):
                outcome, there = await self._write(order, "merge")
                if outcome == "full" and self._orders.get(scope) is order:
                    log.warning("%s is not ignored after all: too many people are ignored", scope.name)
                    self._orders[scope] = there
                await self._learn(there)
        if is_new:
            marks = [f"{INCOMPLETE}{token}", token, round(DAY)]
            marker = str(await self._link.script(COMPLETE, [keys.SILENCE], marks))
            await self._link.redis.delete(*former)
        self._marker = "" if marker.startswith(INCOMPLETE) else marker

    def _parse(self, texts: dict[Any, Any]) -> Iterator[SilenceOrder]:
        for field, text in texts.items():
            if field == MARKER:
                continue
            try:
                order = self._order_of(SilenceNotice.model_validate({"scope": field, **json.loads(text)}))
            except (ValueError, TypeError):
                order = None
            if order is None:
                log.warning("ignoring the silence of %.80r: can't read it", field)
            else:
                yield order

    def _order_of(self, notice: SilenceNotice) -> SilenceOrder | None:
        scope = Scope.parse(notice.scope)
        if scope is None or notice.at is None:
            return None
        return self._bounded(scope, notice.until, notice.at, notice.source)

    def _bounded(self, scope: Scope, until: float, at: float, source: str = "") -> SilenceOrder:
        """Return the order within the bounds of its kind."""
        at = min(at, self._clock() + DAY)
        return SilenceOrder(scope, max(0.0, min(until, round(at + LONGEST[scope.kind], 3))), at, source)

    async def _learn(self, order: SilenceOrder) -> None:
        """Take over an order if it is newer."""
        known, now = self._orders.get(order.scope), self._clock()
        if known is not None and known.rank >= order.rank:
            return
        self._orders[order.scope] = order
        if order.until > now and (known is None or known.until != order.until):
            await self._notify(SilenceChange(order.scope))

    async def _on_notice(self, raw: str) -> None:
        if (notice := read(SilenceNotice, raw)) is None:
            return
        if notice.person_id is not None and (scope := Scope.parse(notice.scope)) is not None:
            await self._notify(SilenceChange(scope, notice.person_id))
        elif (order := self._order_of(notice)) is not None:
            await self._learn(order)

    async def _notify(self, change: SilenceChange) -> None:
        """Call all callbacks concurrently, so that a slow or failing one doesn't delay the others."""
        calls = [callback(change) for callback in self._callbacks]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("a callback failed on the silence of %s", change.scope.name, exc_info=outcome)
