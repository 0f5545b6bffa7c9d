"""A server of tools that is killed and restarted while the four talk and a person asks.

Nobody's turn is lost, no call runs twice, and the next call after the restart works.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_config import AGENTS
from tests.chaos.scene import until
from tests.chaos.stage import Inside, inside
from tests.support.asking import config
from tests.support.models.wire.values import Answer, ModelRequest
from tests.support.tools.mcp_sessions import SessionServer


@asynccontextmanager
async def with_tools(folder: Path, seed: int, *, quick: bool = False) -> AsyncIterator[tuple[Inside, SessionServer]]:
    """All four bots with the tool `lab__say` of a server over HTTP."""
    async with SessionServer() as server:
        files = config(folder, mcp=f"servers:\n  lab:\n    url: {server.url}\n")
        async with inside(folder, seed, quick=quick, **files) as scene:
            yield scene, server


async def killed(scene: Inside, server: SessionServer) -> None:
    """Every answer calls the tool first. The server dies at a chosen turn, and somebody else calls it while it is
    down."""
    asked, called = [], 0

    def call_first(request: ModelRequest) -> Answer | None:
        nonlocal called
        if request.results or "lab__say" not in request.tools:
            return None
        called += 1
        return Answer(text="", calls=(("lab__say", "{}"),))

    async def restart() -> None:
        await server.kill()
        asked.append(await scene.ask(scene.rng.choice(tuple(AGENTS))))
        tools = scene.runtime.services.agents.tools
        assert tools is not None
        await until(lambda: tools.servers.status() == {"lab": "starting"})  # type: ignore[attr-defined]
        await server.start()

    scene.misbehave = call_first
    talking = scene.talk()
    trap = scene.at("thinking", scene.rng.randint(1, len(AGENTS)), restart)
    await scene.await_moment(talking, trap.sprung)
    await scene.heard_out(talking)
    await scene.answered(asked[0])
    before = len(server.calls)
    await scene.ask_and_hear(asked[0].agent)
    if len(server.calls) != before + 1:
        scene.wrong.append("the call after the restart did not run")
    if len(server.calls) > called:
        scene.wrong.append(f"{called} calls ran {len(server.calls)} times")
    await scene.settled()
