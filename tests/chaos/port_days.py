"""Strangers hold hundreds of connections to a port while a conversation runs and people ask."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping

from tests.chaos.process_days import Outside, ended_well
from tests.support.half_sent import PORTS, free_ports, half_sent, honest_answer, settings_of

ATTACKERS = 980
FILES = 1_024


async def half_sent_headers(attacked: str, scene: Outside) -> None:
    """A program that may open few files answers people, and honest clients at each of its ports."""
    ports = free_ports()
    with scene.process(files=FILES, **settings_of(ports)) as process:
        await scene.up(process)
        await scene.talk()
        async with half_sent(ports[attacked], ATTACKERS, PORTS[attacked]):
            asked = [await scene.ask(agent) for agent in scene.rng.sample(scene.present, 2)]
            for setting, port in ports.items():
                await honest_answer(setting, port)
            for question in asked:
                await scene.answered(question)
            await scene.over()
        await scene.ask_and_hear(scene.present[-1])
        await ended_well(scene, process)


SCENES: Mapping[str, Callable[[Outside], Awaitable[None]]] = {
    f"half-sent headers at {setting}": functools.partial(half_sent_headers, setting) for setting in PORTS
}
