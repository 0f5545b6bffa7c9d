"""Run a conversation step by step until it ends: choose, wait, ask, record, store.

All of a conversation is in its ConversationState, which each step replaces and which is stored before and after each
turn, so that the next leader can continue it at its step. People may change it at any moment (an agent that is to speak
next, a message to answer, a room that is paused): that takes effect at once, and again on the outcome of the step that
was under way.

To the coordinator a turn is an instruction out, and a result back or none. An absent agent and a timeout are outcomes,
not errors. While Redis is unavailable the same instruction, by its id, is sent again: an agent that has done it answers
with the saved result, so nothing is posted twice.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_coordinator import room_rules as rooms
from agent_coordinator.channels import ChannelBusy, ChannelLocks
from agent_coordinator.config import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, WAIT_STEP_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.events import Event, RoomChanged, TurnMissed, TurnTaken
from agent_coordinator.policies.by_name import Policies
from agent_coordinator.policies.policy import Choice, Wait
from agent_coordinator.text_signals import PERSPECTIVES, repetition_in
from agentic.state.conversation_state import ConversationState, Missed
from agentic.state.conversations import SpeakerChoice, read_state
from agentic.state.rooms import Room
from agentic.wire.bus import AgentAbsent, AgentTimedOut
from agentic.wire.connection import REDIS_RETRY_SECONDS
from agentic.wire.messages import Instruction, Result

log = logging.getLogger(__name__)

MAX_DOUBLINGS = 32  # beyond BACKOFF_MAX_SECONDS, and far from overflowing a float
MAX_PERSPECTIVES = 2  # turns; one more than that, and nothing new came
ABSENT = frozenset({"benched", "muted", "unknown_channel"})
"""Reasons of results after which an agent counts as absent: its provider or a person silences it for a while, or it
does not speak in the channel, as a persona does not outside of rooms."""

Change = Callable[[ConversationState], ConversationState]
"""A change by a person. It may be made a second time, on what a step led to, and must then do nothing more."""


@dataclass(slots=True)
class RunningConversation:
    """A conversation's newest state, and the timeout that a stop triggers. `woken` ends a wait; `storing` is held while
    the state is stored, so that an older one never replaces a newer one; `noted` is the room as it was stored."""

    state: ConversationState
    scope: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    changes: list[Change] = field(default_factory=list)
    noted: Room | None = None

    def become(self, state: ConversationState) -> ConversationState:
        """Take the state that a step led to; what people changed, asked for and wrote during the step stays."""
        if state.ended_because is None:
            queue = self.state.queue
            state = replace(state, queue=replace(state.queue, requested=queue.requested, called=queue.called))
            for message in self.state.talk.heard:  # a message that it has is ignored
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


class ConversationRunner:
    """Runs conversations side by side; `running` has them by channel. `notify` reports an event."""

    def __init__(
        self, context: CoordinatorContext, policies: Policies, locks: ChannelLocks, notify: Callable[[Event], None]
    ) -> None:
        self.running: dict[int, RunningConversation] = {}
        self._context, self._policies, self._locks, self._notify = context, policies, locks, notify
        self._requester = TurnRequester(context)
        self.saved = SavedConversations(context)

    async def run(self, running: RunningConversation) -> ConversationState:
        """Take steps until the conversation ends or a person ends it, in a channel that the caller has locked. Raises
        ChannelBusy if a room's thread was taken by another conversation: the room is as active as it was."""
        state = running.state
        try:
            async with running.scope:
                self.running[state.channel_id] = running
                if self._context.silenced(state.channel_id, state.room) is not None:
                    running.state = stop_conversation(state)
                while running.state.ended_because is None:
                    running.become(await self._step(running))
        except TimeoutError:
            if not running.scope.expired():
                raise
            running.state = running.state.ended("stopped")
        finally:
            self.running.pop(state.channel_id, None)
        if running.state.room is None:
            await self.saved.drop(running.state)
        else:
            await self.save_and_hold(running)
        return running.state

    async def save(self, running: RunningConversation) -> bool:
        """Store the newest state; False if the channel is no longer locked."""
        async with running.storing:
            state = running.state
            if state.room is not None and state.room != running.noted:
                room = state.room.model_copy(update={"changed_at": self._context.clock()})
                running.state = state = replace(state, room=room)
            saved = await self.saved.save(state)
        if saved and state.room is not None and state.room != running.noted:
            running.noted = state.room
            self._notify(RoomChanged(state.room))
        return saved

    async def save_and_hold(self, running: RunningConversation) -> bool:
        """Whether the next step may be taken: the channel is locked, and the next leader will find the state. If Redis
        was emptied in between, the channel is locked again."""
        state = running.state
        while await self._locks.renew(state.channel_id, state.id):
            if await self.save(running):
                await self._context.leadership.wait_until_held()
                return True
        # without the lease it ends nothing: the conversation is the next leader's
        await self._context.leadership.wait_until_held()
        return False

    def with_choice(self, state: ConversationState, choice: Choice) -> ConversationState:
        if choice.scores:
            stored = SpeakerChoice(
                channel_id=state.channel_id,
                conversation_id=state.id,
                at=self._context.clock(),
                chosen=choice.speakers[0],
                because=choice.because,
                pulls=choice.scores,
            )
            self._notify(stored)
        return state.choose(choice.speakers, choice.because, choice.suggested_topic, new_round=choice.new_round)

    async def _step(self, running: RunningConversation) -> ConversationState:
        """One turn, one wait, or the choice of the next speakers. A turn that is under way, or that an owner asked for,
        is taken before anything may end. A reactive round has no next one, whatever the policy."""
        await self._context.leadership.wait_until_held()
        running.become(running.state)  # what people changed until now has taken effect
        if not running.state.queue.asking:
            running.state = rooms.with_called(rooms.without_strangers(running.state)).grant_request()
        state, policy, rng = running.state, self._policies.of(running.state), self._context.rng
        if state.queue.asking:
            return await self._give_turn(running, state.queue.pending[0])
        if state.room is not None and (reason := rooms.ending(state, state.room)) is not None:
            return state.ended(reason)
        if state.queue.granted:
            return await self._give_turn(running, state.queue.pending[0])
        if state.queue.is_brief and not state.queue.pending:
            return state.ended("joined")
        if state.room is None and (reason := policy.ending(state, rng)) is not None:
            return state.ended(reason)
        if state.room is not None and rooms.slot_is_due(state.room):
            return await self._wait_for_audience(running, state.room)
        if state.queue.pending:
            return await self._give_turn(running, state.queue.pending[0])
        choice = policy.choose(state, rng)
        if not isinstance(choice, Wait):
            return self.with_choice(state, choice)
        # Until a person asks for an agent or writes, for a while. The end of the wait is stored.
        now = self._context.clock()
        until = state.queue.waits_until or now + choice.seconds
        if now >= until:
            return state.ended(choice.otherwise)
        running.become(rooms.waiting(replace(state, queue=replace(state.queue, waits_until=until))))
        return await self._wait(running, until)

    async def _give_turn(self, running: RunningConversation, agent: str) -> ConversationState:
        """Wait for the pause, ask the agent, record the outcome. Nobody is asked if a person wants something else in
        the pause.

        An agent in back-off is skipped, but a turn that was under way is asked for again: its result may exist.
        """
        state, context = running.state, self._context
        if (
            not state.queue.asking
            and await context.wait_for_redis(lambda: context.state.coordination.backoffs.until(agent)) is not None
        ):
            return self._record(state, agent, "absent", because="benched")
        if not (state.queue.asking or state.queue.granted):
            pause = (
                self._policies.of(state).pause(state, context.rng) + self._requester.pause + rooms.retry_pause(state)
            )
            if pause and running.state is state:
                running.woken.clear()
                await context.sleep_unless(running.woken, pause)
            if running.state is not state:
                return running.state
        again = running.state.queue.asking is not None
        state = running.become(running.state.begin_turn(str(uuid.uuid4())))
        if not await self.save_and_hold(running):
            return _without_channel(state)
        running.become(self._record(state, agent, await self._requester.ask(state, agent, again=again)))
        await self.save(running)
        return running.state

    def _record(
        self, state: ConversationState, agent: str, outcome: Result | Missed, because: str | None = None
    ) -> ConversationState:
        """The state after a turn. `because`: why nobody was asked, as a reason of results."""
        if isinstance(outcome, str) or outcome.reason in ABSENT:
            missed: Missed = outcome if isinstance(outcome, str) else "absent"
            self._notify(TurnMissed(state, agent, missed))
            after = apply_staleness(state, state.miss_turn(agent, missed))
        else:
            self._notify(TurnTaken(state, agent, outcome))
            after = apply_staleness(state, state.take_turn(agent, outcome))
        if after.room is not None:
            return rooms.after_turn(after, after.room, agent, outcome, because)
        if isinstance(outcome, str):
            return after
        # "budget" comes with the last turn that could be paid, or with none.
        if outcome.reason == "budget":
            return after.ended("budget")
        # An agent may know of a stop before us.
        return after.ended("stopped") if outcome.skipped and outcome.reason == "stopped" else after

    async def _wait_for_audience(self, running: RunningConversation, room: Room) -> ConversationState:
        """Leave the thread to its audience until the break is over. Its begin and its end are stored as they come,
        since others open and lock the thread by them."""
        until, now = room.slot_until, self._context.clock()
        if until is None:
            until = now + room.audience_seconds
            running.become(replace(running.state, room=room.model_copy(update={"slot_until": until})))
        elif until <= now:
            running.become(replace(running.state, room=rooms.after_slot(room)))
            await self.save(running)
            return running.state
        return await self._wait(running, until)

    async def _wait(self, running: RunningConversation, until: float) -> ConversationState:
        """Wait until that time at most, or until a person changes something. The wait is stored, and the channel locked
        again, by steps of some seconds."""
        running.woken.clear()
        if not await self.save_and_hold(running):
            return _without_channel(running.state)
        left = min(until - self._context.clock(), WAIT_STEP_SECONDS)
        if left > 0:
            await self._context.sleep_unless(running.woken, left)
        return running.state


