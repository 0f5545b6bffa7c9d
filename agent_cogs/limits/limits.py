"""How often an agent speaks and for how much money: the cooldown in a channel, the daily maximum, the budgets.

All are checked and taken in one step in Redis, so that turns that begin at the same moment cannot pass together. A
turn counts once, when it begins, whatever it posts. The clock and the store come from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent_protocol.turns.budget_rules import BudgetRequest
from agent_protocol.turns.limits import TurnRequest, Verdict


class LimitStore(Protocol):
    """Where counts are kept; agent_protocol.turns.limits is the one in Redis."""

    async def take(self, ask: TurnRequest) -> Verdict: ...

    def resume(self, ask: TurnRequest, dollars: float) -> None: ...

    async def afford(self, agent: str, turn_id: str, dollars: float) -> bool: ...

    async def release_cooldown(self, agent: str, channel_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """One agent's limits: `cooldown` in seconds, 0 for none; `daily_max` turns a local day, and none
    that no person brought about after the first `unasked_max`."""

    agent: str
    store: LimitStore
    cooldown: float
    daily_max: int
    unasked_max: int

    def ask(
        self, channel_id: int, date: str, *, cools_down: bool, for_people: bool, wish: BudgetRequest, free: bool
    ) -> TurnRequest:
        """One turn of the day, with the cooldown where it `cools_down`, and the money that it wishes to put aside.
        `free`: by a model that costs nothing, for which the daily maximum does not hold."""
        return TurnRequest(
            agent=self.agent,
            channel_id=channel_id,
            cooldown=self.cooldown if cools_down else 0.0,
            daily_max=self.daily_max if for_people else self.unasked_max,
            date=date,
            budget=wish,
            free=free,
        )

    async def take(self, ask: TurnRequest) -> Verdict:
        """Takes what is asked for, or says which limit stands against it.

        "closing": it is taken, and the last one that the conversation has money for.
        """
        return await self.store.take(ask)

    def resume(self, ask: TurnRequest, dollars: float) -> None:
        """Another process was let in with the turn and has spent so much on it: what it spends more is asked for by
        `afford`, before each call."""
        self.store.resume(ask, dollars)

    async def afford(self, turn_id: str, dollars: float) -> bool:
        """Whether the turn may come to this sum as a whole, before another of its calls."""
        return await self.store.afford(self.agent, turn_id, dollars)

    async def release_cooldown(self, channel_id: int) -> None:
        """The turn stayed silent: whoever asks next need not wait for it."""
        if self.cooldown > 0:
            await self.store.release_cooldown(self.agent, channel_id)
