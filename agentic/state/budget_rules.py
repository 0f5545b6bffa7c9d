"""The rules of budgets, applied in one process's memory: plain values, no Redis.

Money is counted for scopes (`all`, `agent:{name}`, `channel:{id}`, `person:{id}`, and `idle` for what agents do while
nobody writes), each kind with a cap of its own, in whole millionths of a US dollar. A free turn is never refused.
Scheduled turns stop before mentions do: the last CLOSING_SHARE of the day's and the channel's money is for mentions and
for one closing turn of each conversation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

Kind = Literal["mention", "opening", "joining", "round"]
Verdict = Literal["ok", "closing", "budget", "agent_budget", "person_budget", "idle_budget", "too_often"]

MICRO = 1_000_000  # of a US dollar
MINUTE = 60.0
CLOSING_SHARE = 0.05
REFUSED: Mapping[str, Verdict] = {
    "all": "budget",
    "channel": "budget",
    "agent": "agent_budget",
    "person": "person_budget",
    "idle": "idle_budget",
}


@dataclass(frozen=True, slots=True)
class Caps:
    """US dollars a day, None for no cap; `mentions` per person and minute. 0 allows nothing."""

    all: float | None = None
    agent: float | None = None
    channel: float | None = None
    person: float | None = None
    idle: float | None = None
    mentions: int = 1_000_000

    def of(self, scope: str) -> int | None:
        """The cap of a scope, in millionths."""
        dollars: float | None = getattr(self, kind_of(scope))
        return None if dollars is None else round(dollars * MICRO)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRequest:
    """A turn's request for money: `estimate` US dollars, reserved until it is settled, at the latest `until` (unix
    seconds). `person_id` and `message_id` are the caller's. `under_way` is what its record keeps of its first call
    while that is under way; "" for nothing. `idle`: it is done while nobody writes, and has a share of its own."""

    turn_id: str
    estimate: float
    until: float
    kind: Kind
    person_id: int | None = None
    message_id: int | None = None
    under_way: str = ""
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """A reservation, in millionths."""

    date: str
    until: float
    amount: int
    scopes: tuple[str, ...]
    in_redis: bool = False


@dataclass(frozen=True, slots=True)
class Bill:
    """The real cost of a turn, in millionths, and the scopes that it counts for."""

    name: str
    date: str
    amount: int
    scopes: tuple[str, ...]


def kind_of(scope: str) -> str:
    return scope.partition(":")[0]


def hold_name(agent: str, turn_id: str) -> str:
    return f"{agent}:{turn_id}"


def scopes_of(agent: str, channel_id: int, person_id: int | None, *, idle: bool = False) -> tuple[str, ...]:
    person = () if person_id is None else (f"person:{person_id}",)
    return ("all", f"agent:{agent}", f"channel:{channel_id}", *person, *(("idle",) if idle else ()))


def scopes_for(agent: str, channel_id: int, request: BudgetRequest) -> tuple[str, ...]:
    """The scopes that a turn's request counts for."""
    return scopes_of(agent, channel_id, request.person_id, idle=request.idle)


def millionths(dollars: float) -> int:
    """Rounded up, so that only zero counts as nothing."""
    return math.ceil(dollars * MICRO - 1e-6)


