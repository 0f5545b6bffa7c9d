"""The shared state in Redis, besides messages and leases: one store a module, and the steps that span several.

Every key expires or has a bound. What a turn must not wait or fail for (turns, limits, costs) continues in this
process's memory while Redis is unavailable; the rest raises StateUnavailable.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress

from agentic.state.budgets import Budgets, Caps, Costs, Fields, ReplayCosts
from agentic.state.context import ContextWindows, Sessions, Summaries
from agentic.state.conversations import ConversationStore, PullStore
from agentic.state.idle import IdleStates, UnaskedMessages
from agentic.state.limits import TAKING, LimitRequest, MemoryQuota, TurnLimits, Verdict
from agentic.state.posts import InstructedPosts, PostClaims, ReplayGuard
from agentic.state.presence import BackoffStore, CommandOwner, Presence
from agentic.state.record_stream import RecordedAgents
from agentic.state.rooms import Arenas, RoomMarks, RoomOpenings, RoomStore
from agentic.state.schedule import ScheduleStore
from agentic.state.silence import Silence
from agentic.state.turn_records import Records, TurnRecord
from agentic.state.turns import CLAIMING, Claim, DrawnImages, Ending, LastRuns, Settlements, Turns
from agentic.wire.connection import LAST_WAIT, RedisConnection, StateUnavailable

# KEYS and ARGV: those of CLAIMING, then those of TAKING, which takes what only a new turn asks for. What its first call
# costs if nobody hears of it (the argument between, "" for nothing) is kept before the call is made.
BEGIN = f"""{CLAIMING}{TAKING}
local kept = claim()
if kept then
  if kept[1] ~= 'done' then publish_notice(ARGV[15]) end
  return {{kept}}
end
local taken = take(2, 9)
local on_admitted = taken[1] == 'ok' or taken[1] == 'closing'
if on_admitted and ARGV[9] ~= '' then redis.call('HSET', KEYS[1], 'under_way', ARGV[9]) end
return {{false, unpack(taken)}}"""

log = logging.getLogger(__name__)


class Ledger:
    """`clock` gives unix seconds. `holder` names this process in the turns that it claims. `silence` says who is muted
    while Redis is unavailable."""

    def __init__(
        self,
        link: RedisConnection,
        clock: Callable[[], float] = time.time,
        *,
        holder: str = "",
        caps: Caps | None = None,
        silence: Silence | None = None,
    ) -> None:
        self.link, self._clock = link, clock
        self.turns = Turns(link, clock, holder)
        self.pictures = DrawnImages(link, holder)
        self.budgets = Budgets(link, clock, caps or Caps())
        self.limits = TurnLimits(link, clock, self.budgets, silence)
        self.command_owner = CommandOwner(link)
        self.costs = Costs(link)
        self.presence = Presence(link, clock)
        self.pulls = PullStore(link)
        self.idle = IdleStates(link)
        self.schedule = ScheduleStore(link)
        self.conversations = ConversationStore(link)
        self.room_marks = RoomMarks(link)
        self.arenas = Arenas(link)
        self.room_openings = RoomOpenings(link)
        self.rooms = RoomStore(link)
        self.records = Records(link, clock)
        self.recorded_agents = RecordedAgents(link)
        self.replay_costs = ReplayCosts(link, clock, self.budgets)
        self.backoffs = BackoffStore(link, clock)
        self.windows = ContextWindows(link)
        self.summaries = Summaries(link)
        self.unasked = UnaskedMessages(link)
        self.sessions = Sessions(link)
        self.instructed_posts = InstructedPosts(link)
        self.last_runs = LastRuns(link, self.turns)
        self.replays = ReplayGuard(link, clock)
        self.post_claims = PostClaims(link)
        self.memory_writes = MemoryQuota(link)
        self.settlements = Settlements(link, clock, self.turns, self.limits, self.budgets, self.instructed_posts)

    @property
    def is_unavailable(self) -> bool:
        """Whether Redis does not answer now, or takes no writes."""
        return self.link.away or self.link.is_read_only

    async def begin(
        self, agent: str, turn_id: str, deadline: float, event: str, request: LimitRequest | None = None
    ) -> tuple[Claim, Verdict | None]:
        """Claim a turn, as `Turns.claim`; if it is new, take its request, as `TurnLimits.take`, in the same step.

        The verdict is None if nothing was requested.
        """
        if self.link.has_queued:
            await self.link.write_queued()  # this turn may be among them, and what was spent counts before more is
        if request is None or self.turns.knows(agent, turn_id):
            return await self.turns.claim(agent, turn_id, deadline, event), None
        claim_keys, claim_args = self.turns.script_args(agent, turn_id, deadline, event)
        limit_keys, limit_args = self.limits.script_args(request)
        try:
            arguments = [*claim_args, request.under_way, *limit_args]
            kept, *outcome = await self.link.script(BEGIN, [*claim_keys, *limit_keys], arguments)
        except StateUnavailable as away:
            log.debug("a turn begins in memory: %s", away)
            claim = await self.turns.read_claim(agent, turn_id, deadline, None)
            return claim, await self.limits.take_in_outage(request, away)
        claim = await self.turns.read_claim(agent, turn_id, deadline, kept)
        return claim, self.limits.read_verdict(request, outcome) if outcome else None

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
        """End a turn in one step: store its result for later claims, book its costs, replace its budget reservation by
        them, publish `say` on the agent's results channel and `notice` on `coordinator:turns`, add its record, and mark
        its posts where they came by instruction. The costs are of the reservation's day, or of `date` (YYYY-MM-DD)
        where this process knows of none.

        False while Redis is unavailable: the end is kept in memory and written as soon as Redis is back.
        Raises ValueError for costs that are not finite.
        """
        costs = {field: amount for field, amount in (spent or {}).items() if amount}
        if not all(math.isfinite(amount) for amount in costs.values()):
            raise ValueError("costs must be finite numbers")
        self.turns.remember(agent, turn_id, result_json, deadline)
        now, charge = self._clock(), self.budgets.charge(agent, turn_id, date, costs.get("total_cost", 0.0))
        if record is not None:
            record = record.model_copy(update={"at": now, "day": charge.date})
        return await self.settlements.settle(
            Ending(agent, turn_id, result_json, deadline, charge.date, costs, charge, say, record, now, notice)
        )

    async def finish(self, seconds: float = LAST_WAIT) -> None:
        """Before the process ends: write what is kept, waiting at most `seconds` for Redis. Never raises."""
        if not self.settlements.owes:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.link.present.wait()
        await self.link.write_queued()
        if owed := self.settlements.owes:
            log.error(
                "Redis is unavailable: the ends of %d turns are lost with this process, their costs not booked", owed
            )
