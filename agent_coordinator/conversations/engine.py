"""Runs conversations by any policy: ask, record, continue or end. Reaches agents only by name, over the bus.

A conversation holds its channel from the first turn to the last, so a channel has one at a time; those of different
channels are independent calls of `converse`. All of it is in its ConversationState, which each turn replaces and which
is stored before and after each turn, so that `resume` can continue what an earlier leader left. A person's stop
(agent_protocol/moderation/stops.py) ends it at any moment. An owner may ask for an agent to speak next: whatever the
policy wants, its turn comes after the one that is under way, and without a pause.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_coordinator.config import HOLD_ROOM_SECONDS, RESUME_SECONDS, WAIT_STEP_SECONDS, CoordinatorConfig
from agent_coordinator.conversations.asking import Asker
from agent_coordinator.conversations.backoff import TimeoutWatch
from agent_coordinator.conversations.staleness import judged
from agent_coordinator.conversations.state import ConversationState, Heard, Missed
from agent_coordinator.conversations.unfinished import Unfinished
from agent_coordinator.events import (
    ConversationEnded,
    ConversationReport,
    ConversationResumed,
    ConversationStarted,
    Event,
    Observer,
    SpeakerChosen,
    TurnMissed,
    TurnTaken,
    report_of,
)
from agent_coordinator.leadership import Leadership
from agent_coordinator.policies.policy import Choice, PolicyBook, Wait
from agent_coordinator.ports import Bus, Clock, Ledger, Sleep, Stops, sleep_unless, until_back
from agent_coordinator.schedule.holds import ChannelHolds
from agent_coordinator.schedule.rotation import pick_starter
from agent_protocol.moderation.stop_store import EVERYWHERE
from agent_protocol.wire.messages import Result

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """A conversation's newest state, and the timeout that a stop triggers. `woken` ends the pause before a turn;
    `storing` is held while the state is stored, so that an older one never replaces a newer one."""

    state: ConversationState
    scope: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def become(self, state: ConversationState) -> ConversationState:
        """Take the state that a step led to; what people asked for and wrote during the step stays."""
        if state.ended_because is None:
            state = replace(state, requested=self.state.requested)
            for heard in self.state.heard:  # those that it has are no news to it
                state = state.hearing(heard)
        self.state = state
        return state


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
        self._stops = stops
        self._running: dict[int, _Running] = {}  # by channel
        self._config, self._policies = config, policies
        self._schedule, self._backoffs = ledger.schedule, ledger.backoffs
        watch = TimeoutWatch(config.timeout_threshold)
        self._asker = Asker(bus, watch, turn_seconds=config.turn_seconds, clock=clock, sleep=sleep)
        self._clock = clock
        self._rng = rng or random.Random()
        self._sleep = sleep

    async def converse(
        self, channel_id: int, theme: str, *, starter: str | None = None, topic: str | None = None
    ) -> ConversationReport:
        """Run a whole conversation; without a starter the channel's queue names one, without a topic the starter does.

        Raises ChannelBusy when the channel has one already, ValueError when there are no agents.
        """
        if not self._config.agents:
            raise ValueError("a conversation needs at least one agent")
        conversation_id = str(uuid.uuid4())
        async with self.holds.hold(channel_id, conversation_id):
            starter = starter or await self._next_starter(channel_id)
            policy, now = self._policies.name_for(channel_id, theme), self._clock()
            state = ConversationState(conversation_id, channel_id, theme, started_at=now, topic=topic, policy=policy)
            self._notify(ConversationStarted(conversation_id, channel_id, theme, starter, now, topic))
            opening = self._policies.of(state).opening(starter, self._rng)
            state = await self._run(self._chosen(state, opening))
        return self._report(state)

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
        running = self._running.get(channel_id)
        if running is None or running.state.ended_because is not None:
            return False
        running.state = replace(running.state, requested=agent)
        running.woken.set()
        await self._keep(running)
        return True

    async def heard(self, channel_id: int, heard: Heard) -> bool:
        """A person wrote in the channel: its conversation's next turn takes that up, without a pause; False where none
        runs whose policy hears people."""
        running = self._running.get(channel_id)
        if running is None or running.state.ended_because is not None or running.state.brief:
            return False
        state, policy = running.state.hearing(heard), self._policies.of(running.state)
        if not (policy.hears_people or state.room is not None):
            return False
        if state is running.state:  # another process has noticed the message too
            return True
        if policy.chooses_each_turn and not (state.asking or state.granted):
            state = replace(state, pending=())
        running.state = state
        running.woken.set()
        await self._keep(running)
        return True

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
        """End the channel's conversation now, since a person stopped it; with EVERYWHERE those of all channels."""
        if channel_id == EVERYWHERE:
            for each in tuple(self._running):
                self.end(each)
        else:
            self.end(channel_id)

    def end(self, channel_id: int) -> bool:
        """End the channel's conversation now; False where none runs."""
        running = self._running.get(channel_id)
        if running is None or running.scope.expired():
            return False
        running.scope.reschedule(asyncio.get_running_loop().time())
        return True

    async def _give_turn(self, running: _Running, agent: str) -> ConversationState:
        """Wait for the pause, ask the agent, record the outcome. Nobody is asked where a person wants something else
        in the pause.

        An agent in back-off is skipped, but a turn that was under way is asked for again: its result may exist.
        """
        state = running.state
        if not state.asking and await until_back(lambda: self._backoffs.until(agent), self._sleep) is not None:
            return self._recorded(state, agent, "absent")
        if not (state.asking or state.granted) and not await self._paused(running, state):
            return running.state
        state = running.become(running.state.begin_turn(str(uuid.uuid4())))
        if not await self._stored(running):
            return state.ended("channel_taken")
        state = running.become(self._recorded(state, agent, await self._asker.ask(state, agent)))
        await self._keep(running)
        return state

    async def _paused(self, running: _Running, before: ConversationState) -> bool:
        """Wait before the turn; False where a person wants something else meanwhile."""
        pause = self._policies.of(before).pause(before, self._rng) + self._asker.pause
        if pause and running.state is before:
            running.woken.clear()
            await sleep_unless(running.woken, pause, self._sleep)
        return running.state is before

    async def _wait_for_a_person(self, running: _Running, wait: Wait) -> ConversationState:
        """Wait for a while, or until a person asks for an agent or writes. The end of the wait is stored."""
        state = running.state
        until = state.waits_until or self._clock() + wait.seconds
        if self._clock() >= until:
            return state.ended(wait.otherwise)
        running.woken.clear()
        running.become(replace(state, waits_until=until))
        if not await self._stored(running):
            return state.ended("channel_taken")
        await sleep_unless(running.woken, min(until - self._clock(), WAIT_STEP_SECONDS), self._sleep)
        return running.state

    async def _keep(self, running: _Running) -> bool:
        """Store the newest state; False where the channel is no longer held."""
        async with running.storing:
            return await self.unfinished.keep(running.state)

    async def _stored(self, running: _Running) -> bool:
        """Whether the turn may be asked for: the channel is held, and a next leader will find the turn. If Redis was
        emptied in between, the channel is held again."""
        state = running.state
        while await self.holds.renew(state.channel_id, state.conversation_id):
            if await self._keep(running):
                await self._leadership.until_held()
                return True
        await self._leadership.until_held()  # without the lease it ends nothing: the conversation is the next leader's
        return False

    def _recorded(self, state: ConversationState, agent: str, outcome: Result | Missed) -> ConversationState:
        if not isinstance(outcome, str) and outcome.reason in ("benched", "muted"):
            outcome = "absent"  # its provider or a person silences it for a while
        place = (state.conversation_id, state.channel_id, state.round_number, agent)
        if isinstance(outcome, str):
            self._notify(TurnMissed(*place, outcome))
            return judged(state, state.missed(agent, outcome))
        self._notify(TurnTaken(*place, outcome))
        state = judged(state, state.took_turn(agent, outcome))
        # "budget" comes with the last turn that could be paid, or with none; an agent may know of a stop before us.
        if outcome.reason == "budget":
            return state.ended("budget")
        return state.ended("stopped") if outcome.skipped and outcome.reason == "stopped" else state

    async def _run(self, state: ConversationState) -> ConversationState:
        """Take steps until the conversation ends or a person ends it."""
        running = _Running(state)
        try:
            async with running.scope:
                self._running[state.channel_id] = running
                if self._stops is not None and self._stops.holds(state.channel_id):
                    running.state = state.ended("stopped")
                while running.state.ended_because is None:
                    running.become(await self._step(running))
        except TimeoutError:
            if not running.scope.expired():
                raise
            running.state = running.state.ended("stopped")
        finally:
            self._running.pop(state.channel_id, None)
        await self.unfinished.drop(running.state)
        return running.state

    async def _step(self, running: _Running) -> ConversationState:
        """One turn, or the change to the next round. A reactive round has no next one, whatever the policy. A turn that
        is under way, or that an owner asked for, is taken before anything may end."""
        await self._leadership.until_held()
        if not running.state.asking:
            running.state = running.state.granting()
        state = running.state
        if state.asking or state.granted:
            return await self._give_turn(running, state.pending[0])
        if state.brief and not state.pending:
            return state.ended("joined")
        policy = self._policies.of(state)
        if (reason := policy.ending(state, self._rng)) is not None:
            return state.ended(reason)
        if state.pending:
            return await self._give_turn(running, state.pending[0])
        choice = policy.choose(state, self._rng)
        if isinstance(choice, Wait):
            return await self._wait_for_a_person(running, choice)
        return self._chosen(state, choice)

    def _chosen(self, state: ConversationState, choice: Choice) -> ConversationState:
        if choice.pulls:
            place = (state.conversation_id, state.channel_id)
            self._notify(SpeakerChosen(*place, self._clock(), choice.speakers[0], choice.because, choice.pulls))
        return state.choosing(choice.speakers, choice.because, new_round=choice.new_round)

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
