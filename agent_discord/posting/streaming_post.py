"""An answer that is read while it is written: a post that grows by edits.

    on_text ─ grow() ─ the newest text ─ at a pace ─ PostParts ─ … ─ the outlet's post() ends it whole

The pace keeps far from Discord's five edits in five seconds for a channel, and an edit is left out when the bot's
requests run high: only the last one counts, and that one is made by whoever ends the post. Until then each message
ends in a mark, by which a run after a crash knows what to go on with.

Only whole words are shown: half a key would pass the redaction that knows the whole one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from agent_chat.outlet import CannotPost
from agent_discord.objects.messages import UNFINISHED
from agent_discord.posting.multipart import PostParts

FIRST_CHARACTERS = 40  # before them a post would be a stub
PACE = 1.2  # seconds between two edits
HELD_BACK = 200  # characters: a longer word is shown before it ends
STOP_SECONDS = 3.0  # for a request that is on its way

log = logging.getLogger(__name__)


class DiscordStreamingPost:
    """Use as `async with`. `open` makes the parts when the first is due, `split` makes messages of a text, `quiet`
    says whether there is room for an edit, `began` is called when something stands."""

    def __init__(
        self,
        turn_id: str,
        *,
        open_parts: Callable[[], Awaitable[PostParts]],
        split: Callable[[str], Sequence[str]],
        quiet: Callable[[], bool],
        began: Callable[[], None],
    ) -> None:
        self.turn_id = turn_id
        self._split, self._quiet, self._began = split, quiet, began
        self._open_parts = open_parts
        self.parts: PostParts | None = None  # None while nothing was posted
        self._text = ""
        self._news, self._stopping = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._grow(), name=f"growing post {self.turn_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def grow(self, text: str) -> None:
        """The whole text so far, as people may read it. A shorter one than before begins anew."""
        self._text = text
        self._news.set()

    async def stop(self) -> None:
        """Grows no more. A request on its way is waited for: it must not come after the last one."""
        self._stopping.set()
        self._news.set()
        if self._task is None:
            return
        task, self._task = self._task, None
        try:
            await asyncio.wait((task,), timeout=STOP_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("turn %s: its post could not grow", self.turn_id, exc_info=error)

    async def _grow(self) -> None:
        try:
            while True:
                await self._news.wait()
                if self._stopping.is_set():
                    return
                self._news.clear()
                await self._show(whole_words(self._text))
                with suppress(TimeoutError):
                    async with asyncio.timeout(PACE):
                        await self._stopping.wait()
        except CannotPost as error:
            log.info("turn %s: its post grows no more: %s", self.turn_id, error.reason)

    async def _show(self, text: str) -> None:
        standing = self.parts is not None and self.parts.first is not None
        if len(text) < FIRST_CHARACTERS or (self.parts is not None and self.parts.abandoned):
            return
        if standing and not self._quiet():
            self._news.set()  # in a while
            return
        if self.parts is None:
            self.parts = await self._open_parts()
        for number, chunk in enumerate(self._split(text)):
            await self.parts.put(number, chunk + UNFINISHED)
            if not standing:
                standing = True
                self._began()


def whole_words(text: str) -> str:
    """The text without the word that may not be whole yet, unless that is very long."""
    end = max(text.rfind(" "), text.rfind("\n"), len(text) - HELD_BACK, 0)
    return text[:end].rstrip()
