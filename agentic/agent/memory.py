"""An agent's own files in its turns: persona and memory in the prompt, and the tools that change them.

Persona ─ files ─┬─ prompt  the persona, and the memory entries that may be shown in the channel
audience ────────┴─ tools   memory, and the files of its workspace
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agentic.agent.persona import Persona
from agentic.personas.prompt import PersonaPrompt
from agentic.personas.workspace import Workspace
from agentic.tools.builtin_files import WRITING, file_tools
from agentic.tools.memory import NAME as MEMORY
from agentic.tools.memory import MayWrite, MemoryAudience, MemoryTool
from agentic.tools.protocol import RunnableTool


@dataclass(frozen=True)
class PersonaMemory:
    """An agent's persona prompt and file tools. `places` knows the readers of channels, `may_write` counts memory
    changes, `may_share` says whether a channel's content may be shown in all others."""

    persona: Persona
    places: MemoryAudience
    may_write: MayWrite
    may_share: Callable[[int], bool]

    async def prompt(self, channel_id: int, *, writes: bool) -> PersonaPrompt:
        """The prompt by the files as they are now. `writes`: the agent has the memory tool in the channel."""
        await self.persona.restore_memory()
        return self.persona.system(self.places.may_see(channel_id), MEMORY if writes else None)

    def tools(self) -> Sequence[RunnableTool]:
        """The tools that work on its folder as it is now; the owner's settings choose among them."""
        if os.path.isdir(self._workspace):  # called several times a turn; pathlib takes three times as long
            return self._tools
        return self._without_files if self.persona.exists else ()

    @cached_property
    def _workspace(self) -> str:
        return str(self.persona.folder / "workspace")

    @cached_property
    def _tools(self) -> tuple[RunnableTool, ...]:
        folder = self.persona.folder
        return (
            MemoryTool(folder, self.places, self.may_write),
            *file_tools(Workspace(Path(self._workspace)), self.may_share),
        )

    @cached_property
    def _without_files(self) -> tuple[RunnableTool, ...]:
        """Without the reading tools: there is no file yet."""
        return tuple(tool for tool in self._tools if tool.spec.name in (MEMORY, *WRITING))