class MemoryBudgets:
    """The rules in one process. `share`: the part of Redis' last known rest that may be spent here. `clock` gives unix
    seconds."""

    def __init__(self, caps: Caps, clock: Callable[[], float], *, share: float = 1.0) -> None:
        self.caps = caps
        self.owed: dict[tuple[str, str], int] = {}  # (date, scope) → spent here, not in Redis
        self.holds: dict[str, Hold] = {}
        self._clock, self._share = clock, share
        self._seen: dict[tuple[str, str], int] = {}  # (date, scope) → spent and held in Redis
        self._raised: dict[tuple[str, str], int] = {}  # (date, scope) → what an owner added to the cap
        self._mentions: dict[int, dict[int, float]] = {}  # person → message → when

    def take(self, agent: str, channel_id: int, request: BudgetRequest, date: str) -> Verdict:
        if self._calls_too_often(request):
            return "too_often"
        amount, scopes = millionths(request.estimate), scopes_for(agent, channel_id, request)
        name = hold_name(agent, request.turn_id)
        verdict = self._judge(name, Hold(date, request.until, amount, scopes), request.kind)
        if verdict in ("ok", "closing"):
            self.note_taken(name, Hold(date, request.until, amount, scopes), request)
        return verdict

    def note_taken(self, name: str, hold: Hold, request: BudgetRequest, seen: Sequence[int] = ()) -> None:
        """Mirror a reservation; `seen`: the totals of its scopes in Redis."""
        now = self._clock()
        if name not in self.holds:
            self.holds = {other: kept for other, kept in self.holds.items() if kept.until > now}
        self.holds[name] = hold
        for scope, total in zip(hold.scopes, seen, strict=False):
            if (hold.date, scope) not in self._seen:
                self._seen = {key: value for key, value in self._seen.items() if key[0] >= hold.date}
            self._seen[hold.date, scope] = total
        if request.person_id is not None and request.message_id is not None:
            self._recent(request.person_id).setdefault(request.message_id, now)

    def note_raised(self, date: str, added: Mapping[str, int]) -> None:
        """Mirror what an owner added to the caps of these scopes on that day, in millionths."""
        self._raised = {key: value for key, value in self._raised.items() if key[0] >= date}
        self._raised.update({(date, scope): amount for scope, amount in added.items() if amount})

    def resume(self, agent: str, channel_id: int, request: BudgetRequest, date: str, dollars: float) -> None:
        """Reserve for a turn that another process began and this one resumes; it has cost `dollars` so far."""
        scopes = scopes_for(agent, channel_id, request)
        self.holds[hold_name(agent, request.turn_id)] = Hold(date, request.until, millionths(dollars), scopes)

    def more(self, name: str, amount: int) -> bool:
        """Raise the reservation to `amount`; False where that is too much."""
        hold = self.holds.get(name)
        if hold is None:
            return True
        wider = replace(hold, amount=amount, in_redis=False)
        if self._judge(name, wider, "mention") != "ok":
            return False
        self.holds[name] = wider
        return True

    def spend(self, bill: Bill) -> None:
        self.holds.pop(bill.name, None)
        for scope in bill.scopes if bill.amount else ():
            self.owed[bill.date, scope] = self.owed.get((bill.date, scope), 0) + bill.amount

    def written(self, bill: Bill) -> None:
        """Redis has booked the bill: it is no longer owed."""
        for scope in bill.scopes if bill.amount else ():
            left = self.owed.pop((bill.date, scope), 0) - bill.amount
            if left > 0:
                self.owed[bill.date, scope] = left

    def _judge(self, name: str, hold: Hold, kind: Kind) -> Verdict:
        if hold.amount == 0:
            return "ok"
        verdict: Verdict = "ok"
        for scope in hold.scopes:
            cap = self.caps.of(scope)
            if cap is None:
                continue
            cap += self._raised.get((hold.date, scope), 0)
            room = (cap - self._seen.get((hold.date, scope), 0)) * self._share - self._here(name, hold.date, scope)
            left, what = room - hold.amount, kind_of(scope)
            if left < 0:
                return REFUSED[what]
            if left < max(hold.amount, cap * CLOSING_SHARE) and kind != "mention" and what in ("all", "channel"):
                if kind != "round":
                    return REFUSED[what]
                verdict = "closing"
        return verdict

    def _here(self, name: str, date: str, scope: str) -> int:
        """The sum that other turns spent or reserved here, unknown to Redis."""
        now = self._clock()
        others = (hold for other, hold in self.holds.items() if other != name and not hold.in_redis)
        held = sum(h.amount for h in others if h.date == date and h.until > now and scope in h.scopes)
        return held + self.owed.get((date, scope), 0)

    def _calls_too_often(self, request: BudgetRequest) -> bool:
        if request.person_id is None or request.message_id is None:
            return False
        recent = self._recent(request.person_id)
        return request.message_id not in recent and len(recent) >= self.caps.mentions

    def _recent(self, person_id: int) -> dict[int, float]:
        """The person's mentions of the last minute. Drops other people without any."""
        after = self._clock() - MINUTE
        recent = {message: at for message, at in self._mentions.pop(person_id, {}).items() if at > after}
        for quiet in list(islice(self._mentions, 2)):  # two out for one in: who called last stands last
            if max(self._mentions[quiet].values(), default=after) <= after:
                del self._mentions[quiet]
        self._mentions[person_id] = recent
        return recent
