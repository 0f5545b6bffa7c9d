"""Leases: of several processes that could act for an agent, or as the coordinator, exactly one does.

A lease is a key that expires unless its holder renews it, which it does each second. The holder continues while Redis
is unavailable, since nobody can take over then. A stand-by takes a lease only after it has been free for longer than a
renewal takes, so that after a restart or a FLUSHALL the last holder comes first.

Each acquisition has an epoch, a growing number used as a fencing token. A holder that was paused for longer than its
lease believes for a moment that it still holds it; Redis refuses its writes once a newer epoch is known (FENCE).
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentic.process.tasks import Sleep
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, or_default

LEASE_SECONDS = 5.0  # after the last renewal
DEAD_HOLDER_SECONDS = LEASE_SECONDS + 1.0  # a dead holder's lease has expired by then
LEADERSHIP_POLL_SECONDS = 0.2
EPOCH_SECONDS = 86400  # to keep the epoch after the last renewal

# Takes a lease that is free or already the caller's. Returns its holder ("" if others held it since) and the epoch.
# KEYS: the lease, its epoch. ARGV: the caller, ms to hold, the caller's epoch (0 if it doesn't hold the lease), the
# newest epoch that it knows (an emptied Redis knows none), seconds to keep the epoch.
TAKE = """
local holder, epoch = redis.call('GET', KEYS[1]), tonumber(redis.call('GET', KEYS[2]) or '0')
local mine, known = tonumber(ARGV[3]), tonumber(ARGV[4])
if holder and holder ~= ARGV[1] then return {holder, epoch} end
if mine > 0 and epoch > mine then return {'', epoch} end
epoch = math.max(epoch, known)
if mine == 0 then epoch = epoch + 1 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], string.format('%d', epoch), 'EX', ARGV[5])
return {ARGV[1], epoch}
"""
# overtaken(): whether the lease was taken since this epoch; a process without a lease has the epoch 0.
FENCE = """
local function overtaken(key, epoch)
  return tonumber(epoch) > 0 and tonumber(redis.call('GET', key) or '0') > tonumber(epoch)
end
"""
# KEYS: a lock; ARGV: the caller. Another holder's lock stays.
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

log = logging.getLogger(__name__)


if hasattr(time, "CLOCK_BOOTTIME"):

    def steady_clock() -> float:
        """Return seconds of a clock that is never set back and runs while the machine sleeps, unlike time.monotonic."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    steady_clock = time.monotonic


