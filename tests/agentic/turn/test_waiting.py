"""A person who waits for a busy model at home learns how many calls are ahead."""

from __future__ import annotations

import asyncio

import pytest

from agentic.chat.outlet import UNFINISHED
from agentic.turn.waiting import LONG_WAIT, PACE
from agentic.wire.messages import TurnNotice
from tests.support.agent_scene import Scene
from tests.support.doubles import LoopTime, settle

AT_HOME = {"CLAUDE_MODEL": "ollama/small"}


class Waiting:
    """A person's question, whose call waits in line until it is answered."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.time, self._go_on = scene, LoopTime(), asyncio.Event()

    @classmethod
    async def begun(cls) -> Waiting:
        waiting = cls(await Scene(env=AT_HOME).start())
        waiting.scene.answers(waiting._go_on.wait)
        await waiting.scene.ask("And now?")
        return waiting

    def ahead(self, count: int) -> None:
        on_wait = self.scene.prompt.on_wait
        assert on_wait is not None
        on_wait(count)

    async def end(self) -> None:
        self._go_on.set()
        await settle()
        await self.scene.aclose()

    @property
    def shown(self) -> list[str]:
        return [str(text).removesuffix(UNFINISHED) for text in self.scene.texts()]

    @property
    def told(self) -> list[int | None]:
        """What the console was told."""
        return [sent.ahead for _, sent in self.scene.bus.published if isinstance(sent, TurnNotice)]


async def test_only_a_long_wait_has_a_line_in_the_channel() -> None:
    waiting = await Waiting.begun()
    waiting.ahead(2)
    await waiting.time.run(LONG_WAIT - PACE)
    assert waiting.shown == []
    await waiting.time.run(2 * PACE)
    assert waiting.shown == ["Thinking (2 ahead)…"]
    await waiting.scene.aclose()


@pytest.mark.parametrize("counts", [[2, 0], [0], []])
async def test_a_short_wait_posts_nothing(counts: list[int]) -> None:
    waiting = await Waiting.begun()
    for count in counts:
        waiting.ahead(count)
        await waiting.time.run(PACE)
    await waiting.time.run(2 * LONG_WAIT)
    assert waiting.shown == []
    await waiting.end()


async def test_the_console_learns_it_immediately_and_then_only_now_and_then() -> None:
    waiting = await Waiting.begun()
    for count in range(9, 0, -1):
        waiting.ahead(count)
        await waiting.time.run(PACE / 6, step=PACE / 6)
    await waiting.time.run(2 * PACE)
    assert waiting.told == [9, 4, 1]
    await waiting.end()
    assert waiting.told == [9, 4, 1], "nothing comes after the end"
