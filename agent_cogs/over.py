"""How a turn ends early."""

from __future__ import annotations


class TurnOver(Exception):
    """The turn ends here, for one of agent_cogs.turn.REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
