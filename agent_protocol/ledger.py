"""Everything that is kept in Redis besides messages and leases, as methods with meaning.

Each part stands in a module of its own; every key has an end. What a turn must not wait or fail for (turns, limits,
costs) goes on in this process's memory while Redis is away; the rest raises RedisAway.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from agent_protocol import keys
from agent_protocol.agenda import Agenda, Slot
from agent_protocol.budgets import SPEND, Budgets
from agent_protocol.commands_bot import CommandsBot
from agent_protocol.connection import RedisAway, RedisLink
from agent_protocol.conversations import Conversations
from agent_protocol.costs import KEEP_SECONDS, Costs, Fields
from agent_protocol.instructed import MARK, Instructed
from agent_protocol.limits import TAKING, Ask, Limits, Verdict
from agent_protocol.memory_writes import MemoryWrites
from agent_protocol.money import Bill, Caps
from agent_protocol.mutes import Mutes
from agent_protocol.pictures import Pictures
from agent_protocol.presence import Presence
from agent_protocol.records import RECORD, Records, TurnRecord
from agent_protocol.replays import Replays
from agent_protocol.rests import Rests
from agent_protocol.sessions import Sessions
from agent_protocol.ticks import Ticks
from agent_protocol.turns import CLAIMING, Claim, Turns
from agent_protocol.windows import Windows

# KEYS: the turn's state, the day's costs, the budgets' two, the index of open turns, the records, the turn's picture,
# the channel's posts by instruction. ARGV: the result, who did the turn, the state's lifetime in ms, a channel and what
# to say there ("" for nothing), the costs' lifetime in s, the turn's id, its record ("" for none), the time, its posts
# by instruction, then the costs as pairs of field and amount, and last the bill for the budgets. Where another process
# took the turn over, its end is that process's to tell, and so are the costs of an answer that it goes on with. A turn
# that ends again is not recorded again.
SETTLE = f"""{RECORD}{MARK}
if ARGV[10] ~= '' then mark(KEYS[8], ARGV[10], ARGV[9]) end
local holder, answered, state = unpack(redis.call('HMGET', KEYS[1], 'holder', 'answer_by', 'state'))
local ours = not holder or holder == ARGV[2]
if ours then
  redis.call('HSET', KEYS[1], 'state', 'done', 'result', ARGV[1], 'holder', ARGV[2])
  redis.call('HDEL', KEYS[1], 'event', 'closing', 'answer', 'posted')
  redis.call('UNLINK', KEYS[7])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('ZREM', KEYS[5], ARGV[7])
