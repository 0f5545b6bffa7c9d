"""An agent's events on their way to turns: lanes, the queue, messages that join a waiting question.

Inbox has one lane per channel, first in, first out; lanes run side by side up to a limit. So a slow turn in one channel
never delays another, and two turns in one channel never overlap. Events that may begin do so in the order of their
arrival; with one turn at a time, the whole inbox is first in, first out. It is bounded: an event that doesn't fit is
refused, and the caller reports that.

    put → lane → its first event, when nothing of the lane runs → its place among the running ones → handled

While Redis is unavailable, only people's questions begin, within this process's allowance (state/limits.py). Scheduled
turns, turns of conversations and rooms, and automation wait for Redis, and people's questions pass them.

Events that wait when the process ends are saved in Redis for the next one, except for the coordinator's: it repeats
them until their deadline. A mention is answered late, within MENTION_CATCHUP_SECONDS; automation has a day. A message
in a private chat is saved as soon as it waits, because a service may have no past to find it in after a crash.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cachetools import LRUCache

from agentic.agent.events import (
    POST_SECONDS,
    InstructionEvent,
    MentionEvent,
    ReflectionEvent,
    TurnEvent,
    mention_id,
    save_event,
)
from agentic.agent.services import Services
from agentic.chat.directory import Directory
from agentic.context.entries import Entry
from agentic.process.tasks import BackgroundTasks, cancel_and_wait
from agentic.state.waiting_turns import LATEST_DEADLINE
from agentic.turn.runner import TurnRunner
from agentic.wire.messages import Instruction, Result, UnreadableInstruction

MAX_PIECES = 20  # further messages of one question
LEFT_FOR_ANSWER = 60.0  # seconds of the turn's time that waiting for further messages leaves
OUTAGE_SECONDS = 0.25  # between two looks whether Redis is back
SAVE_SECONDS = 5.0  # at the end of the process, if Redis is slow
MINUTE = 60.0
MAX_CHATS = 1000  # private chats whose pace is remembered

log = logging.getLogger(__name__)


class TurnQueue:
    """The inbox of one agent, in front of its `runner`."""

    def __init__(self, runner: TurnRunner, services: Services) -> None:
        self._runner, self._services, self.registry = runner, services, runner.registry
        settings = services.settings
        self._pace = PrivatePace(settings.mentions_per_minute, services.clock)
        self.inbox = Inbox(
            self._run,
            max_running=settings.max_concurrent_turns,
            max_depth=settings.max_queue_depth,
            pause=self._pause,
            can_be_passed=self._can_be_passed,
            always_fits=self._is_in_private,
            clock=services.clock,
        )
        self._left: list[TurnEvent] = []  # what waited when the inbox was closed
        self._gave_way: set[str] = set()  # turns that wait again, because a person's turn goes first
        self._is_closed = False
        self._saving, self._save_lock = BackgroundTasks(), asyncio.Lock()  # one after the other, in the order of events

    def _pause(self, event: TurnEvent) -> float:
        """Return how many seconds an event at the head of its lane still waits."""
        if self._waits_for_redis(event):
            return OUTAGE_SECONDS
        seconds = debounce_left(event, self._services.settings.mention_debounce_seconds, self._services.clock())
        return max(seconds, self._pace.seconds_left(event.channel_id)) if self._is_in_private(event) else seconds

    def _waits_for_redis(self, event: TurnEvent) -> bool:
        return self._services.state.is_unavailable and not isinstance(event, MentionEvent)

    def _can_be_passed(self, event: TurnEvent) -> bool:
        """Return whether people's questions pass it: during an outage, or at a model server at home."""
        is_for_a_person = isinstance(event, MentionEvent) or event.forced
        is_behind_people = not is_for_a_person and self._runner.is_at_home(event.channel_id)
        return is_behind_people or self._waits_for_redis(event)

    async def _run(self, event: TurnEvent) -> None:
        if self._is_in_private(event):
            self._pace.note(event.channel_id)
        gave_way = event.id in self._gave_way
        self._gave_way.discard(event.id)
        if gave_way and self._services.clock() >= event.deadline - POST_SECONDS:
            await self._runner.cancel_waiting(event, "overtaken")
        elif await self._runner.run(event):
            self._gave_way.add(event.id)
            # Behind the person's question. If the inbox is closed or full, the coordinator sends it again.
            if self.registry.begin(event.id) == "new" and self.inbox.put(event) is None:
                self.registry.forget(event.id)
                self._gave_way.discard(event.id)

    def _is_in_private(self, event: TurnEvent) -> bool:
        """Return whether a person wrote it in a private chat: such messages are paced, and never refused."""
        return isinstance(event, MentionEvent) and self._runner.is_private(event.channel_id)

    def __contains__(self, turn_id: object) -> bool:
        return turn_id in self.registry

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple({*self.inbox.channels, *self._runner.channels})

    def enqueue(self, event: TurnEvent) -> bool:
        """Put an event into its lane; False if it has come before, or there is no room for it."""
        if self.registry.begin(event.id) != "new":
            return False
        if not (self._is_closed and self._is_in_private(event)) and self.inbox.put(event) is None:
            self.registry.forget(event.id)
            return False
        self._save_in_private(event)
        if event.forced:
            self._runner.give_way(event.channel_id)
        return True

    async def enqueue_instruction(self, read: Instruction | UnreadableInstruction) -> None:
        """Give every instruction exactly one result; a repeated instruction gets the same result again."""
        if isinstance(read, UnreadableInstruction):
            await self._runner.refuse(read.instruction_id, read.reason)
            return
        event: InstructionEvent | ReflectionEvent | None = None
        if read.action == "decide":
            event = InstructionEvent.of(read, self._services.clock())
        elif read.action == "reflect":
            event = ReflectionEvent.of(read, self._services.clock())
        if event is None:
            log.warning("%s: refused an instruction: unknown action or task %.40r", self._runner.name, read.action)
            await self._runner.refuse(read.instruction_id, "unknown_action")
            return
        status = self.registry.begin(event.id)
        if isinstance(status, Result):
            await self._runner.publish(status)
        elif status == "new" and self.inbox.put(event) is None:
            await self._runner.give_up(event, "busy")

    def merge_into_pending(self, channel_id: int, piece: Entry, *, calls: bool) -> bool:
        """Add a message to its author's newest question that waits in the channel; False if there is none, or it is
        full.

        With `calls` the message itself calls the agent: the turn is then about it, and the older messages become its
        pieces.
        """
        for waiting in reversed(self.inbox.waiting(channel_id)):
            if not isinstance(waiting, MentionEvent) or waiting.continues:
                continue
            if waiting.asked.speaker.id != piece.speaker.id:
                continue
            newest = max(part.id for part in (waiting.asked, *waiting.pieces))
            if len(waiting.pieces) >= MAX_PIECES or piece.id <= newest:
                return False
            grown = replace(waiting, pieces=(*waiting.pieces, piece), heard_at=self._services.clock())
            if calls:
                grown = replace(grown, id=mention_id(piece.id), asked=piece, pieces=(*waiting.pieces, waiting.asked))
            self.inbox.replace(waiting, grown)
            self.registry.begin(grown.id)
            self._save_in_private(grown)
            return True
        return False

    async def stop(self, channels: Collection[int], which: Callable[[TurnEvent], bool]) -> None:
        self._runner.cancel_running(lambda event: event.channel_id in channels and which(event), "stopped")
        for event in [each for one in channels for each in self.inbox.cancel(one, which)]:
            await self._runner.cancel_waiting(event, "stopped")

    async def cancel(self, turn_id: str, reason: str) -> None:
        """End one turn, running or waiting. If it hasn't come yet, it is refused when it comes."""
        self._runner.cancel_running(lambda event: event.id == turn_id, reason)
        for lane in self.inbox.lanes:
            for event in self.inbox.cancel(lane, lambda event: event.id == turn_id):
                await self._runner.cancel_waiting(event, reason)
        self.registry.refuse_unknown(turn_id, reason)

    def close(self) -> None:
        """Begin nothing more. `save_waiting` saves the waiting events, and messages that still come in private
        chats."""
        self._is_closed = True
        self._left += self.inbox.close()

    async def save_waiting(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SAVE_SECONDS):
                await self._saving.finish()
        left, self._left = self._left, []
        saved = Counter[str]()
        for event in left:
            if (reason := await self._save(event)) is None:
                saved[event.kind] += 1
            else:
                self._report_dropped(event, reason)
        if saved:
            counts = ", ".join(f"{count} {kind}" for kind, count in saved.items())
            log.info("%s: saved waiting events for the next start: %s", self._runner.name, counts)

    def _save_in_private(self, event: TurnEvent) -> None:
        """Save a waiting message of a private chat, in place of the messages it has grown from. A turn that has begun
        saves itself."""

        async def save() -> None:
            async with self._save_lock:
                if (reason := await self._save(event)) is not None and self._is_closed:
                    self._report_dropped(event, reason)

        if self._is_in_private(event):
            self._saving.start(save(), "save a message of a private chat")

    def _report_dropped(self, event: TurnEvent, reason: str) -> None:
        log.warning("%s: dropped the waiting %s %s: %s", self._runner.name, event.kind, event.id, reason)

    async def _save(self, event: TurnEvent) -> str | None:
        """Return why the event is lost; None if it is saved, or comes again by itself."""
        if event.reports:
            return None
        seconds = LATEST_DEADLINE
        if isinstance(event, MentionEvent):
            settings = self._services.settings
            seconds = event.heard_at + settings.mention_catchup_seconds - self._services.clock()
            event = replace(event, late=True, seconds=settings.turn_timeout_seconds)
        if not (saved := save_event(event, 0)):
            return "it can't outlive this run"
        if seconds <= 0:
            return "it is older than MENTION_CATCHUP_SECONDS"
        if not await self._services.state.turns.keep(self._runner.name, event.id, saved, seconds):
            return "Redis is unavailable"
        if isinstance(event, MentionEvent):
            await self.registry.close(event.joined_ids)
        return None


