"""The program itself in a process of its own, as run_all.py starts it, but with the addresses of the stand-ins.

With its real SDKs, an embedded Redis and its log at the usual level. Commands observe only what cannot be observed from
outside: stalls of its event loop, a profile, what the process holds. The clock can be moved on.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import discord

from agent_config import load_settings
from agentic.process.logs import set_up_logging
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import finish_startup, running
from agentic.runtime.services import ProcessConfig, WebAccess
from tests.benchmarks.sides.call_counter import CallCounter
from tests.benchmarks.sides.lines import DrivenClock, arguments, serve
from tests.benchmarks.sides.monitor import StallMonitor


class Inside:
    """The commands of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._warm_up = runtime.start(finish_startup(runtime), "warm-up", essential=False)
        self._profile: cProfile.Profile | None = None
        self._conversations = 0

    async def settled(self) -> None:
        """Wait until the work after the start is done."""
        await self._warm_up

    async def watch_stalls(self, threshold: float) -> None:
        self._monitor = StallMonitor(threshold)
        self._monitor.start()

    async def stalls(self) -> list[dict[str, Any]]:
        """Stop watching and return the stalls."""
        return self._monitor.stop()

    async def count_calls(self) -> None:
        self._counter = CallCounter()
        self._counter.start()

    async def counted(self) -> dict[str, float]:
        """Stop counting and return the counts."""
        return self._counter.stop()

    async def converse(self, channel: int) -> None:
        """Start a conversation in the channel without waiting for its end."""
        assert self._runtime.coordinator is not None
        self._conversations += 1
        self._runtime.start(self._conversation(channel), f"conversation {self._conversations}", essential=False)

    async def _conversation(self, channel: int) -> None:
        assert self._runtime.coordinator is not None
        await self._runtime.coordinator.start_conversation(channel)

    async def converse_all(self, channels: Sequence[int]) -> int:
        """Hold a conversation in each of the channels, together; return the number of their messages."""
        assert self._runtime.coordinator is not None
        reports = await asyncio.gather(*map(self._runtime.coordinator.start_conversation, channels))
        return sum(report.messages for report in reports if report is not None)

    async def held(self) -> dict[str, Any]:
        """Collect garbage; count tasks, and objects by type."""
        gc.unfreeze()  # else those that replace objects of the start count as more
        gc.collect()
        types = Counter(type(each).__qualname__ for each in gc.get_objects())
        return {"tasks": len(asyncio.all_tasks()), "types": dict(types)}

    async def profile(self, path: str | None = None) -> None:
        """Start profiling; with a path, stop and write the profile there (for `python -m pstats`)."""
        if path is None:
            self._profile = cProfile.Profile()
            self._profile.enable()
        elif self._profile is not None:
            self._profile.disable()
            self._profile.dump_stats(path)


async def run(given: Mapping[str, Any]) -> None:
    """`given`: settings (a .env's keys and values), api_base (Discord's)."""
    discord.http.Route.API_BASE_URL = given["api_base"]  # not one of the settings
    settings = load_settings(given["settings"], None)
    set_up_logging(settings.log_level)
    clock = DrivenClock()
    setup = ProcessConfig(
        settings=settings,
        agents=tuple(settings.agents),
        use_default_redis=False,
        web=WebAccess(picture_origins=(given["api_base"].split("/api")[0],)),
        rng=random.Random(1),
        clock=clock,
    )
    async with running(setup) as runtime:
        online = await runtime.wait_online()
        if len(online) != len(setup.agents):
            raise RuntimeError(f"only these came online: {sorted(online)}")
        inside = Inside(runtime)
        names = (
            *("settled", "watch_stalls", "stalls", "count_calls", "counted"),
            *("converse", "converse_all", "held", "profile"),
        )
        commands = {name: getattr(inside, name) for name in names} | {"move_on": clock.move_on}
        await serve(commands, {"online": sorted(online)})


if __name__ == "__main__":
    asyncio.run(run(arguments()))
