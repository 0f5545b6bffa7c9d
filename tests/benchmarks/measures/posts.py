"""How many of the turns that are asked for leave a message, and what that costs, with pulls and with rounds.

Scripted agents (tests/benchmarks/scripted_agents.py) in virtual time, with the coordinator as the program composes
it. They
skip half of the turns for which they have no reason. Asked in rounds, they then skip a third of all: models of today
skip more. So all is measured a second time with agents that skip half of all that they are asked in rounds.
"""

from __future__ import annotations

import asyncio

from tests.benchmarks.scripted_agents import AGENTS, IDLE_SILENCE
from tests.benchmarks.simulate.counted import Counted, deviation
from tests.benchmarks.simulate.week import Size, live_through
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row

SIZE, QUICK = Size(channels=60, people=400, days=0.5, conversations=8.0), Size(30, 200, 0.25, 8.0)
SILENT = 0.8  # of the turns without a reason: half of all turns in rounds
TALKATIVENESS = {agent.name: agent.talkativeness for agent in AGENTS}


async def posts(bench: Bench) -> list[Row]:
    size = QUICK if bench.quick else SIZE
    found: list[Row] = []
    for silence, models in ((IDLE_SILENCE, "half of what is not theirs"), (SILENT, "half of all in rounds")):
        pull, rounds = [
            await asyncio.to_thread(live_through, policy, size, 1, silence) for policy in ("pull", "rounds")
        ]
        found += rows(pull, rounds, models)
    return found


def rows(pull: Counted, rounds: Counted, models: str) -> list[Row]:
    """`models`: what they skip."""
    return [
        Row(
            metric=f"calls a post with pulls; models skip {models}",
            value=1 / pull.posts_a_call,
            target=1.25,
            note=f"{pull.posts_a_call:.2f} posts per call, in rounds {rounds.posts_a_call:.2f}",
        ),
        Row(
            metric="cost a post, with pulls : in rounds",
            value=pull.cost_a_post / rounds.cost_a_post,
            target=0.62,
            note=f"{1_000 * pull.cost_a_post:.2f} : {1_000 * rounds.cost_a_post:.2f} USD for a thousand",
        ),
        Row(
            metric="shares of the posts with pulls, largest deviation from talkativeness",
            value=deviation(pull.posts, TALKATIVENESS),
            target=0.25,
        ),
        Row(metric="posts of one agent in a row with pulls", value=pull.in_a_row, target=0),
        Row(
            metric="people's messages that the next turn with pulls does not take up",
            value=1 - pull.taken_up_at_once,
            target=0,
            note=f"of {len(pull.turns_waited) + pull.left_waiting}",
        ),
    ]
