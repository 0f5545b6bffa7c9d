"""Runs conversations: ask, record, go on?, end. Knows agents by name and reaches them by the bus alone.

A conversation holds its channel from the first turn to the last, so there is one at a time in a channel; those of
different channels are independent calls of `converse` and run side by side. All that one knows is in its
ConversationState, which each turn replaces by the next.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid

from agent_coordinator.asking import Asker
from agent_coordinator.backoff import TimeoutWatch
from agent_coordinator.config import AGENT_RESPONSE_TIMEOUT, HOLD_ROOM_SECONDS, CoordinatorConfig
from agent_coordinator.events import (
    ConversationEnded,
    ConversationReport,
    ConversationStarted,
    Event,
    Observer,
    TurnMissed,
    TurnTaken,
    report_of,
)
from agent_coordinator.holds import ChannelHolds
from agent_coordinator.policy import opening_order, should_continue, speaking_order, wraps_up
from agent_coordinator.ports import Bus, Clock, Ledger, Sleep, until_back
from agent_coordinator.rotation import pick_starter
from agent_coordinator.state import ConversationState
from agent_protocol.messages import MentionNotice

log = logging.getLogger(__name__)


class Engine:
    """`observers` are called, in order, with each Event as it happens; they must not block."""

    def __init__(
        self,
        config: CoordinatorConfig,
        bus: Bus,
        ledger: Ledger,
        *,
        clock: Clock = time.time,
        rng: random.Random | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.observers: list[Observer] = []
        self.holds = ChannelHolds(ledger.agenda, _hold_seconds(config), sleep)
        self._config = config
        self._agenda = ledger.agenda
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
            report = report_of(await self._talk(state, starter), self._clock())
        log.info(
            "conversation in channel %d ended (%s): %d messages in %d rounds, %.4f USD",
            channel_id,
            report.ended_because,
            report.messages,
            report.rounds,
            report.cost_usd,
        )
        self._tell(ConversationEnded(report))
        return report

    async def give_turn(
        self, state: ConversationState, agent: str, answering: MentionNotice | None = None
    ) -> ConversationState:
        """One agent's turn, after the pause that is due before it; the state with its outcome recorded."""
        if pause := self._pause_before(state):
            await self._sleep(pause)
        if not await self.holds.renew(state.channel_id, state.conversation_id):
            return state.ended("channel_taken")
        outcome = await self._asker.ask(state, agent, answering)
        if not isinstance(outcome, str) and outcome.reason == "benched":
            outcome = "absent"  # its provider refuses it for a while: as if it were not there
        where = (state.conversation_id, state.channel_id, state.round_number, agent)
        if isinstance(outcome, str):
            self._tell(TurnMissed(*where, outcome))
            return state.missed(agent, outcome)
        self._tell(TurnTaken(*where, outcome))
        state = state.took_turn(agent, outcome)
        # Said by a closing turn as by one that there was no money for.
        return state.ended("budget") if outcome.reason == "budget" else state

    def _pause_before(self, state: ConversationState) -> float:
        """Seconds: time to read what was just said, and the back-off. Nothing was shown, nothing to wait for."""
        delay = self._rng.uniform(self._config.turn_delay_min, self._config.turn_delay_max)
        return (delay if state.last_turn_showed else 0.0) + self._asker.pause

    async def _talk(self, state: ConversationState, starter: str) -> ConversationState:
        order = opening_order(self._config.agents, starter, self._rng)
        while state.ended_because is None:
            state = await self._round(state.begin_round(order))
            order = speaking_order(self._config.agents, state.last_speaker, self._rng)
        return state

    async def _round(self, state: ConversationState) -> ConversationState:
        while state.pending and state.ended_because is None:
            state = await self.give_turn(state, state.pending[0])
            if wraps_up(state.end_streak):
                return state.ended("agreed")
        return state if state.ended_because else self._judge(state)

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

    async def _next_starter(self, channel_id: int) -> str:
        return await until_back(lambda: pick_starter(self._config, self._agenda, channel_id, self._rng), self._sleep)

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:  # an observer is foreign code: its fault must not end a conversation
                log.exception("an observer failed at %s", type(event).__name__)


def _hold_seconds(config: CoordinatorConfig) -> float:
    """A turn and the delay after it, with some room. What a back-off outlasts is taken anew, if still free."""
    return AGENT_RESPONSE_TIMEOUT + config.turn_delay_max + HOLD_ROOM_SECONDS
