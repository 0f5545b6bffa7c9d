"""How much of a day's budgets is used, for people to read. Pure; `Budgets.uses` reads Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentic.state.budget_rules import MICRO, Caps, kind_of

SCOPES = ("all", "agent", "channel", "person", "idle")
RAISED = "raised:"  # before a scope: what an owner added to its cap


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A scope (`all`, `agent:{name}`, `channel:{id}`, `person:{id}`, `idle`) on a day, in US dollars. `reserved` is
    held for turns that run. `cap` includes `raised`, and is None for no limit."""

    scope: str
    spent: float
    reserved: float
    cap: float | None
    raised: float


def uses_of(
    wanted: Iterable[str], spent: Mapping[str, str], holds: Mapping[str, str], caps: Caps
) -> dict[str, BudgetUse]:
    """Read the hashes of a day, as budgets.py writes them: the scopes that are wanted, and those with any use."""
    reserved: Counter[str] = Counter()
    for hold in holds.values():
        end, amount, scopes = hold.split(" ", 2)
        if end != "booked":  # such a one is in `spent`
            reserved.update(dict.fromkeys(scopes.split(), int(amount)))
    sums = {field: int(amount) for field, amount in spent.items() if kind_of(field) in SCOPES}
    raised = {field.removeprefix(RAISED): int(amount) for field, amount in spent.items() if field.startswith(RAISED)}
    found: dict[str, BudgetUse] = {}
    for scope in dict.fromkeys([*wanted, *sums, *reserved, *raised]):
        cap, more = caps.of(scope), raised.get(scope, 0)
        found[scope] = BudgetUse(
            scope=scope,
            spent=sums.get(scope, 0) / MICRO,
            reserved=reserved[scope] / MICRO,
            cap=None if cap is None else (cap + more) / MICRO,
            raised=more / MICRO,
        )
    return found
