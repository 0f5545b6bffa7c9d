"""Running turns: claims, checkpoints, and the end of a turn.

Each turn has a record in Redis, so that an instruction that arrives twice is answered twice and posted once. The first
process to claim an id takes the turn. The record has checkpoints (the event, the model's answer, the posts), from which
the agent's next holder resumes after a crash. At the end only the result is left, which answers each repetition, until
15 minutes after the deadline. An index of open turns tells the next holder which to resume. A turn that only waits is
stored there, too, and is new to the process that claims it. Each process also remembers its own turns, so that they
aren't repeated if Redis is unavailable or was emptied.

The end is written in one step, and only once: the record has a mark of each process that has settled the turn, so a
step whose reply was lost, or that timed out, is simply repeated. Ends that can't be written are kept in order and
written as soon as Redis is back, before the next turn begins.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, cast

from redis.exceptions import ResponseError

from agentic.process.tasks import wait_at_most
from agentic.state.budgets import COST_SECONDS, SPEND, Charge, Fields
from agentic.state.drawn_images import DrawnImages
from agentic.state.limits import TAKING, LimitRequest, Limits, Verdict
from agentic.state.posts import MARK, InstructedPosts
from agentic.state.turn_records import RECORD, Records, TurnRecord
from agentic.state.waiting_turns import (
    KEEP_AFTER_DEADLINE,
    KEEPING,
    LATEST_DEADLINE,
    LastRuns,
    index_bounds,
    waiting_turn,
)
from agentic.wire import keys
from agentic.wire.connection import LAST_WAIT, RedisConnection, StateUnavailable, Store, or_default, when_back

REMEMBERED = 10_000
MAX_KEPT = 1000  # turns of this process that ended while Redis was unavailable

KEEP = f"{KEEPING} keep(0, 0)"

# KEYS: the turn's record, the index of open turns. ARGV: who claims, the time, the record's lifetime in ms, the turn's
# event, its deadline, its id, the index's bound, its lifetime in ms. take_over() returns the turn's checkpoints, or
# false if the turn is new; a turn that only waited is new. The cost of a call in progress passes to the process that
# takes the turn over. open_turn(…) begins a new turn; the arguments are additional fields and values of its record.
CLAIMING = """
local function take_over()
  local kept = redis.call(
    'HMGET', KEYS[1], 'state', 'result', 'holder', 'event', 'closing', 'answer', 'posted', 'under_way', 'waiting')
  local waited = table.remove(kept)
  if waited then redis.call('HDEL', KEYS[1], 'waiting') end
  if waited or not kept[1] then return false end
  if kept[1] ~= 'done' then
    if kept[8] and kept[3] and kept[3] ~= ARGV[1] then redis.call('HSET', KEYS[1], 'passed_on:' .. kept[3], '1') end
    redis.call('HSET', KEYS[1], 'holder', ARGV[1])
    redis.call('HDEL', KEYS[1], 'settled:' .. ARGV[1], 'passed_on:' .. ARGV[1])
  end
  return kept
end
local function open_turn(...)
  redis.call('HSET', KEYS[1], 'state', 'open', 'holder', ARGV[1], 'claimed_at', ARGV[2], 'event', ARGV[4], ...)
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('ZADD', KEYS[2], ARGV[5], ARGV[6])
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[7])
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
end
"""
CLAIM = f"""{CLAIMING}
local kept = take_over()
if not kept then open_turn() end
return kept
"""

# KEYS and ARGV: those of CLAIMING, then those of TAKING, which a new turn needs. Between them is what its first call
# costs if the process dies during it ("" for nothing); it is stored before the call is made.
BEGIN = f"""{CLAIMING}{TAKING}
local kept = take_over()
if kept then
  if kept[1] ~= 'done' then publish_notice(ARGV[15]) end
  return {{kept}}
