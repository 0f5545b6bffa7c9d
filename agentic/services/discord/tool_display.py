"""Tool calls and their results, shown in Discord under the agent's name, beside the turn.

    call   → a post by webhook, which begins with a period: no bot reads it
    result → the same post with the result, and further ones where it is long

The turn does not wait for a post. Posts of a channel come in the order of their calls. A post that fails is logged and
left out; the record of the call is kept elsewhere (agentic.tools.records).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

from cachetools import LRUCache

from agentic.chat.outlet import ChannelView
from agentic.process.tasks import BackgroundTasks
from agentic.services.discord.channels import Channel
from agentic.services.discord.gate import Gate
from agentic.services.discord.webhooks import WebhookIdentity
from agentic.tools.call_runner import ToolEvent
from agentic.tools.record import ToolRecord
from agentic.tools.rendering import posts

MOST_WAITING = 40  # posts and edits; a webhook takes five in two seconds
REMEMBERED = 1000  # calls whose result is awaited

log = logging.getLogger(__name__)


class Poster(Protocol):
    """agentic.services.discord.webhooks.Webhooks is the one for Discord. Neither method raises anything of
    Discord's."""

    async def send(self, gate: Gate, channel: Channel, text: str, face: WebhookIdentity) -> int | None: ...
    async def edit(self, gate: Gate, channel: Channel, message_id: int, text: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Spot:
    """The channel and webhook identity of a shown call."""

    channel: Channel
    face: WebhookIdentity


class ToolDisplay:
    """Shows the tool calls of one agent. `spot` gives the place, None where nothing may be shown now."""

    def __init__(self, poster: Poster, gate: Gate, spot: Callable[[int], Spot | None]) -> None:
        self._poster, self._gate, self._spot = poster, gate, spot
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._shown: LRUCache[str, int] = LRUCache(REMEMBERED)  # the post of a call, by the record's id
        self._tasks = BackgroundTasks()

    def __call__(self, view: ChannelView, event: ToolEvent) -> None:
        """Show it in the background."""
        if len(self._tasks) >= MOST_WAITING:
            log.warning("channel %d: a call of %s is not shown: too many wait", view.channel_id, event.record.name)
            return
        lock = self._locks.setdefault(view.channel_id, asyncio.Lock())
        showing = self._in_order(lock, view.channel_id, event)
        self._tasks.start(showing, f"showing a call of {event.record.name}")

    async def aclose(self) -> None:
        """Drop what is not shown yet."""
        await self._tasks.cancel()

    async def _in_order(self, lock: asyncio.Lock, channel_id: int, event: ToolEvent) -> None:
        async with lock:  # given in the order in which it was asked for
            show = self._call if event.kind == "call" else self._result
            await show(event.record, channel_id)

    async def _call(self, record: ToolRecord, channel_id: int) -> None:
        spot = self._spot(channel_id)
        if spot is None:
            return
        gate, first = self._speaking(channel_id), posts(record.agent, record)[0]
        if (message_id := await self._poster.send(gate, spot.channel, first, spot.face)) is not None:
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
        """A post takes a while (find or make a webhook, retry): the bots may have been stopped meanwhile."""
        return self._gate.under(lambda: self._spot(channel_id) is not None)
