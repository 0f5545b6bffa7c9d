"""Run conversations with any policy: begin, resume, take steps, apply people's changes, end.

A conversation locks its channel from its first turn to its last. Conversations in different channels are independent
calls of `converse`, `run_room`, and so on. A person's stop (agentic/state/silence.py) ends a conversation at any
moment. If an owner asks for an agent to speak next, its turn follows the current one without a pause, whatever the
policy wants. Agents are reached by name, over the bus.

A conversation is its ConversationState. Each step replaces it, and it is stored around each turn, so that the next
leader can continue at the same step. People may change it at any moment (the next speaker, a message to answer, a
paused room). A change takes effect immediately, and once more on the outcome of the current step.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_coordinator import audience
from agent_coordinator import room_rules as rooms
from agent_coordinator.channels import ChannelBusy, ChannelLocks, pick_starter
from agent_coordinator.config import RESUME_SECONDS, WAIT_STEP_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.conversation import (
    Change,
    RunningConversation,
    TurnRequester,
    apply_staleness,
    stop_conversation,
    without_channel,
)
from agent_coordinator.events import ConversationEnded, ConversationStarted, Event, Observer, RoomChanged, TurnTaken
from agent_coordinator.policies.by_name import Policies
from agent_coordinator.policies.policy import Choice, ConversationPolicy, Wait
from agentic.state.conversation_state import ConversationState, Counts, Missed, SpeakerQueue
from agentic.state.conversations import SpeakerChoice
from agentic.state.rooms import Room
from agentic.state.silence import SilenceChange
from agentic.state.talk import PersonMessage, Talk
from agentic.wire.messages import Result

log = logging.getLogger(__name__)

ABSENT = frozenset({"benched", "muted", "unknown_channel"})
"""Reasons of results after which an agent is treated as absent: its provider fails, a person muted it, or it doesn't
speak in this channel (a persona outside of rooms)."""


class Engine:
    """Run conversations side by side, one per channel. `observers` are called with each Event and must not block."""

    def __init__(self, context: CoordinatorContext, policies: Policies) -> None:
        self.observers: list[Observer] = []
        self.locks = ChannelLocks(context)
        self._context, self.policies = context, policies
        self._running: dict[int, RunningConversation] = {}  # by channel
        self._requester = TurnRequester(context)

    async def converse(
        self,
        channel_id: int,
        theme: str,
        *,
        starter: str | None = None,
        topic: str | None = None,
        began: Callable[[int], object] | None = None,
    ) -> ConversationState:
        """Run a whole conversation. Without a starter, the channel's queue names one. Without a topic, the starter
        picks it. `began` is called with the channel once it has started.

        Raises ChannelBusy if the channel has a conversation already, ValueError if there are no agents.
        """
        context, conversation_id = self._context, str(uuid.uuid4())
        if not context.config.agents:
            raise ValueError("a conversation needs at least one agent")
        async with self.locks.hold(channel_id, conversation_id):
            if not starter:
                schedule = context.state.coordination.schedule
                starter = await context.wait_for_redis(pick_starter, context.config, schedule, channel_id, context.rng)
            policy, now = self.policies.name_for(channel_id, theme), context.clock()
            state = ConversationState(conversation_id, channel_id, theme, now, policy, talk=Talk(topic=topic))
            self._notify(ConversationStarted(state, starter))
            if began is not None:
                began(channel_id)
            opening = self.policies.of(state).opening(starter, context.rng)
            state = await self.run(RunningConversation(self._take_choice(state, opening)))
        return self._report(state)

    async def run_room(self, state: ConversationState, began: Callable[[], object], *, changed: bool) -> None:
        """Run a room's conversation until the room pauses or closes. `began` is called once it is stored. `changed`: a
        person's order changed the room, so observers don't know it yet. Raises ChannelBusy."""
        running = RunningConversation(state, noted=None if changed else state.room)
        async with self.locks.hold(state.channel_id, state.id):
            if not await self._save_and_hold(running):
                raise ChannelBusy(state.channel_id)
            began()
            if state.room is not None and not (state.is_opened or state.counts.round):
                choice = self.policies.of(state).opening(state.room.names[0], self._context.rng)
                self._notify(ConversationStarted(running.state, choice.speakers[0]))
                running.state = self._take_choice(running.state, choice)
            state = await self.run(running)
        self._report(state)

    async def write_room(self, state: ConversationState) -> None:
        """Store a room that has no running conversation. Raises ChannelBusy."""
        async with self.locks.hold(state.channel_id, state.id):
            if not await self._save_and_hold(RunningConversation(state)):
                raise ChannelBusy(state.channel_id)

    def runs_room(self, thread_id: int) -> bool:
        running = self._running.get(thread_id)
        return running is not None and running.state.room is not None

    async def single_turn(self, channel_id: int, theme: str, agent: str, began: Callable[[], object]) -> None:
        """Give one agent a turn in a channel without a conversation. `began` is called once the channel is locked.
        Observers are notified of the turn only. Raises ChannelBusy."""
        exchange = str(uuid.uuid4())
        async with self.locks.hold(channel_id, exchange):
            queue, now = SpeakerQueue(single=True, requested=agent), self._context.clock()
            began()
            state = ConversationState(exchange, channel_id, theme, now, queue=queue, counts=Counts(round=1))
            await self.run(RunningConversation(state))

    async def change(self, channel_id: int, change: Change) -> bool:
        """Apply a person's change to the channel's conversation. Returns False if none runs."""
        if (running := self._unended(channel_id)) is None:
            return False
        running.change(change)
        await self._save(running)
        return True

    async def request_next(self, channel_id: int, agent: str) -> bool:
        """Let this agent speak next in the channel's conversation. It replaces an earlier request. Returns False if no
        conversation runs."""
        if (running := self._unended(channel_id)) is None:
            return False
        await self._turn_to(running, running.state.request(agent))
        return True

    async def hear(self, channel_id: int, message: PersonMessage, called: Sequence[str] = ()) -> bool:
        """Let the conversation's next turn answer a person's message, without a pause. Returns False if no conversation
        runs there whose policy hears people. `called`: room members that the message calls."""
        running = self._unended(channel_id)
        if running is None or running.state.queue.is_brief:
            return False
        state, policy = running.state, self.policies.of(running.state)
        message = replace(message, after=state.counts.messages)
        if state.room is not None:
            message = audience.in_room(state.room, message, called)
            state = rooms.with_unclear_name(audience.hearing(state, message), message)
        elif policy.hears_people:
            state = state.hear(message)
        else:
            return False
        if state is running.state:  # another process has reported the message already
            return True
        matters = state.room is None or message.binds or state.room is not running.state.room
        if matters and policy.chooses_each_turn and not (state.queue.asking or state.queue.granted):
            state = state.with_queue(pending=())
        if matters:
            await self._turn_to(running, state)
        else:
            running.state = state  # stored with the next step
        return True

    def _unended(self, channel_id: int) -> RunningConversation | None:
        running = self._running.get(channel_id)
        return None if running is None or running.state.ended_because is not None else running

    async def _turn_to(self, running: RunningConversation, state: ConversationState) -> None:
        """Take a state that a person asked for, and end the wait."""
        running.state = state
        running.woken.set()
        await self._save(running)

    async def resume(self, state: ConversationState) -> ConversationState | None:
        """Continue an earlier leader's conversation at its round and speaker, or end it if it is too old.

        Returns None for a reactive round or a single turn. Raises ChannelBusy.
        """
        async with self.locks.hold(state.channel_id, state.id):
            if state.queue.waits_until is None and self._context.clock() - state.touched_at > RESUME_SECONDS:
                state = state.ended("too_old")
            elif not state.queue.is_brief:
                log.info("conversation in channel %d resumed in round %d", state.channel_id, state.counts.round)
            state = await self.run(RunningConversation(state))
        return None if state.queue.is_brief else self._report(state)

    async def discard(self, state: ConversationState) -> None:
        """End an earlier leader's conversation without another turn."""
        await self._drop(state)
        if not state.queue.is_brief and state.ended_because is None:
            self._report(state.ended("too_old"))

    async def on_silence(self, change: SilenceChange) -> None:
        """End the conversations that a person's stop covers, including rooms below a stopped channel."""
        if change.person_id is not None:
            return
        await self._context.learn_servers()
        for channel_id, running in tuple(self._running.items()):
            if change.scope.covers(self._context.place(channel_id, running.state.room)):
                self.end(channel_id)

    def end(self, channel_id: int) -> bool:
        """End the channel's conversation now; a room pauses. Returns False if none runs."""
        running = self._running.get(channel_id)
        if running is None or running.scope.expired():
            return False
        if running.state.room is not None:
            running.change(stop_conversation)
        else:
            running.scope.reschedule(asyncio.get_running_loop().time())
        return True

    def _report(self, state: ConversationState) -> ConversationState:
        what = f"{state.messages} messages in {state.counts.round} rounds, {state.cost_usd:.4f} USD"
        log.info("conversation in channel %d ended (%s): %s", state.channel_id, state.ended_because, what)
        self._notify(ConversationEnded(state, self._context.clock()))
        return state

    def _notify(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:  # an observer's bug must not end a conversation
                log.exception("an observer failed on %s; the conversation continues", type(event).__name__)

    # Steps

    async def run(self, running: RunningConversation) -> ConversationState:
        """Take steps until the conversation, reactive round, or single turn ends. The caller holds the channel's lock.
        Observers are notified of its turns only. Raises ChannelBusy, and leaves the room active, if another
        conversation took a room's thread."""
        state = running.state
        try:
            async with running.scope:
                self._running[state.channel_id] = running
                if self._context.silenced(state.channel_id, state.room) is not None:
                    running.state = stop_conversation(state)
                while running.state.ended_because is None:
                    running.become(await self._step(running))
        except TimeoutError:
            if not running.scope.expired():
                raise
            running.state = running.state.ended("stopped")
        finally:
            self._running.pop(state.channel_id, None)
        if running.state.room is None:
            await self._drop(running.state)
        else:
            await self._save_and_hold(running)
        return running.state

    async def _step(self, running: RunningConversation) -> ConversationState:
        """Take one turn, wait once, or choose the next speakers. An open turn, or one that an owner asked for, is taken
        before anything may end. A reactive round is never followed by another, whatever the policy."""
        await self._context.leadership.wait_until_held()
        running.become(running.state)  # everything people changed until now has taken effect
        if running.state.queue.asking:
            return await self._give_turn(running, running.state.queue.pending[0])
        running.state = state = audience.with_called(rooms.without_strangers(running.state))
        if state.room is not None and (reason := rooms.ending(state, state.room)) is not None:
            return audience.close(state, reason)
        running.state = state = rooms.with_phase(state)
        if state.room is not None and audience.slot_is_due(state.room):
            return await self._wait_for_audience(running, state.room)
        policy, rng = self.policies.of(state), self._context.rng
        running.state = state = self._grant_request(state, policy)
        if state.queue.granted:
            return await self._give_turn(running, state.queue.pending[0])
        if state.queue.is_brief and not state.queue.pending:
            return state.ended("joined")
        if state.room is None and (reason := policy.ending(state, rng)) is not None:
            return state.ended(reason)
        if state.queue.pending:
            return await self._give_turn(running, state.queue.pending[0])
        choice = policy.choose(state, rng)
        if not isinstance(choice, Wait):
            return self._take_choice(state, choice)
        # Wait for a person to write or to ask for an agent. The end of the wait is stored.
        now = self._context.clock()
        until = state.queue.waits_until or now + choice.seconds
        if now >= until:
            return state.ended(choice.otherwise)
        waiting = rooms.waiting(state.with_queue(waits_until=until))
        running.become(rooms.announce_phase(waiting, None))
        return await self._wait(running, until)

    def _grant_request(self, state: ConversationState, policy: ConversationPolicy) -> ConversationState:
        """Let the agent that people asked for speak next. Between two rounds of a room, it gets its turn of the next
        round earlier."""
        agent = state.queue.requested
        if agent is None:
            return state
        if state.room is not None and policy.has_rounds and not state.queue.pending:
            choice = policy.choose(state, self._context.rng)
            state = self._take_choice(state, choice) if isinstance(choice, Choice) else state
        return state.grant_request(is_extra=rooms.is_extra_turn(state, agent, has_rounds=policy.has_rounds))

    async def _give_turn(self, running: RunningConversation, agent: str) -> ConversationState:
        """Pause, ask the agent, and record the outcome. Nobody is asked if a person wants something else during the
        pause. The outcome is stored by the next step: before its pause, its wait, or its turn. A leader that finds the
        turn still open asks again, and gets the saved result. In a room it is stored now, since other processes read
        the room."""
        context = self._context
        until = rooms.turn_waits_until(running.state, context.clock())
        state = running.become(rooms.announce_phase(running.state, agent if until is None else None))
        if until is not None:
            running.become(rooms.announce_next(state, agent, context.clock()))
            return await self._wait(running, until)
        if not (state.queue.asking or state.queue.granted or state.queue.hurried):
            pause = self.policies.of(state).pause(state, context.rng) + self._requester.pause + rooms.retry_pause(state)
            if pause:
                running.woken.clear()
                # Renew the lock, too: without it nothing can be stored, and a changed room would be tried again
                # forever.
                if not await self._save_and_hold(running):
                    return without_channel(running.state)
                await context.sleep_unless(running.woken, pause)
                if running.woken.is_set():
                    return running.state
        again = running.state.queue.asking is not None
        state = running.become(running.state.begin_turn(str(uuid.uuid4())))
        running.state = state = rooms.announce_thinking(state, agent, self._requester.usual_seconds(agent))
        if not await self._save_and_hold(running):
            return without_channel(state)
        after = self._record(state, agent, await self._requester.ask(state, agent, again=again))
        running.become(rooms.with_next_turn(after, state, context.clock(), context.config.timezone))
        if running.state.room is not None:
            await self._save(running)
        return running.state

    def _record(self, state: ConversationState, agent: str, outcome: Result | Missed) -> ConversationState:
        """Return the state after a turn."""
        if isinstance(outcome, str):
            after = state.miss_turn(agent, outcome)
        elif outcome.reason in ABSENT:
            after = state.miss_turn(agent, "absent")
        else:
            self._notify(TurnTaken(state, agent, outcome))
            after = state.take_turn(agent, outcome)
        after = apply_staleness(state, after)
        if after.room is not None:
            return rooms.after_turn(after, after.room, agent, outcome, is_extra=state.queue.is_extra)
        if isinstance(outcome, str):
            return after
        if outcome.reason == "budget":  # comes with the last turn that could be paid, or with none
            return after.ended("budget")
        # the agent may learn of a stop earlier
        return after.ended("stopped") if outcome.skipped and outcome.reason == "stopped" else after

    async def _wait_for_audience(self, running: RunningConversation, room: Room) -> ConversationState:
        """Leave the thread to its audience until the break is over. Its start and end are stored right away, since the
        thread is unlocked and locked by them."""
        until, now = room.slot_until, self._context.clock()
        if until is None:
            until = now + audience.slot_seconds(room)
            running.become(running.state.with_room(slot_until=until))
        elif until <= now:
            running.become(audience.end_slot(running.state))
            await self._save(running)
            return running.state
        return await self._wait(running, until)

    async def _wait(self, running: RunningConversation, until: float) -> ConversationState:
        """Wait until that time, or until a person changes something. Takes one step of at most WAIT_STEP_SECONDS, and
        first stores the wait and renews the channel's lock."""
        running.woken.clear()
        if not await self._save_and_hold(running):
            return without_channel(running.state)
        left = min(until - self._context.clock(), WAIT_STEP_SECONDS)
        if left > 0:
            await self._context.sleep_unless(running.woken, left)
        return running.state

    def _take_choice(self, state: ConversationState, choice: Choice) -> ConversationState:
        """Return the state with the chosen speakers. Scores are stored for people who ask why an agent spoke."""
        context = self._context
        if choice.scores:
            stored = SpeakerChoice(
                channel_id=state.channel_id,
                conversation_id=state.id,
                at=context.clock(),
                chosen=choice.speakers[0],
                because=choice.because,
                pulls=choice.scores,
            )
            context.tasks.start(context.state.coordination.scores.keep(stored), "the choice of a speaker")
        return state.choose(choice.speakers, choice.because, choice.suggested_topic, new_round=choice.new_round)

    # Redis: waits while it is unavailable, since a step that isn't stored would be repeated after a restart.

    async def _save(self, running: RunningConversation, *, hold: float = 0.0) -> bool:
        """Store the newest state; if nothing runs in a room, only the room. `hold`: seconds to lock the channel again.
        Returns False, and stores nothing, if the channel is not locked or another process leads."""
        context = self._context
        async with running.storing:
            state = running.state
            if state.room is not None and state.room != running.noted:
                room = state.room.model_copy(update={"changed_at": context.clock()})
                running.state = state = replace(state, room=room)
            kept = rooms.at_rest(state) if state.is_at_rest else state
            text = None if kept is None else replace(kept, touched_at=context.clock()).to_json()
            keep, epoch = context.state.coordination.conversations.keep, context.leadership.epoch
            saved = await context.wait_for_redis(keep, state.channel_id, state.id, text, epoch, state.room, hold)
        if not saved:
            log.debug("conversation in channel %d not stored: its lock is gone", state.channel_id)
        elif state.room is not None and state.room != running.noted:
            running.noted = state.room
            self._notify(RoomChanged(state.room))
        return saved

    async def _save_and_hold(self, running: RunningConversation) -> bool:
        """Store the state and renew the lock, even in a Redis that was emptied. Returns whether the next step may be
        taken."""
        saved = await self._save(running, hold=self.locks.seconds)
        # without the lease, the conversation is the next leader's: take no step, end nothing
        await self._context.leadership.wait_until_held()
        return saved

    async def _drop(self, state: ConversationState) -> None:
        """Delete the conversation, unless another process leads and continues it."""
        drop, epoch = self._context.state.coordination.conversations.drop, self._context.leadership.epoch
        await self._context.wait_for_redis(drop, state.channel_id, state.id, epoch)
