"""An agent for the properties of the gateway: its persona's files, real events through its real inbox, and a model that
only notes what it is asked."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

from agentic.agent.persona import Personas
from agentic.agent.services import Services
from agentic.automation.automation import STARTUP
from agentic.automation.webhook_server import WebhookPayload
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Message, Prompt, Reply
from agentic.wire.messages import Instruction
from tests.support.agent_scene import ScriptedCog
from tests.support.thinking_scene import ThinkingScene

KINDS = ("message", "instruction", "heartbeat", "cron", "webhook", "hook")
MINUTE = 60.0


class CodingCog(ScriptedCog):
    """Thinks by `coder`, where there is one."""

    coder: AgentSdkModel | None = None

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        if self.coder is None:
            return await super()._call_ai(prompt, history)
        return await self.coder.complete(Prompt.of(prompt), history)


class Gateway(ThinkingScene):
    """One agent with the files of `folder`/claude, and with its own tools."""

    def __init__(self, folder: Path, coder: AgentSdkModel | None = None) -> None:
        self.folder = folder / "claude"
        self.folder.mkdir(exist_ok=True)
        env = {"PERSONAS_DIR": str(folder), "MENTIONS_PER_MINUTE": "none", "AGENT_MAX_DAILY": "100000"}
        super().__init__(env=env, cog=CodingCog)
        self.cog.coder = coder
        self._events = 0

    def _services(self) -> Services:
        services = super()._services()
        return replace(services, agents=replace(services.agents, personas=Personas(self.settings)))

    def write(self, files: Mapping[str, str | None]) -> None:
        """The persona's files by their names without .md; None takes one away."""
        for stem, text in files.items():
            path = self.folder / f"{stem}.md"
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(text.encode())

    async def raised(self, kind: str, channel: int, text: str) -> None:
        """An event of that kind, as it is raised in a running program; `text` stands in what it asks for. Its turn is
        not waited for."""
        self._events += 1
        self.clock.now += 1.0
        name = f"e{self._events}"
        if kind == "message":  # of somebody else each time: what one person writes meanwhile joins their message
            who = {"author": 1000 + self._events, "mentions": [self.me]}
            await self.hear(f"<@{self.me.id}> {text}", channel=channel, **who)
        elif kind == "instruction":
            made = Instruction(instruction_id=name, channel_id=channel, channel_theme="casual", topic=text)
            await self.cog.host.on_instruction(made.to_wire())
        elif kind == "webhook":
            assert (
                await self.cog.host.automation.receive(
                    name, WebhookPayload(channel_id=channel, name="build", text=text)
                )
                == "taken"
            )
        elif kind == "heartbeat":
            await self._due("heartbeat", f"## {name}\n- interval: 60\n- channel: <#{channel}>\n\n{text}\n")
        elif kind == "cron":
            await self._due(
                "agents", f"## Cron Jobs\n\n### {name}\n- cron: * * * * *\n- channel: <#{channel}>\n\n{text}\n"
            )
        else:
            await self._with("agents", f"## Hooks\n\n### startup\n- channel: <#{channel}>\n\n{text}\n", self._started)

    async def _started(self) -> None:
        self.state.turns.last_runs.times.pop(("claude", STARTUP), None)
        await self.cog.host.automation._start()

    async def _due(self, stem: str, section: str) -> None:
        await self._with(stem, section, self._a_minute_later)

    async def _a_minute_later(self) -> None:
        """What stands in the files is seen, and a minute after that looked at again."""
        clocks, ticks = self.cog.host.automation._clock, self.state.turns.last_runs
        await clocks.tick()
        ticks.times = {field: seen - MINUTE for field, seen in ticks.times.items()}
        await clocks.tick()

    async def _with(self, stem: str, section: str, play: Callable[[], Awaitable[None]]) -> None:
        """With a section more at the end of a file."""
        path = self.folder / f"{stem}.md"
        before = path.read_text(encoding="utf-8") if path.exists() else None
        self.write({stem: f"{before or ''}\n{section}"})
        await play()
        self.write({stem: before})

    async def idle(self) -> None:
        """Until nothing waits or runs."""
        await self.cog.host.queue.inbox._empty.wait()

    @property
    def asked(self) -> list[tuple[int, Prompt]]:
        """What the model was asked, in order, each with its channel."""
        return [(int(prompt.cache_key.partition(":")[2]), prompt) for prompt, _ in self.cog.asked]


@asynccontextmanager
async def gateway(
    files: Mapping[str, str | None], coder: AgentSdkModel | None = None, folder: Path | None = None
) -> AsyncIterator[Gateway]:
    """A running agent with these files, which it looks at each time; `folder` is where another one's are."""
    with tempfile.TemporaryDirectory() as own, mock.patch("agentic.agent.persona.READ_SECONDS", 0.0):
        made = Gateway(folder or Path(own), coder)
        made.write(files)
        await made.start()
        try:
            yield made
        finally:
            await made.aclose()
