"""Open what rooms need besides bots and coordinator."""

from __future__ import annotations

from contextlib import AsyncExitStack

from agent_runtime.process import Runtime


async def serve_rooms(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Start it after the bots, whose connections it uses; the stack closes it before them.

    Every process: the roster, which follows the folders of personas.
    """
    del stack
    runtime.start(runtime.services.roster.run(), "roster")