end
local taken = take(2, 9)
local is_admitted = taken[1] == 'ok' or taken[1] == 'closing'
if is_admitted and ARGV[9] ~= '' then open_turn('under_way', ARGV[9]) else open_turn() end
return {{false, unpack(taken)}}"""

# ARGV: the turn's holder, the checkpoint's name and value. A record that is gone isn't created again. The first process
# to store an answer is noted: it pays for the answer, and for the call that brought it.
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
# KEYS: the records of turns. ARGV: their lifetime in ms, who ends them, then each result. A turn that has begun keeps
# its record.
CLOSE = """
for i, key in ipairs(KEYS) do
  if redis.call('HEXISTS', key, 'waiting') == 1 then redis.call('DEL', key) end
  if redis.call('EXISTS', key) == 0 then
    redis.call('HSET', key, 'state', 'done', 'holder', ARGV[2], 'result', ARGV[i + 2])
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
"""
# KEYS: the turn's record, the day's costs, the day's budgets, the index of open turns, the stream of records, the
# channel's instructed posts. ARGV: the result, who took the turn, the record's lifetime in ms, a channel and a message
# to publish there ("" for none, "=" for the result), the costs' lifetime in seconds, the turn's id, its TurnRecord (""
# for none), the time, its instructed posts, its notice ("" for none), then pairs of cost field and amount, and last the
# charge for the budgets. If another process took the turn over, that process reports its end, and the costs of what it
# resumes: an answer, or a call that was in progress. A process settles a turn once, unless it claims it again.
SETTLE = f"""{RECORD}{MARK}
local settled, passed_on = 'settled:' .. ARGV[2], 'passed_on:' .. ARGV[2]
local holder, answered, was_settled, went_on = unpack(
  redis.call('HMGET', KEYS[1], 'holder', 'answer_by', settled, passed_on))
local ours = not holder or holder == ARGV[2]
if was_settled then return {{}} end
if ARGV[10] ~= '' then mark(KEYS[6], ARGV[10], ARGV[9]) end
if ours then
  redis.call('HSET', KEYS[1], settled, '1', 'state', 'done', 'result', ARGV[1], 'holder', ARGV[2])
  redis.call('HDEL', KEYS[1], 'event', 'closing', 'answer', 'posted', 'under_way')
  redis.call('UNLINK', KEYS[1] .. ':picture')
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('ZREM', KEYS[4], ARGV[7])
  if ARGV[5] ~= '' then redis.call('PUBLISH', ARGV[4], ARGV[5] == '=' and ARGV[1] or ARGV[5]) end
  if ARGV[8] ~= '' then record(KEYS[5], ARGV[8]) end
  if ARGV[11] ~= '' then redis.call('PUBLISH', '{keys.COORDINATOR_TURNS}', ARGV[11]) end
else
  redis.call('HSET', KEYS[1], settled, '1')
  if went_on or answered == ARGV[2] then return {{}} end
end
for i = 12, #ARGV - 1, 2 do redis.call('HINCRBYFLOAT', KEYS[2], ARGV[i], ARGV[i + 1]) end
if #ARGV > 12 then redis.call('EXPIRE', KEYS[2], ARGV[6]) end
{SPEND}"""

log = logging.getLogger(__name__)

Checkpoint = Literal["closing", "under_way", "answer", "posted"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The outcome of claiming a turn.

    `new`: take it. `open`: this process is taking it already. `left`: a process that no longer acts for the agent began
    it; resume it from its checkpoints. `done`: `result` is the stored JSON.

    The checkpoints of a turn that was left: `event`, `answer`, `posted`, `closing`, and `under_way` (the costs with the
    call in progress).
    """

    state: Literal["new", "open", "left", "done"]
    result: str | None = None
    event: str | None = None
    answer: str | None = None
    posted: str | None = None
    closing: str | None = None
    under_way: str | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, at `at` (unix seconds): its result as JSON, its costs on the charge's day, its message on the
    agent's results channel ("" for none), its record, and its notice to observers."""

    agent: str
    turn_id: str
    result: str
    deadline: float
    costs: Fields
    charge: Charge
    say: str
    record: TurnRecord | None
    at: float
    notice: str = ""


