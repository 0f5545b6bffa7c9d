"""A running conversation and its turns.

A turn is an instruction to an agent and its result. An absent agent and a timeout are outcomes, not errors. If Redis
was unavailable, the same instruction is sent again under the same id: an agent that has already taken the turn answers
with its saved result, so nothing is posted twice.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_coordinator import audience
from agent_coordinator import room_rules as rooms
from agent_coordinator.channels import ChannelBusy
from agent_coordinator.config import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.text_signals import PERSPECTIVES, repetition_in
from agentic.state.conversation_state import ConversationState, Missed
from agentic.state.rooms import Room
from agentic.wire.bus import AgentAbsent, AgentTimedOut
from agentic.wire.connection import REDIS_RETRY_SECONDS
from agentic.wire.messages import Instruction, Result

log = logging.getLogger(__name__)

MAX_DOUBLINGS = 32  # beyond BACKOFF_MAX_SECONDS, and far from overflowing a float
MEASURED_TURNS = 5
SPARE_TIME = 3.0  # times the longest of an agent's last turns
MAX_PERSPECTIVES = 2  # turns; one more than that, and nothing new came

Change = Callable[[ConversationState], ConversationState]
"""A change that a person wants. It is applied again to the outcome of the current step, so it must be idempotent."""


@dataclass(slots=True)
class RunningConversation:
    """A conversation's newest state. A stop triggers the timeout `scope`; `woken` ends a wait; `storing` keeps an older
    state from replacing a newer one in Redis; `noted` is the room as it was last stored."""

    state: ConversationState
    scope: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    changes: list[Change] = field(default_factory=list)
    noted: Room | None = None

    def become(self, state: ConversationState) -> ConversationState:
        """Take the state after a step, with everything people changed, requested, and wrote during the step."""
        if state.ended_because is None:
            state = state.with_queue(requested=self.state.queue.requested, called=self.state.queue.called)
            for message in self.state.talk.heard:  # known messages are ignored
                state = state.hear(message)
        state = rooms.with_lines_of(state, self.state)
        for change in self.changes:
            state = change(state)
        self.changes.clear()
        self.state = state
        return state

    def change(self, change: Change) -> None:
        self.changes.append(change)
        self.state = change(self.state)
        self.woken.set()


def stop_conversation(state: ConversationState) -> ConversationState:
    """Return the state after a person's stop. A room pauses after its current turn, which ends soon: the agent has
    received the stop, too."""
    return state.ended("stopped") if state.room is None else rooms.paused(state, "stopped")


def without_channel(state: ConversationState) -> ConversationState:
    """Return the state after another conversation took the channel. Raises ChannelBusy in a room."""
    if state.room is not None:
        raise ChannelBusy(state.channel_id)
    return state.ended("channel_taken")


class TurnRequester:
    """Ask agents to take turns. They have `turn_seconds` each. In a room, whose audience waits, an agent has
    SPARE_TIME times as long as its last turns took, and MIN_ROOM_TURN_SECONDS at least; before its first turn, nothing
    is known, and it has the whole time.

    One timeout means a slow model; many in a row mean that the bots are down. From `timeout_threshold` on, each further
    timeout is logged as an error and doubles the pause before the next turn.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._timeouts = 0  # in a row
        self._measured: dict[str, deque[float]] = {}  # agent → the seconds of its last turns

    def usual_seconds(self, agent: str) -> float:
        """Return how long the agent's turns take; 0 if that isn't known yet."""
        measured = self._measured.get(agent)
        return statistics.median(measured) if measured else 0.0

    def _measure(self, agent: str, seconds: float) -> None:
        self._measured.setdefault(agent, deque(maxlen=MEASURED_TURNS)).append(seconds)

    @property
    def pause(self) -> float:
        """Seconds to wait before the next turn, after too many timeouts in a row."""
        beyond = self._timeouts - max(1, self._context.config.timeout_threshold)
        if beyond < 0:
            return 0.0
        return min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(beyond, MAX_DOUBLINGS))

    async def ask(self, state: ConversationState, agent: str, *, again: bool = False) -> Result | Missed:
        """Send the instruction and wait for the outcome. `again`: an earlier leader sent it, too. In a room the agent
        may have posted already, so it counts as absent only when its time is up."""
        bus, guild_id = self._context.bus, self._context.place(state.channel_id, state.room).guild_id
        instruction = instruction_for(state).model_copy(update={"guild_id": guild_id})
        seconds, measured = self._context.config.turn_seconds, self._measured.get(agent)
        if state.room is not None and measured:
            seconds = min(seconds, max(rooms.MIN_ROOM_TURN_SECONDS, SPARE_TIME * max(measured)))
        while True:
            began = self._context.clock()
            timed = instruction.model_copy(update={"deadline": began + seconds})
            try:
                result = await bus.ask(agent, timed, absent_grace=seconds if again and state.room else None)
            except AgentAbsent:
                log.debug("%s is absent, its turn is skipped", agent)
                return "absent"
            except AgentTimedOut:
                if bus.ready.is_set():
                    self._measure(agent, seconds)
                    self._note_timeout(agent, seconds)
                    return "timed_out"
                await self._context.sleep(REDIS_RETRY_SECONDS)  # the agent may not have received it
            else:
                if self.pause:
                    log.warning("agents answer again, after %d timeouts in a row", self._timeouts)
                self._timeouts = 0
                if result.usage is not None and not again:
                    self._measure(agent, self._context.clock() - began)
                return result

    def _note_timeout(self, agent: str, seconds: float) -> None:
        log.warning("%s timed out: no result within %.0f s", agent, seconds)
        self._timeouts += 1
        if self.pause:
            text = "%d INSTRUCTIONS IN A ROW TIMED OUT, the last for %s: are the bots running? The next comes in %.0f s"
            log.error(text, self._timeouts, agent, self.pause)


