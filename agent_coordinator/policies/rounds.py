"""Who speaks next, and whether the talk goes on. Pure: values and a random generator in, a decision out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_coordinator.config import CONTINUATION_BASE_PROBABILITY, CONTINUATION_DECAY

END_REQUESTS_NEEDED = 2  # consecutive turns that were not skips
SPEAKERS_NEEDED = 2  # one alone would go on talking to itself
ALIKE: Mapping[str, float] = {}  # nobody is said to be more talkative than another

EndReason = Literal[
    "agreed",
    "round_limit",
    "too_few_spoke",
    "most_skipped",
    "chance",
    "nobody_opened",
    "channel_taken",
    "budget",  # there is no money for another turn
    "stopped",  # by a person
    "joined",  # a reactive round: who was brought in has had their turns
    "too_old",  # to be gone on with, after a restart
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether another round follows; `because` says why not."""

    go_on: bool
    because: EndReason | None = None


def speaking_order(
    agents: Sequence[str], last_speaker: str | None, rng: random.Random, shares: Mapping[str, float] = ALIKE
) -> tuple[str, ...]:
    """The agents of a round, shuffled; whoever spoke last is not the first, unless alone.

    `shares`: agent → how talkative it is, 0 to 1. The most talkative is asked in each round, the others as often as
    their share is of that one's; where nobody differs, or nothing is said, all are asked. Never fewer than two.
    """
    order = chosen(rng.sample(list(agents), len(agents)), shares, rng)
    if len(order) > 1 and order[0] == last_speaker:
        other = rng.randrange(1, len(order))
        order[0], order[other] = order[other], order[0]
    return tuple(order)


def chosen(order: Sequence[str], shares: Mapping[str, float], rng: random.Random) -> list[str]:
    """Those of `order` who are asked, by their shares. One of whom nothing is known is as talkative as anybody."""
    most = max((shares[agent] for agent in order if agent in shares), default=0.0)
    if most <= 0 or all(shares.get(agent, most) == most for agent in order):
        return list(order)
    asked = [agent for agent in order if rng.random() < shares.get(agent, most) / most]
    if len(asked) < SPEAKERS_NEEDED:
        loudest = sorted(order, key=lambda agent: -shares.get(agent, most))[:SPEAKERS_NEEDED]
        asked = [agent for agent in order if agent in asked or agent in loudest]
    return asked


def opening_order(agents: Sequence[str], starter: str, rng: random.Random) -> tuple[str, ...]:
    """The starter, then the others shuffled: they take the start over when it passes."""
    others = [agent for agent in agents if agent != starter]
    return (starter, *rng.sample(others, len(others)))


def continuation_probability(round_number: int) -> float:
    """That a round follows this one (1, 2, ...); between 0 and 1."""
    return max(0.0, CONTINUATION_BASE_PROBABILITY - CONTINUATION_DECAY * (round_number - 1))


def wraps_up(end_streak: int) -> bool:
    """Whether enough agents in a row asked for the end, skips between them not counted."""
    return end_streak >= END_REQUESTS_NEEDED


def should_continue(
    round_number: int,
    speakers: int,
    skippers: int,
    present: int,
    max_rounds: int,
    rng: random.Random,
    *,
    end_streak: int = 0,
) -> Verdict:
    """Judges a finished round: how many spoke, how many skipped, of how many that were there (absent ones left out)."""
    if wraps_up(end_streak):
        return Verdict(False, "agreed")
    if skippers * 2 > present:
        return Verdict(False, "most_skipped")
    if speakers < SPEAKERS_NEEDED:
        return Verdict(False, "too_few_spoke")
    if round_number >= max_rounds:
        return Verdict(False, "round_limit")
    if rng.random() >= continuation_probability(round_number):
        return Verdict(False, "chance")
    return Verdict(True)
