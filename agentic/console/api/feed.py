"""Puts changes of channels and of the situation into the stream, and runs as long as the console.

| event | data |
| --- | --- |
| `message` | a message that is new or changed, whole |
| `gone` | `channel`, `id` of a message that was deleted |
| `reread` | `channel`: many messages changed, its history was read for example |
| `channels` | the list of channels changed |
| `situation` | situation.py's object, whenever it changed |
| `reset` | the page missed too much and asks for everything again |
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from aiohttp import web

from agentic.console.api.hub import Hub
from agentic.console.api.situation import Situation
from agentic.console.api.thinking import Thinking
from agentic.console.parts import ConsoleParts
from agentic.wire import keys
from agentic.wire.link import RedisAway
from agentic.wire.messages import TurnNotice
from agentic.wire.reading import read

LOOK_EVERY = 2.0  # seconds between two reads of the situation
LOOK_PAUSE = 0.5  # seconds at least: reading it at each of many turns would hold the turns up
REREAD_FROM = 25  # changed messages of a channel at once
SPARE_SECONDS = 30.0  # that a turn may last beyond its time

log = logging.getLogger(__name__)


class LiveFeed:
    """`running` goes into the application's `cleanup_ctx`, `close` into its `on_shutdown`."""

    def __init__(self, parts: ConsoleParts, hub: Hub | None = None, *, look_every: float = LOOK_EVERY) -> None:
        self.hub = hub or Hub()
        self._parts, self._look_every = parts, look_every
        self._thinking = Thinking(parts.settings.turn_timeout_seconds + SPARE_SECONDS, parts.clock)
        self._situation = Situation(parts, self._thinking)
        self._changed: dict[int, set[int]] = defaultdict(set)  # channel → messages
        self._look = asyncio.Event()
        self._shown: dict[str, Any] = {}
        self._channels: list[Any] = []

    async def running(self, _: web.Application) -> AsyncIterator[None]:
        self._parts.bus.subscribe(keys.COORDINATOR_TURNS, self._on_turn)
        end = self._parts.live.subscribe(self._on_change)
        task = asyncio.create_task(self._watch(), name="live page")
        try:
            yield
        finally:
            end()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self, _: web.Application) -> None:
        """Ends the streams first: the server waits for open requests."""
        self.hub.close()

    def situation(self) -> dict[str, Any]:
        """The present one as far as it is known; the stream soon brings what Redis knows."""
        if not self.hub.watched.is_set():
            self._situation.forget()
            self._shown = {}
        return self._situation.to_json()

    def _on_turn(self, raw: str) -> None:
        notice = read(TurnNotice, raw)
        if notice is not None and self._thinking.take(notice):
            self._show_situation()
            self._look.set()  # a conversation moves on with each turn

    def _on_change(self, channel_id: int, message_id: int) -> None:
        """Collect changes until the loop is free: a page of a history brings many at once."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._publish)
        self._changed[channel_id].add(message_id)

    def _publish(self) -> None:
        changed, self._changed = self._changed, defaultdict(set)
        for channel_id, message_ids in changed.items():
            if not self._parts.live.is_shown(channel_id):
                continue
            if len(message_ids) >= REREAD_FROM:
                self.hub.publish("reread", {"channel": str(channel_id)})
                continue
            for message_id in sorted(message_ids):
                message = self._parts.live.message(channel_id, message_id)
                if message is not None:
                    self.hub.publish("message", message.to_json())
                else:
                    self.hub.publish("gone", {"channel": str(channel_id), "id": str(message_id)})

    async def _watch(self) -> None:
        """Until cancelled: while a page is open, say what changed besides the messages."""
        while True:
            await self.hub.watched.wait()
            try:
                await self._situation.read()
            except RedisAway as away:
                log.debug("the live page keeps what it knows, Redis is away: %s", away)
            except Exception:
                log.exception("the live page could not read what goes on; it tries again")
            self._show_situation()
            self._show_channels()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_every):
                    await self._look.wait()
                    await asyncio.sleep(LOOK_PAUSE)
            self._look.clear()

    def _show_situation(self) -> None:
        now = self._situation.to_json()
        if now != self._shown:
            self._shown = now
            self.hub.show("situation", now)

    def _show_channels(self) -> None:
        now = [(channel.id, channel.name, channel.theme) for channel in self._parts.live.channels()]
        if now != self._channels:
            self._channels = now
            self.hub.publish("channels", {})
