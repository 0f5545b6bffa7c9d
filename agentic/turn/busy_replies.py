"""Replies to people while the inbox is full.

Posts of a channel go out one after another, five in five seconds: a line for each of two hundred mentions would hold
the answers back for minutes. So a person gets one line a minute in a channel, a few lines wait at most, and any further
mention gets a sign instead; signs have a rate limit of their own there.
"""

from __future__ import annotations

import logging
from collections import Counter

from agentic.agent.events import MentionEvent
from agentic.agent.limits import ReplyThrottle
from agentic.chat.outlet import ChannelSink
from agentic.process.tasks import BackgroundTasks
from agentic.turn.failure_replies import HOURGLASS, post_failure_reply

MAX_LINES = 3  # on their way in one channel
MAX_WAITING = 100  # lines and signs on their way in all channels

log = logging.getLogger(__name__)


class BusyReplies:
    """Tells people that the inbox is full; `throttle` is shared with the agent's other failure replies."""

    def __init__(self, throttle: ReplyThrottle) -> None:
        self._tasks = BackgroundTasks()
        self._lines: Counter[int] = Counter()  # on their way, by channel
        self._throttle = throttle

    def reply(self, sink: ChannelSink, event: MentionEvent) -> None:
        """Reply in the background."""
        if len(self._tasks) < MAX_WAITING:
            self._tasks.start(self._reply(sink, event, line=self._takes_line(event)), "busy reply")

    async def aclose(self) -> None:
        """Cancel what is on its way."""
        await self._tasks.cancel()

    def _takes_line(self, event: MentionEvent) -> bool:
        where = (event.channel_id, event.asked.speaker.id)
        if self._throttle.recently(*where) or self._lines[event.channel_id] >= MAX_LINES:
            return False
        log.warning("channel %d: a mention was not taken, the inbox is full", event.channel_id)
        self._throttle.note(*where)
        self._lines[event.channel_id] += 1
        return True

    async def _reply(self, sink: ChannelSink, event: MentionEvent, *, line: bool) -> None:
        if not line:
            await sink.react(event.sign_id, HOURGLASS)
            return
        try:
            await post_failure_reply(sink, event, "busy")
        finally:
            self._lines[event.channel_id] -= 1
