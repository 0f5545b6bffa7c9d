"""A turn as the coordinator sees it: an instruction out, a result back or none.

An absent agent and a timeout are outcomes, not errors. While Redis is away the same instruction, by its id, is sent
again: an agent that has done it already answers with the kept result, so nothing is posted twice.
"""

from __future__ import annotations

import logging

from agent_coordinator.backoff import TimeoutWatch
from agent_coordinator.config import REDIS_RETRY_SECONDS
from agent_coordinator.ports import Bus, Clock, Sleep
from agent_coordinator.room_rules import ROOM_TURN_SECONDS, brief_for
from agent_coordinator.state import ConversationState, Missed
from agentic.wire.link import RedisAway
from agentic.wire.messages import Instruction, Result
from agentic.wire.requests import AgentAbsent, AgentTimedOut

log = logging.getLogger(__name__)


class Asker:
    """Asks agents to take turns, each with `turn_seconds` to answer, in a room with 60 s at most."""

    def __init__(self, bus: Bus, watch: TimeoutWatch, *, turn_seconds: float, clock: Clock, sleep: Sleep) -> None:
        self._bus = bus
        self._watch = watch
        self._turn_seconds = turn_seconds
        self._clock = clock
        self._sleep = sleep

    @property
    def pause(self) -> float:
        """Seconds to wait before the next turn, after too many timeouts in a row."""
        return self._watch.pause

    async def ask(self, state: ConversationState, agent: str, *, again: bool = False) -> Result | Missed:
        """Send the instruction and wait for the outcome. `again`: an earlier leader has sent it. In a room its agent
        may have posted, so it is no sooner absent than the time is up."""
        instruction = instruction_for(state)
        seconds = self._turn_seconds if state.room is None else min(self._turn_seconds, ROOM_TURN_SECONDS)
        while True:
            timed = instruction.model_copy(update={"deadline": self._clock() + seconds})
            try:
                result = await self._bus.ask(agent, timed, absent_grace=seconds if again and state.room else None)
            except AgentAbsent:
                log.debug("%s is absent, its turn is skipped", agent)
                return "absent"
            except (AgentTimedOut, RedisAway) as error:
                if isinstance(error, AgentTimedOut) and self._bus.ready.is_set():
                    return self._timed_out(agent, seconds)
                await self._sleep(REDIS_RETRY_SECONDS)  # the agent may not have received it
            else:
                self._watch.answered()
                return result

    def _timed_out(self, agent: str, seconds: float) -> Missed:
        log.warning("%s timed out: no result within %.0f s", agent, seconds)
        self._watch.timed_out(agent)
        return "timed_out"


def instruction_for(state: ConversationState) -> Instruction:
    """The turn's instruction, without its deadline. Raises ValueError where no turn was begun."""
    if state.asking is None:
        raise ValueError("no turn was begun")
    return Instruction(
        instruction_id=state.asking,
        channel_id=state.channel_id,
        channel_theme=state.theme,
        round_number=state.round_number,
        conversation_id=state.conversation_id,
        conversation_history=state.wire_history(),
        is_conversation_starter=not state.brief and not state.opened,
        topic=state.topic,
        trigger_message_id=state.joining,
        requested=state.granted,
        room=brief_for(state.room, state.pending[0]) if state.room is not None else None,
        angle=state.angle or state.lead,
        take_up=state.take_up,
        chosen_because=state.chosen_because,
    )
