"""Picks the next channel and its starter. The queues are in Redis, so that fairness outlives the process."""

from __future__ import annotations

import random
from collections.abc import Collection

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.ports import ScheduleStore


def days_order(config: CoordinatorConfig, rng: random.Random) -> tuple[int, ...]:
    """Each channel once: the priority channels in the owner's order, then the others shuffled."""
    first = [channel for channel in dict.fromkeys(config.priority_channels) if channel in config.channels]
    others = [channel for channel in config.channels if channel not in first]
    return (*first, *rng.sample(others, len(others)))


async def pick_channel(
    config: CoordinatorConfig, schedule: ScheduleStore, date: str, busy: Collection[int], rng: random.Random
) -> int | None:
    """The day's next channel; a random one once the queue is used up; None if none is free.

    A queued channel that is busy has its conversation right now and is dropped from the queue; so is one that is no
    longer configured. Raises RedisAway.
    """
    fresh = days_order(config, rng)
    free = [channel for channel in fresh if channel not in busy]
    if not free:
        return None
    for _ in fresh:
        channel = await schedule.next_channel(date, fresh)
        if channel is None:
            break
        if channel in free:
            return channel
    return rng.choice(free)


async def pick_starter(config: CoordinatorConfig, schedule: ScheduleStore, channel_id: int, rng: random.Random) -> str:
    """The channel's next starter: each agent once, then shuffled again. Raises RedisAway."""
    return await schedule.next_starter(channel_id, rng.sample(config.agents, len(config.agents)))