def instruction_for(state: ConversationState) -> Instruction:
    """Return the turn's instruction, without a deadline. Raises ValueError if no turn was begun."""
    room, queue = state.room, state.queue
    if queue.asking is None:
        raise ValueError("no turn was begun")
    return Instruction(
        instruction_id=queue.asking,
        channel_id=state.channel_id,
        channel_theme=state.theme,
        round_number=state.counts.round,
        conversation_id=state.id,
        conversation_history=state.wire_history(),
        is_conversation_starter=not queue.is_brief and not state.is_opened,
        topic=state.talk.topic,
        trigger_message_id=queue.joining,
        requested=queue.granted,
        room=None if room is None else rooms.brief_for(room, queue.pending[0], is_extra=queue.is_extra),
        angle=rooms.angle_for(state),
        take_up=max(queue.answering, default=None),
        questions=queue.answering if len(queue.answering) > 1 else (),
        chosen_because=state.talk.chosen_because,
    )


def apply_staleness(before: ConversationState, state: ConversationState) -> ConversationState:
    """Return the state after a turn. If the conversation repeats itself, the next turn gets a new perspective; after
    MAX_PERSPECTIVES, it ends, a room only once all members have had a fair chance. A turn that posts nothing in spite
    of a new perspective is a repetition, too."""
    if state.queue.is_brief:
        return state
    had_perspective = before.talk.perspective is not None
    perspectives = before.talk.perspectives + had_perspective
    if state.counts.messages == before.counts.messages:
        is_over = had_perspective and perspectives >= MAX_PERSPECTIVES and rooms.may_end_early(state)
        state = state.with_talk(perspectives=perspectives)
        return audience.close(state, "repeating") if is_over else state
    since_a_person = state.counts.messages - state.heard[-1].after if state.heard else len(state.talk.history)
    repetition = repetition_in([post.text for post in state.talk.history[-since_a_person:]] if since_a_person else ())
    if repetition is None:
        return state.with_talk(perspective=None, perspectives=0)
    if perspectives >= MAX_PERSPECTIVES and rooms.may_end_early(state):
        return audience.close(state, "repeating")
    return state.with_talk(perspective=PERSPECTIVES[repetition], perspectives=perspectives)
