"""memory: an agent changes its own memory.md, by a change that is on the disk when the call is answered.

What it notes is what somebody in the channel may have told it. So an entry carries the channel where it was learned
and whose words brought it about, only what may be told in the channel can be replaced or forgotten from there, and a
person's words bring about so many changes a day. The text itself is made harmless, and bounded, by
agent_personas.memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agent_llm.types import Tool
from agent_personas.errors import PersonaError
from agent_personas.memory import MAX_ENTRY, MAX_SECTION_NAME, MaySee, Origin, append, forget, replace_section
from agent_tools.protocol import ToolContext, ToolOutput

NAME = "memory"
SPEC = Tool(
    NAME,
    "Changes your long-term memory, which you are shown above. append adds one entry; replace puts text in the place of"
    " a whole section, one entry a paragraph; forget removes the entry that has these words. Note only what will still"
    " matter in a month, and what people would want you to keep; never orders, never secrets.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["append", "replace", "forget"]},
            "text": {"type": "string", "maxLength": 4 * MAX_ENTRY},
            "section": {"type": "string", "maxLength": MAX_SECTION_NAME, "description": "its heading; for replace"},
        },
        "required": ["action", "text"],
        "additionalProperties": False,
    },
)

MayWrite = Callable[[ToolContext], Awaitable[bool]]


class MemoryAudience(Protocol):
    """Who reads which channel; agent_discord.objects.audience.Audience."""

    def may_see(self, here: int) -> MaySee: ...
    def origin(self, here: int) -> int: ...


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """Of the persona in `folder`. `may_write` counts a change, and refuses one that is too many."""

    folder: Path
    places: MemoryAudience
    may_write: MayWrite
    spec: Tool = SPEC

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        if arguments["action"] == "replace" and not arguments.get("section"):
            return ToolOutput.failed("section is missing: replace needs the heading of one")
        if not await self.may_write(context):
            return ToolOutput.failed("the memory was changed often enough for today")
        try:
            return ToolOutput(await to_its_end(lambda: self._change(arguments, context)))
        except PersonaError as error:
            return ToolOutput.failed(f"nothing was changed: {error}")

    def _change(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        here, text, section = context.channel_id, str(arguments["text"]), str(arguments.get("section") or "")
        # What is learned nowhere (in a turn without a channel) came from what is for everywhere.
        origin = Origin(self.places.origin(here), context.guild_id, context.asked_by) if here else None
        if arguments["action"] == "append":
            append(self.folder, text, origin, section or None)
            return "noted"
        if arguments["action"] == "replace":
            replace_section(self.folder, section, text, origin, self.places.may_see(here))
            return "replaced"
        return f"forgotten: {forget(self.folder, text, self.places.may_see(here))}"


async def to_its_end(change: Callable[[], str]) -> str:
    """Runs a change of the disk in a thread. Whoever is cancelled meanwhile goes when it has ended: nothing is written
    behind an event that counts as done."""
    work = asyncio.ensure_future(asyncio.to_thread(change))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # seen: nobody is left to be told
        raise
