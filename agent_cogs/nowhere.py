"""Outlets of errands that say nothing in a channel: what they would have said stands in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from agent_cogs.agent import Outlet
from agent_cogs.events import NOWHERE
from agent_context.entries import Entry
from agent_discord.outlet import Post, Posted, ignored
from agent_discord.transcript import Transcript
from agent_llm.types import Picture

SHOWN = 2_000  # characters of a text in the log

log = logging.getLogger(__name__)


class Nowhere:
    """No channel at all: nothing is heard, and what is said is logged."""

    def __init__(self, agent: str) -> None:
        self._agent, self._transcript = agent, Transcript(NOWHERE)

    @property
    def channel_id(self) -> int:
        return NOWHERE

    @property
    def guild_id(self) -> int | None:
        return None

    @property
    def name(self) -> str:
        return "nowhere: what you say here is kept in a log"

    @property
    def transcript(self) -> Transcript:
        return self._transcript

    @property
    def may_attach(self) -> bool:
        return False

    def refusal(self) -> str | None:
        return None

    async def settle(self) -> None:
        return None

    async def pictures(self, entries: Sequence[Entry]) -> Mapping[int, tuple[Picture, ...]]:
        return {}

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Its message has the id 0: it can be seen, but nowhere in Discord."""
        text = post.text or ""
        log.info("%s says to itself (%s): %s", self._agent, turn_id, text[:SHOWN])
        return Posted(message_id=0)

    async def react(self, message_id: int, emoji: str) -> bool:
        return False

    def typing(self) -> AbstractContextManager[None]:
        return nullcontext()


class Aside(Nowhere):
    """Hears what `outlet` hears, and says nothing there."""

    def __init__(self, agent: str, outlet: Outlet) -> None:
        super().__init__(agent)
        self._outlet = outlet

    @property
    def channel_id(self) -> int:
        return self._outlet.channel_id

    @property
    def guild_id(self) -> int | None:
        return self._outlet.guild_id

    @property
    def name(self) -> str:
        return self._outlet.name

    @property
    def transcript(self) -> Transcript:
        return self._outlet.transcript

    async def settle(self) -> None:
        await self._outlet.settle()

    async def pictures(self, entries: Sequence[Entry]) -> Mapping[int, tuple[Picture, ...]]:
        return await self._outlet.pictures(entries)
