"""Begins, resumes, changes and ends conversations, by any policy. Reaches agents only by name, over the bus.

A conversation holds its channel from the first turn to the last, so a channel has one at a time; those of different
channels are independent calls of `converse`, `run_room` and the like. running.py takes their steps. A person's stop
(agentic/state/silence.py) ends one at any moment. An owner may ask for an agent to speak next: whatever the
policy wants, its turn comes after the one that is under way, and without a pause.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_coordinator import room_rules as rooms
from agent_coordinator.channels import ChannelBusy, ChannelHolds, pick_starter
from agent_coordinator.config import HOLD_ROOM_SECONDS, RESUME_SECONDS, CoordinatorConfig
from agent_coordinator.conversation import Asker, Change, Runner, Running, TimeoutWatch, Unfinished, stopped
from agent_coordinator.events import (
    ConversationEnded,
    ConversationReport,
    ConversationResumed,
    ConversationStarted,
    Event,
    Observer,
    report_of,
)
from agent_coordinator.policies.policy import PolicyBook
from agent_coordinator.state import ConversationState, Heard
from agentic.process.tasks import Clock, Sleep
from agentic.state.leases import Leadership
from agentic.state.shared_state import Ledger
from agentic.state.silence import EVERYWHERE, Stops
from agentic.wire.bus import Bus
from agentic.wire.connection import until_back

log = logging.getLogger(__name__)


class Engine:
    """Run conversations side by side, one a channel. `observers` are called in order with each Event; they must not
    block."""

    def __init__(
        self,
        config: CoordinatorConfig,
        policies: PolicyBook,
        bus: Bus,
        ledger: Ledger,
        *,
        clock: Clock = time.time,
        rng: random.Random | None = None,
        sleep: Sleep = asyncio.sleep,
        stops: Stops | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        self.observers: list[Observer] = []
        self._leadership = leadership or Leadership(None, sleep)
        self.holds = ChannelHolds(ledger.schedule, _hold_seconds(config), sleep, self._leadership)
        self.unfinished = Unfinished(ledger.conversations, leadership=self._leadership, clock=clock, sleep=sleep)
        self._config, self._policies, self._schedule = config, policies, ledger.schedule
        self._clock, self._rng, self._sleep = clock, rng or random.Random(), sleep
        watch = TimeoutWatch(config.timeout_threshold)
        self._runner = Runner(
            policies,
            Asker(bus, watch, turn_seconds=config.turn_seconds, clock=clock, sleep=sleep),
            self.holds,
            self.unfinished,
            backoffs=ledger.backoffs,
            leadership=self._leadership,
            stops=stops,
            notify=self._notify,
            clock=clock,
            rng=self._rng,
            sleep=sleep,
        )

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

        Raises ChannelBusy when the channel has one already, ValueError when there are no agents.
        """
        if not self._config.agents:
            raise ValueError("a conversation needs at least one agent")
        conversation_id = str(uuid.uuid4())
        async with self.holds.hold(channel_id, conversation_id):
            starter = starter or await self._next_starter(channel_id)
            policy, now = self._policies.name_for(channel_id, theme), self._clock()
            state = ConversationState(conversation_id, channel_id, theme, started_at=now, topic=topic, policy=policy)
            self._notify(ConversationStarted(conversation_id, channel_id, theme, starter, now, topic, policy))
            if began is not None:
                began(channel_id)
            opening = self._policies.of(state).opening(starter, self._rng)
            state = await self._run(self._runner.chosen(state, opening))
        return self._report(state)

    async def run_room(self, state: ConversationState, began: Callable[[], object], *, changed: bool) -> None:
        """Run a room's conversation until the room pauses or closes; `began` is called once it is stored. `changed`: as
        a person's order made it, which observers do not know yet. Raises ChannelBusy."""
        running = Running(state, noted=None if changed else state.room)
        async with self.holds.hold(state.channel_id, state.conversation_id):
            if not await self._runner.stored(running):
                raise ChannelBusy(state.channel_id)
            began()
            running.state = self._opened(running.state)
            state = await self._runner.run(running)
        self._report(state)

    async def write_room(self, state: ConversationState) -> None:
        """Store a room in which nothing runs. Raises ChannelBusy."""
        async with self.holds.hold(state.channel_id, state.conversation_id):
            if not await self._runner.stored(Running(state)):
                raise ChannelBusy(state.channel_id)

    def runs_room(self, thread_id: int) -> bool:
        running = self._runner.running.get(thread_id)
        return running is not None and running.state.room is not None

    async def change(self, channel_id: int, change: Change) -> bool:
        """Change the channel's conversation as a person wants it; False where none runs."""
        running = self._runner.running.get(channel_id)
        if running is None or running.state.ended_because is not None:
            return False
        running.change(change)
        await self._runner.keep(running)
        return True

    async def join(self, state: ConversationState) -> ConversationState:
        """Run a reactive round in a channel that the caller holds. Observers are notified of its turns only."""
        return await self._run(state)

    async def single_turn(self, channel_id: int, theme: str, agent: str, began: Callable[[], object]) -> None:
        """Give one agent a turn in a channel without a conversation; `began` is called once nothing is in its way.
        Observers are notified of the turn only. Raises ChannelBusy."""
        exchange = str(uuid.uuid4())
        async with self.holds.hold(channel_id, exchange):
            state = ConversationState(exchange, channel_id, theme, started_at=self._clock(), single=True)
            began()
            await self._run(replace(state, round_number=1, requested=agent))

    async def request_next(self, channel_id: int, agent: str) -> bool:
        """Let this agent speak next in the channel's conversation, instead of one requested before; False where none
        runs."""
        running = self._runner.running.get(channel_id)
        if running is None or running.state.ended_because is not None:
            return False
        await self._turn_to(running, replace(running.state, requested=agent))
        return True

    async def heard(self, channel_id: int, heard: Heard, called: Sequence[str] = ()) -> bool:
        """A person wrote in the channel: its conversation's next turn takes that up, without a pause; False if none
        runs whose policy hears people. `called`: members of a room that ask for their turn, since it calls them."""
        running = self._runner.running.get(channel_id)
        if running is None or running.state.ended_because is not None or running.state.brief:
            return False
        state, policy = running.state, self._policies.of(running.state)
        heard = replace(heard, after=state.messages)
        if state.room is not None:
            heard = rooms.in_room(state.room, heard, called)
            state = rooms.with_unclear_name(rooms.hearing(state, heard), heard)
        elif policy.hears_people:
            state = state.hearing(heard)
        else:
            return False
        if state is running.state:  # another process has noticed the message too
            return True
        if policy.chooses_each_turn and not (state.asking or state.granted):
            state = replace(state, pending=())
        await self._turn_to(running, state)
        return True

    async def _turn_to(self, running: Running, state: ConversationState) -> None:
        """Take the state that a person's wish led to, and end the wait."""
        running.state = state
        running.woken.set()
        await self._runner.keep(running)

    async def resume(self, state: ConversationState) -> ConversationReport | None:
        """Continue a conversation of an earlier leader at its round and speaker; end one that is too old.

        None for a reactive round or a single turn. Raises ChannelBusy.
        """
        async with self.holds.hold(state.channel_id, state.conversation_id):
            if state.waits_until is None and self._clock() - state.touched_at > RESUME_SECONDS:
                state = state.ended("too_old")
            elif not state.brief:
                log.info("conversation in channel %d resumed in round %d", state.channel_id, state.round_number)
                place = (state.conversation_id, state.channel_id, state.theme, state.round_number)
                self._notify(ConversationResumed(*place))
            state = await self._run(state)
        return None if state.brief else self._report(state)

    async def discard(self, state: ConversationState) -> None:
        """End what an earlier leader left, without a further turn."""
        await self.unfinished.drop(state)
        if not state.brief and state.ended_because is None:
            self._report(state.ended("too_old"))

    def stop(self, channel_id: int) -> None:
        """End the channel's conversation now, since a person stopped it, and those of rooms below it; with EVERYWHERE
        those of all channels."""
        for each, running in tuple(self._runner.running.items()):
            room = running.state.room
            if channel_id in (EVERYWHERE, each) or (room is not None and room.channel_id == channel_id):
                self.end(each)

    def end(self, channel_id: int) -> bool:
        """End the channel's conversation now; False where none runs. A room pauses."""
        running = self._runner.running.get(channel_id)
        if running is None or running.scope.expired():
            return False
        if running.state.room is not None:
            running.change(stopped)
        else:
            running.scope.reschedule(asyncio.get_running_loop().time())
        return True

    async def _run(self, state: ConversationState) -> ConversationState:
        return await self._runner.run(Running(state))

    def _opened(self, state: ConversationState) -> ConversationState:
        """A room's conversation that begins, with its first speakers, or that goes on. Observers are notified."""
        place = (state.conversation_id, state.channel_id, state.theme)
        if state.room is None or state.opened or state.round_number:
            self._notify(ConversationResumed(*place, state.round_number))
            return state
        choice = self._policies.of(state).opening(state.room.names[0], self._rng)
        began = (choice.speakers[0], state.started_at)
        self._notify(ConversationStarted(*place, *began, topic=state.topic, policy=state.policy))
        return self._runner.chosen(state, choice)

    def _report(self, state: ConversationState) -> ConversationReport:
        report = report_of(state, self._clock())
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

    async def _next_starter(self, channel_id: int) -> str:
        return await until_back(lambda: pick_starter(self._config, self._schedule, channel_id, self._rng), self._sleep)

    def _notify(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:  # an observer's mistake must not end a conversation
                log.exception("an observer failed on %s, the conversation continues", type(event).__name__)


def _hold_seconds(config: CoordinatorConfig) -> float:
    """The time between two turns, with some room. A hold that ran out is taken again, if free."""
    return config.turn_seconds + config.turn_delay_max + HOLD_ROOM_SECONDS
