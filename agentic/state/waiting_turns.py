"""Turns that wait to begin, and the last runs of heartbeats and cron jobs, whose turns wait.

A waiting turn is stored in its record and in the index of the agent's open turns (agentic/state/turns.py), so that any
process may begin it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from agentic.text import finite_number
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, Store, or_default

KEEP_AFTER_DEADLINE = 15 * 60.0
LATEST_DEADLINE = 86400.0  # from now; a deadline comes from the wire and may be nonsense
MAX_OPEN = 1000  # per agent; those with the earliest deadlines are dropped first
RUN_SECONDS = 400 * 86400  # longer than a year: a yearly job remembers its last run
MAX_FIELDS = 300  # per agent; beyond that, unknown fields are pruned

# keep(k, a): KEYS after the first k: the turn's record, the index of open turns. ARGV after the first a: the event that
# the turn begins with, ms to keep it, when that ends, its id, the index's bound, its lifetime in ms. A turn that has
# begun, or is stored already, doesn't change.
KEEPING = """
local function keep(k, a)
  if redis.call('EXISTS', KEYS[k + 1]) == 1 then return end
  redis.call('HSET', KEYS[k + 1], 'state', 'open', 'waiting', '1', 'event', ARGV[a + 1])
  redis.call('PEXPIRE', KEYS[k + 1], ARGV[a + 2])
  redis.call('ZADD', KEYS[k + 2], ARGV[a + 3], ARGV[a + 4])
  redis.call('ZREMRANGEBYRANK', KEYS[k + 2], 0, -1 - ARGV[a + 5])
  redis.call('PEXPIRE', KEYS[k + 2], ARGV[a + 6])
end
"""

# Sets the field's new time if the caller knows the stored time, and stores the run's turn, if any. Returns 1 and the
# new time, or 0 and the stored time.
SWAP = f"""{KEEPING}
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored and stored ~= ARGV[2] and stored ~= ARGV[3] then return {{0, stored}} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
if #KEYS > 1 then keep(1, 5) end
return {{1, ARGV[4]}}
"""

log = logging.getLogger(__name__)


def index_bounds() -> tuple[int, int]:
    """Return the bounds of the index of open turns: number of turns, and lifetime in milliseconds."""
    return MAX_OPEN, round((LATEST_DEADLINE + KEEP_AFTER_DEADLINE) * 1000)


def waiting_turn(agent: str, turn_id: str, event: str, seconds: float, now: float) -> tuple[list[str], list[object]]:
    """Return keys and arguments for a script of KEEPING."""
    args = [event, round(seconds * 1000), now + seconds, turn_id, *index_bounds()]
    return [keys.turn(agent, turn_id), keys.open_turns(agent)], args


class LastRuns(Store):
    """Last runs of an agent's heartbeats and cron jobs, so that each run happens once among all processes and restarts.

    A hash per agent, `field → time of the last run` (unix seconds). A process takes a run by replacing the time that it
    knows in one step. If it knows an outdated time, it fails and learns the stored one. So neither clocks nor polling
    intervals matter. The same step stores the run's turn until it begins, so that no run is lost. While Redis is
    unavailable, `run` continues in memory, as the last holder of a lease does.
    """

    def __init__(self, link: RedisConnection, clock: Callable[[], float] = time.time) -> None:
        super().__init__(link, clock)
        self._stored: dict[tuple[str, str], str] = {}  # in Redis, by this process's knowledge
        self._ours: dict[tuple[str, str], str] = {}  # set by this process, perhaps missing in Redis

    @or_default(None, "the times of last runs are not known")
    async def load(self, agent: str) -> dict[str, float]:
        """Return field → stored time; None if Redis is unavailable."""
        kept = await self._link.redis.hgetall(keys.ticks(agent))
        found = {str(field): str(text) for field, text in kept.items()}
        for memory in (self._stored, self._ours):
            for place in [place for place in memory if place[0] == agent]:
                del memory[place]
        times = {field: time for field, text in found.items() if (time := finite_number(text)) is not None}
        if len(times) < len(found):
            log.warning("ignoring the times of some last runs of %s: can't read them", agent)
        self._stored.update({(agent, field): found[field] for field in times})
        return times

    def last(self, agent: str, field: str) -> float | None:
        """Return the last time, by this process's knowledge."""
        text = self._ours.get((agent, field)) or self._stored.get((agent, field))
        return finite_number(text) if text else None

    async def run(
        self,
        agent: str,
        field: str,
        at: float,
        turn_id: str = "",
        event: str = "",
        keep_seconds: float = LATEST_DEADLINE,
    ) -> bool:
        """Take the run at `at`. Its turn, with `event`, is stored until it begins, for at most `keep_seconds`. Returns
        False if another process has taken this or a later run."""
        place, new = (agent, field), repr(float(at))
        known, own = self._stored.get(place, ""), self._ours.get(place, "")
        kept = waiting_turn(agent, turn_id, event, keep_seconds, self._clock()) if event else ([], [])
        asked, args = [keys.ticks(agent), *kept[0]], [field, known, own, new, RUN_SECONDS, *kept[1]]
        try:
            done, stored = await self._link.script(SWAP, asked, args)
        except StateUnavailable as away:
            log.debug("taking a run in memory: %s", away)
            self._ours[place] = new
            return True
        self._stored[place] = str(stored)
        self._ours.pop(place, None)
        return bool(int(done))

    @or_default(None, "old times of last runs stay")
    async def prune(self, agent: str, known: Collection[str]) -> None:
        """Delete fields that aren't among `known`, if there are too many."""
        if len(fields := [field for name, field in self._stored if name == agent]) <= MAX_FIELDS:
            return
        gone = [field for field in fields if field not in known]
        if gone:
            await self._link.redis.hdel(keys.ticks(agent), *gone)
        for field in gone:
            self._stored.pop((agent, field), None)