class Turns(Store):
    """Begin, save, and end turns. Only the holder of the agent's lease claims. `clock` gives unix seconds, as deadlines
    are. `holder` names this process. Methods that a turn needs don't raise StateUnavailable; those that read the index
    do."""

    def __init__(
        self,
        link: RedisConnection,
        clock: Callable[[], float],
        limits: Limits,
        instructed: InstructedPosts,
        holder: str = "",
    ) -> None:
        super().__init__(link, clock)
        self.holder = holder
        self.records = Records(link, clock)
        self.drawn_images = DrawnImages(link, holder)
        self.last_runs = LastRuns(link, clock)
        self._limits, self._budgets, self._instructed = limits, limits.budgets, instructed
        self._ours: dict[str, tuple[float, Claim]] = {}  # key → (when to forget it, open or done)
        self._unwritten: OrderedDict[tuple[str, str], Ending] = OrderedDict()

    async def begin(
        self, agent: str, turn_id: str, deadline: float, event: str, request: LimitRequest | None = None
    ) -> tuple[Claim, Verdict | None]:
        """Claim a turn, as `claim` does; if it is new, take its request, as `Limits.take` does, in the same step. The
        verdict is None if nothing was requested."""
        if self._link.has_queued:
            await self._link.write_queued()  # this turn may be among them, and earlier costs must be charged first
        if request is None or self.knows(agent, turn_id):
            return await self.claim(agent, turn_id, deadline, event), None
        claim_keys, claim_args = self._claim_args(agent, turn_id, deadline, event)
        limit_keys, limit_args = self._limits.script_args(request)
        try:
            arguments = [*claim_args, request.under_way, *limit_args]
            kept, *outcome = await self._link.script(BEGIN, [*claim_keys, *limit_keys], arguments)
        except StateUnavailable as away:
            log.debug("beginning a turn in memory: %s", away)
            claim = await self._read_claim(agent, turn_id, deadline, None)
            return claim, await self._limits.take_in_outage(request, away)
        claim = await self._read_claim(agent, turn_id, deadline, kept)
        return claim, self._limits.read_verdict(request, outcome) if outcome else None

    async def claim(self, agent: str, turn_id: str, deadline: float, event: str = "") -> Claim:
        """Claim a turn, atomically among all processes. `event`: what another process would need to resume it."""
        try:
            outcome = await self._link.script(CLAIM, *self._claim_args(agent, turn_id, deadline, event))
        except StateUnavailable as away:
            log.debug("claiming a turn in memory: %s", away)
            outcome = None
        return await self._read_claim(agent, turn_id, deadline, outcome)

    @or_default(False, "waiting turns are kept in memory only")
    async def keep(self, agent: str, turn_id: str, event: str, seconds: float) -> bool:
        """Store a waiting turn's event for `seconds`, for the agent's holder to take. Returns False if that failed."""
        await self._link.script(KEEP, *waiting_turn(agent, turn_id, event, seconds, self._clock()))
        return True

    def _claim_args(self, agent: str, turn_id: str, deadline: float, event: str) -> tuple[list[str], list[object]]:
        """Return keys and arguments for a script of CLAIMING."""
        lifetime = round(self.lifetime(deadline) * 1000)
        args = [self.holder, self._clock(), lifetime, event, deadline, turn_id, *index_bounds()]
        return [keys.turn(agent, turn_id), keys.open_turns(agent)], args

    async def _read_claim(self, agent: str, turn_id: str, deadline: float, outcome: Sequence[Any] | None) -> Claim:
        """Return the claim from the script's outcome (None: Redis is unavailable). This process's own knowledge comes
        first."""
        key, lifetime, kept = keys.turn(agent, turn_id), self.lifetime(deadline), Claim("new")
        if outcome is not None:
            state, result, _, event, closing, answer, posted, under_way = outcome
            if state == "done":
                kept = Claim("done", result)
            else:
                kept = Claim("left", None, event, answer, posted, closing, under_way)
        ours = self._recall(key)
        if ours is not None and kept.state != "done":
            if ours.state == "done":
                await self._write(key, cast(str, ours.result), lifetime)
            return ours
        if kept.state in ("new", "left"):
            self._remember(key, lifetime, Claim("open"))
        return kept

    def knows(self, agent: str, turn_id: str) -> bool:
        """Whether this process has claimed the turn."""
        return self._recall(keys.turn(agent, turn_id)) is not None

    @or_default(True, "a turn's checkpoint is not kept")
    async def checkpoint(self, agent: str, turn_id: str, name: Checkpoint, text: str) -> bool:
        """Store a turn's checkpoint. Returns False if another process has taken the turn over."""
        outcome = await self._link.script(CHECKPOINT, [keys.turn(agent, turn_id)], [self.holder, name, text])
        return bool(outcome != "lost")

    def forget(self, agent: str, turn_id: str) -> None:
        """Give up this process's turn: the next process to claim it resumes it."""
        self._ours.pop(keys.turn(agent, turn_id), None)

    async def open_ids(self, agent: str) -> list[str]:
        """Return the agent's turns that have begun and not ended, the earliest deadline first."""
        return [str(turn) for turn in await self._link.redis.zrange(keys.open_turns(agent), 0, -1)]

    async def left(self, agent: str, turn_id: str) -> str | None:
        """Return an open turn's event. If there is no such turn, removes it from the index and returns None."""
        state, event = await self._link.redis.hmget(keys.turn(agent, turn_id), ["state", "event"])
        if state == "open" and event:
            return str(event)
        await self._link.redis.zrem(keys.open_turns(agent), turn_id)
        return None

    async def known(self, agent: str, turn_ids: Sequence[str]) -> set[str]:
        """Return the turns that have a record: begun, waiting, or ended."""
        found = await self._link.batch(lambda pipe: [pipe.exists(keys.turn(agent, turn_id)) for turn_id in turn_ids])
        return {turn_id for turn_id, there in zip(turn_ids, found, strict=True) if there}

    @when_back("the ends of turns that never began")
    async def close(self, agent: str, results: Mapping[str, str]) -> None:
        """End turns that never began, including waiting ones. `results`: turn id → result as JSON."""
        if results:
            args = [round(KEEP_AFTER_DEADLINE * 1000), self.holder, *results.values()]
            await self._link.script(CLOSE, [keys.turn(agent, turn_id) for turn_id in results], args)

    async def drop(self, agent: str, turn_id: str) -> None:
        """Delete an open turn, so that no process resumes it after a crash. A running turn continues."""
        await self._link.batch(
            lambda pipe: (pipe.delete(keys.turn(agent, turn_id)), pipe.zrem(keys.open_turns(agent), turn_id)),
            transaction=True,
        )

    def lifetime(self, deadline: float) -> float:
        """Return the seconds that the record of a turn with this deadline lives from now."""
        left = min(max(deadline - self._clock(), 0.0), LATEST_DEADLINE)
        return left + KEEP_AFTER_DEADLINE

    async def settle(
        self,
        agent: str,
        turn_id: str,
        result_json: str,
        deadline: float,
        *,
        date: str = "",
        spent: Fields | None = None,
        say: str = "",
        record: TurnRecord | None = None,
        notice: str = "",
    ) -> bool:
        """End a turn in one step: store its result for later claims, add its costs, replace its budget reservation by
        them, publish `say` on the agent's results channel and `notice` on `coordinator:turns`, add its record, and mark
        its posts if they were instructed. The costs belong to the reservation's day, or to `date` (YYYY-MM-DD) if this
        process knows no reservation.

        Returns False while Redis is unavailable: the end is kept in memory and written as soon as Redis is back. Raises
        ValueError if costs are not finite.
        """
        costs = {field: amount for field, amount in (spent or {}).items() if amount}
        if not all(math.isfinite(amount) for amount in costs.values()):
            raise ValueError("costs must be finite numbers")
        key, lifetime = keys.turn(agent, turn_id), self.lifetime(deadline)
        self._remember(key, lifetime, Claim("done", result_json))
        now, charge = self._clock(), self._budgets.charge(agent, turn_id, date, costs.get("total_cost", 0.0))
        if record is not None:
            record = record.model_copy(update={"at": now, "day": charge.date})
        ending = Ending(agent, turn_id, result_json, deadline, costs, charge, say, record, now, notice)
        try:
            near = await self._write_end(ending, say)
        except StateUnavailable as away:
            log.debug("keeping the end of a turn in memory: %s", away)
            self._write_later(ending)
            return False
        self._settled(ending, near)
        return True

    @property
    def unwritten(self) -> int:
        """Return the number of ends that are not written yet."""
        return len(self._unwritten)

    async def finish(self, seconds: float = LAST_WAIT) -> None:
        """Write the kept ends before the process ends, waiting at most `seconds` for Redis. Never raises."""
        if not self._unwritten:
            return
        await wait_at_most(self._link.present, seconds)
        await self._link.write_queued()
        if lost := self.unwritten:
            text = "Redis is unavailable: the ends of %d turns are lost with this process, and their costs not recorded"
            log.error(text, lost)

    def anonymize(self, user_id: int) -> None:
        """Write no records of kept turns that this person asked for."""
        for name, ending in self._unwritten.items():
            if ending.record is not None and ending.record.asked_by == user_id:
                self._unwritten[name] = replace(ending, record=None)

    def _write_later(self, ending: Ending) -> None:
        name = (ending.agent, ending.turn_id)
        if name in self._unwritten:
            return
        self._unwritten[name] = ending
        self._limits.allowance.settle(ending.charge)
        self._link.queue("the ends of turns", partial(self._write_kept, name), MAX_KEPT)
        if len(self._unwritten) > MAX_KEPT:
            _, lost = self._unwritten.popitem(last=False)
            text = "%s: Redis has been unavailable for too long; the cost of turn %s (%.4f USD) will not be recorded"
            log.error(text, lost.agent, lost.turn_id, lost.costs.get("total_cost", 0.0))

    async def _write_kept(self, name: tuple[str, str]) -> None:
        ending = self._unwritten.get(name)
        if ending is None:  # given up
            return
        waited_for = self._clock() <= max(ending.deadline, ending.at)
        try:
            near = await self._write_end(ending, ending.say if waited_for else "")
        except ResponseError as error:
            log.error("%s: the end of turn %s is lost: %s", *name, error)
            near = ()
        if self._unwritten.pop(name, None) is not None:
            self._settled(ending, near)

    def _settled(self, ending: Ending, near: Sequence[str]) -> None:
        self._limits.allowance.forget(ending.charge.name)
        self._budgets.settled(ending.charge, near)

    async def _write_end(self, ending: Ending, say: str) -> Sequence[str]:
        """Write the end. Returns the scopes that are near their budgets now. Raises StateUnavailable."""
        agent, record, posts = ending.agent, ending.record, ""
        if record is not None and record.kind == "instruction":
            is_joining = record.trigger == "reactive"
            posts = self._instructed.note(record.channel_id, record.posted, joining=is_joining)
        redis_keys = [
            keys.turn(agent, ending.turn_id),
            keys.cost(agent, ending.charge.date),
            keys.budget(ending.charge.date),  # the day whose budgets the turn is charged to
            keys.open_turns(agent),
            keys.turns(agent),
            keys.instructed(record.channel_id if record else 0),
        ]
        head = [
            ending.result,
            self.holder,
            round(self.lifetime(ending.deadline) * 1000),
            keys.results(agent),
            "=" if say == ending.result else say,
            COST_SECONDS,
            ending.turn_id,
            record.to_json() if record else "",
            ending.at,
            posts,
            ending.notice,
        ]
        pairs = [part for pair in ending.costs.items() for part in pair]
        arguments = [*head, *pairs, self._budgets.charge_text(ending.charge)]
        found: Sequence[str] = await self._link.script(SETTLE, redis_keys, arguments)
        return found

    @or_default(None, "a turn's result is kept in memory only")
    async def _write(self, key: str, result_json: str, lifetime: float) -> None:
        fields: dict[Any, Any] = {"state": "done", "result": result_json, "holder": self.holder}
        await self._link.batch(
            lambda pipe: (pipe.hset(key, mapping=fields), pipe.pexpire(key, round(lifetime * 1000))), transaction=True
        )

    def _recall(self, key: str) -> Claim | None:
        forget_at, claim = self._ours.get(key, (0.0, None))
        return claim if forget_at > self._clock() else None

    def _remember(self, key: str, lifetime: float, claim: Claim) -> None:
        now = self._clock()
        self._ours.pop(key, None)
        self._ours[key] = (now + lifetime, claim)
        # removing two per addition keeps it small without ever sweeping it
        for oldest in list(islice(self._ours, 2)):
            if self._ours[oldest][0] <= now or len(self._ours) > REMEMBERED:
                del self._ours[oldest]
