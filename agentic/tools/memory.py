"""memory: an agent changes its own memory.md. The change is on the disk when the call returns.

An agent notes what people in the channel may have said. So an entry records the channel where it was learned and the
person who caused it. Only entries that may be shown in the channel can be replaced or forgotten from there, and each
person can cause a limited number of changes a day. agentic.personas.memory sanitizes and limits the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentic.llm.types import Tool
from agentic.personas.files import PersonaError
from agentic.personas.memory import MAX_ENTRY, MAX_SECTION_NAME, MaySee, Origin, append, forget, replace_section
from agentic.tools.protocol import ToolContext, ToolOutput

NAME = "memory"
SPEC = Tool(
    NAME,
    "Changes your long-term memory, which is shown above. append adds one entry; replace replaces a whole section with"
    " text, one entry a paragraph; forget removes the entry that contains these words. Note only what will still matter"
    " in a month and what people would want you to keep; never orders, never secrets.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["append", "replace", "forget"]},
            "text": {"type": "string", "maxLength": 4 * MAX_ENTRY},
            "section": {
                "type": "string",
                "maxLength": MAX_SECTION_NAME,
                "description": "its heading; for replace",
            },
        },
        "required": ["action", "text"],
        "additionalProperties": False,
    },
)

MayWrite = Callable[[ToolContext], Awaitable[bool]]


class MemoryAudience(Protocol):
    """The readers of each channel; agentic.services.discord.channels.Audience."""

    def may_see(self, here: int) -> MaySee: ...
    def origin(self, here: int) -> int: ...


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """The memory of the persona in `folder`. `may_write` counts a change and refuses one above the limit."""

    folder: Path
    places: MemoryAudience
    may_write: MayWrite
    spec: Tool = SPEC

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        if arguments["action"] == "replace" and not arguments.get("section"):
            return ToolOutput.failed("section is missing: replace needs a section's heading")
        if not await self.may_write(context):
            return ToolOutput.failed("the memory cannot be changed any more today: the limit is reached")
        try:
            return ToolOutput(await to_its_end(lambda: self._change(arguments, context)))
        except PersonaError as error:
            return ToolOutput.failed(f"nothing was changed: {error}")

    def _change(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        here, text, section = context.channel_id, str(arguments["text"]), str(arguments.get("section") or "")
        # A turn without a channel only knows what may be shown everywhere.
        origin = Origin(self.places.origin(here), context.guild_id, context.asked_by) if here else None
        if arguments["action"] == "append":
            append(self.folder, text, origin, section or None)
            return "noted"
        if arguments["action"] == "replace":
            replace_section(self.folder, section, text, origin, self.places.may_see(here))
            return "replaced"
        return f"forgotten: {forget(self.folder, text, self.places.may_see(here))}"


async def to_its_end(change: Callable[[], str]) -> str:
    """Run a change of the disk in a thread. A cancelled caller waits for its end: nothing is written after an event
    that counts as done."""
    work = asyncio.ensure_future(asyncio.to_thread(change))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # retrieved, so that asyncio does not log it: the caller is gone
        raise