end
if ours and ARGV[5] ~= '' then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
if ours and state ~= 'done' and ARGV[8] ~= '' then record(KEYS[6], ARGV[8]) end
if not ours and answered == ARGV[2] then return {{}} end
for i = 11, #ARGV - 1, 2 do redis.call('HINCRBYFLOAT', KEYS[2], ARGV[i], ARGV[i + 1]) end
if #ARGV > 11 then redis.call('EXPIRE', KEYS[2], ARGV[6]) end
{SPEND}"""

# KEYS and ARGV: those of CLAIMING, then those of TAKING, which takes what only a new turn asks for.
BEGIN = f"""{CLAIMING}{TAKING}
local kept = claim()
if kept then return {{kept}} end
return {{false, unpack(take(2, 8))}}"""

log = logging.getLogger(__name__)

__all__ = ["Agenda", "Claim", "Costs", "Ledger", "Limits", "Presence", "Slot", "Turns", "Verdict"]


class Ledger:
    """`clock` gives unix seconds; `holder` is this process's name in the turns that it claims."""

    def __init__(
        self, link: RedisLink, clock: Callable[[], float] = time.time, *, holder: str = "", caps: Caps | None = None
    ) -> None:
        self._link, self._clock = link, clock
        self.turns = Turns(link, clock, holder)
        self.pictures = Pictures(link, holder)
        self.budgets = Budgets(link, clock, caps or Caps())
        self.mutes = Mutes(link, clock)
        self.limits = Limits(link, clock, self.budgets, self.mutes)
        self.commands_bot = CommandsBot(link)
        self.costs = Costs(link)
        self.presence = Presence(link, clock)
        self.agenda = Agenda(link)
        self.conversations = Conversations(link)
        self.records = Records(link, clock)
        self.rests = Rests(link, clock)
        self.windows = Windows(link)
        self.sessions = Sessions(link)
        self.instructed = Instructed(link)
        self.ticks = Ticks(link)
        self.replays = Replays(link, clock)
        self.memory_writes = MemoryWrites(link)

    async def begin(
        self, agent: str, turn_id: str, deadline: float, event: str, ask: Ask | None = None
    ) -> tuple[Claim, Verdict | None]:
        """Claim a turn, as `Turns.claim`, and if it is new take what it asks for, as `Limits.take`, in one step.

        The verdict is None where nothing was asked.
        """
        if ask is None or self.turns.knows(agent, turn_id):
            return await self.turns.claim(agent, turn_id, deadline, event), None
        claim_keys, claim_args = self.turns.question(agent, turn_id, deadline, event)
        question = self.limits.question(ask)
        try:
            kept, *told = await self._link.script(BEGIN, [*claim_keys, *question.keys], [*claim_args, *question.args])
        except RedisAway as away:
            log.debug("a turn begins in memory: %s", away)
            claim = await self.turns.told(agent, turn_id, deadline, None)
            return claim, self.limits.taken_away(question, away)
        claim = await self.turns.told(agent, turn_id, deadline, kept)
        if told:
            return claim, self.limits.told(question, told)
        self.limits.not_asked(question)
        return claim, None

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
    ) -> bool:
        """End a turn in one step: its result is kept for later claims, its costs are booked on `date` (YYYY-MM-DD)
        and counted in the budgets in place of what was put aside, `say` goes out on the agent's results channel, it
        is recorded as having ended now, and its posts are marked where an instruction brought them about.

        False while Redis is away: the result is then kept in memory, the costs are booked later and nothing is said.
        Raises ValueError for costs that are no finite numbers.
        """
        costs = {field: amount for field, amount in (spent or {}).items() if amount}
        if not all(math.isfinite(amount) for amount in costs.values()):
            raise ValueError("costs must be finite numbers")
        self.turns.remember(agent, turn_id, result_json, deadline)
        lifetime = round(self.turns.lifetime(deadline) * 1000)
        pairs = [part for pair in costs.items() for part in pair]
        bill = self.budgets.bill(agent, turn_id, date, costs.get("total_cost", 0.0))
        now = self._clock()
        ended = record and record.model_copy(update={"at": now})
        head: list[str | int | float] = [
            result_json,
            self.turns.holder,
            lifetime,
            keys.results(agent),
            say,
            KEEP_SECONDS,
            turn_id,
            ended.to_json() if ended else "",
            now,
            self._instructed(ended) if ended else "",
        ]
        places = _places(agent, turn_id, date, bill.date, ended.channel_id if ended else 0)
        try:
            near = await self._link.script(SETTLE, places, [*head, *pairs, self.budgets.bill_text(bill)])
        except RedisAway as away:
            log.debug("the end of a turn is kept in memory: %s", away)
            self._settle_later(agent, date, costs, bill, ended, maybe_done=away.maybe_done)
            return False
        self.budgets.settled(bill, near)
        await self.costs.pay()
        await self.budgets.pay()
        await self.records.pay()
        return True

    def _instructed(self, ended: TurnRecord) -> str:
        """The posts of a turn by instruction, as MARK reads them."""
        if ended.kind != "instruction":
            return ""
        return self.instructed.note(ended.channel_id, ended.posted, joining=ended.trigger == "reactive")

    def _settle_later(
        self, agent: str, date: str, costs: Fields, bill: Bill, ended: TurnRecord | None, *, maybe_done: bool
    ) -> None:
        """What was carried out all the same must be neither charged nor recorded twice."""
        if maybe_done:
            self.budgets.settled(bill, ())
            return
        self.costs.owe(agent, date, costs)
        self.budgets.memory.spend(bill)
        if ended:
            self.records.owe(ended)


def _places(agent: str, turn_id: str, date: str, billed: str, channel_id: int) -> list[str]:
    """The keys of SETTLE; `billed` is the day whose budgets count the turn."""
    own = [keys.turn(agent, turn_id), keys.cost(agent, date)]
    shared = [keys.budget(billed), keys.budget_holds(billed)]
    kept = [keys.open_turns(agent), keys.turns(agent), keys.turn_picture(agent, turn_id)]
    return [*own, *shared, *kept, keys.instructed(channel_id)]
