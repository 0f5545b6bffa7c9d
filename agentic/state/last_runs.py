"""Last runs of an agent's heartbeats and cron jobs, so that each run happens once over all processes and restarts.

A hash an agent, `field → time of the last run` (unix seconds). A process takes a run by swapping the time that it knows
for the new one in one step; a process that knows an outdated time fails and learns the stored one. So neither clocks
nor polling intervals matter. The same step stores the run's turn until it begins, so that no run is taken and lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from agentic.state.turns import KEEPING, LATEST_DEADLINE, Turns
from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

KEEP_SECONDS = 400 * 86400  # longer than a year: a yearly job remembers its last run
MOST_FIELDS = 300  # of an agent; beyond that unknown ones are pruned

# Sets the field's new time if the stored one is one that the caller knows, and stores the run's turn if it has one.
# Returns 1 and the new time, or 0 and the stored one.
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
    """`load` raises RedisAway; `run` continues in memory while Redis is away, as the last holder of a lease does."""

    def __init__(self, link: RedisLink, turns: Turns | None = None) -> None:
        self._link, self._turns = link, turns or Turns(link, time.time)
        self._stands: dict[tuple[str, str], str] = {}  # in Redis, as far as this process knows
        self._ours: dict[tuple[str, str], str] = {}  # set by this process, maybe missing in Redis

    async def load(self, agent: str) -> dict[str, float]:
        """The stored times by field. Raises RedisAway."""
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
        """Take the run `at` that time; its turn, which begins with `event`, is stored until it begins, at most for
        `keep_seconds`. False: another process has taken this or a later run."""
        place, new = (agent, field), repr(float(at))
        known, own = self._stands.get(place, ""), self._ours.get(place, "")
        kept = self._turns.keeping(agent, turn_id, event, keep_seconds) if event else ([], [])
        asked, args = [keys.ticks(agent), *kept[0]], [field, known, own, new, KEEP_SECONDS, *kept[1]]
        try:
            done, stands = await self._link.script(SWAP, asked, args)
        except RedisAway as away:
            log.debug("a run is taken in memory: %s", away)
            self._ours[place] = new
            return True
        self._stands[place] = str(stands)
        self._ours.pop(place, None)
        return bool(int(done))

    async def prune(self, agent: str, known: Collection[str]) -> None:
        """Delete fields that are not among `known`, once there are too many. Raises RedisAway."""
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
        log.warning("the time of a last run cannot be read and is ignored: %.40r", text)
        return None
    return time if time == time and abs(time) != float("inf") else None
