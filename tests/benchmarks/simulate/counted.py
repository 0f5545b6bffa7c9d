"""The numbers of a simulation: those that are counted, and those that are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class Counted:
    """Times in seconds, money in US dollars. `waits`: of people's messages in a conversation that called nobody, until
    the next post of an agent; `turns_waited`: how many agents were asked until then, that one included."""

    calls: int = 0
    cost: float = 0.0
    posts: Counter[str] = field(default_factory=Counter)  # by agent, in turns of the coordinator
    in_a_row: int = 0  # posts after one of the same agent, with nobody in between
    written: Counter[str] = field(default_factory=Counter)  # people's messages, by habit
    called: int = 0  # of these messages: such that called an agent
    waits: list[float] = field(default_factory=list)
    turns_waited: list[int] = field(default_factory=list)
    left_waiting: int = 0  # messages that nobody had answered when the conversation ended
    conversations: Counter[int] = field(default_factory=Counter)  # by channel
    joined: int = 0  # turns of reactive rounds
    endings: Counter[str] = field(default_factory=Counter)

    @property
    def posted(self) -> int:
        return self.posts.total()

    @property
    def posts_a_call(self) -> float:
        return self.posted / self.calls if self.calls else 0.0

    @property
    def cost_a_post(self) -> float:
        return self.cost / self.posted if self.posted else 0.0

    @property
    def taken_up_at_once(self) -> float:
        """The share of people's messages that the next agent asked answered, or the one that was thinking."""
        waited = len(self.turns_waited) + self.left_waiting
        return sum(turns <= 1 for turns in self.turns_waited) / waited if waited else 1.0


def deviation(posts: Mapping[str, int], talkativeness: Mapping[str, float]) -> float:
    """The largest deviation of an agent's share of the posts from its talkativeness' share of all: 0.25 is a quarter
    more, or less, than it should have."""
    everything, whole = sum(posts.values()), sum(talkativeness.values())
    if not everything:
        return 0.0
    due = {agent: share / whole for agent, share in talkativeness.items()}
    return max(abs(posts.get(agent, 0) / everything / share - 1) for agent, share in due.items())


def gini(values: Iterable[float]) -> float:
    """0 where all have the same, towards 1 where one has everything."""
    ordered = sorted(values)
    whole = sum(ordered)
    if not whole:
        return 0.0
    ranked = sum(rank * value for rank, value in enumerate(ordered, 1))
    return 2 * ranked / (len(ordered) * whole) - (len(ordered) + 1) / len(ordered)
