"""What waited in an inbox when its process ends: kept in Redis, for whoever acts for the agent next.

An instruction is not: the coordinator gives it again until its deadline. A mention is answered late, if it is not too
old by then; what an agent does by itself has a day. What nobody will take up is named in the log.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent
from agent_cogs.services import AgentServices
from agent_cogs.turn.event_codec import save_event
from agent_protocol.connection.link import RedisAway
from agent_protocol.turns.turns import LATEST_DEADLINE

log = logging.getLogger(__name__)


async def keep_waiting(agent: str, services: AgentServices, events: Sequence[TurnEvent]) -> None:
    """Keeps these events of an agent."""
    kept = Counter[str]()
    for event in events:
        if (reason := await _lost(agent, services, event)) is None:
            kept[event.kind] += 1
        else:
            log.warning("%s: %s %s waited for its turn and is dropped: %s", agent, event.kind, event.id, reason)
    if kept:
        told = ", ".join(f"{count} {kind}" for kind, count in kept.items())
        log.info("%s: what waited for its turn is taken up at the next start: %s", agent, told)


async def _lost(agent: str, services: AgentServices, event: TurnEvent) -> str | None:
    """Why nobody will take the event up; None where somebody will."""
    if isinstance(event, InstructionEvent):
        return None
    seconds = LATEST_DEADLINE
    if isinstance(event, MentionEvent):
        seconds = event.heard_at + services.settings.mention_catchup_seconds - services.clock()
        event = replace(event, late=True, seconds=services.settings.turn_timeout_seconds)
    if not (saved := save_event(event, 0)):
        return "it belongs to this run of the program"
    if seconds <= 0:
        return "it is older than MENTION_CATCHUP_SECONDS"
    try:
        await services.ledger.turns.keep(agent, event.id, saved, seconds)
    except RedisAway:
        return "Redis is away"
    return None
