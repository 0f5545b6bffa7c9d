"""The end of a turn, written to Redis in one step: once, however often it is tried.

The turn's record carries the mark of each process that has settled it, so a step whose reply was lost, or that timed
out, is simply done again. What cannot be written is kept, in order, and written as soon as Redis is back, before the
next turn begins: its result, its costs, its record and its marks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from redis.exceptions import ResponseError

from agentic.state.budget_rules import Bill
from agentic.state.budgets import SPEND, Budgets
from agentic.state.costs import KEEP_SECONDS, Fields
from agentic.state.posts import MARK, InstructedPosts
from agentic.state.records import RECORD, TurnRecord
from agentic.state.turns import Turns
from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

MOST_KEPT = 1000  # turns of this process that ended while Redis was away

# KEYS: the turn's state, the day's costs, the budgets' two, the index of open turns, the records, the turn's picture,
# the channel's posts by instruction, the records' count. ARGV: the result, who did the turn, the state's lifetime in
# ms, a channel and what to say there ("" for nothing), the costs' lifetime in s, the turn's id, its record ("" for
# none), the time, its posts by instruction, then the costs as pairs of field and amount, and last the bill for the
# budgets. Where another process took the turn over, its end is that process's to report, and so are the costs of what
# it resumes: an answer, or a call that was in progress. A process that has settled the turn does so once; a claim of
# its own makes it new to it.
SETTLE = f"""{RECORD}{MARK}
local holder, answered = unpack(redis.call('HMGET', KEYS[1], 'holder', 'answer_by'))
local ours = not holder or holder == ARGV[2]
if redis.call('HSETNX', KEYS[1], 'settled:' .. ARGV[2], '1') == 0 then return {{}} end
if ARGV[10] ~= '' then mark(KEYS[8], ARGV[10], ARGV[9]) end
if ours then
  redis.call('HSET', KEYS[1], 'state', 'done', 'result', ARGV[1], 'holder', ARGV[2])
  redis.call('HDEL', KEYS[1], 'event', 'closing', 'answer', 'posted', 'under_way')
  redis.call('UNLINK', KEYS[7])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('ZREM', KEYS[5], ARGV[7])
end
if ours and ARGV[5] ~= '' then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
if ours and ARGV[8] ~= '' then record(KEYS[6], KEYS[9], ARGV[8]) end
local went_on = answered == ARGV[2] or redis.call('HEXISTS', KEYS[1], 'passed_on:' .. ARGV[2]) == 1
if not ours and went_on then return {{}} end
for i = 11, #ARGV - 1, 2 do redis.call('HINCRBYFLOAT', KEYS[2], ARGV[i], ARGV[i + 1]) end
if #ARGV > 11 then redis.call('EXPIRE', KEYS[2], ARGV[6]) end
{SPEND}"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a turn ended, at `at` (unix seconds): its result as JSON, what it cost on `date` (YYYY-MM-DD), its message
    on the agent's results channel ("" for none), its record."""

    agent: str
    turn_id: str
    result: str
    deadline: float
    date: str
    costs: Fields
    bill: Bill
    say: str
    record: TurnRecord | None
    at: float


class Settlements:
    """Write the ends of this process's turns. `clock` gives unix seconds."""

    def __init__(
        self, link: RedisLink, clock: Callable[[], float], turns: Turns, budgets: Budgets, instructed: InstructedPosts
    ) -> None:
        self._link, self._clock = link, clock
        self._turns, self._budgets, self._instructed = turns, budgets, instructed
        self._kept: OrderedDict[tuple[str, str], Ending] = OrderedDict()
        self._writing = asyncio.Lock()

    @property
    def owes(self) -> bool:
        """Whether any end is not written yet."""
        return bool(self._kept)

    @property
    def kept(self) -> int:
        """The number of ends that are not written yet."""
        return len(self._kept)

    async def settle(self, ending: Ending) -> bool:
        """Write the end of a turn; False while Redis is away: it is kept then."""
        try:
            near = await self._write(ending, ending.say)
        except RedisAway as away:
            log.debug("the end of a turn is kept in memory: %s", away)
            self._keep(ending)
            return False
        self._budgets.settled(ending.bill, near)
        return True

    async def pay(self) -> bool:
        """Write what is kept, in its order; False while Redis is away."""
        async with self._writing:
            while self._kept:
                name, ending = next(iter(self._kept.items()))
                try:
                    waited_for = self._clock() <= max(ending.deadline, ending.at)
                    near = await self._write(ending, ending.say if waited_for else "")
                except RedisAway:
                    return False
                except ResponseError as error:  # no other turn shall wait for one that cannot be written
                    log.error(
                        "%s: the end of turn %s cannot be written and is lost: %s", ending.agent, ending.turn_id, error
                    )
                    near = ()
                if self._kept.pop(name, None) is not None:
                    self._budgets.memory.written(ending.bill)
                    self._budgets.settled(ending.bill, near)
        return True

    def disown(self, user_id: int) -> None:
        """No record is written of turns that this person asked for."""
        for name, ending in self._kept.items():
            if ending.record is not None and ending.record.asked_by == user_id:
                self._kept[name] = replace(ending, record=None)

    def _keep(self, ending: Ending) -> None:
        name = (ending.agent, ending.turn_id)
        if name in self._kept:
            return
        self._kept[name] = ending
        self._budgets.memory.spend(ending.bill)
        if len(self._kept) > MOST_KEPT:
            _, lost = self._kept.popitem(last=False)
            log.error(
                "%s: Redis is away for too long, turn %s (%.4f USD) will not be booked",
                lost.agent,
                lost.turn_id,
                lost.costs.get("total_cost", 0.0),
            )

    async def _write(self, ending: Ending, say: str) -> Sequence[str]:
        """The scopes that are near their budgets now. Raises RedisAway."""
        record = ending.record
        head: list[str | int | float] = [
            ending.result,
            self._turns.holder,
            round(self._turns.lifetime(ending.deadline) * 1000),
            keys.results(ending.agent),
            say,
            KEEP_SECONDS,
            ending.turn_id,
            record.to_json() if record else "",
            ending.at,
            self._posts(record) if record else "",
        ]
        pairs = [part for pair in ending.costs.items() for part in pair]
        arguments = [*head, *pairs, self._budgets.bill_text(ending.bill)]
        found: Sequence[str] = await self._link.script(SETTLE, _places(ending), arguments)
        return found

    def _posts(self, record: TurnRecord) -> str:
        """The posts of a turn by instruction, as MARK reads them."""
        if record.kind != "instruction":
            return ""
        return self._instructed.note(record.channel_id, record.posted, joining=record.trigger == "reactive")


def _places(ending: Ending) -> list[str]:
    """The keys of SETTLE; the bill's day is the one whose budgets count the turn."""
    agent, billed = ending.agent, ending.bill.date
    own = [keys.turn(agent, ending.turn_id), keys.cost(agent, ending.date)]
    shared = [keys.budget(billed), keys.budget_holds(billed)]
    kept = [keys.open_turns(agent), keys.turns(agent), keys.turn_picture(agent, ending.turn_id)]
    instructed = keys.instructed(ending.record.channel_id if ending.record else 0)
    return [*own, *shared, *kept, instructed, keys.entries_counted(keys.turns(agent))]
