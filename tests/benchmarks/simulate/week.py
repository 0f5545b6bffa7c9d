"""One simulation: the coordinator as the program composes it, over a scene, for so many virtual days."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import cast
from zoneinfo import ZoneInfo

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agentic.state.shared_state import SharedState
from agentic.themes import THEMES
from agentic.wire.bus import Bus
from tests.benchmarks.scripted_agents import AGENTS, IDLE_SILENCE
from tests.benchmarks.simulate.counted import Counted
from tests.benchmarks.simulate.people import DAY, HOUR, visits
from tests.benchmarks.simulate.scene import Scene, SimulatedState
from tests.benchmarks.simulate.virtual_time import run_virtually

UTC = ZoneInfo("UTC")
MONDAY = 1_780_272_000.0  # 2026-06-01, midnight UTC
BEGIN = 12 * HOUR  # of the first day: at noon, so that a short run has something to see
FIRST_CHANNEL = 1_001
USUAL = ("rounds", "round-robin", "pull")
POLICIES = (*USUAL, "moderated")  # in which nobody speaks until a person names a bot


@dataclass(frozen=True)
class Size:
    """`conversations`: scheduled ones a channel and day."""

    channels: int = 1_000
    people: int = 2_000
    days: float = 7.0
    conversations: float = 0.3


def live_through(policy: str, size: Size, seed: int, silence: float = IDLE_SILENCE) -> Counted:
    """Simulate a server with this policy. `silence`: the share of the turns without a reason that agents skip."""
    return run_virtually(_live(policy, size, seed, silence))


async def _live(policy: str, size: Size, seed: int, silence: float) -> Counted:
    loop = asyncio.get_running_loop()

    def clock() -> float:
        return MONDAY + BEGIN + loop.time()

    channels = range(FIRST_CHANNEL, FIRST_CHANNEL + size.channels)
    scene = Scene(channels, clock, random.Random(f"{seed} scene"), silence)
    coordinator = Coordinator(
        CoordinatorContext(
            _config(policy, size),
            cast(Bus, scene),
            cast(SharedState, SimulatedState(clock)),
            clock=clock,
            rng=random.Random(f"{seed} rules"),
        )
    )
    coordinator.engine.observers.append(scene.observe)
    people = [each for each in visits(size.people, size.days + 1, random.Random(f"{seed} people")) if each.at >= BEGIN]
    with suppress(TimeoutError):
        async with asyncio.timeout(size.days * DAY), asyncio.TaskGroup() as tasks:
            tasks.create_task(coordinator.run())
            tasks.create_task(scene.live(people, MONDAY))
    return scene.counted


def _config(policy: str, size: Size) -> CoordinatorConfig:
    themes = tuple(THEMES)
    a_day = round(size.channels * size.conversations)
    return CoordinatorConfig(
        agents=tuple(agent.name for agent in AGENTS),
        channels={FIRST_CHANNEL + n: themes[n % len(themes)] for n in range(size.channels)},
        schedule_min=a_day,
        schedule_max=a_day,
        timezone=UTC,
        policy=policy,
        interests={agent.name: agent.subjects for agent in AGENTS},
        talkativeness={agent.name: agent.talkativeness for agent in AGENTS},
    )
