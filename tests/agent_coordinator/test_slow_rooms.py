"""A room's turn has as much time as its member needs, and the thread is told of a slow one."""

from __future__ import annotations

from typing import Any

import pytest

from agentic.rooms.notices import HIDDEN, line_text
from agentic.wire.bus import AgentTimedOut
from agentic.wire.messages import Instruction
from tests.support.coordinator_doubles import Ids
from tests.support.room_scene import RoomScene, converser

LONGEST = 300.0


class Slow:
    """A voice that takes as many seconds for each of its turns; None for a turn that times out."""

    def __init__(self, name: str, *seconds: float | None) -> None:
        self._voice, self._seconds = converser(name, Ids()), [*seconds]
        self.scene: RoomScene

    def __call__(self, instruction: Instruction) -> Any:
        taken = self._seconds.pop(0) if self._seconds else 1.0
        self.scene.time.now += LONGEST if taken is None else taken
        return AgentTimedOut("no result") if taken is None else self._voice(instruction)


async def talked(grok: Slow, turns: int) -> RoomScene:
    scene = RoomScene(grok=grok)
    grok.scene = scene
    await scene.lead(turn_seconds=LONGEST)
    await scene.open(turns=turns)
    await scene.talk()
    await scene.die()
    return scene


@pytest.mark.parametrize(
    ("seconds", "times"),
    [
        ((40.0, 40.0, 40.0), [300.0, 120.0, 120.0]),
        ((5.0, 5.0, 5.0), [300.0, 60.0, 60.0]),
        ((5.0, None, 5.0), [300.0, 60.0, 180.0]),
    ],
)
async def test_a_turn_has_thrice_the_time_of_the_last_ones_and_a_minute_at_least(
    seconds: tuple[float | None, ...], times: list[float]
) -> None:
    began: list[float] = []

    class Watched(Slow):
        def __call__(self, instruction: Instruction) -> Any:
            assert instruction.deadline is not None
            began.append(instruction.deadline - self.scene.time.now)
            return super().__call__(instruction)

    await talked(Watched("grok", *seconds), turns=9)
    assert began[:3] == times


async def test_the_thread_is_told_once_how_long_a_slow_member_thinks() -> None:
    room = (await talked(Slow("grok", 42.0, 42.0, 42.0), turns=9)).room
    assert [line_text(room, line) for line in room.lines] == [f"{HIDDEN}Grok is thinking (about 40 s)…"]


async def test_nothing_is_said_of_quick_members() -> None:
    assert (await talked(Slow("grok", 15.0, 15.0, 15.0), turns=9)).room.lines == ()