class AnyLease(Protocol):
    """Whether this process may act, for an agent or as a leader."""

    @property
    def is_held(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ConditionalLease:
    """Held while the condition is true and `lease`, if any, is held. A condition: a bot is connected, or no person has
    stopped the channel."""

    condition: Callable[[], bool]
    lease: AnyLease | None = None

    @property
    def is_held(self) -> bool:
        return (self.lease is None or self.lease.is_held) and self.condition()


ALWAYS_HELD = ConditionalLease(lambda: True)


class Lease:
    """A Redis key held by at most one `holder`, a text unique to a process. Times in seconds.

    `taken` is set while this process holds it, `lost` once another took it. `epoch`: of the last acquisition, 0 before
    the first.
    """

    def __init__(
        self,
        link: RedisConnection,
        key: str,
        *,
        holder: str,
        ttl: float = LEASE_SECONDS,
        renew_every: float = 1.0,
        clock: Callable[[], float] = steady_clock,
    ) -> None:
        self.holder = holder
        self.taken = asyncio.Event()
        self.lost = asyncio.Event()
        self.epoch = 0
        self._link, self._key, self._clock = link, key, clock
        self._ttl, self._renew_every = ttl, renew_every
        self._sure_at = 0.0  # when it was last certainly ours
        self._free_since: float | None = None
        self._released = False
        self._lock = asyncio.Lock()  # a renewal in flight must not undo a release

    @property
    def is_held(self) -> bool:
        """Whether this process may act: it renewed within the ttl, or Redis failed within it and is still
        unavailable."""
        return self.taken.is_set() and self._clock() - self._sure_at < self._ttl

    async def acquire(self, wait: float = 0.0) -> bool:
        """Take it when it is free, trying for `wait` seconds; longer than the ttl outlasts a dead holder. Returns
        whether it was taken. Raises StateUnavailable if Redis was unavailable at the last attempt."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + wait
        self._released = False
        while True:
            left = give_up - loop.time()
            try:
                if await self._take():
                    return True
            except StateUnavailable:
                if left <= 0:
                    raise
            if left <= 0:
                return False
            await asyncio.sleep(min(left, self._renew_every / 4))

    @or_default(False, "leases are taken when Redis is back")
    async def try_acquire(self) -> bool:
        """Take it if it is free now and Redis answers. Returns whether it was taken."""
        return await self.acquire()

    async def run(self) -> None:
        """Renew while held; otherwise stand by and take over. Runs until canceled or released."""
        while not self._released:
            try:
                await (self._take() if self.taken.is_set() else self._stand_by())
            except StateUnavailable:
                # Nobody can take the lease over now, so its holder keeps it. A process that was paused doesn't: another
                # may have taken the lease meanwhile.
                self._free_since = None
                if self.is_held:
                    self._sure_at = self._clock()
            watching = self._free_since is not None
            await asyncio.sleep(self._renew_every / 2 if watching else self._renew_every)

    async def release(self) -> None:
        """Give it up now. While Redis is unavailable, it expires by itself."""
        self._released = True
        async with self._lock:
            was_held = self.taken.is_set()
            self.taken.clear()
            if was_held:
                await self._release()

    @or_default(None, "leases are not released and expire by themselves")
    async def _release(self) -> None:
        await self._link.script(RELEASE, [self._key], [self.holder])

    async def current_holder(self) -> str | None:
        """Return the holder, or None. Raises StateUnavailable."""
        holder = await self._link.redis.get(self._key)
        return None if holder is None else str(holder)

    async def _take(self) -> bool:
        async with self._lock:
            if self._released:
                return False
            asked_at = self._clock()  # before the command, so that the key never expires before we think it does
            mine = self.epoch if self.taken.is_set() else 0
            args = [self.holder, round(self._ttl * 1000), mine, self.epoch, EPOCH_SECONDS]
            holder, epoch = await self._link.script(TAKE, [self._key, keys.epoch(self._key)], args)
            if holder == self.holder:
                self.epoch, self._sure_at, self._free_since = int(epoch), asked_at, None
                self.lost.clear()
                if not self.taken.is_set():
                    log.debug("%s is held by this process", self._key)
                    self.taken.set()
            elif self.taken.is_set():
                log.warning("%s was taken over by %s", self._key, holder or "another process, which released it again")
                self.taken.clear()
                self.lost.set()
            return self.taken.is_set()

    async def _stand_by(self) -> None:
        if await self.current_holder() not in (None, self.holder):
            self._free_since = None
        elif self._free_since is None:
            self._free_since = self._clock()
        elif self._clock() - self._free_since >= 1.5 * self._renew_every:
            await self._take()


class Leadership:
    """Whether this process leads, and in which epoch. Without a lease, it leads forever, in epoch 0.

    Between two renewals, a coordinator only believes that it leads: a process that was paused may wake up in the middle
    of a step while another leads. So each step checks `is_held` first, and each write carries the epoch, by which Redis
    refuses an earlier leader's writes.
    """

    def __init__(self, lease: Lease | None, sleep: Sleep) -> None:
        self.epoch = 0
        self._lease, self._sleep = lease, sleep

    def begin(self) -> None:
        """Adopt the epoch of the lease that was just acquired."""
        self.epoch = 0 if self._lease is None else self._lease.epoch

    @property
    def is_held(self) -> bool:
        """Whether this process still leads, in the same epoch."""
        return self._lease is None or (self._lease.is_held and self._lease.epoch == self.epoch)

    async def wait_until_held(self) -> None:
        """Wait until this process certainly leads. If it lost the lease, it is canceled while it waits."""
        while not self.is_held:
            await self._sleep(LEADERSHIP_POLL_SECONDS)


def this_process() -> str:
    """Return a name unique to this process among all machines."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def describe_process(name: str | None) -> str:
    """Return such as "process 1234 on vps" for a name of `this_process`, and any other name as it is."""
    match (name or "").rsplit(":", 2):
        case [host, number, _]:
            return f"process {number} on {host}"
    return name or "a process that has just ended"
