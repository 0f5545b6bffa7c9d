"""A scene in which a test sets what the first agent may do, and its model calls tools or is heard while it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from agentic.agent.options import Layer
from agentic.agent.services import Services
from agentic.context.options import Options
from agentic.llm.provider_table import PrefillMemory
from agentic.llm.types import Message, Prompt, Reply, ToolCall
from agentic.tools.call_log import ToolRecords
from agentic.tools.toolset import Toolset
from tests.support.agent_scene import CALL, Scene, ScriptedCog


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


class NoServers:
    """No server of tools."""

    def tools_for(self, _: str) -> Sequence[Any]:
        return ()

    async def tried(self) -> None:
        pass

    async def ready(self, _: str) -> None:
        pass


class ThinkingScene(Scene):
    """Its agents may use every tool that there is."""

    def _services(self) -> Services:
        tools: Any = Toolset((), NoServers(), None, ("*",))  # type: ignore[arg-type]
        services = super()._services()
        return replace(services, agents=replace(services.agents, tools=tools))


def let(
    scene: Scene | None,
    *tools: Any,
    cog: Any = None,
    options: Options | None = None,
    model_name: str = "",
    records: ToolRecords | None = None,
    display: Any = None,
    pictures: Any = None,
    prefill: PrefillMemory | None = None,
    reset: int | None = None,
) -> None:
    """Sets what the agent's own files set of its options, which tools the installation has, its model's name, and other
    parts of it. `reset`: the last message that is context no longer."""
    cog = cog or scene.cog  # type: ignore[union-attr]
    agent, services = cog.host.agent, cog.services
    own = options.model_dump(mode="json", include=options.model_fields_set) if options else {}
    services.agents.options._extra = partial(_layer, agent.key, own, services.agents.options._extra)
    services.agents.tools.built_in = tools
    services.agents.tools.allowed, services.agents.tools.allowed_of = ("*",), {}
    if records is not None:
        services.agents.tools.records = records
    if pictures is not None:
        services.agents.tools.pictures = SimpleNamespace(find=pictures)
    if prefill is not None:
        object.__setattr__(services.models, "prefill", prefill)
    if reset is not None:
        services.state.context.resets.since = partial(_same, reset)
    models = replace(agent.models, main=replace(agent.models.main, name=model_name or agent.models.main.name))
    object.__setattr__(agent, "models", models)
    if display is not None:
        object.__setattr__(agent, "display", SimpleNamespace(show=display))


async def _same(value: int, *_: object) -> int:
    return value


def _layer(agent: str, own: Layer, others: Callable[[str], Layer], asked: str) -> Layer:
    return own if asked == agent else others(asked)


async def thinking_scene(*tools: Any, options: Options | None = None, **kwargs: Any) -> Scene:
    scene = await ThinkingScene(cog=ThinkingCog, **kwargs).start()
    let(scene, *tools, options=options)
    return scene
