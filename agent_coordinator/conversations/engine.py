"""Runs conversations: ask, record, go on?, end. Knows agents by name and reaches them by the bus alone.

A conversation holds its channel from the first turn to the last, so there is one at a time in a channel; those of
different channels are independent calls of `converse` and run side by side. All that one knows is in its
ConversationState, which each turn replaces by the next and which is kept before and after each turn: `resume` goes on
with what an earlier leader left. A person's stop (agent_protocol/moderation/stops.py) ends it at any moment.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from dataclasses import dataclass

from agent_coordinator.config import AGENT_RESPONSE_TIMEOUT, HOLD_ROOM_SECONDS, RESUME_SECONDS, CoordinatorConfig
from agent_coordinator.conversations.asking import Asker
from agent_coordinator.conversations.backoff import TimeoutWatch
from agent_coordinator.conversations.state import ConversationState, Missed
from agent_coordinator.conversations.unfinished import Unfinished
from agent_coordinator.events import (
    ConversationEnded,
    ConversationReport,
    ConversationResumed,
    ConversationStarted,
    Event,
    Observer,
    TurnMissed,
    TurnTaken,
    report_of,
)
from agent_coordinator.leadership import Leadership
from agent_coordinator.policies.rounds import opening_order, should_continue, speaking_order, wraps_up
from agent_coordinator.ports import Bus, Clock, Ledger, Sleep, Stops, until_back
from agent_coordinator.schedule.holds import ChannelHolds
from agent_coordinator.schedule.rotation import pick_starter
from agent_protocol.wire.messages import Result

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """A conversation as it stands after its last whole turn, and what ends it from outside."""

    state: ConversationState
    scope: asyncio.Timeout


class Engine:
    """Run conversations side by side, one a channel. `observers` are called in order with each Event; they must not
    block."""

    def __init__(
        self,
        config: CoordinatorConfig,
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
        self._config = config
        self._schedule, self._backoffs = ledger.schedule, ledger.backoffs
        self._asker = Asker(bus, TimeoutWatch(config.timeout_threshold), clock=clock, sleep=sleep)
        self._clock = clock
        self._rng = rng or random.Random()
        self._sleep = sleep

    async def converse(self, channel_id: int, theme: str, *, starter: str | None = None) -> ConversationReport:
        """One whole conversation; without a starter the channel's queue names one.

        Raises ChannelBusy when the channel has one already, ValueError when there are no agents.
        """
        if not self._config.agents:
            raise ValueError("a conversation needs at least one agent")
        conversation_id = str(uuid.uuid4())
        async with self.holds.hold(channel_id, conversation_id):
            starter = starter or await self._next_starter(channel_id)
            state = ConversationState(conversation_id, channel_id, theme, started_at=self._clock())
            self._tell(ConversationStarted(conversation_id, channel_id, theme, starter))
            order = opening_order(self._config.agents, starter, self._rng)
            state = await self._until_its_end(state.begin_round(order))
        return self._over(state)

    async def join(self, state: ConversationState) -> ConversationState:
        """A reactive round in a channel that the caller holds, to its end. Observers hear of its turns alone."""
        return await self._until_its_end(state)

    async def resume(self, state: ConversationState) -> ConversationReport | None:
        """Goes on with a conversation of an earlier leader at its round and speaker; closes one that is too old.

        None for a reactive round. Raises ChannelBusy.
        """
        async with self.holds.hold(state.channel_id, state.conversation_id):
            if self._clock() - state.touched_at > RESUME_SECONDS:
                state = state.ended("too_old")
            elif state.joining is None:
                log.info("channel %d: the conversation goes on in round %d", state.channel_id, state.round_number)
                where = (state.conversation_id, state.channel_id, state.theme, state.round_number)
                self._tell(ConversationResumed(*where))
            state = await self._until_its_end(state)
        return self._over(state) if state.joining is None else None

    def stop(self, channel_id: int) -> None:
        """A person wants silence: the channel's conversation ends now."""
        running = self._running.get(channel_id)
        if running is not None and not running.scope.expired():
            running.scope.reschedule(asyncio.get_running_loop().time())

    async def _give_turn(self, state: ConversationState, agent: str) -> ConversationState:
        """One agent's turn, after the pause that is due before it; the state with its outcome recorded.

        One that rests is passed over; a turn that was under way is asked for all the same, it may have its result.
        """
        if not state.asking and await until_back(lambda: self._backoffs.until(agent), self._sleep) is not None:
            return self._recorded(state, agent, "absent")
        if not state.asking and (pause := self._pause_before(state)):
            await self._sleep(pause)
        state = state.begin_turn(str(uuid.uuid4()))
        if not await self._kept(state):
            return state.ended("channel_taken")
        state = self._recorded(state, agent, await self._asker.ask(state, agent))
        await self.unfinished.keep(state)
        return state

    async def _kept(self, state: ConversationState) -> bool:
        """Whether the turn may be asked for: the channel is ours, and who leads next knows of the turn. Where Redis
        was emptied in between, the hold is made once more."""
        while await self.holds.renew(state.channel_id, state.conversation_id):
            if await self.unfinished.keep(state):
                await self._leadership.until_held()
                return True
        await self._leadership.until_held()  # whoever lost the lease ends nothing: it is the successor's
        return False

    def _recorded(self, state: ConversationState, agent: str, outcome: Result | Missed) -> ConversationState:
        if not isinstance(outcome, str) and outcome.reason in ("benched", "muted"):
            outcome = "absent"  # its provider or a person keeps it from speaking for a while: as if it were not there
        where = (state.conversation_id, state.channel_id, state.round_number, agent)
        if isinstance(outcome, str):
            self._tell(TurnMissed(*where, outcome))
            return state.missed(agent, outcome)
        self._tell(TurnTaken(*where, outcome))
        state = state.took_turn(agent, outcome)
        # A closing turn says so, as does one that there was no money for; of a stop the agent may hear first.
        if outcome.reason == "budget":
            return state.ended("budget")
        return state.ended("stopped") if outcome.skipped and outcome.reason == "stopped" else state

    def _pause_before(self, state: ConversationState) -> float:
        """Seconds: time to read what was just said, and the back-off. Nothing was shown, nothing to wait for."""
        delay = self._rng.uniform(self._config.turn_delay_min, self._config.turn_delay_max)
        return (delay if state.last_turn_showed else 0.0) + self._asker.pause

    async def _until_its_end(self, state: ConversationState) -> ConversationState:
        """Step by step, until the talk has ended or a person ends it."""
        running = _Running(state, asyncio.timeout(None))
        try:
            async with running.scope:
                self._running[state.channel_id] = running
                if self._stops is not None and self._stops.holds(state.channel_id):
                    running.state = state.ended("stopped")
                while running.state.ended_because is None:
                    running.state = await self._step(running.state)
        except TimeoutError:
            if not running.scope.expired():
                raise
            running.state = running.state.ended("stopped")
        finally:
            self._running.pop(state.channel_id, None)
        await self.unfinished.drop(running.state)
        return running.state

    async def _step(self, state: ConversationState) -> ConversationState:
        """A turn, or what comes between two rounds."""
        await self._leadership.until_held()
        if wraps_up(state.end_streak):
            return state.ended("agreed")
        if state.pending:
            return await self._give_turn(state, state.pending[0])
        if state.joining is not None:
            return state.ended("joined")
        state = self._judge(state)
        if state.ended_because is not None:
            return state
        shares = self._config.talkativeness
        return state.begin_round(speaking_order(self._config.agents, state.last_speaker, self._rng, shares))

    def _judge(self, state: ConversationState) -> ConversationState:
        if not state.opened:
            return state.ended("nobody_opened")
        verdict = should_continue(
            state.round_number,
            len(state.spoke),
            len(state.skipped),
            state.present,
            self._config.max_rounds,
            self._rng,
        )
        return state.ended(verdict.because) if verdict.because else state

    def _over(self, state: ConversationState) -> ConversationReport:
        report = report_of(state, self._clock())
        log.info(
            "conversation in channel %d ended (%s): %d messages in %d rounds, %.4f USD",
            report.channel_id,
            report.ended_because,
            report.messages,
            report.rounds,
            report.cost_usd,
        )
        self._tell(ConversationEnded(report))
        return report

    async def _next_starter(self, channel_id: int) -> str:
        return await until_back(lambda: pick_starter(self._config, self._schedule, channel_id, self._rng), self._sleep)

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:  # an observer is foreign code: its fault must not end a conversation
                log.exception("an observer failed at %s", type(event).__name__)


def _hold_seconds(config: CoordinatorConfig) -> float:
    """A turn and the delay after it, with some room. What a back-off outlasts is taken anew, if still free."""
    return AGENT_RESPONSE_TIMEOUT + config.turn_delay_max + HOLD_ROOM_SECONDS
