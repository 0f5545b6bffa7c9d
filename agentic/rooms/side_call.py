"""Ask a model about a room, outside of its members' turns."""

from __future__ import annotations

import logging
from dataclasses import replace

from agentic.agent.limits import AgentLimits
from agentic.agent.services import Services, today_of
from agentic.agent.side_calls import CheapModel, SideCall, run_side_call
from agentic.llm.errors import ModelError
from agentic.llm.types import Prompt
from agentic.state.rooms import Room
from agentic.wire.reasons import TurnAborted

log = logging.getLogger(__name__)


async def ask_about_room(
    services: Services, room: Room, agent: str, model: CheapModel, prompt: Prompt, kind: str, key: object, instead: str
) -> str:
    """Return the model's answer, or "" after logging why there is none and what happens `instead`. The call counts
    against the budgets of `agent` and of the room's payer. `kind`: of the turn and the call. Each `key` has one call,
    and a second one if the program ended before it used the first one's answer."""
    limits = AgentLimits(agent, services.state, services.clock)
    call = SideCall(
        turn_id=f"{kind}-{room.thread_id}-{key}",
        kind=kind,
        call_kind=kind,
        channel_id=room.thread_id,
        guild_id=room.guild_id,
        deadline=services.clock() + prompt.timeout,
        date=today_of(services),
        prompt=prompt,
        person_id=room.payer,
    )
    try:
        try:
            return (await run_side_call(call, model, limits)).text
        except TurnAborted as made_before:
            if made_before.reason != "interrupted":
                raise
            return (await run_side_call(replace(call, turn_id=f"{call.turn_id}-again"), model, limits)).text
    except TurnAborted as refused:
        log.info("room %d: %s was refused: %s; %s", room.thread_id, kind, refused, instead)
    except ModelError as error:
        log.warning("room %d: the model for %s failed: %s; %s", room.thread_id, kind, error.kind, instead)
    return ""
