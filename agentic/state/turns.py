"""A record per turn, so that an instruction that comes twice is answered twice and posted once.

The first process to claim an id does the turn. Meanwhile the record keeps checkpoints (the event, the model's answer,
the posts), so that after a crash the agent's next holder resumes from there; at the end only the result is left, which
answers every repetition. The record lives until 15 minutes after the deadline. An index of open turns tells the next
holder which to resume; a turn that only waits can be stored there too, and is new to the process that claims it. Each
process also remembers its own turns: when Redis is away or came back empty, they must not be done again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

KEEP_AFTER_DEADLINE = 15 * 60.0
LATEST_DEADLINE = 86400.0  # from now; a deadline comes over the wire and may be nonsense
REMEMBERED = 10_000
MOST_OPEN = 1000  # of an agent in its index; those with the earliest deadlines go first

# keep(k, a): KEYS after the first k: the turn's record, the index of open turns. ARGV after the first a: what the turn
# begins with, how long it is kept in ms, when that ends, its id, the index's bound, its lifetime in ms. A turn that was
# begun, or is kept already, stays as it is.
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
KEEP = f"{KEEPING} keep(0, 0)"

# claim(): KEYS: the turn's record, the index of open turns. ARGV: who claims, the time, the record's lifetime in ms,
# what the turn begins with, its deadline, its id, the index's bound, its lifetime in ms. Returns what was kept of it,
# false for nothing: one that only waited is new. With a call that is under way its cost goes to who takes the turn
# over.
CLAIMING = """
local function claim()
  if redis.call('HDEL', KEYS[1], 'waiting') == 0 and redis.call('EXISTS', KEYS[1]) == 1 then
    local kept = redis.call(
      'HMGET', KEYS[1], 'state', 'result', 'holder', 'event', 'closing', 'answer', 'posted', 'under_way')
    if kept[1] ~= 'done' then
      if kept[8] and kept[3] and kept[3] ~= ARGV[1] then redis.call('HSET', KEYS[1], 'passed_on:' .. kept[3], '1') end
      redis.call('HSET', KEYS[1], 'holder', ARGV[1])
      redis.call('HDEL', KEYS[1], 'settled:' .. ARGV[1], 'passed_on:' .. ARGV[1])
    end
    return kept
  end
  redis.call('HSET', KEYS[1], 'state', 'open', 'holder', ARGV[1], 'claimed_at', ARGV[2], 'event', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('ZADD', KEYS[2], ARGV[5], ARGV[6])
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[7])
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
  return false
end
"""
CLAIM = f"{CLAIMING} return claim()"

# ARGV: whose turn it is, the checkpoint's name, what it keeps. A record that is gone is not created again.
# The first process to keep an answer stays noted: it pays for the answer, and for the call that brought it.
CHECKPOINT = """
local kept = redis.call('HMGET', KEYS[1], 'state', 'holder')
if not kept[1] then return 'gone' end
if kept[1] == 'done' or kept[2] ~= ARGV[1] then return 'lost' end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
if ARGV[2] == 'answer' then
  redis.call('HSETNX', KEYS[1], 'answer_by', ARGV[1])
  redis.call('HDEL', KEYS[1], 'under_way')