def can_merge(piece: Entry, directory: Directory) -> bool:
    """Return whether a message that calls nobody may belong to an earlier question: not if it is addressed to someone
    else."""
    to_another_agent = any(directory.agent_of(mentioned) for mentioned in piece.addressees.mentions)
    return not to_another_agent and piece.addressees.replied_to in (None, piece.speaker.id)


def debounce_left(event: TurnEvent, seconds: float, now: float) -> float:
    """Return how long a question still waits, until `seconds` after its newest message; bounded by its deadline."""
    if not isinstance(event, MentionEvent) or event.continues:
        return 0.0
    return min(event.heard_at + seconds, event.deadline - LEFT_FOR_ANSWER) - now


class PrivatePace:
    """Remembers when the turns of each private chat began.

    A private chat has no cooldown, and no message is refused. To keep a flood of messages from becoming a flood of
    turns, a chat has at most MENTIONS_PER_MINUTE turns a minute: the next turn waits, and further messages join it.
    `clock` gives unix seconds.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self._a_minute, self._clock = max(1, a_minute), clock
        self._begun: LRUCache[int, deque[float]] = LRUCache(MAX_CHATS)

    def note(self, channel_id: int) -> None:
        self._recent(channel_id).append(self._clock())

    def seconds_left(self, channel_id: int) -> float:
        begun = self._recent(channel_id)
        return begun[0] + MINUTE - self._clock() if len(begun) >= self._a_minute else 0.0

    def _recent(self, channel_id: int) -> deque[float]:
        """Return the beginnings of the last minute; if the clock is set back, none of them last longer."""
        now = self._clock()
        begun = deque(at for at in self._begun.get(channel_id, ()) if 0 <= now - at < MINUTE)
        self._begun[channel_id] = begun
        return begun


class Inbox:
    """Bounded lanes: at most `max_running` turns at a time over all lanes, and at most `max_depth` further events that
    wait. With 0, an event that can't begin immediately is refused. An event for which `always_fits` is true is never
    refused for lack of room. `clock` gives unix seconds.

    `pause` returns for how many more seconds the first event of a lane waits, and is asked again after them; other
    lanes pass a paused one. An event for which `can_be_passed` is true lets the others of its lane begin first.
    """

    def __init__(
        self,
        handle: Callable[[TurnEvent], Awaitable[None]],
        *,
        max_running: int,
        max_depth: int,
        pause: Callable[[TurnEvent], float] = lambda _: 0.0,
        can_be_passed: Callable[[TurnEvent], bool] = lambda _: False,
        always_fits: Callable[[TurnEvent], bool] = lambda _: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._handle, self._pause, self._can_be_passed, self._clock = handle, pause, can_be_passed, clock
        self._max_running, self._max_depth, self._always_fits = max_running, max_depth, always_fits
        self._lanes: dict[Hashable, deque[TurnEvent]] = {}  # including lanes with a running event and no waiting one
        self._running: dict[Hashable, asyncio.Task[None]] = {}
        self._next: dict[Hashable, TurnEvent] = {}  # of lanes with a place, until the turn's first step
        self._paused: dict[Hashable, asyncio.TimerHandle] = {}
        self._heads: list[tuple[int, Hashable]] = []  # number and name of lanes' first events; some are out of date
        self._waiting = 0
        self._seq, self._at = 0, 0.0
        self._closed = self._called = False
        self._empty = asyncio.Event()
        self._empty.set()

    def size(self) -> int:
        """Return how many events wait without a place. Only events that always fit can raise it above `max_depth`."""
        return self._backlog(self._waiting, len(self._lanes))

    def waiting(self, channel_id: int) -> tuple[TurnEvent, ...]:
        first = self._next.get(channel_id)
        return (*(() if first is None else (first,)), *self._lanes.get(channel_id, ()))

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(lane for lane in self._lanes if isinstance(lane, int))

    @property
    def lanes(self) -> tuple[Hashable, ...]:
        return tuple(self._lanes)

    def has_room(self, event: TurnEvent) -> bool:
        if self._closed or self._always_fits(event):
            return not self._closed
        lanes = len(self._lanes) + (event.lane not in self._lanes)
        return self._backlog(self._waiting + 1, lanes) <= self._max_depth

    def replace(self, event: TurnEvent, other: TurnEvent) -> None:
        """Put another event in the place of a waiting one. Raises ValueError if that one no longer waits."""
        other, name = other.stamped(event.seq, event.at), event.lane
        if self._next.get(name) == event:
            self._next[name] = other
        else:
            lane = self._lanes.get(name, deque())
            lane[lane.index(event)] = other

    def put(self, event: TurnEvent) -> TurnEvent | None:
        """Add the event, with its number and time; None if the inbox is full or closed."""
        if not self.has_room(event):
            return None
        lane = event.lane
        self._seq, self._at = self._seq + 1, max(self._at, self._clock())
        stamped = event.stamped(self._seq, self._at)
        self._lanes.setdefault(lane, deque()).append(stamped)
        self._waiting += 1
        self._empty.clear()
        self._schedule(lane)
        return stamped

    def cancel(self, name: Hashable, which: Callable[[TurnEvent], bool] = lambda _: True) -> list[TurnEvent]:
        """Remove the waiting events of a lane that `which` picks; the lane's running turn continues."""
        lane = self._lanes.get(name)
        if lane is None:
            return []
        gone = [event for event in lane if which(event)]
        for event in gone:
            lane.remove(event)
        self._waiting -= len(gone)
        if name in self._next and which(self._next[name]):
            gone.insert(0, self._next.pop(name))
        self._tidy(name)
        self._schedule(name)
        return gone

    async def drain(self) -> None:
        """Accept nothing new and return when all lanes are empty."""
        self._closed = True
        await self._empty.wait()

    def close(self) -> list[TurnEvent]:
        """Accept nothing new and return the waiting events in the order of arrival; running turns continue."""
        self._closed = True
        waiting = [event for lane in tuple(self._lanes) for event in self.cancel(lane)]
        return sorted(waiting, key=lambda event: event.seq)

    async def aclose(self) -> None:
        """Accept nothing new; cancel what runs, drop what waits."""
        self.close()
        await cancel_and_wait(*self._running.values())

    # -- from the lanes to the turns ----------------------------------------------------------------------------------

    def _backlog(self, waiting: int, lanes: int) -> int:
        """Return how many events wait beyond those with a place; a lane has at most one place."""
        running = len(self._running)
        return waiting - min(lanes - running, self._max_running - running, waiting)

    def _schedule(self, name: Hashable) -> None:
        """Let the lane's first event begin as soon as there is a place for it."""
        lane = self._lanes.get(name)
        if not lane or name in self._running or name in self._paused:
            return
        heapq.heappush(self._heads, (lane[0].seq, name))
        if not self._called:  # a moment later, so that what comes with it can still be gathered into it
            self._called = True
            asyncio.get_running_loop().call_soon(self._start_ready)

    def _start_ready(self) -> None:
        self._called = False
        while self._heads and len(self._running) < self._max_running:
            seq, name = heapq.heappop(self._heads)
            lane = self._lanes.get(name)
            if not lane or lane[0].seq != seq or name in self._running or name in self._paused:
                continue  # out of date
            if self._can_be_passed(lane[0]):
                first = next((event for event in lane if not self._can_be_passed(event)), lane[0])
                lane.remove(first)
                lane.appendleft(first)
            if (seconds := self._pause(lane[0])) > 0:
                self._paused[name] = asyncio.get_running_loop().call_later(seconds, self._resume, name)
                continue
            self._waiting -= 1
            self._next[name] = lane.popleft()
            self._running[name] = task = asyncio.create_task(self._run_lane(name), name=f"lane {name}")
            task.add_done_callback(partial(self._ended, name))

    def _resume(self, name: Hashable) -> None:
        del self._paused[name]
        self._schedule(name)

    async def _run_lane(self, name: Hashable) -> None:
        event = self._next.pop(name, None)
        if event is None:  # taken back at the last moment
            return
        try:
            await self._handle(event)
        except Exception:
            # The outermost edge: a failing event must not end its lane.
            log.exception("lane %s: an event failed; the lane continues", name)

    def _ended(self, name: Hashable, _: object) -> None:
        del self._running[name]
        self._next.pop(name, None)  # of a task that was canceled before its first step
        self._tidy(name)
        self._schedule(name)
        self._start_ready()

    def _tidy(self, name: Hashable) -> None:
        if self._lanes[name]:
            return
        if (timer := self._paused.pop(name, None)) is not None:
            timer.cancel()
        if name not in self._running:
            del self._lanes[name]
        if not self._lanes:
            self._empty.set()
