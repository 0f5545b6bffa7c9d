"""Idle tasks among doubles: the coordinator gives one to the first agent of a scene, or cancels it."""

from __future__ import annotations

from typing import Any

from agentic.wire import keys
from agentic.wire.messages import CancelNotice, Result
from tests.support.agent_scene import Scene
from tests.support.doubles import ALICE, settle

TALK = "Alice: Which rocket flies next?\nClaude: Nobody knows yet."
NEWS = "The rocket flew this morning, for the first time, and came back in one piece."


async def reflect(scene: Scene, task: str, instruction_id: str = "r1", **fields: Any) -> Result:
    """The result of a task that ends by itself; further fields are the instruction's and the task's."""
    return _there(await _give(scene, task, instruction_id, **fields))


async def begin(scene: Scene, task: str, instruction_id: str = "r1", **fields: Any) -> None:
    """A task whose turn does not end by itself."""
    assert await _give(scene, task, instruction_id, **fields) is None


async def cancel(scene: Scene, instruction_id: str = "r1", agent: str = "claude") -> None:
    """The coordinator cancels the turn."""
    notice = CancelNotice(agent_name=agent, instruction_id=instruction_id)
    await scene.bus.handlers[keys.COORDINATOR_CANCELS](notice.to_wire())
    await settle()


def result_of(scene: Scene, instruction_id: str = "r1") -> Result:
    """The newest result with that id."""
    results = [result for result in scene.results if result.instruction_id == instruction_id]
    return _there(results[-1] if results else None)


async def _give(scene: Scene, task: str, instruction_id: str, **fields: Any) -> Result | None:
    outside = {name: fields.pop(name) for name in ("channel", "deadline") if name in fields}
    given = {"task": task, "person_id": ALICE, "person_name": "Alice", "material": TALK, **fields}
    return await scene.instruct(instruction_id, action="reflect", reflection=given, **outside)


def _there(result: Result | None) -> Result:
    assert result is not None
    return result
