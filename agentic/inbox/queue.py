"""An agent's events on their way to turns: each enters its lane once, and leaves it for a turn or by a stop.

What waits when the process ends is kept in Redis for the next one. What the coordinator gave is not: it repeats that
until its deadline. A mention is answered late, within MENTION_CATCHUP_SECONDS; automation has a day. A message in a
private chat is kept as soon as it waits, because Signal has no past in which it could be found after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from agentic.agent.events import InstructionEvent, MentionEvent, ReflectionEvent, TurnEvent, save_event
from agentic.agent.services import AgentServices
from agentic.context.entries import Entry
from agentic.inbox.batching import gather, pause
from agentic.inbox.lanes import Inbox
from agentic.inbox.pace import PrivatePace
from agentic.process.tasks import BackgroundTasks
from agentic.state.turns import LATEST_DEADLINE
from agentic.turn.runner import TurnRunner
from agentic.wire.link import RedisAway
from agentic.wire.messages import Instruction, Result
from agentic.wire.reading import UnreadableInstruction

KEEP_SECONDS = 5.0  # at the end of the process, if Redis is slow

log = logging.getLogger(__name__)


class TurnQueue:
    """The inbox of one agent, in front of its `runner`."""

    def __init__(self, runner: TurnRunner, services: AgentServices) -> None:
        self._runner, self._services, self._registry = runner, services, runner.registry
        settings = services.settings
        self._pace = PrivatePace(settings.mentions_per_minute, services.clock)
        self.inbox: Inbox[TurnEvent] = Inbox(
            self._run,
            max_running=settings.max_concurrent_turns,
            max_depth=settings.max_queue_depth,
            pause=self._pause,
            always_fits=self._is_in_private,
            lane=lambda event: event.lane,
            clock=services.clock,
        )
        self._left: list[TurnEvent] = []  # what waited when the inbox was closed
        self._is_closed = False
        self._keeping, self._keeps = BackgroundTasks(), asyncio.Lock()  # one after the other, in the order of events

    def _pause(self, event: TurnEvent) -> float:
        """Return the seconds for which an event at the head of its lane still waits."""
        seconds = pause(event, self._services.settings.mention_debounce_seconds, self._services.clock())
        return max(seconds, self._pace.seconds_left(event.channel_id)) if self._is_in_private(event) else seconds

    async def _run(self, event: TurnEvent) -> None:
        if self._is_in_private(event):
            self._pace.note(event.channel_id)
        await self._runner.run(event)

    def _is_in_private(self, event: TurnEvent) -> bool:
        """Whether a person wrote it in a private chat: it is paced there, and never refused."""
        return isinstance(event, MentionEvent) and self._runner.is_private(event.channel_id)

    def __contains__(self, turn_id: object) -> bool:
        """Whether the event has come to this process before."""
        return turn_id in self._registry

    @property
    def channels(self) -> tuple[int, ...]:
        """Where a turn waits or runs."""
        return tuple({*self.inbox.channels, *self._runner.channels})

    def enqueue(self, event: TurnEvent) -> bool:
        """Put an event into its lane; False when it came before, or there is no room for it."""
        if self._registry.begin(event.id) != "new":
            return False
        is_in_private = self._is_in_private(event)
        if not (self._is_closed and is_in_private) and self.inbox.put(event) is None:
            self._registry.forget(event.id)
            return False
        if is_in_private:
            self._keeping.start(self._keep_now(event), "keep a message of a private chat")
        return True

    async def supersede(self, turn_ids: Sequence[str]) -> None:
        """Give turns that are not to begin, in this run of the program or a later one, their result."""
        await self._registry.close(turn_ids)

    async def instruct(self, read: Instruction | UnreadableInstruction) -> None:
        """Give every instruction exactly one result; one that is repeated gets the same."""
        if isinstance(read, UnreadableInstruction):
            await self._runner.refuse(read.instruction_id, read.reason)
        elif (event := _event_of(read, self._services.clock())) is None:
            log.warning("%s: refused an instruction: unknown action or task %.40r", self._runner.name, read.action)
            await self._runner.refuse(read.instruction_id, "unknown_action")
        else:
            await self._take(event)

    async def _take(self, event: InstructionEvent | ReflectionEvent) -> None:
        state = self._registry.begin(event.id)
        if isinstance(state, Result):
            await self._runner.publish(state)
        elif state == "new" and self.inbox.put(event) is None:
            await self._runner.give_up(event, "busy")

    def gather(self, channel_id: int, piece: Entry, *, calls: bool) -> bool:
        """Add a message to its author's question that waits in the channel; False where none does."""
        grown = gather(self.inbox, channel_id, piece, calls=calls, now=self._services.clock())
        if grown is None:
            return False
        self._registry.begin(grown.id)
        if self._is_in_private(grown):
            self._keeping.start(self._keep_now(grown), "keep a message of a private chat")
        return True

    async def stop(self, channels: Iterable[int], which: Callable[[TurnEvent], bool]) -> None:
        """End the turns of these channels that `which` picks, running and waiting ones."""
        waited: list[TurnEvent] = []
        for channel_id in channels:
            self._runner.cancel_running(channel_id, "stopped", which)
            waited += self.inbox.cancel(channel_id, keep=lambda event: not which(event))
        for event in waited:
            await self._runner.cancel_waiting(event, "stopped")

    async def cancel(self, turn_id: str, reason: str) -> None:
        """End one turn, running or waiting. One that has not come yet is not taken when it comes."""
        self._runner.cancel_turn(turn_id, reason)
        for lane in self.inbox.lanes:
            for event in self.inbox.cancel(lane, keep=lambda event: event.id != turn_id):
                await self._runner.cancel_waiting(event, reason)
        self._registry.refuse_unknown(turn_id, reason)

    def close(self) -> None:
        """Begin nothing more. What waits, and what is still written in a private chat, is for `keep_waiting`."""
        self._is_closed = True
        self._left += self.inbox.close()

    async def keep_waiting(self) -> None:
        """Keep in Redis what waited when the inbox was closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEP_SECONDS):
                await self._keeping.finish()
        left, self._left = self._left, []
        kept, agent = Counter[str](), self._runner.name
        for event in left:
            if (reason := await self._keep(event)) is None:
                kept[event.kind] += 1
            else:
                self._report_dropped(event, reason)
        if kept:
            counts = ", ".join(f"{count} {kind}" for kind, count in kept.items())
            log.info("%s: kept what waited for its turn until the next start: %s", agent, counts)

    async def _keep_now(self, event: TurnEvent) -> None:
        """Keep an event that waits, in place of those that it has grown from. A turn that has begun keeps itself."""
        async with self._keeps:
            reason = await self._keep(event)
            if reason is not None and self._is_closed:
                self._report_dropped(event, reason)

    def _report_dropped(self, event: TurnEvent, reason: str) -> None:
        name = self._runner.name
        log.warning("%s: dropped %s %s, which waited for its turn: %s", name, event.kind, event.id, reason)

    async def _keep(self, event: TurnEvent) -> str | None:
        """Why the event is lost; None where it is kept, or comes again by itself."""
        if event.reports:
            return None
        seconds = LATEST_DEADLINE
        if isinstance(event, MentionEvent):
            settings = self._services.settings
            seconds = event.heard_at + settings.mention_catchup_seconds - self._services.clock()
            event = replace(event, late=True, seconds=settings.turn_timeout_seconds)
        if not (saved := save_event(event, 0)):
            return "it belongs to this run of the program"
        if seconds <= 0:
            return "it is older than MENTION_CATCHUP_SECONDS"
        try:
            await self._services.ledger.turns.keep(self._runner.name, event.id, saved, seconds)
        except RedisAway:
            return "Redis is away"
        if isinstance(event, MentionEvent):
            await self._registry.close(event.joined_ids)
        return None


def _event_of(given: Instruction, now: float) -> InstructionEvent | ReflectionEvent | None:
    """None for an action, or an idle task, that is not known."""
    if given.action == "decide":
        return InstructionEvent.of(given, now)
    return ReflectionEvent.of(given, now) if given.action == "reflect" else None