def stop_conversation(state: ConversationState) -> ConversationState:
    """The state once a person stopped it. A room first waits for the outcome of the turn that is under way, which is
    soon: the agent heard of the stop too."""
    return state.ended("stopped") if state.room is None else rooms.paused(state, "stopped")


def _without_channel(state: ConversationState) -> ConversationState:
    """The state once another conversation holds the channel. Raises ChannelBusy in a room."""
    if state.room is not None:
        raise ChannelBusy(state.channel_id)
    return state.ended("channel_taken")


class TurnRequester:
    """Asks agents to take turns, each with `turn_seconds` to answer, in a room with 60 s at most.

    One timeout is a slow model; many in a row mean that the bots are down. From `timeout_threshold` on, each further
    one is logged, and the next turn waits ever longer.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._timeouts = 0  # in a row

    @property
    def pause(self) -> float:
        """Seconds to wait before the next turn, after too many timeouts in a row."""
        beyond = self._timeouts - max(1, self._context.config.timeout_threshold)
        if beyond < 0:
            return 0.0
        return min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(beyond, MAX_DOUBLINGS))

    async def ask(self, state: ConversationState, agent: str, *, again: bool = False) -> Result | Missed:
        """Send the instruction and wait for the outcome. `again`: an earlier leader has sent it. In a room its agent
        may have posted, so it is no sooner absent than the time is up."""
        bus, guild_id = self._context.bus, self._context.place(state.channel_id, state.room).guild_id
        instruction = instruction_for(state).model_copy(update={"guild_id": guild_id})
        seconds = self._context.config.turn_seconds
        if state.room is not None:
            seconds = min(seconds, rooms.ROOM_TURN_SECONDS)
        while True:
            timed = instruction.model_copy(update={"deadline": self._context.clock() + seconds})
            try:
                result = await bus.ask(agent, timed, absent_grace=seconds if again and state.room else None)
            except AgentAbsent:
                log.debug("%s is absent, its turn is skipped", agent)
                return "absent"
            except AgentTimedOut:
                if bus.ready.is_set():
                    self._note_timeout(agent, seconds)
                    return "timed_out"
                await self._context.sleep(REDIS_RETRY_SECONDS)  # the agent may not have received it
            else:
                if self.pause:
                    log.warning("agents answer again, after %d timeouts in a row", self._timeouts)
                self._timeouts = 0
                return result

    def _note_timeout(self, agent: str, seconds: float) -> None:
        log.warning("%s timed out: no result within %.0f s", agent, seconds)
        self._timeouts += 1
        if self.pause:
            log.error(
                "%d INSTRUCTIONS IN A ROW TIMED OUT, the last one for %s: are the bots running? "
                "The next one is sent in %.0f s",
                self._timeouts,
                agent,
                self.pause,
            )


def instruction_for(state: ConversationState) -> Instruction:
    """The turn's instruction, without its deadline. Raises ValueError if no turn was begun."""
    if state.queue.asking is None:
        raise ValueError("no turn was begun")
    return Instruction(
        instruction_id=state.queue.asking,
        channel_id=state.channel_id,
        channel_theme=state.theme,
        round_number=state.counts.round,
        conversation_id=state.id,
        conversation_history=state.wire_history(),
        is_conversation_starter=not state.queue.is_brief and not state.is_opened,
        topic=state.talk.topic,
        trigger_message_id=state.queue.joining,
        requested=state.queue.granted,
        room=rooms.brief_for(state.room, state.queue.pending[0]) if state.room is not None else None,
        angle=state.talk.perspective or state.talk.suggested_topic,
        take_up=state.talk.must_answer,
        chosen_because=state.talk.chosen_because,
    )