end
return 'kept'
"""

# KEYS: the records of turns. ARGV: their lifetime in ms, who ends them, then the result of each. A turn that
# has begun keeps its record.
CLOSE = """
for i, key in ipairs(KEYS) do
  if redis.call('HEXISTS', key, 'waiting') == 1 then redis.call('DEL', key) end
  if redis.call('EXISTS', key) == 0 then
    redis.call('HSET', key, 'state', 'done', 'holder', ARGV[2], 'result', ARGV[i + 2])
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
"""

Checkpoint = Literal["closing", "under_way", "answer", "posted"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """The outcome of claiming a turn.

    `new`: this process is to do it. `open`: this process is at work on it. `left`: `holder`, which no longer holds the
    agent, began it; this process is to resume it from its checkpoints. `done`: `result` is the JSON that was kept.

    `event`, `answer`, `posted`, `closing` and `under_way` (the costs with the call in progress) are the checkpoints of
    a turn that was left, as they were handed in.
    """

    state: Literal["new", "open", "left", "done"]
    result: str | None = None
    holder: str = ""
    event: str | None = None
    answer: str | None = None
    posted: str | None = None
    closing: str | None = None
    under_way: str | None = None


def _bounds() -> tuple[int, int]:
    """The bounds of the index: a number of turns, and its lifetime in milliseconds."""
    return MOST_OPEN, round((LATEST_DEADLINE + KEEP_AFTER_DEADLINE) * 1000)


class Turns:
    """`clock` gives unix seconds, as deadlines are. `Ledger.settle` ends a turn.

    Only the holder of the agent's lease claims. Methods of the index raise RedisAway, those that a turn needs do not.
    """

    def __init__(self, link: RedisLink, clock: Callable[[], float], holder: str = "") -> None:
        self._link = link
        self._clock = clock
        self.holder = holder
        self._ours: dict[str, tuple[float, Claim]] = {}  # key → (forget at, open or done)

    async def claim(self, agent: str, turn_id: str, deadline: float, event: str = "") -> Claim:
        """Claim a turn, atomically among all processes; `event` is what another process would need to go on."""
        places, args = self.script_args(agent, turn_id, deadline, event)
        try:
            outcome = await self._link.script(CLAIM, places, args)
        except RedisAway as away:
            log.debug("turn claimed in memory: %s", away)
            outcome = None
        return await self.read_claim(agent, turn_id, deadline, outcome)

    async def keep(self, agent: str, turn_id: str, event: str, seconds: float) -> None:
        """Store the event of a waiting turn for so many seconds, for the agent's holder to take. Raises RedisAway."""
        await self._link.script(KEEP, *self.keeping(agent, turn_id, event, seconds))

    def keeping(self, agent: str, turn_id: str, event: str, seconds: float) -> tuple[list[str], list[str | float]]:
        """Keys and arguments for a script of KEEPING."""
        args: list[str | float] = [event, round(seconds * 1000), self._clock() + seconds, turn_id, *_bounds()]
        return [keys.turn(agent, turn_id), keys.open_turns(agent)], args

    def script_args(self, agent: str, turn_id: str, deadline: float, event: str) -> tuple[list[str], list[str | float]]:
        """Keys and arguments for a script of CLAIMING."""
        lifetime = round(self.lifetime(deadline) * 1000)
        args: list[str | float] = [self.holder, self._clock(), lifetime, event, deadline, turn_id, *_bounds()]
        return [keys.turn(agent, turn_id), keys.open_turns(agent)], args

    async def read_claim(self, agent: str, turn_id: str, deadline: float, outcome: Sequence[Any] | None) -> Claim:
        """The claim from the script's outcome, None where Redis is away. This process's own knowledge comes first."""
        key, lifetime, kept = keys.turn(agent, turn_id), self.lifetime(deadline), self._read(outcome)
        ours = self._recall(key)
        if ours is not None and kept.state != "done":
            if ours.state == "done":
                await self._write(key, cast(str, ours.result), lifetime)
            return ours
        if kept.state in ("new", "left"):
            self._remember(key, lifetime, Claim("open", holder=self.holder))
        return kept

    def knows(self, agent: str, turn_id: str) -> bool:
        """Whether this process claimed the turn, or did it."""
        return self._recall(keys.turn(agent, turn_id)) is not None

    async def checkpoint(self, agent: str, turn_id: str, name: Checkpoint, text: str) -> bool:
        """Store a checkpoint of a turn. False where another process has taken the turn over."""
        try:
            outcome = await self._link.script(CHECKPOINT, [keys.turn(agent, turn_id)], [self.holder, name, text])
        except RedisAway as away:
            log.debug("a turn's %s is not kept: %s", name, away)
            return True
        return bool(outcome != "lost")

    def forget(self, agent: str, turn_id: str) -> None:
        """This process gave its turn up: the next process to claim it resumes it."""
        self._ours.pop(keys.turn(agent, turn_id), None)

    async def open_ids(self, agent: str) -> list[str]:
        """The agent's turns that were begun and not ended, the earliest deadline first. Raises RedisAway."""
        return [str(turn) for turn in await self._link.call(lambda redis: redis.zrange(keys.open_turns(agent), 0, -1))]

    async def left(self, agent: str, turn_id: str) -> str | None:
        """The event of an open turn; None, and out of the index, where there is no such turn. Raises RedisAway."""
        state, event = await self._link.call(lambda redis: redis.hmget(keys.turn(agent, turn_id), ["state", "event"]))
        if state == "open" and event:
            return str(event)
        await self._link.call(lambda redis: redis.zrem(keys.open_turns(agent), turn_id))
        return None

    async def known(self, agent: str, turn_ids: Sequence[str]) -> set[str]:
        """Return those of the turns that have a record: begun, waiting, or ended. Raises RedisAway."""

        async def look(redis: Redis) -> list[int]:
            pipe = redis.pipeline(transaction=False)
            for turn_id in turn_ids:
                pipe.exists(keys.turn(agent, turn_id))
            return list(await pipe.execute())

        found = await self._link.call(look) if turn_ids else []
        return {turn_id for turn_id, there in zip(turn_ids, found, strict=True) if there}

    async def close(self, agent: str, results: Mapping[str, str]) -> None:
        """End turns that never began, also those that are kept as waiting; `results` maps their ids to results as JSON.
        Raises RedisAway."""
        if results:
            args: list[str | int] = [round(KEEP_AFTER_DEADLINE * 1000), self.holder, *results.values()]
            await self._link.script(CLOSE, [keys.turn(agent, turn_id) for turn_id in results], args)

    async def drop(self, agent: str, turn_id: str) -> None:
        """Delete an open turn, so that no process resumes it after a crash. Where it runs, it continues. Raises
        RedisAway."""

        async def drop(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=True)
            pipe.delete(keys.turn(agent, turn_id))
            pipe.zrem(keys.open_turns(agent), turn_id)
            await pipe.execute()

        await self._link.call(drop)

    def remember(self, agent: str, turn_id: str, result_json: str, deadline: float) -> None:
        """This process did the turn; `Ledger.settle` writes it to Redis."""
        self._remember(keys.turn(agent, turn_id), self.lifetime(deadline), Claim("done", result_json, self.holder))

    def lifetime(self, deadline: float) -> float:
        """Seconds that the record of a turn with this deadline lives from now."""
        left = min(max(deadline - self._clock(), 0.0), LATEST_DEADLINE)
        return left + KEEP_AFTER_DEADLINE

    def _read(self, kept: Sequence[Any] | None) -> Claim:
        if kept is None:
            return Claim("new", holder=self.holder)
        state, result, holder, event, closing, answer, posted, under_way = kept
        if state == "done":
            return Claim("done", result, holder or "")
        found = {"event": event, "closing": closing, "answer": answer, "posted": posted, "under_way": under_way}
        return Claim("left", holder=holder or "", **found)

    async def _write(self, key: str, result_json: str, lifetime: float) -> None:
        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=True)
            fields: dict[Any, Any] = {"state": "done", "result": result_json, "holder": self.holder}
            pipe.hset(key, mapping=fields)
            pipe.pexpire(key, round(lifetime * 1000))
            await pipe.execute()

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("a turn's result is kept in memory only: %s", away)

    def _recall(self, key: str) -> Claim | None:
        forget_at, claim = self._ours.get(key, (0.0, None))
        return claim if forget_at > self._clock() else None

    def _remember(self, key: str, lifetime: float, claim: Claim) -> None:
        now = self._clock()
        self._ours.pop(key, None)
        self._ours[key] = (now + lifetime, claim)
        for oldest in list(self._ours)[:2]:  # two out for one in keeps it small without ever sweeping it
            if self._ours[oldest][0] <= now or len(self._ours) > REMEMBERED:
                del self._ours[oldest]
