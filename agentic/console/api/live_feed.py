"""Stream of events; what runs now.

The stream of events to open pages: server-sent events, each encoded once for all readers.

Events have ids, `{start}-{number}`; the newest are kept, so that a page that lost its connection goes on where it was.
Where that is no longer possible, or the program was restarted, it gets a `reset` and asks for everything again.
A reader has a queue with a bound. One that does not read is cut off: it neither holds the loop nor grows memory.

The agents at work on a turn, by the notices of turns that begin and end, on any machine.

Pub/sub may lose a notice, and a process may end within a turn: a turn is dropped after the longest time that one takes.

The situation besides the messages, as one JSON object: turns, conversations, rooms, the next times, stops, mutes.

It is read from Redis while a page is open, and soon after each turn.

Puts changes of channels and of the situation into the stream, and runs as long as the console.

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
import json
import logging
import secrets
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from agentic.console.parts import ConsoleParts
from agentic.state.conversations import Running
from agentic.state.rooms import Room
from agentic.wire import keys
from agentic.wire.connection import RedisAway
from agentic.wire.messages import TurnNotice, read

log = logging.getLogger(__name__)


KEPT = 500  # events that a page may have missed
MOST_WAITING = 200  # frames for one reader
MOST_READERS = 200
CHUNK = 16_384  # bytes, about, that are written at once


class TooManyReaders(Exception):
    """As many pages are open as may be."""


class Reader:
    """An open page. `cut` is called once, when the reader is too slow; it should end the connection."""

    def __init__(self, first: list[bytes], cut: Callable[[], None]) -> None:
        self._frames, self._cut = deque(first), cut
        self._more = asyncio.Event()
        self._ended = False

    async def next(self, patience: float) -> bytes | None:
        """Frames that wait, joined up to a size; b"" if none comes for `patience` seconds, None at the end."""
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
        """False, and the end, where too many wait already."""
        if len(self._frames) >= MOST_WAITING:
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
    """Publishes events to all readers."""

    def __init__(self, *, kept: int = KEPT, most_readers: int = MOST_READERS) -> None:
        self._start = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[bytes] = deque(maxlen=kept)  # the last one has `_number`
        self._readers: set[Reader] = set()
        self._most = most_readers
        self._closed = False
        self.watched = asyncio.Event()  # set while a page is open

    @property
    def cursor(self) -> str:
        """The id of the newest event: a page that has asked for everything now goes on after it."""
        return f"{self._start}-{self._number}"

    @property
    def readers(self) -> int:
        return len(self._readers)

    def publish(self, event: str, data: Any) -> None:
        """Send an event, and keep it for pages that are away for a moment."""
        self._number += 1
        frame = f"id: {self.cursor}\n".encode() + _frame(event, data)
        self._kept.append(frame)
        self._send(frame)

    def show(self, event: str, data: Any) -> None:
        """Send an event that the next of its kind replaces: it has no id and is not kept."""
        self._send(_frame(event, data))

    def open(self, after: str, cut: Callable[[], None], *first: tuple[str, Any]) -> Reader:
        """A reader that first gets what it missed since the event `after` ("" for a page that missed nothing), then
        the events `first`. Raises TooManyReaders."""
        if len(self._readers) >= self._most or self._closed:
            raise TooManyReaders
        reader = Reader([*self._missed(after), *(_frame(event, data) for event, data in first)], cut)
        self._readers.add(reader)
        self.watched.set()
        return reader

    def leave(self, reader: Reader) -> None:
        reader.end()
        self._readers.discard(reader)
        if not self._readers:
            self.watched.clear()

    def close(self) -> None:
        """End all readers; no new one is let in."""
        self._closed = True
        for reader in list(self._readers):
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
        slow = [reader for reader in self._readers if not reader.put(frame)]
        for reader in slow:
            log.info("an open page of the console does not read and is cut off; it comes back by itself")
            self.leave(reader)


def _frame(event: str, data: Any) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(
        "utf-8", "replace"
    )


MOST = 500  # turns at once


@dataclass(frozen=True, slots=True)
class Thought:
    """A turn that runs since `since`, in unix seconds."""

    agent: str
    channel_id: int
    since: float

    def to_json(self) -> dict[str, Any]:
        return {"agent": self.agent, "channel": str(self.channel_id), "since": self.since}


class Thinking:
    """`longest`: the seconds after which a turn has ended for certain. `clock` gives unix seconds."""

    def __init__(self, longest: float, clock: Callable[[], float]) -> None:
        self._longest, self._clock = longest, clock
        self._turns: dict[tuple[str, str], Thought] = {}

    def take(self, notice: TurnNotice) -> bool:
        """Whether that changed something."""
        turn = (notice.agent_name, notice.turn_id)
        if notice.state != "began":
            return self._turns.pop(turn, None) is not None
        if turn in self._turns or len(self._turns) >= MOST:
            return False
        since = min(notice.at, self._clock())  # another machine's clock may be ahead
        self._turns[turn] = Thought(notice.agent_name, notice.channel_id, since)
        return True

    def now(self) -> list[Thought]:
        """The turns that run, the oldest first."""
        oldest = self._clock() - self._longest
        self._turns = {turn: thought for turn, thought in self._turns.items() if thought.since > oldest}
        return sorted(self._turns.values(), key=lambda thought: thought.since)


NEXT_TIMES = 5
PLAN_SECONDS = 15.0  # between two reads of the day's plan


class Situation:
    """The situation as far as it is known. Only `read` asks Redis; it raises RedisAway."""

    def __init__(self, parts: ConsoleParts, thinking: Thinking) -> None:
        self._parts, self._thinking = parts, thinking
        self._running: dict[int, Running] = {}
        self._rooms: dict[int, Room] = {}
        self._mutes: dict[str, float] = {}
        self._times: list[float] = []
        self._plan_until = 0.0

    async def read(self) -> None:
        ledger, now = self._parts.ledger, self._parts.clock()
        channels = [channel.id for channel in self._parts.live.channels()]
        self._running, self._mutes, rooms = await asyncio.gather(
            ledger.conversations.running_in(channels), ledger.mutes.read(self._parts.names), ledger.rooms.list()
        )
        self._rooms = {room.thread_id: room for room in rooms if room.thread_id in channels}
        if not now < self._plan_until <= now + PLAN_SECONDS:
            self._times = await self._planned(now)
            self._plan_until = now + PLAN_SECONDS

    def forget(self) -> None:
        """Drop what was read long ago."""
        self._running, self._rooms, self._mutes, self._times, self._plan_until = {}, {}, {}, [], 0.0

    async def _planned(self, now: float) -> list[float]:
        """The day's plan is stored under a local date; its window may pass midnight."""
        today = datetime.fromtimestamp(now, self._parts.settings.timezone).date()
        dates = [(today + timedelta(days=days)).isoformat() for days in (-1, 0, 1)]
        plans = [await self._parts.ledger.schedule.load_schedule(date) for date in dates]
        return sorted(slot.at for plan in plans for slot in plan or () if not slot.done)

    def to_json(self) -> dict[str, Any]:
        now = self._parts.clock()
        return {
            "thinking": [thought.to_json() for thought in self._thinking.now()],
            "conversations": {str(channel): _conversation(one) for channel, one in self._running.items()},
            "rooms": {str(thread): _room(self._parts, room) for thread, room in self._rooms.items()},
            "times": [at for at in self._times if at > now][:NEXT_TIMES],
            "stops": {str(channel): until for channel, until in self._parts.stops.held().items()},
            "mutes": self._mutes,
        }


def _room(parts: ConsoleParts, room: Room) -> dict[str, Any]:
    return {
        "topic": room.topic,
        "status": room.status,
        "why": parts.endings.get(room.why, room.why) if room.why else None,
        "turn": room.turn_number,
        "turns": room.turns,
        "slot_until": room.slot_until,
    }


def _conversation(running: Running) -> dict[str, Any]:
    return {
        "id": running.conversation_id,
        "round": running.round_number,
        "speaker": running.speaker,
        "coming": list(running.coming),
        "theme": running.theme,
        "topic": running.topic,
        "since": running.started_at,
        "joins": running.joins,
        "single": running.single,
    }


LOOK_EVERY = 2.0  # seconds between two reads of the situation
LOOK_PAUSE = 0.5  # seconds at least: reading it at each of many turns would hold the turns up
REREAD_FROM = 25  # changed messages of a channel at once
SPARE_SECONDS = 30.0  # that a turn may last beyond its time


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
