"""What people hear while the inbox is full.

Posts of a channel go out one after another, five in five seconds: a line for each of two hundred mentions would hold
the answers back for minutes. So a person is told once a minute in a channel, a few lines wait at most, and whoever
comes beyond that sees a sign at the message; signs have a limit of their own at Discord.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from agent_chat.outlet import ChannelSink
from agent_cogs.events import MentionEvent
from agent_cogs.limits.reply_throttle import ReplyThrottle
from agent_cogs.turn.failure_replies import HOURGLASS, excuse

MAX_LINES = 3  # on their way at once, of a channel
MAX_WAITING = 100  # lines and signs on their way at once, of all channels

log = logging.getLogger(__name__)


class BusyLines:
    """One agent's. `told` is its memory of all such lines; `aclose` ends what is still on its way."""

    def __init__(self, told: ReplyThrottle) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines: Counter[int] = Counter()  # on their way, by channel
        self._told = told

    def tell(self, sink: ChannelSink, event: MentionEvent) -> None:
        """Lets the person know, beside everything else that happens."""
        if len(self._tasks) >= MAX_WAITING:
            return
        line = self._may_be_told(event)
        task = asyncio.create_task(self._tell(sink, event, line=line), name="busy line")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _may_be_told(self, event: MentionEvent) -> bool:
        who = (event.channel_id, event.asked.speaker.id)
        if self._told.recently(*who) or self._lines[event.channel_id] >= MAX_LINES:
            return False
        log.warning("the inbox is full, mentions in channel %d are put off", event.channel_id)
        self._told.note(*who)
        self._lines[event.channel_id] += 1
        return True

    async def _tell(self, sink: ChannelSink, event: MentionEvent, *, line: bool) -> None:
        if not line:
            await sink.react(event.sign_id, HOURGLASS)
            return
        try:
            await excuse(sink, event, "busy")
        finally:
            self._lines[event.channel_id] -= 1
