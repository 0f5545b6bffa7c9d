"""Run conversations by any policy: begin or resume one, take its steps, change it as people want, end it.

A conversation locks its channel from the first turn to the last, so a channel has one at a time; those of different
channels are independent calls of `converse`, `run_room` and the like. A person's stop (agentic/state/silence.py) ends
one at any moment. An owner may ask for an agent to speak next: whatever the policy wants, its turn comes after the one
that is under way, and without a pause. Agents are reached only by name, over the bus.

All of a conversation is in its ConversationState, which each step replaces and which is stored before and after each
turn, so that the next leader can continue it at its step. People may change it at any moment (an agent that is to speak
next, a message to answer, a room that is paused): that takes effect at once, and again on the outcome of the step that
was under way.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

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
from agent_coordinator.policies.policy import Choice, Wait
from agentic.state.conversation_state import ConversationState, Counts, Missed, PersonMessage, SpeakerQueue, Talk
from agentic.state.conversations import SpeakerChoice
from agentic.state.rooms import Room
from agentic.state.silence import SilenceChange
from agentic.wire.messages import Result

log = logging.getLogger(__name__)

ABSENT = frozenset({"benched", "muted", "unknown_channel"})
"""Reasons of results after which an agent counts as absent: its provider or a person silences it for a while, or it
does not speak in the channel, as a persona does not outside of rooms."""


class Engine:
    """Run conversations side by side, one a channel. `observers` are called in order with each Event; they must not
    block."""

    def __init__(self, context: CoordinatorContext, policies: Policies) -> None:
        self.observers: list[Observer] = []
        self.locks = ChannelLocks(context)
        self._context, self._policies = context, policies
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
        """Run a whole conversation; without a starter the channel's queue names one, without a topic the starter does.
        `began` is called with the channel once it has started.

        Raises ChannelBusy if the channel has one already, ValueError if there are no agents.
        """
        context, conversation_id = self._context, str(uuid.uuid4())
        if not context.config.agents:
            raise ValueError("a conversation needs at least one agent")
        async with self.locks.hold(channel_id, conversation_id):
            if not starter:
                schedule = context.state.coordination.schedule
                starter = await context.wait_for_redis(
                    lambda: pick_starter(context.config, schedule, channel_id, context.rng)
                )
            policy, now = self._policies.name_for(channel_id, theme), context.clock()
            state = ConversationState(conversation_id, channel_id, theme, now, policy, talk=Talk(topic=topic))
            self._notify(ConversationStarted(state, starter))
            if began is not None:
                began(channel_id)
            opening = self._policies.of(state).opening(starter, context.rng)
            state = await self.run(RunningConversation(self._take_choice(state, opening)))
        return self._report(state)

    async def run_room(self, state: ConversationState, began: Callable[[], object], *, changed: bool) -> None:
        """Run a room's conversation until the room pauses or closes; `began` is called once it is stored. `changed`: as
        a person's order made it, which observers do not know yet. Raises ChannelBusy."""
        running = RunningConversation(state, noted=None if changed else state.room)
        async with self.locks.hold(state.channel_id, state.id):
            if not await self._save_and_hold(running):
                raise ChannelBusy(state.channel_id)
            began()
            if state.room is not None and not (state.is_opened or state.counts.round):
                choice = self._policies.of(state).opening(state.room.names[0], self._context.rng)
                self._notify(ConversationStarted(running.state, choice.speakers[0]))
                running.state = self._take_choice(running.state, choice)
            state = await self.run(running)
        self._report(state)

    async def write_room(self, state: ConversationState) -> None:
        """Store a room in which nothing runs. Raises ChannelBusy."""
        async with self.locks.hold(state.channel_id, state.id):
            if not await self._save_and_hold(RunningConversation(state)):
                raise ChannelBusy(state.channel_id)

    def runs_room(self, thread_id: int) -> bool:
        running = self._running.get(thread_id)
        return running is not None and running.state.room is not None

    async def single_turn(self, channel_id: int, theme: str, agent: str, began: Callable[[], object]) -> None:
        """Give one agent a turn in a channel without a conversation; `began` is called once nothing is in its way.
        Observers are notified of the turn only. Raises ChannelBusy."""
        exchange = str(uuid.uuid4())
        async with self.locks.hold(channel_id, exchange):
            queue, now = SpeakerQueue(single=True, requested=agent), self._context.clock()
            began()
            state = ConversationState(exchange, channel_id, theme, now, queue=queue, counts=Counts(round=1))
            await self.run(RunningConversation(state))

    async def change(self, channel_id: int, change: Change) -> bool:
        """Change the channel's conversation as a person wants it; False if none runs."""
        if (running := self._unended(channel_id)) is None:
            return False
        running.change(change)
        await self._save(running)
        return True

    async def request_next(self, channel_id: int, agent: str) -> bool:
        """Let this agent speak next in the channel's conversation, instead of one requested before; False if none
        runs."""
        if (running := self._unended(channel_id)) is None:
            return False
        await self._turn_to(running, running.state.request(agent))
        return True

    async def hear(self, channel_id: int, message: PersonMessage, called: Sequence[str] = ()) -> bool:
        """A person wrote in the channel: its conversation's next turn answers that, without a pause; False if none runs
        whose policy hears people. `called`: members of a room that ask for their turn, since it calls them."""
        running = self._unended(channel_id)
        if running is None or running.state.queue.is_brief:
            return False
        state, policy = running.state, self._policies.of(running.state)
        message = replace(message, after=state.counts.messages)
        if state.room is not None:
            message = rooms.in_room(state.room, message, called)
            state = rooms.with_unclear_name(rooms.hearing(state, message), message)
        elif policy.hears_people:
            state = state.hear(message)
        else:
            return False
        if state is running.state:  # another process has noticed the message too
            return True
        if policy.chooses_each_turn and not (state.queue.asking or state.queue.granted):
            state = replace(state, queue=replace(state.queue, pending=()))
        await self._turn_to(running, state)
        return True

    def _unended(self, channel_id: int) -> RunningConversation | None:
        running = self._running.get(channel_id)
        return None if running is None or running.state.ended_because is not None else running

    async def _turn_to(self, running: RunningConversation, state: ConversationState) -> None:
        """Take the state that a person's wish led to, and end the wait."""
        running.state = state
        running.woken.set()
        await self._save(running)

    async def resume(self, state: ConversationState) -> ConversationState | None:
        """Continue a conversation of an earlier leader at its round and speaker; end one that is too old.

        None for a reactive round or a single turn. Raises ChannelBusy.
        """
        async with self.locks.hold(state.channel_id, state.id):
            if state.queue.waits_until is None and self._context.clock() - state.touched_at > RESUME_SECONDS:
                state = state.ended("too_old")
            elif not state.queue.is_brief:
                log.info("conversation in channel %d resumed in round %d", state.channel_id, state.counts.round)
            state = await self.run(RunningConversation(state))
        return None if state.queue.is_brief else self._report(state)

    async def discard(self, state: ConversationState) -> None:
        """End what an earlier leader left, without a further turn."""
        await self._drop(state)
        if not state.queue.is_brief and state.ended_because is None:
            self._report(state.ended("too_old"))

    async def on_silence(self, change: SilenceChange) -> None:
        """End the conversations that a person stopped, with those of rooms below a channel."""
        if change.person_id is not None:
            return
        await self._context.learn_servers()
        for channel_id, running in tuple(self._running.items()):
            if change.scope.covers(self._context.place(channel_id, running.state.room)):
                self.end(channel_id)

    def end(self, channel_id: int) -> bool:
        """End the channel's conversation now; False if none runs. A room pauses."""
        running = self._running.get(channel_id)
        if running is None or running.scope.expired():
            return False
        if running.state.room is not None:
            running.change(stop_conversation)
        else:
            running.scope.reschedule(asyncio.get_running_loop().time())
        return True

    def _report(self, state: ConversationState) -> ConversationState:
        log.info(
            "conversation in channel %d ended (%s): %d messages in %d rounds, %.4f USD",
            state.channel_id,
            state.ended_because,
            state.messages,
            state.counts.round,
            state.cost_usd,
        )
        self._notify(ConversationEnded(state, self._context.clock()))
        return state

    def _notify(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:  # an observer's mistake must not end a conversation
                log.exception("an observer failed on %s, the conversation continues", type(event).__name__)

    # Steps

    async def run(self, running: RunningConversation) -> ConversationState:
        """Take steps until the conversation, reactive round, or single turn ends or a person ends it, in a channel that
        the caller has locked. Observers are notified of its turns only. Raises ChannelBusy if a room's thread was taken
        by another conversation: the room is as active as it was."""
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
            return self._take_choice(state, choice)
        # Until a person asks for an agent or writes, for a while. The end of the wait is stored.
        now = self._context.clock()
        until = state.queue.waits_until or now + choice.seconds
        if now >= until:
            return state.ended(choice.otherwise)
        running.become(rooms.waiting(replace(state, queue=replace(state.queue, waits_until=until))))
        return await self._wait(running, until)

    async def _give_turn(self, running: RunningConversation, agent: str) -> ConversationState:
        """Wait for the pause, ask the agent, record the outcome. Nobody is asked if a person wants something else in
        the pause. The outcome is stored by the next step: before its pause, its wait, or its turn. A leader that finds
        the turn still open asks again, and gets the saved result. In a room it is stored now, for those who read it."""
        state, context = running.state, self._context
        if not (state.queue.asking or state.queue.granted):
            pause = (
                self._policies.of(state).pause(state, context.rng) + self._requester.pause + rooms.retry_pause(state)
            )
            if pause:
                await self._save(running)
                running.woken.clear()
                if running.state is state:
                    await context.sleep_unless(running.woken, pause)
            if running.state is not state:
                return running.state
        again = running.state.queue.asking is not None
        state = running.become(running.state.begin_turn(str(uuid.uuid4())))
        if not await self._save_and_hold(running):
            return without_channel(state)
        running.become(self._record(state, agent, await self._requester.ask(state, agent, again=again)))
        if running.state.room is not None:
            await self._save(running)
        return running.state

    def _record(self, state: ConversationState, agent: str, outcome: Result | Missed) -> ConversationState:
        """The state after a turn."""
        if isinstance(outcome, str) or outcome.reason in ABSENT:
            missed: Missed = outcome if isinstance(outcome, str) else "absent"
            after = apply_staleness(state, state.miss_turn(agent, missed))
        else:
            self._notify(TurnTaken(state, agent, outcome))
            after = apply_staleness(state, state.take_turn(agent, outcome))
        if after.room is not None:
            return rooms.after_turn(after, after.room, agent, outcome)
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
            await self._save(running)
            return running.state
        return await self._wait(running, until)

    async def _wait(self, running: RunningConversation, until: float) -> ConversationState:
        """Wait until that time at most, or until a person changes something. The wait is stored, and the channel locked
        again, by steps of some seconds."""
        running.woken.clear()
        if not await self._save_and_hold(running):
            return without_channel(running.state)
        left = min(until - self._context.clock(), WAIT_STEP_SECONDS)
        if left > 0:
            await self._context.sleep_unless(running.woken, left)
        return running.state

    def _take_choice(self, state: ConversationState, choice: Choice) -> ConversationState:
        """The state with the chosen speakers; scores are stored, for people who ask why an agent spoke."""
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

    # What is stored in Redis, so that the next leader can resume each conversation at its turn. Waits while Redis is
    # unavailable: a step that is not stored would be repeated after a restart.

    async def _save(self, running: RunningConversation, *, hold: float = 0.0) -> bool:
        """Store the newest state; of a room in which nothing runs only the room. `hold`: lock the channel again for so
        many seconds. False, and nothing is stored, if the channel is not locked or another process leads."""
        context = self._context
        async with running.storing:
            state = running.state
            if state.room is not None and state.room != running.noted:
                room = state.room.model_copy(update={"changed_at": context.clock()})
                running.state = state = replace(state, room=room)
            over = state.room is not None and state.room.status != "active" and state.queue.asking is None
            text = None if over else replace(state, touched_at=context.clock()).to_json()
            record = (state.channel_id, state.id, text, context.leadership.epoch, state.room, hold)
            saved = await context.wait_for_redis(lambda: context.state.coordination.conversations.keep(*record))
        if not saved:
            log.debug("channel %d is no longer locked, its conversation is not stored", state.channel_id)
        elif state.room is not None and state.room != running.noted:
            running.noted = state.room
            self._notify(RoomChanged(state.room))
        return saved

    async def _save_and_hold(self, running: RunningConversation) -> bool:
        """Whether the next step may be taken: the channel is locked, and the next leader will find the state. If Redis
        was emptied in between, the channel is locked again."""
        saved = await self._save(running, hold=self.locks.seconds)
        # without the lease it takes no step and ends nothing: the conversation is the next leader's
        await self._context.leadership.wait_until_held()
        return saved

    async def _drop(self, state: ConversationState) -> None:
        """Delete the conversation, unless another process leads: that one continues it."""
        place = (state.channel_id, state.id, self._context.leadership.epoch)
        await self._context.wait_for_redis(lambda: self._context.state.coordination.conversations.drop(*place))
