"""An agent's limits: the cooldown in a channel, the daily maximum, the budgets.

All are checked and taken in one step in Redis, so that simultaneous turns cannot pass a limit together. A turn counts
once, when it starts, whatever it posts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from agentic.state.budget_rules import BudgetRequest
from agentic.state.limits import UNLIMITED, TurnRequest, Verdict


class LimitStore(Protocol):
    """Implemented by agentic.state.limits."""

    async def take(self, ask: TurnRequest) -> Verdict: ...

    def resume(self, ask: TurnRequest, dollars: float) -> None: ...

    async def afford(self, agent: str, turn_id: str, dollars: float) -> bool: ...

    async def release_cooldown(self, agent: str, channel_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Limits of an agent: `cooldown` in seconds (0: none), `daily_max` turns a local day, of which at most the first
    `unasked_max` may be turns that no person asked for."""

    agent: str
    store: LimitStore
    cooldown: float
    daily_max: int
    unasked_max: int

    @classmethod
    def budgets_alone(cls, agent: str, store: LimitStore) -> AgentLimits:
        """No cooldown and no daily maximum: only the budgets hold."""
        return cls(agent, store, cooldown=0.0, daily_max=UNLIMITED, unasked_max=UNLIMITED)

    def ask(
        self,
        channel_id: int,
        date: str,
        *,
        cools_down: bool,
        for_people: bool,
        wish: BudgetRequest,
        free: bool,
        private: bool = False,
    ) -> TurnRequest:
        """Build the request for a turn and its budget. `cools_down`: the cooldown applies; `free`: the model costs
        nothing, so the daily maximum does not apply. In a `private` chat only the budgets apply: nobody else is kept
        waiting there, and the inbox takes one message after the other (inbox/pace.py)."""
        return TurnRequest(
            agent=self.agent,
            channel_id=channel_id,
            cooldown=self.cooldown if cools_down and not private else 0.0,
            daily_max=self.daily_max if for_people else self.unasked_max,
            date=date,
            budget=replace(wish, message_id=None) if private else wish,
            free=free or private,
        )

    async def take(self, ask: TurnRequest) -> Verdict:
        """Take what is requested, or return the limit that forbids it.

        "closing": taken, as the last turn that the conversation has money for.
        """
        return await self.store.take(ask)

    def resume(self, ask: TurnRequest, dollars: float) -> None:
        """Continue a turn that another process was admitted with and spent `dollars` on; `afford` is asked before each
        further call."""
        self.store.resume(ask, dollars)

    async def afford(self, turn_id: str, dollars: float) -> bool:
        """Whether the turn may cost this sum in total; ask before each further call."""
        return await self.store.afford(self.agent, turn_id, dollars)

    async def release_cooldown(self, channel_id: int) -> None:
        """Release the cooldown of a turn that stayed silent."""
        if self.cooldown > 0:
            await self.store.release_cooldown(self.agent, channel_id)
