"""What the agent's tools are asked and bring, shown in Discord under its name, beside the turn.

    call   → a post by webhook, which begins with a period: no bot reads it
    result → the same post with the result, and further ones where it is long

Nobody waits for a post: a turn goes on while it is made. Posts of a channel come in the order of their calls. What
cannot be shown is logged and left out; the record of the call is not kept here (agent_tools.call_log.records).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

from cachetools import LRUCache

from agent_chat.outlet import ChannelView
from agent_discord.objects.channels import Channel
from agent_discord.posting.webhooks import WebhookIdentity
from agent_discord.rest.gate import Gate
from agent_tools.call_log.record import ToolRecord
from agent_tools.call_log.rendering import posts
from agent_tools.call_runner import ToolEvent

MOST_WAITING = 40  # posts and edits; a webhook takes five in two seconds
REMEMBERED = 1000  # calls that wait for their result

log = logging.getLogger(__name__)


class Poster(Protocol):
    """agent_discord.posting.webhooks.Webhooks is the one for Discord. Neither method raises anything of Discord's."""

    async def send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None: ...
    async def edit(self, gate: Gate, channel: Channel, message_id: int, text: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Spot:
    """Where and as whom a call is shown."""

    channel: Channel
    face: WebhookIdentity


class ToolShow:
    """One agent's. `spot` says where and as whom it shows a call in a channel, None where it may not at this moment."""

    def __init__(self, poster: Poster, gate: Gate, spot: Callable[[int], Spot | None]) -> None:
        self._poster, self._gate, self._spot = poster, gate, spot
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._shown: LRUCache[str, int] = LRUCache(REMEMBERED)  # the post of a call, by the record's id
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, view: ChannelView, event: ToolEvent) -> None:
        """Returns at once."""
        if len(self._tasks) >= MOST_WAITING:
            log.warning("channel %d: a call of %s is not shown, too many wait", view.channel_id, event.record.name)
            return
        lock = self._locks.setdefault(view.channel_id, asyncio.Lock())
        showing = self._in_order(lock, view.channel_id, event)
        task = asyncio.create_task(showing, name=f"showing a call of {event.record.name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def aclose(self) -> None:
        """Drops what is not shown yet."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a call of a tool could not be shown", exc_info=error)

    async def _in_order(self, lock: asyncio.Lock, channel_id: int, event: ToolEvent) -> None:
        async with lock:  # given in the order in which it was asked for
            show = self._call if event.kind == "call" else self._result
            await show(event.record, channel_id)

    async def _call(self, record: ToolRecord, channel_id: int) -> None:
        spot = self._spot(channel_id)
        if spot is None:
            return
        gate, first = self._speaking(channel_id), posts(record.agent, record)[0]
        message_id = await self._poster.send(gate, spot.channel, first, spot.face)
        if message_id is None:
            return
        self._shown[record.id] = message_id

    async def _result(self, record: ToolRecord, channel_id: int) -> None:
        """The call's post with the result; where the call could not be shown, the result is not either."""
        message_id, spot = self._shown.pop(record.id, None), self._spot(channel_id)
        if message_id is None or spot is None:
            return
        gate, (first, *more) = self._speaking(channel_id), posts(record.agent, record)
        await self._poster.edit(gate, spot.channel, message_id, first)
        for text in more:
            await self._poster.send(gate, spot.channel, text, spot.face)

    def _speaking(self, channel_id: int) -> Gate:
        """Looked for, made, cut off and sent once more, a post takes a while: it may be silence by then."""
        return self._gate.under(lambda: self._spot(channel_id) is not None)
