"""The coordinator's day plans, queues, and channel holds, which restarts must neither repeat nor lose.

Each step is one atomic command or script, since two coordinators may briefly both believe that they lead. All methods
raise StateUnavailable, unless they have a default.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from agentic.state.leases import FENCE, RELEASE
from agentic.wire import keys
from agentic.wire.connection import Store, or_default, when_back

DAY_PLAN_SECONDS = 48 * 3600
STARTER_SECONDS = 30 * 86400

# Another program may have used these keys for values of other types, which are replaced.
ONLY_LIST = """
if not ({list = 1, none = 1})[redis.call('TYPE', KEYS[1]).ok] then redis.call('DEL', KEYS[1]) end
"""
ONLY_TEXT = ONLY_LIST.replace("list", "string")
# KEYS: the plan; ARGV: its current text ("" for none), its new text, seconds to keep a new plan
COMPARE_AND_SET = f"""{ONLY_TEXT}
local kept = redis.call('GET', KEYS[1])
if (kept or '') ~= ARGV[1] then return 0 end
if kept then redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') else redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) end
return 1
"""
# KEYS: the queue, the mark that it was filled; ARGV: seconds, fresh elements. Queued elements that aren't fresh are
# dropped.
NEXT_CHANNEL = f"""{ONLY_LIST}
local allowed = {{}}
for i = 2, #ARGV do allowed[ARGV[i]] = true end
if #ARGV > 1 and redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[1]) then
  redis.call('DEL', KEYS[1])
  for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
while true do
  local channel = redis.call('LPOP', KEYS[1])
  if not channel or allowed[channel] then return channel end
end
"""
NEXT_STARTER = f"""{ONLY_LIST}
local allowed = {{}}
for i = 2, #ARGV do allowed[ARGV[i]] = true end
while true do
  local agent = redis.call('LPOP', KEYS[1])
  if not agent then
    for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
  elseif allowed[agent] then
    redis.call('EXPIRE', KEYS[1], ARGV[1])
    return agent
  end
end
"""
# KEYS: the hold, the coordinator's epoch; ARGV: the holder, ms, the holder's epoch
HOLD = f"""{ONLY_TEXT}{FENCE}
if overtaken(KEYS[2], ARGV[3]) then return 0 end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Slot:
    """A planned conversation, at `at` (unix seconds). `done`: claimed or skipped. `added`: by an owner. `part`: that of
    the active hours in which chance chose its time. `planned`: its first time, if an owner moved it."""

    at: FiniteFloat
    done: bool = False
    added: bool = False
    part: tuple[float, float] | None = None
    planned: float | None = None


