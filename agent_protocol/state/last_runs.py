"""When an agent's checks and jobs ran last: over all processes on one Redis a tick runs once, and restarts neither
repeat nor lose one.

One hash per agent, `field → time of the last run`. Who runs a tick swaps the time that it knows for the new one in one
step; who knows another one than stands there is late, and learns it. So it does not matter whose clock is right, nor
how often a process looks. The same step keeps the tick's turn until it begins: none is booked and lost. Values are
times in unix seconds; what they mean is the caller's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.turns.turns import KEEPING, LATEST_DEADLINE, Turns
from agent_protocol.wire import keys

KEEP_SECONDS = 400 * 86400  # longer than a year: a yearly job remembers its last run
MOST_FIELDS = 300  # of an agent; those that nobody knows any more go first

# Sets the field's new time where nobody knows another one than the caller, and keeps the tick's turn where it has one.
# Returns 1, or 0 and the time that stands there.
SWAP = f"""{KEEPING}
local stands = redis.call('HGET', KEYS[1], ARGV[1])
if stands and stands ~= ARGV[2] and stands ~= ARGV[3] then return {{0, stands}} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
if #KEYS > 1 then keep(1, 5) end
return {{1, ARGV[4]}}
"""

log = logging.getLogger(__name__)


class LastRuns:
    """Of all agents. `load` raises RedisAway; `run` goes on in memory while Redis is away, as the last holder does."""

    def __init__(self, link: RedisLink, turns: Turns | None = None) -> None:
        self._link, self._turns = link, turns or Turns(link, time.time)
        self._stands: dict[tuple[str, str], str] = {}  # as it stands in Redis, as far as we know
        self._ours: dict[tuple[str, str], str] = {}  # what we set last, which Redis may not have heard of

    async def load(self, agent: str) -> dict[str, float]:
        """The last times by field, as all processes know them. Raises RedisAway."""
        kept = await self._link.call(lambda redis: redis.hgetall(keys.ticks(agent)))
        found = {str(field): str(text) for field, text in kept.items()}
        for memory in (self._stands, self._ours):
            for place in [place for place in memory if place[0] == agent]:
                del memory[place]
        times = {field: time for field, text in found.items() if (time := _time(text)) is not None}
        self._stands.update({(agent, field): found[field] for field in times})
        return times

    def last(self, agent: str, field: str) -> float | None:
        """The last time, as this process knows it."""
        text = self._ours.get((agent, field)) or self._stands.get((agent, field))
        return _time(text) if text else None

    async def run(
        self,
        agent: str,
        field: str,
        at: float,
        turn_id: str = "",
        event: str = "",
        keep_seconds: float = LATEST_DEADLINE,
    ) -> bool:
        """Takes the tick, its time becomes the last one; its turn, which begins with `event`, is kept for so long until
        it begins. False: another process has taken it or one since."""
        place, new = (agent, field), repr(float(at))
        known, own = self._stands.get(place, ""), self._ours.get(place, "")
        kept = self._turns.keeping(agent, turn_id, event, keep_seconds) if event else ([], [])
        asked, args = [keys.ticks(agent), *kept[0]], [field, known, own, new, KEEP_SECONDS, *kept[1]]
        try:
            done, stands = await self._link.script(SWAP, asked, args)
        except RedisAway as away:
            log.debug("a tick is taken in memory: %s", away)
            self._ours[place] = new
            return True
        self._stands[place] = str(stands)
        self._ours.pop(place, None)
        return bool(int(done))

    async def prune(self, agent: str, known: Collection[str]) -> None:
        """Forgets fields that are not among `known`, once there are too many. Raises RedisAway."""
        if len(fields := [field for name, field in self._stands if name == agent]) <= MOST_FIELDS:
            return
        gone = [field for field in fields if field not in known]
        if gone:
            await self._link.call(lambda redis: redis.hdel(keys.ticks(agent), *gone))
        for field in gone:
            self._stands.pop((agent, field), None)


def _time(text: str) -> float | None:
    try:
        time = float(text)
    except ValueError:
        log.warning("the time of a tick cannot be read: %.40r", text)
        return None
    return time if time == time and abs(time) != float("inf") else None
