"""Reactive rounds: after a bot answered a person, one or two other agents may join in.

This happens by chance, in Discord channels only, at most once per channel in five minutes, and never during a
conversation, whose agents see the person's message anyway. An agent may skip. The round is stored like a conversation,
so that the next leader can resume it.
"""

from __future__ import annotations

import uuid

from agent_coordinator.channels import ChannelBusy
from agent_coordinator.config import REACTIVE_COOLDOWN_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.conversation import RunningConversation
from agent_coordinator.engine import Engine
from agentic.ids import is_snowflake
from agentic.state.conversation_state import ConversationState, SpeakerQueue
from agentic.wire.connection import or_default
from agentic.wire.messages import MentionNotice

MAX_JOINERS = 2


class Reactive:
    def __init__(self, context: CoordinatorContext, engine: Engine) -> None:
        self._context, self._engine = context, engine

    def joiners(self, answered_by: str) -> tuple[str, ...]:
        """Return the agents that join this time: usually none, else one or two of the others."""
        config, rng = self._context.config, self._context.rng
        others = [agent for agent in config.agents if agent != answered_by]
        if not others or rng.random() >= config.reactive_probability:
            return ()
        return tuple(rng.sample(others, min(len(others), rng.randint(1, MAX_JOINERS))))

    @or_default(None, "reactive rounds are off")
    async def join(self, notice: MentionNotice) -> ConversationState | None:
        """Run a reactive round, or return None if none is due."""
        joining, channel_id = notice.trigger_message_id or notice.message_id, notice.channel_id
        if joining is None or not is_snowflake(channel_id) or channel_id in self._engine.locks.busy:
            return None
        joiners = self.joiners(notice.agent_name)
        if not joiners:
            return None
        exchange = str(uuid.uuid4())
        try:
            async with self._engine.locks.hold(channel_id, exchange):
                schedule = self._context.state.coordination.schedule
                if not await schedule.take_reactive(channel_id, REACTIVE_COOLDOWN_SECONDS):
                    return None
                theme, now = self._context.config.theme_of(channel_id), self._context.clock()
                state = ConversationState(exchange, channel_id, theme, now, queue=SpeakerQueue(joining=joining))
                return await self._engine.run(RunningConversation(state.begin_round(joiners)))
        except ChannelBusy:
            return None
