"""Begin, resume, change, and end conversations, by any policy. Agents are reached only by name, over the bus.

A conversation locks its channel from the first turn to the last, so a channel has one at a time; those of different
channels are independent calls of `converse`, `run_room` and the like. conversation.py takes their steps. A person's
stop (agentic/state/silence.py) ends one at any moment. An owner may ask for an agent to speak next: whatever the policy
wants, its turn comes after the one that is under way, and without a pause.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_coordinator import room_rules as rooms
from agent_coordinator.channels import ChannelBusy, ChannelLocks, pick_starter
from agent_coordinator.config import RESUME_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.conversation import Change, ConversationRunner, RunningConversation, stop_conversation
from agent_coordinator.events import (
    ConversationEnded,
    ConversationReport,
    ConversationResumed,
    ConversationStarted,
    Event,
    Observer,
    report_of,
)
from agent_coordinator.policies.by_name import Policies
from agentic.state.conversation_state import ConversationState, Counts, PersonMessage, SpeakerQueue, Talk
from agentic.state.silence import SilenceChange

log = logging.getLogger(__name__)


class Engine:
    """Run conversations side by side, one a channel. `observers` are called in order with each Event; they must not
    block."""

    def __init__(self, context: CoordinatorContext, policies: Policies) -> None:
        self.observers: list[Observer] = []
        self.locks = ChannelLocks(context)
        self._context, self._policies = context, policies
        self._runner = ConversationRunner(context, policies, self.locks, self._notify)
        self.saved = self._runner.saved

    async def converse(
        self,
        channel_id: int,
        theme: str,
        *,
        starter: str | None = None,
        topic: str | None = None,
        began: Callable[[int], object] | None = None,
    ) -> ConversationReport:
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
            state = await self.run(self._runner.with_choice(state, opening))
        return self._report(state)

    async def run(self, state: ConversationState) -> ConversationState:
        """Run a conversation, a reactive round, or a single turn in a channel that the caller has locked. Observers are
        notified of its turns only."""
        return await self._runner.run(RunningConversation(state))

    async def run_room(self, state: ConversationState, began: Callable[[], object], *, changed: bool) -> None:
        """Run a room's conversation until the room pauses or closes; `began` is called once it is stored. `changed`: as
        a person's order made it, which observers do not know yet. Raises ChannelBusy."""
        running = RunningConversation(state, noted=None if changed else state.room)
        async with self.locks.hold(state.channel_id, state.id):
            if not await self._runner.save_and_hold(running):
                raise ChannelBusy(state.channel_id)
            began()
            running.state = self._open_room(running.state)
            state = await self._runner.run(running)
        self._report(state)

    def _open_room(self, state: ConversationState) -> ConversationState:
        """A room's conversation that begins, with its first speakers, or that continues. Observers are notified."""
        if state.room is None or state.is_opened or state.counts.round:
            self._notify(ConversationResumed(state))
            return state
        choice = self._policies.of(state).opening(state.room.names[0], self._context.rng)
        self._notify(ConversationStarted(state, choice.speakers[0]))
        return self._runner.with_choice(state, choice)

    async def write_room(self, state: ConversationState) -> None:
        """Store a room in which nothing runs. Raises ChannelBusy."""
        async with self.locks.hold(state.channel_id, state.id):
            if not await self._runner.save_and_hold(RunningConversation(state)):
                raise ChannelBusy(state.channel_id)

    def runs_room(self, thread_id: int) -> bool:
        running = self._runner.running.get(thread_id)
        return running is not None and running.state.room is not None

    async def single_turn(self, channel_id: int, theme: str, agent: str, began: Callable[[], object]) -> None:
        """Give one agent a turn in a channel without a conversation; `began` is called once nothing is in its way.
        Observers are notified of the turn only. Raises ChannelBusy."""
        exchange = str(uuid.uuid4())
        async with self.locks.hold(channel_id, exchange):
            queue, now = SpeakerQueue(single=True, requested=agent), self._context.clock()
            began()
            await self.run(ConversationState(exchange, channel_id, theme, now, queue=queue, counts=Counts(round=1)))

    async def change(self, channel_id: int, change: Change) -> bool:
        """Change the channel's conversation as a person wants it; False if none runs."""
        if (running := self._unended(channel_id)) is None:
            return False
        running.change(change)
        await self._runner.save(running)
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
        running = self._runner.running.get(channel_id)
        return None if running is None or running.state.ended_because is not None else running

    async def _turn_to(self, running: RunningConversation, state: ConversationState) -> None:
        """Take the state that a person's wish led to, and end the wait."""
        running.state = state
        running.woken.set()
        await self._runner.save(running)

    async def resume(self, state: ConversationState) -> ConversationReport | None:
        """Continue a conversation of an earlier leader at its round and speaker; end one that is too old.

        None for a reactive round or a single turn. Raises ChannelBusy.
        """
        async with self.locks.hold(state.channel_id, state.id):
            if state.queue.waits_until is None and self._context.clock() - state.touched_at > RESUME_SECONDS:
                state = state.ended("too_old")
            elif not state.queue.is_brief:
                log.info("conversation in channel %d resumed in round %d", state.channel_id, state.counts.round)
                self._notify(ConversationResumed(state))
            state = await self.run(state)
        return None if state.queue.is_brief else self._report(state)

    async def discard(self, state: ConversationState) -> None:
        """End what an earlier leader left, without a further turn."""
        await self.saved.drop(state)
        if not state.queue.is_brief and state.ended_because is None:
            self._report(state.ended("too_old"))

    async def on_silence(self, change: SilenceChange) -> None:
        """End the conversations that a person stopped, with those of rooms below a channel."""
        if change.person_id is not None:
            return
        await self._context.learn_servers()
        for channel_id, running in tuple(self._runner.running.items()):
            if change.scope.covers(self._context.place(channel_id, running.state.room)):
                self.end(channel_id)

    def end(self, channel_id: int) -> bool:
        """End the channel's conversation now; False if none runs. A room pauses."""
        running = self._runner.running.get(channel_id)
        if running is None or running.scope.expired():
            return False
        if running.state.room is not None:
            running.change(stop_conversation)
        else:
            running.scope.reschedule(asyncio.get_running_loop().time())
        return True

    def _report(self, state: ConversationState) -> ConversationReport:
        report = report_of(state, self._context.clock())
        log.info(
            "conversation in channel %d ended (%s): %d messages in %d rounds, %.4f USD",
            report.channel_id,
            report.ended_because,
            report.messages,
            report.rounds,
            report.cost_usd,
        )
        self._notify(ConversationEnded(report))
        return report

    def _notify(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:  # an observer's mistake must not end a conversation
                log.exception("an observer failed on %s, the conversation continues", type(event).__name__)
