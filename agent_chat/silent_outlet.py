"""Outlets of errands that say nothing in a channel. The log has the length of what they said, and no words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext

from agent_chat.attachments import AS_USUAL, Look
from agent_chat.outlet import NOWHERE, SPLIT_AT, CommandReplies, Grows, Outlet, Post, Posted, ignored
from agent_chat.text_files import MAX_FILES, TextFile
from agent_chat.transcript import Transcript
from agent_context.entries import Entry
from agent_context.selecting.history import Interval
from agent_llm.types import Picture

log = logging.getLogger(__name__)


class Unread:
    """A text that grows unseen."""

    def grow(self, text: str) -> None:
        """Nothing is shown of it."""


class Nowhere:
    """No channel at all: nothing is heard, and nobody reads what is said."""

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
        return "nowhere: nobody reads what you say here"

    @property
    def own_name(self) -> str:
        return self._agent

    @property
    def own_ids(self) -> frozenset[int]:
        return frozenset()

    @property
    def transcript(self) -> Transcript:
        return self._transcript

    @property
    def may_attach(self) -> bool:
        return False

    @property
    def parent(self) -> Outlet | None:
        return None

    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]:
        return ()

    @property
    def chores(self) -> CommandReplies | None:
        return None

    def refusal(self) -> str | None:
        return None

    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
        return None

    def know_as(self, inner_names: Mapping[str, str]) -> None:
        """Nobody is mentioned here."""

    async def settle(self) -> None:
        return None

    async def pictures(self, entries: Sequence[Entry], look: Look = AS_USUAL) -> Mapping[int, tuple[Picture, ...]]:
        return {}

    async def text_files(
        self, entries: Sequence[Entry], *, max_characters: int, most: int = MAX_FILES
    ) -> Mapping[int, TextFile]:
        return {}

    def growing(
        self, turn_id: str, *, ping: int | None = None, after: int | None = None, split_at: int = SPLIT_AT
    ) -> AbstractAsyncContextManager[Grows]:
        """Nobody reads it while it is written."""
        return nullcontext(Unread())

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Nothing of it was shown."""

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Its message has the id 0: it can be seen, but nowhere in Discord."""
        length = len(post.text or "")
        log.info("%s: %s said %d characters without a channel, which are not kept", self._agent, turn_id, length)
        return Posted(message_id=0)

    async def react(self, message_id: int, emoji: str) -> bool:
        return False

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
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

    @property
    def parent(self) -> Outlet | None:
        return self._outlet.parent

    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]:
        return self._outlet.pins

    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
        return await self._outlet.reach(interval, messages)

    async def pictures(self, entries: Sequence[Entry], look: Look = AS_USUAL) -> Mapping[int, tuple[Picture, ...]]:
        return await self._outlet.pictures(entries, look)

    async def text_files(
        self, entries: Sequence[Entry], *, max_characters: int, most: int = MAX_FILES
    ) -> Mapping[int, TextFile]:
        return await self._outlet.text_files(entries, max_characters=max_characters, most=most)
