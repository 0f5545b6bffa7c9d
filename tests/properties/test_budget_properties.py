"""Reservations, raises, and ends of turns in any order, by processes of this version and of the one before it, which
keeps no sums of reservations. What may be spent is what a plain model says."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.state.budgets import BUDGET_SECONDS, MORE, RAISE, SPEND, Budgets, Caps, Charge, Reservation
from agentic.wire import keys
from tests.support.redis_server import BlockingLink

EARLIER = Path(__file__).parent.parent / "fixtures" / "earlier_budgets"
OLD_MORE, OLD_SPEND = ((EARLIER / name).read_text() for name in ("more.lua", "spend.lua"))
DAYS = ("2027-01-15", "2027-01-16")
CAPS = Caps(all=100e-6, agent=70e-6, channel=60e-6, person=30e-6)
SCOPES = [
    ("all", "agent:claude", "channel:1", "person:11"),
    ("all", "agent:claude", "channel:2"),
    ("all", "agent:grok", "channel:1", "person:11"),
    ("all", "agent:grok", "channel:2", "person:12", "idle"),
]
PLACES = sorted({scope for scopes in SCOPES for scope in scopes})

DAY, NAME, IS_OLD = st.sampled_from(DAYS), st.sampled_from("abcdef"), st.booleans()
SKEW = st.sampled_from([0.0, 0.0, 4.0, -4.0, 3600.0])  # of the process's clock
AMOUNT, SECONDS = st.sampled_from([0, 1, 5, 20, 30, 45]), st.sampled_from([1.0, 15.0, 90.0, 900.0])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), DAY, NAME, IS_OLD, SKEW, AMOUNT, SECONDS, st.sampled_from(SCOPES)),
        st.tuples(st.just("reserve"), DAY, NAME, IS_OLD, SKEW, AMOUNT, SECONDS, st.sampled_from(SCOPES)),
        st.tuples(st.just("settle"), DAY, NAME, IS_OLD, AMOUNT),
        st.tuples(st.just("raise"), DAY, st.sampled_from(PLACES), AMOUNT, st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, 11.0, 100.0, 4000.0, -3000.0])),
        st.tuples(st.sampled_from(["lose sums", "spoil sums"]), DAY),
        st.tuples(st.sampled_from(["empty", "copy", "fail over"])),
    ),
    max_size=30,
)


@dataclass
class Model:
    """What a day's budget has: by scope, and of each turn that hasn't ended the sum, its scopes, and whether a process
    of the earlier version reserved it."""

    spent: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    raises: set[int] = field(default_factory=set)
    turns: dict[str, tuple[int, tuple[str, ...], bool]] = field(default_factory=dict)

    def total(self, scope: str, without: str = "") -> int:
        """Return what is spent and reserved."""
        turns = [amount for name, (amount, scopes, _) in self.turns.items() if scope in scopes and name != without]
        return self.spent[scope] + sum(turns)

    def refuses(self, name: str, amount: int, scopes: tuple[str, ...]) -> str | None:
        """Return the first kind of scope that lacks the money."""
        for scope in scopes if amount else ():
            cap = CAPS.of(scope)
            if cap is not None and self.total(scope, name) + amount > cap + self.raised[scope]:
                return scope.partition(":")[0]
        return None


class Processes:
    def __init__(self) -> None:
        self.link, self.now = BlockingLink(), 1_800_000_000.0
        self.redis = self.link.client
        self.budgets = Budgets(self.link, CAPS)
        self.models = {day: Model() for day in DAYS}
        self.copied = (deepcopy(self.models), dict[str, dict[str, str]]())
        script = self.redis.register_script
        self.more, self.spend, self.raise_cap = script(MORE), script(SPEND), script(RAISE)
        self.old_more, self.old_spend = script(OLD_MORE), script(OLD_SPEND)

    def step(self, what: str, *given: object) -> None:
        getattr(self, {"raise": "raise_"}.get(what, what.replace(" ", "_")))(*given)

    def reserve(
        self, day: str, name: str, is_old: bool, skew: float, amount: int, seconds: float, scopes: tuple[str, ...]
    ) -> None:
        model, now = self.models[day], self.now + skew
        if is_old and not self._may_be_old(model, day, name):
            is_old = False
        wanted = self.budgets.reserve_args(name, Reservation(day, self.now + seconds, amount, scopes), now=now)
        verdict, *_ = (self.old_more if is_old else self.more)(*wanted)
        assert verdict == (model.refuses(name, amount, scopes) or "ok")
        if verdict == "ok" and amount:
            model.turns[name] = (amount, scopes, is_old)

    def settle(self, day: str, name: str, is_old: bool, amount: int) -> None:
        model = self.models[day]
        if is_old and not self._may_be_old(model, day, name):
            is_old = False
        self._settle(day, name, self.old_spend if is_old else self.spend, amount)

    def _settle(self, day: str, name: str, spend, amount: int) -> None:
        model = self.models[day]
        _, scopes, _ = model.turns.pop(name, (0, SCOPES[0], False))
        charge = self.budgets.charge_text(Charge(name, day, amount, scopes))
        spend(["-", "-", keys.budget(day)], [charge])
        model.spent.update(dict.fromkeys(scopes, amount))

    def _may_be_old(self, model: Model, day: str, name: str) -> bool:
        """Whether a process of the earlier version may have the turn: it doesn't take over those of this version. If it
        asked for more for a turn that was charged at its end, and was refused, it charged that turn less."""
        if name not in model.turns:
            return True
        kept = self.redis.hget(keys.budget_holds(day), name)
        return model.turns[name][2] and not str(kept).startswith("booked")

    def raise_(self, day: str, scope: str, amount: int, number: int) -> None:
        model = self.models[day]
        self.raise_cap([keys.budget(day)], [scope, amount, number, BUDGET_SECONDS])
        if number not in model.raises:
            model.raises.add(number)
            model.raised[scope] += amount

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def lose_sums(self, day: str) -> None:
        self.redis.delete(keys.budget_held(day))

    def spoil_sums(self, day: str) -> None:
        self.redis.set(keys.budget_held(day), "?")

    def empty(self) -> None:
        self.redis.flushdb()
        self.models = {day: Model() for day in DAYS}

    def copy(self) -> None:
        """Note what a replica has by now."""
        found = {key: self.redis.hgetall(key) for key in self.redis.scan_iter() if self.redis.type(key) == "hash"}
        self.copied = (deepcopy(self.models), found)

    def fail_over(self) -> None:
        """Continue with what the replica had."""
        models, found = self.copied
        self.redis.flushdb()
        for key, fields in found.items():
            self.redis.hset(key, mapping=fields)
        self.models = deepcopy(models)

    def check(self) -> None:
        """Compare what Redis has with the model, and the sums with a recount."""
        for day, model in self.models.items():
            # An hour later, each reservation is counted again.
            more = Reservation(day, self.now + 9000, 1, ("all", "agent:poet"))
            self.more(*self.budgets.reserve_args("last", more, now=self.now + 4000))
            reserved = Counter[str]()
            for kept in self.redis.hgetall(keys.budget_holds(day)).values():
                end, amount, scopes = kept.split(" ", 2)
                reserved.update(dict.fromkeys(scopes.split(), 0 if end == "booked" else int(amount)))
            sums = self.redis.hgetall(keys.budget_held(day))
            assert all(int(sums.get(scope, 0)) == reserved[scope] for scope in [*PLACES, "agent:poet"])
            self._settle(day, "last", self.spend, 0)
            reserved.subtract(dict.fromkeys(more.scopes, reserved["agent:poet"]))
            spent = {scope: int(self.redis.hget(keys.budget(day), scope) or 0) for scope in PLACES}
            assert {at: spent[at] + reserved[at] for at in PLACES} == {at: model.total(at) for at in PLACES}
            for name in list(model.turns):
                self._settle(day, name, self.spend, 0)
            assert not self.redis.exists(keys.budget_holds(day))
            for agent in ("claude", "grok"):
                costs = self.redis.hgetall(keys.cost(agent, day))
                assert all(abs(float(amount)) < 1e-9 for amount in costs.values()), "all that was charged is reversed"


@pytest.mark.promise(586)
@settings(max_examples=150)
@given(STEPS)
def test_no_order_of_turns_spends_more_than_a_cap_or_counts_a_sum_twice(steps) -> None:
    processes = Processes()
    for step in steps:
        processes.step(*step)
    processes.check()
