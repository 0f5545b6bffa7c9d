"""A streaming post: a message that people read while the model writes it, by edits.

    the model's text ─ update() ─ the newest text ─ every 1.2 s ─ PostParts ─ … ─ the sink's post() completes it

That pace keeps far below Discord's five edits in five seconds for a channel. An edit is skipped when the bot sends many
requests: only the last one counts, and the sink's post() makes that one. Until then each message ends in a mark, by
which a run after a crash recognises what to complete.

Only whole words are shown: redaction does not recognise half a key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from agentic.chat.outlet import UNFINISHED, CannotPost
from agentic.services.discord.multipart import PostParts

FIRST_CHARACTERS = 40  # a shorter text would make a stub of a message
PACE = 1.2  # seconds between two edits
HELD_BACK = 200  # characters: a longer word is shown before it ends
STOP_SECONDS = 3.0  # for a request that is on its way

log = logging.getLogger(__name__)


class DiscordStreamingPost:
    """Use with `async with`. `open_parts` is called when the first part is due, `split` makes messages of a text,
    `quiet` says whether there is room for an edit, and `began` is called when the first message is there."""

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
        self._open_parts, self._split, self._quiet, self._began = open_parts, split, quiet, began
        self.parts: PostParts | None = None  # None while nothing was posted
        self._text = ""
        self._updated, self._stopping = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._stream(), name=f"streaming post {self.turn_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def update(self, text: str) -> None:
        """Sets the whole text so far, as people may read it. A shorter one than before replaces it."""
        self._text = text
        self._updated.set()

    async def stop(self) -> None:
        """Ends the streaming. A request on its way is waited for: it must not come after the last one."""
        self._stopping.set()
        self._updated.set()
        if self._task is None:
            return
        task, self._task = self._task, None
        try:
            await asyncio.wait((task,), timeout=STOP_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("turn %s: streaming its post failed, it is posted whole", self.turn_id, exc_info=error)

    async def _stream(self) -> None:
        try:
            while True:
                await self._updated.wait()
                if self._stopping.is_set():
                    return
                self._updated.clear()
                await self._show(whole_words(self._text))
                with suppress(TimeoutError):
                    async with asyncio.timeout(PACE):
                        await self._stopping.wait()
        except CannotPost as error:
            log.info("turn %s: streaming its post ended: %s", self.turn_id, error.reason)

    async def _show(self, text: str) -> None:
        begun = self.parts is not None and self.parts.first is not None
        if len(text) < FIRST_CHARACTERS or (self.parts is not None and self.parts.abandoned):
            return
        if begun and not self._quiet():
            self._updated.set()  # tried again after the pause
            return
        if self.parts is None:
            self.parts = await self._open_parts()
        for number, chunk in enumerate(self._split(text)):
            await self.parts.put(number, chunk + UNFINISHED)
            if not begun:
                begun = True
                self._began()


def whole_words(text: str) -> str:
    """The text without its last word, which may not be whole yet, unless that is very long."""
    end = max(text.rfind(" "), text.rfind("\n"), len(text) - HELD_BACK, 0)
    return text[:end].rstrip()
