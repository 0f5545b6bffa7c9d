"""Everything that is kept in Redis besides messages and leases, as methods with meaning.

Each part stands in a module of its own; every key has an end. What a turn must not wait or fail for (turns, limits,
costs) goes on in this process's memory while Redis is away; the rest raises RedisAway.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from agent_protocol.agenda import Agenda, Slot
from agent_protocol.connection import RedisLink
from agent_protocol.costs import Costs
from agent_protocol.limits import Limits, Verdict
from agent_protocol.presence import Presence
from agent_protocol.turns import Claim, Turns

__all__ = ["Agenda", "Claim", "Costs", "Ledger", "Limits", "Presence", "Slot", "Turns", "Verdict"]


class Ledger:
    """`clock` gives unix seconds; `holder` is this process's name in the turns that it claims."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time, *, holder: str = "") -> None:
        self.turns = Turns(link, clock, holder)
        self.limits = Limits(link, clock)
        self.costs = Costs(link)
        self.presence = Presence(link)
        self.agenda = Agenda(link)
