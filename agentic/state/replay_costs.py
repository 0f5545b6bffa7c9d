"""The costs of replays: calls of an agent's model outside of its turns.

They count for the day's budget and for the agent's, as turns do, and for no channel and no person. A replay reserves
the most that it may cost and is settled by what it has cost; a reservation that nobody settles is booked as spent. The
agent's day shows their sum as `replay_cost`, which is part of `total_cost` and `ai_cost`, and the record has each as a
ReplayNote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from agentic.state.appending import APPEND
from agentic.state.budget_rules import REFUSED, Bill, hold_name, millionths
from agentic.state.budgets import MORE, SPEND, Budgets
from agentic.state.costs import KEEP_SECONDS, Fields
from agentic.state.writer import NOTES_KEPT, NOTES_SECONDS
from agentic.wire import keys
from agentic.wire.entries import ReplayNote
from agentic.wire.link import RedisLink

KIND = "mention"  # the owner asks for it, so the last of the day's money may be spent

# KEYS: the stream of the note, the day's costs of the agent, the budgets' two, the stream's count. ARGV: the hold's
# name, the costs' lifetime in s, the note, pairs of field and amount, and last the bill. Done once: the hold is gone
# afterwards.
SETTLE = f"""{APPEND}
if redis.call('HEXISTS', KEYS[4], ARGV[1]) == 0 then return {{}} end
append(KEYS[1], KEYS[5], 0, {NOTES_KEPT}, {NOTES_SECONDS}, 'kind', 'replay', 'data', ARGV[3])
for i = 4, #ARGV - 1, 2 do redis.call('HINCRBYFLOAT', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[2], ARGV[2])
{SPEND}"""

Refusal = Literal["budget", "agent_budget"]


class ReplayCosts:
    """Reserve and settle. `clock` gives unix seconds; dates are local, YYYY-MM-DD. What is here raises RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float], budgets: Budgets) -> None:
        self._link, self._clock, self._budgets = link, clock, budgets

    async def reserve(self, agent: str, replay_id: str, date: str, dollars: float, seconds: float) -> Refusal | None:
        """Reserve for so many seconds; or return the budget that is too small."""
        name, amount = hold_name(agent, replay_id), millionths(dollars)
        now = self._clock()
        arguments = [now, now + seconds, name, amount, KIND, *self._budgets.pairs(date, _scopes(agent))]
        verdict = await self._link.script(MORE, [keys.budget(date), keys.budget_holds(date)], arguments)
        refused = REFUSED.get(verdict)
        return None if refused is None else "agent_budget" if refused == "agent_budget" else "budget"

    async def settle(self, note: ReplayNote, spent: Fields) -> None:
        """Book what a replay that has reserved on the note's day has cost, and record it; `spent` as
        agentic.state.costs names it."""
        agent, date = note.agent, note.day
        bill = Bill(hold_name(agent, note.id), date, millionths(note.cost_usd), _scopes(agent))
        costs = {field: amount for field, amount in {**spent, "replay_cost": note.cost_usd}.items() if amount}
        pairs = [part for pair in costs.items() for part in pair]
        stream = keys.COORDINATOR_RECORD
        days = [keys.cost(agent, date), keys.budget(date), keys.budget_holds(date)]
        places = [stream, *days, keys.entries_counted(stream)]
        arguments = [bill.name, KEEP_SECONDS, note.to_json(), *pairs, self._budgets.bill_text(bill)]
        self._budgets.settled(bill, await self._link.script(SETTLE, places, arguments))


def _scopes(agent: str) -> tuple[str, ...]:
    return ("all", f"agent:{agent}")
