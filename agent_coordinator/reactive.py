"""Reactive rounds: after a bot answered a person, one or two other agents may join in.

With a probability, once per channel in five minutes, and never beside a conversation, whose agents see the person's
message anyway. Only in channels of Discord: in a chat of Signal nobody joins in. An agent may skip. The round is stored
like a conversation, so that the next leader can resume it.
"""

from __future__ import annotations

import logging
import random
import uuid

from agent_coordinator.channels import ChannelBusy
from agent_coordinator.config import REACTIVE_COOLDOWN_SECONDS, CoordinatorConfig
from agent_coordinator.engine import Engine
from agent_coordinator.state import ConversationState
from agentic.ids import is_snowflake
from agentic.process.tasks import Clock
from agentic.state.schedule import ScheduleStore
from agentic.wire.connection import RedisAway
from agentic.wire.messages import MentionNotice

log = logging.getLogger(__name__)

MOST_JOINERS = 2


class Reactive:
    def __init__(
        self, config: CoordinatorConfig, engine: Engine, schedule: ScheduleStore, *, clock: Clock, rng: random.Random
    ) -> None:
        self._config = config
        self._engine = engine
        self._schedule = schedule
        self._clock = clock
        self._rng = rng

    def joiners(self, answered_by: str) -> tuple[str, ...]:
        """The agents brought in this time: mostly none, else one or two of the others."""
        others = [agent for agent in self._config.agents if agent != answered_by]
        if not others or self._rng.random() >= self._config.reactive_probability:
            return ()
        return tuple(self._rng.sample(others, min(len(others), self._rng.randint(1, MOST_JOINERS))))

    async def join(self, notice: MentionNotice) -> ConversationState | None:
        """Run a reactive round, or return None where none is due."""
        joining = notice.trigger_message_id or notice.message_id
        if joining is None or not is_snowflake(notice.channel_id) or notice.channel_id in self._engine.holds.busy:
            return None
        joiners = self.joiners(notice.agent_name)
        if not joiners:
            return None
        exchange = str(uuid.uuid4())
        try:
            async with self._engine.holds.hold(notice.channel_id, exchange):
                if not await self._schedule.take_reactive(notice.channel_id, REACTIVE_COOLDOWN_SECONDS):
                    return None
                return await self._engine.join(self._round(exchange, joiners, notice.channel_id, joining))
        except ChannelBusy:
            return None
        except RedisAway:
            log.info("no reactive round in channel %d, Redis is away", notice.channel_id)
            return None

    def _round(self, exchange: str, joiners: tuple[str, ...], channel_id: int, joining: int) -> ConversationState:
        theme, now = self._config.theme_of(channel_id), self._clock()
        return ConversationState(exchange, channel_id, theme, started_at=now, joining=joining).begin_round(joiners)
