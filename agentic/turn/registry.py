"""Give one turn and one result to an event that comes twice.

This process's memory is asked first, so that a repeated instruction costs nothing. Redis has the turns of earlier
processes, and how far those came that did not end. While Redis is away there is this process's memory alone.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from agentic.agent.events import MentionEvent, TurnEvent, save_event
from agentic.state.limits import TurnRequest
from agentic.state.shared_state import Ledger
from agentic.turn.progress import Progress
from agentic.turn.result import refused
from agentic.wire.link import RedisAway
from agentic.wire.messages import Result
from agentic.wire.reading import read_result

REMEMBERED = 1000  # turns in this process's memory


Standing = Literal["new", "running"]


log = logging.getLogger(__name__)


class TurnRegistry:
    """The turns of one agent."""

    def __init__(self, agent: str, ledger: Ledger) -> None:
        self._agent, self._ledger = agent, ledger
        self._turns: OrderedDict[str, str | None] = OrderedDict()  # the result's JSON, a fifth of an object's size

    def __contains__(self, turn_id: object) -> bool:
        return turn_id in self._turns

    def is_open(self, turn_id: str) -> bool:
        """Whether the turn waits or runs in this process."""
        return turn_id in self._turns and self._turns[turn_id] is None

    def begin(self, turn_id: str) -> Standing | Result:
        """Enter a turn: "new", or "running" where it was entered before, or its result."""
        if turn_id in self._turns:
            kept = self._turns[turn_id]
            return "running" if kept is None else Result.model_validate_json(kept)
        self._turns[turn_id] = None
        if len(self._turns) > REMEMBERED:
            self._turns.popitem(last=False)
        return "new"

    def keep(self, turn_id: str, result: Result) -> None:
        """Keep a turn's result in this process."""
        self._turns[turn_id] = result.to_wire()

    def refuse_unknown(self, turn_id: str, reason: str) -> None:
        """Give a turn that has not come to this process the result that it is skipped."""
        if turn_id not in self._turns:
            self.begin(turn_id)
            self.keep(turn_id, refused(self._agent, turn_id, reason))

    def forget(self, turn_id: str) -> None:
        """Forget a turn that was not taken."""
        self._turns.pop(turn_id, None)

    def give_up(self, turn_id: str) -> None:
        """Leave a turn to another process: it stays open until one claims it."""
        self._turns.pop(turn_id, None)
        self._ledger.turns.forget(self._agent, turn_id)

    async def close(self, turn_ids: Sequence[str]) -> None:
        """End turns that never begin, since another one answers their messages, for all later runs of the program."""
        results = {turn_id: refused(self._agent, turn_id, "superseded").to_wire() for turn_id in turn_ids}
        try:
            await self._ledger.turns.close(self._agent, results)
        except RedisAway:
            log.debug("%s: %d joined messages are not noted, Redis is away", self._agent, len(results))

    async def claim(
        self, event: TurnEvent, after: int = 0, ask: TurnRequest | None = None
    ) -> Progress | Standing | Result:
        """Claim a turn right before it is taken. Returns its progress, with what an earlier run kept of it.

        Where it cannot be taken the answer is that of `begin`, over all processes. `after` is the channel's newest
        message; a new turn asks the limits for `ask` in the same step.
        """
        saved = save_event(event, after)
        claim, verdict = await self._ledger.begin(self._agent, event.id, event.deadline, saved, ask)
        progress = Progress(self._ledger.turns, self._ledger.pictures, self._agent, event.id)
        if claim.state == "done" and claim.result is not None:
            kept = read_result(claim.result)
            if isinstance(kept, Result):
                self._turns[event.id] = claim.result
                return kept
        if claim.state == "new" and isinstance(event, MentionEvent):
            await self.close(event.joined_ids)
        if claim.state == "left":
            log.info("%s: continuing turn %s of an earlier run", self._agent, event.id)
            return progress.take_over(claim)
        return progress.begin(ask, verdict) if claim.state == "new" else "running"
