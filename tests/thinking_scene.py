"""A scene in which a test sets what the first agent may do, and its model calls tools or is heard while it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from agent_cogs.tool_house import ToolHouse
from agent_context.options import Options
from agent_llm.types import Message, Prompt, Reply, ToolCall
from tests.agent_scene import CALL, Scene, ScriptedCog


class ThinkingCog(ScriptedCog):
    """An answer that is a function is given the prompt; what it returns, or awaits, is the answer."""

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        if self.answers and callable(self.answers[0]):
            ask: Any = self.answers[0]
            answer = ask(Prompt.of(prompt))
            self.answers[0] = await answer if asyncio.iscoroutine(answer) else answer
        return await super()._call_ai(prompt, history)


def calls(*named: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """An answer that calls tools."""
    made = tuple(ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(named))
    return Reply(text=text, tool_calls=made, usage=CALL)


def words(text: str) -> Reply:
    """A completion as it is, for prefill mode."""
    return Reply(text=text, usage=CALL)


def let(
    scene: Scene, *tools: Any, cog: Any = None, options: Options | None = None, model_name: str = "", **fields: Any
) -> None:
    """Sets what is set for the agent everywhere, its tools, its model's name, and any other field of it."""
    agent = (cog or scene.cog).agent
    given = options or Options()
    house = ToolHouse(tools, SimpleNamespace(tools_for=lambda _: ()), None, ("*",))
    fields |= {"options_for": lambda _: given, "toolbox": partial(house.toolbox, agent.key)}
    fields["voice"] = replace(agent.voice, model_name=model_name or agent.voice.model_name)
    for name, value in fields.items():
        object.__setattr__(agent, name, value)


async def thinking_scene(*tools: Any, options: Options | None = None, **kwargs: Any) -> Scene:
    scene = await Scene(cog=ThinkingCog, **kwargs).start()
    let(scene, *tools, options=options)
    return scene