class ScheduleStore(Store):
    """Plans, queues, and holds. Dates are the coordinator's local dates, YYYY-MM-DD."""

    async def load_schedule(self, date: str) -> list[Slot] | None:
        """Return the day's plan; None if there is none or it can't be read."""
        raw = await self._plan(date)
        return None if raw is None else _read_slots(raw)

    async def _plan(self, date: str) -> str | None:
        """Return the stored plan; None if there is none, or another program's value of another type."""
        key = keys.schedule(date)
        if await self._link.redis.type(key) not in ("string", "none"):
            return None
        return await self._text(key)

    async def save_schedule(self, date: str, slots: Sequence[Slot]) -> None:
        await self._link.redis.set(keys.schedule(date), _write_slots(slots), ex=DAY_PLAN_SECONDS)

    async def claim_slot(self, date: str, index: int, at: float) -> bool:
        """Mark the slot at that time as done. Returns True for exactly one caller, over all restarts, and False if it
        was moved."""

        def claimed(slots: list[Slot]) -> list[Slot] | None:
            if not 0 <= index < len(slots) or slots[index].done or slots[index].at != at:
                return None
            return [*slots[:index], replace(slots[index], done=True), *slots[index + 1 :]]

        return await self.change_schedule(date, claimed)

    async def change_schedule(self, date: str, change: Callable[[list[Slot]], list[Slot] | None]) -> bool:
        """Replace the day's plan with `change(plan)`, atomically. Returns False if that is None. `change` may be called
        again, if another process wrote meanwhile. It must keep each slot at its index."""
        while True:
            raw = await self._plan(date)
            slots = change((_read_slots(raw) if raw is not None else None) or [])
            if slots is None:
                return False
            texts = [raw or "", _write_slots(slots), DAY_PLAN_SECONDS]
            if await self._link.script(COMPARE_AND_SET, [keys.schedule(date)], texts):
                return True

    async def next_channel(self, date: str, fresh: Sequence[int]) -> int | None:
        """Pop the day's next channel; None if the queue is empty. It is filled with `fresh`, in order, once a day.
        Queued channels that are no longer in `fresh` are dropped."""
        queue = [keys.channel_queue(date), keys.channel_queue_filled(date)]
        channel = await self._link.script(NEXT_CHANNEL, queue, [DAY_PLAN_SECONDS, *fresh])
        return None if channel is None else int(channel)

    async def next_starter(self, channel_id: int, fresh: Sequence[str]) -> str:
        """Pop the channel's next starter. An empty queue is refilled with `fresh`, in order. Raises ValueError if
        `fresh` is empty."""
        if not fresh:
            raise ValueError("no agent could start")
        return str(await self._link.script(NEXT_STARTER, [keys.starter_queue(channel_id)], [STARTER_SECONDS, *fresh]))

    @or_default(False, "reactive rounds are off")
    async def take_reactive(self, channel_id: int, cooldown: float) -> bool:
        """Begin the channel's cooldown for reactive rounds (seconds; 0 for none). Returns False while it runs."""
        if cooldown <= 0:
            return True
        key, milliseconds = keys.reactive_cooldown(channel_id), max(1, round(cooldown * 1000))
        return bool(await self._link.redis.set(key, "1", px=milliseconds, nx=True))

    async def hold_channel(self, channel_id: int, holder: str, ttl: float, epoch: int = 0) -> bool:
        """Hold a channel, or renew its hold, for a conversation for `ttl` seconds. Returns False if another
        conversation holds it, or another process has led since `epoch` of the coordinator's lease (0: no lease)."""
        redis_keys = [keys.conversation(channel_id), keys.epoch(keys.COORDINATOR_OWNER)]
        args = [hold_of(holder, epoch), max(1, round(ttl * 1000)), epoch]
        return bool(await self._link.script(HOLD, redis_keys, args))

    @when_back("releases of channels")
    async def release_channel(self, channel_id: int, holder: str, epoch: int = 0) -> None:
        """Release a channel, unless another conversation holds it, or the same conversation in another epoch."""
        await self._link.script(RELEASE, [keys.conversation(channel_id)], [hold_of(holder, epoch)])

    async def release_all_channels(self) -> None:
        """Release all holds. Called when a coordinator begins to lead: then all holders are dead."""
        async for held in self._link.scan(keys.conversation("*")):
            if held:
                await self._link.redis.delete(*held)


def hold_of(holder: str, epoch: int) -> str:
    """Return the value stored in a channel's hold. In each epoch, a resumed conversation is a different holder."""
    return f"{holder} {epoch}" if epoch else holder


@cache
def _plans() -> TypeAdapter[list[Slot]]:
    """Return the (de)serializer of plans, which is built on first use, for a quicker start."""
    return TypeAdapter(list[Slot])


def _write_slots(slots: Sequence[Slot]) -> str:
    return _plans().dump_json(list(slots), exclude_defaults=True).decode()


def _read_slots(raw: str) -> list[Slot] | None:
    try:
        return _plans().validate_json(raw)
    except ValidationError as error:
        log.warning("the stored schedule can't be read (%d errors); making a new one", error.error_count())
        return None