def apply_staleness(before: ConversationState, state: ConversationState) -> ConversationState:
    """The state after a turn, with a new perspective for the next turn if the talk repeats itself, or ended. A turn
    that left no message in spite of one brought nothing new either. A room continues until all members had a fair
    chance."""
    if state.queue.is_brief:
        return state
    had_perspective = before.talk.perspective is not None
    perspectives = before.talk.perspectives + had_perspective
    if state.counts.messages == before.counts.messages:
        is_over = had_perspective and perspectives >= MAX_PERSPECTIVES and rooms.may_end_early(state)
        state = replace(state, talk=replace(state.talk, perspectives=perspectives))
        return state.ended("repeating") if is_over else state
    since_a_person = state.counts.messages - state.talk.heard[-1].after if state.talk.heard else len(state.talk.history)
    repetition = repetition_in([post.text for post in state.talk.history[-since_a_person:]] if since_a_person else ())
    if repetition is None:
        return replace(state, talk=replace(state.talk, perspective=None, perspectives=0))
    if perspectives >= MAX_PERSPECTIVES and rooms.may_end_early(state):
        return state.ended("repeating")
    talk = replace(state.talk, perspective=PERSPECTIVES[repetition], perspectives=perspectives)
    return replace(state, talk=talk)


class SavedConversations:
    """The running conversations in Redis, so that the next leader can resume each at its turn. Waits while Redis is
    unavailable: a step that is not stored would be repeated after a restart."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context, self._store = context, context.state.coordination.conversations

    async def save(self, state: ConversationState) -> bool:
        """Return False, and store nothing, if the channel is no longer locked or another process leads. Of a room in
        which nothing runs only the room is stored."""
        over = state.room is not None and state.room.status != "active" and state.queue.asking is None
        text = None if over else replace(state, touched_at=self._context.clock()).to_json()
        record = (state.channel_id, state.id, text, self._context.leadership.epoch, state.room)
        if await self._context.wait_for_redis(lambda: self._store.keep(*record)):
            return True
        log.debug("channel %d is no longer locked, its conversation is not stored", state.channel_id)
        return False

    async def drop(self, state: ConversationState) -> None:
        """Delete the conversation, unless another process leads: that one continues it."""
        place = (state.channel_id, state.id, self._context.leadership.epoch)
        await self._context.wait_for_redis(lambda: self._store.drop(*place))

    async def of(self, channel_id: int) -> ConversationState | None:
        """The channel's conversation that did not end; None for none, or one that can't be read."""
        return await self._context.wait_for_redis(lambda: self._store.read(channel_id))

    async def all(self) -> list[ConversationState]:
        """All that did not end. One that can't be read is logged, and expires by itself."""
        states = [read_state(text) for text in await self._context.wait_for_redis(self._store.kept)]
        if unreadable := states.count(None):
            log.warning("%d stored conversations cannot be resumed: another version wrote them", unreadable)
        return [state for state in states if state is not None]
