"""Say how many calls are ahead while a person waits for a busy model server at home (agentic.llm.server_queue).

The console learns it immediately. After a long wait the turn's growing post says it, too: the line is in the message
that will hold the answer. Both are told at most every PACE seconds, and only of the newest number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agentic.chat.outlet import StreamingPost
from agentic.process.tasks import BackgroundTasks

LONG_WAIT = 20.0  # seconds
PACE = 3.0  # seconds

Tell = Callable[[int], Awaitable[object]]


class WaitingSign:
    """The sign of one turn. `post` is the turn's growing post while there is one."""

    def __init__(self) -> None:
        self.post: StreamingPost | None = None
        self._ahead = 0
        self._tasks = BackgroundTasks()

    def listener(self, tell: Tell) -> Callable[[int], None]:
        """Return a listener for a call's place in line. `tell` tells the console."""

        def note(ahead: int) -> None:
            self._ahead = ahead
            if ahead and not len(self._tasks):
                self._tasks.start(self._show(tell), "waiting sign")

        return note

    def end_wait(self) -> None:
        """Note that the call no longer waits, whether it began or not."""
        self._ahead = 0

    async def close(self) -> None:
        await self._tasks.cancel()

    async def _show(self, tell: Tell) -> None:
        loop = asyncio.get_running_loop()
        began, told, noted = loop.time(), 0, 0
        while self._ahead or told or noted:
            ahead = self._ahead
            if ahead != told:
                told = ahead
                await tell(ahead)
            is_long = noted or (ahead and loop.time() - began >= LONG_WAIT)
            if self.post is not None and is_long and ahead != noted:
                self.post.note(f"Thinking ({ahead} ahead)…" if ahead else "Thinking…")
                noted = ahead
            await asyncio.sleep(PACE)
