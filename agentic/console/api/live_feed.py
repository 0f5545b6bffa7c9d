"""Streams events to open pages, and follows what is running now.

These are server-sent events, each encoded once for all readers. Events have ids, `{start}-{number}`. The newest are
kept so that a page can resume after losing its connection; if it missed too much, it gets a `reset`. Nothing is encoded
while no page is open.

| event | data |
| --- | --- |
| `message` | a whole message, new or changed |
| `gone` | `channel` and `id` of a deleted message |
| `reread` | `channel`: many of its messages changed, for example because its history was read |
| `channels` | the list of channels changed |
| `turns` | the history has new turns or prompts: `newest` and `words` are numbers of the last ones |
| `situation` | Situation's object, after each change |
| `reset` | the page missed too much and must load all data again |
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sqlite3
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from agentic.console.json_values import ending_text, message_json, pick
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused
from agentic.process.tasks import cancel_and_wait
from agentic.record.queries.turns import newest_numbers
from agentic.state.conversation_state import ConversationState
from agentic.state.rooms import Room
from agentic.wire import keys
from agentic.wire.connection import or_default
from agentic.wire.messages import TurnNotice, read

HUB_EVENTS = 500  # that a page may have missed
MAX_WAITING = 200  # frames per reader
MAX_READERS = 200
CHUNK = 16_384  # bytes, approximately, that are written at once
MAX_TURNS = 500  # at once
NEXT_TIMES = 5
PLAN_SECONDS = 15.0  # between two reads of the day's plan
LOOK_EVERY = 2.0  # seconds between two reads of the situation
OFFLINE_SECONDS = 60.0  # in which a page may come back after losing its connection
LOOK_PAUSE = 0.5  # seconds, at least; reading it at each of many turns would delay the turns
REREAD_FROM = 25  # changed messages of a channel at once
SPARE_SECONDS = 30.0  # that a turn may take beyond its timeout

log = logging.getLogger(__name__)


class LiveFeed:
    """Streams changes of channels and of the situation while the console runs.

    `running` goes into the application's `cleanup_ctx`, `close` into its `on_shutdown`.
    """

    def __init__(self, parts: ConsoleContext) -> None:
        self.hub, self._parts = Hub(), parts
        self._thinking = Thinking(parts.settings.turn_timeout_seconds + SPARE_SECONDS, parts.clock)
        self._situation = Situation(parts, self._thinking)
        self._changed: dict[int, set[int]] = defaultdict(set)  # channel → messages
        self._look = asyncio.Event()
        self._shown: dict[str, Any] = {}
        self._channels: list[Any] = []
        self._newest = (0, 0)  # turn and prompt in the history

    async def running(self, _: web.Application) -> AsyncIterator[None]:
        self._parts.bus.subscribe(keys.COORDINATOR_TURNS, self._on_turn)
        # Show a stop, pause, or mute soon: the other handlers of the notice learn of it meanwhile.
        self._parts.bus.subscribe(keys.SILENCE_NOTICES, lambda _: self._look.set())
        end = self._parts.live.subscribe(self.on_change)
        task = asyncio.create_task(self._watch(), name="live page")
        try:
            yield
        finally:
            end()
            await cancel_and_wait(task)

    async def close(self, _: web.Application) -> None:
        """End the streams: the server waits for open requests."""
        self.hub.close()

    def situation(self) -> dict[str, Any]:
        """Return the known situation. The stream soon adds what Redis knows."""
        if not self.hub.watched.is_set():
            self._situation.forget()
            self._shown = {}
        return self._situation.to_json()

    def newest(self) -> dict[str, int]:
        """Return the numbers of the last known turn and prompt in the history."""
        turn, words = self._newest
        return {"newest": turn, "words": words}

    def _on_turn(self, raw: str) -> None:
        notice = read(TurnNotice, raw)
        if notice is not None and self._thinking.take(notice) and self.hub.watched.is_set():
            self._show_situation()
            self._look.set()  # each turn changes its conversation

    def on_change(self, channel_id: int, message_id: int) -> None:
        """Collect changes until the loop is free: a page of history changes many messages at once."""
        if not self.hub.is_heard:
            self.hub.forget()
            return
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
                entry = self._parts.live.message(channel_id, message_id)
                if entry is not None:
                    self.hub.publish("message", message_json(self._parts, channel_id, entry))
                else:
                    self.hub.publish("gone", {"channel": str(channel_id), "id": str(message_id)})

    async def _watch(self) -> None:
        """Publish changes other than messages while a page is open, until canceled."""
        while True:
            await self.hub.watched.wait()
            try:
                await self._situation.read()
            except Exception:
                log.exception("reading the situation for the Live page failed; trying again")
            self._show_situation()
            channels = [(channel.id, channel.name, channel.theme) for channel in self._parts.live.channels()]
            if channels != self._channels:
                self._channels = channels
                self.hub.publish("channels", {})
            with suppress(Refused, sqlite3.Error):  # the pages say why nothing is recorded
                newest = await newest_numbers(await self._parts.store.open())
                if newest != self._newest:
                    self._newest = newest
                    self.hub.show("turns", self.newest())
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look.wait()
                    await asyncio.sleep(LOOK_PAUSE)
            self._look.clear()

    def _show_situation(self) -> None:
        now = self._situation.to_json()
        if now != self._shown:
            self._shown = now
            self.hub.show("situation", now)


class Situation:
    """What is going on in addition to messages: turns, conversations, rooms, the next times, stops, and mutes.

    It is read from Redis while a page is open, and soon after each turn. While Redis is unavailable, the last known
    situation is shown.
    """

    def __init__(self, parts: ConsoleContext, thinking: Thinking) -> None:
        self._parts, self._thinking = parts, thinking
        self._running: dict[int, ConversationState] = {}
        self._rooms: dict[int, Room] = {}
        self._times: list[float] = []
        self._plan_until = 0.0

    @or_default(None, "the Live page shows the last known situation")
    async def read(self) -> None:
        state, now = self._parts.state, self._parts.clock()
        channels = [channel.id for channel in self._parts.live.channels()]
        self._running, rooms = await asyncio.gather(
            state.coordination.conversations.read_all(channels), state.coordination.rooms.list()
        )
        self._rooms = {room.thread_id: room for room in rooms if room.thread_id in channels}
        if not now < self._plan_until <= now + PLAN_SECONDS:
            # The day's plan is stored under a local date, and its active hours may pass midnight.
            today = datetime.fromtimestamp(now, self._parts.settings.timezone).date()
            dates = [(today + timedelta(days=days)).isoformat() for days in (-1, 0, 1)]
            plans = [await state.coordination.schedule.load_schedule(date) for date in dates]
            self._times = sorted(slot.at for plan in plans for slot in plan or () if not slot.done)
            self._plan_until = now + PLAN_SECONDS

    def forget(self) -> None:
        self._running, self._rooms, self._times, self._plan_until = {}, {}, [], 0.0

    def to_json(self) -> dict[str, Any]:
        now = self._parts.clock()
        return {
            "thinking": self._thinking.now(),
            "conversations": {str(channel): _conversation_json(one) for channel, one in self._running.items()},
            "rooms": {
                str(thread): {
                    **pick(room, "topic status turns slot_until"),
                    "why": ending_text(room.why),
                    "turn": room.turn_number,
                }
                for thread, room in self._rooms.items()
            },
            "times": [at for at in self._times if at > now][:NEXT_TIMES],
            "stops": {str(channel): until for channel, until in self._parts.silence.stopped_channels().items()},
            "mutes": self._parts.silence.muted_agents(),
            "paused": self._parts.silence.is_paused,
        }


def _conversation_json(state: ConversationState) -> dict[str, Any]:
    queue = state.queue
    return {
        **pick(state, "id theme"),
        **pick(queue, "speaker single"),
        "topic": state.talk.topic,
        "joins": queue.joining is not None,
        "round": state.counts.round,
        "coming": list(queue.coming),
        "since": state.started_at,
    }


class Thinking:
    """The running turns of agents on all machines, from the notices of their beginnings, waits, and ends.

    Pub/sub may lose a notice, and a process may end during a turn, so a turn is dropped after `longest` seconds.
    `clock` returns unix seconds.
    """

    def __init__(self, longest: float, clock: Callable[[], float]) -> None:
        self._longest, self._clock = longest, clock
        self._turns: dict[tuple[str, str], dict[str, Any]] = {}  # by agent and turn

    def take(self, notice: TurnNotice) -> bool:
        """Apply a notice. Return whether it changed anything."""
        turn = (notice.agent_name, notice.turn_id)
        if notice.state != "began":
            return self._turns.pop(turn, None) is not None
        if notice.ahead is not None:
            running = self._turns.get(turn)
            changes = running is not None and running["ahead"] != notice.ahead
            if running is not None:
                self._turns[turn] = {**running, "ahead": notice.ahead}
            return changes
        if turn in self._turns or len(self._turns) >= MAX_TURNS:
            return False
        since = min(notice.at, self._clock())  # another machine's clock may be ahead
        self._turns[turn] = {"agent": notice.agent_name, "channel": str(notice.channel_id), "since": since, "ahead": 0}
        return True

    def now(self) -> list[dict[str, Any]]:
        """Return the running turns, oldest first. `since`: unix seconds. `ahead`: calls at a model server at home."""
        oldest = self._clock() - self._longest
        self._turns = {turn: running for turn, running in self._turns.items() if running["since"] > oldest}
        return sorted(self._turns.values(), key=lambda running: running["since"])


class TooManyReaders(Exception):
    """Too many pages are already open."""


class Reader:
    """An open page, with a bounded queue. `cut` is called once if the reader is too slow, and closes the connection."""

    def __init__(self, first: list[bytes], cut: Callable[[], None]) -> None:
        self._frames, self._cut = deque(first), cut
        self._more = asyncio.Event()
        self._ended = False

    async def next(self, patience: float) -> bytes | None:
        """Return waiting frames, joined up to CHUNK, b"" after `patience` seconds without any, or None at the end."""
        if not self._frames and not self._ended:
            try:
                async with asyncio.timeout(patience):
                    await self._more.wait()
            except TimeoutError:
                return b""
        if self._ended:
            return None
        chunk = b""
        while self._frames and len(chunk) < CHUNK:
            chunk += self._frames.popleft()
        if not self._frames:
            self._more.clear()
        return chunk

    def put(self, frame: bytes) -> bool:
        """Add a frame. If too many frames are already waiting, end the reader and return False."""
        if len(self._frames) >= MAX_WAITING:
            self.end()
            self._cut()
            return False
        self._frames.append(frame)
        self._more.set()
        return True

    def end(self) -> None:
        self._ended = True
        self._frames.clear()
        self._more.set()


class Hub:
    def __init__(self, *, kept: int = HUB_EVENTS, most_readers: int = MAX_READERS) -> None:
        self._start = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[bytes] = deque(maxlen=kept)  # the last frame's id has `_number`
        self.readers: set[Reader] = set()
        self._most = most_readers
        self._closed = False
        self.watched = asyncio.Event()  # set while a page is open
        self._left_at = float("-inf")  # when the last page was closed, in event loop time

    @property
    def cursor(self) -> str:
        """The id of the newest event. A page that loads all data now continues after it."""
        return f"{self._start}-{self._number}"

    @property
    def is_heard(self) -> bool:
        """Whether a page is open, or was open a moment ago and may come back."""
        return bool(self.readers) or asyncio.get_running_loop().time() - self._left_at < OFFLINE_SECONDS

    def forget(self) -> None:
        """Note that an event is not published: a page that comes back must load all data again."""
        self._kept.clear()
        self._number += 1

    def publish(self, event: str, data: Any) -> None:
        """Send an event, and keep it for pages that are briefly offline."""
        self._number += 1
        frame = f"id: {self.cursor}\n".encode() + _frame(event, data)
        self._kept.append(frame)
        self._send(frame)

    def show(self, event: str, data: Any) -> None:
        """Send an event without an id that isn't kept, because the next event of its kind replaces it."""
        self._send(_frame(event, data))

    def open(self, after: str, cut: Callable[[], None], *first: tuple[str, Any]) -> Reader:
        """Add a reader of the events since `after` ("" if it missed none), then of `first`. Raises TooManyReaders."""
        if len(self.readers) >= self._most or self._closed:
            raise TooManyReaders
        reader = Reader([*self._missed(after), *(_frame(event, data) for event, data in first)], cut)
        self.readers.add(reader)
        self.watched.set()
        return reader

    def leave(self, reader: Reader) -> None:
        reader.end()
        self.readers.discard(reader)
        if not self.readers:
            self.watched.clear()
            self._left_at = asyncio.get_running_loop().time()

    def close(self) -> None:
        """End all readers, and accept no new ones."""
        self._closed = True
        for reader in list(self.readers):
            self.leave(reader)

    def _missed(self, after: str) -> list[bytes]:
        if not after:
            return []
        start, _, number = after.partition("-")
        missed = self._number - int(number) if number.isdecimal() and len(number) < 16 else -1
        if start != self._start or not 0 <= missed <= len(self._kept):
            return [f"id: {self.cursor}\n".encode() + _frame("reset", {})]
        return list(self._kept)[len(self._kept) - missed :]

    def _send(self, frame: bytes) -> None:
        slow = [reader for reader in self.readers if not reader.put(frame)]
        for reader in slow:
            log.info("disconnected a console page that was too slow to read; it reconnects on its own")
            self.leave(reader)


def _frame(event: str, data: Any) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(
        "utf-8", "replace"
    )
