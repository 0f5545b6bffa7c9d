"""A channel's conversation with an agent: that it goes on, and that it can begin anew.

For every agent the conversation is the channel's transcript, cut where somebody began anew. A coding agent has a
session of its SDK besides, one for each channel; it is the same conversation and begins anew with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent
from agent_cogs.services import AgentServices
from agent_context.entries import Entry
from agent_llm.providers.agent_sdk_query import Conversation
from agent_protocol.state.sessions import Sessions


class AgentSessions:
    """One agent's sessions, by channel; what agent_llm.providers.agent_sdk_query.Conversations asks for."""

    def __init__(self, agent: str, store: Sessions) -> None:
        self._agent, self._store = agent, store

    async def of(self, channel_id: int) -> Conversation | None:
        kept = await self._store.read(self._agent, channel_id)
        session_id = kept.get("id") if kept else None
        if kept is None or not isinstance(session_id, str) or not session_id:
            return None
        read, digest, since = kept.get("read"), kept.get("digest"), kept.get("since")
        return Conversation(
            session_id,
            read if isinstance(read, int) else 0,
            digest if isinstance(digest, str) else "",
            since if isinstance(since, int) else 0,
        )

    async def keep(self, channel_id: int, conversation: Conversation) -> None:
        session = {"id": conversation.session_id, "read": conversation.read, "digest": conversation.digest}
        await self._store.keep(self._agent, channel_id, {**session, "since": conversation.since})

    async def drop(self, channel_id: int) -> None:
        await self._store.drop(self._agent, channel_id)


def conversation_of(event: TurnEvent) -> int | None:
    """The channel whose conversation a turn goes on with; None for errands, which are no part of one."""
    return event.channel_id if isinstance(event, MentionEvent | InstructionEvent) else None


def after(entries: Sequence[Entry], reset: int) -> Sequence[Entry]:
    """What is context yet: nothing up to the message `reset`."""
    return [entry for entry in entries if entry.id > reset] if reset else entries


async def begin_anew(services: AgentServices, agents: Iterable[str], channel_id: int, message_id: int) -> None:
    """What lies before is context of these agents no longer, in that channel. Raises RedisAway."""
    names = tuple(agents)
    if services.resets is not None:
        await services.resets.reset(names, channel_id, message_id)
    for name in names:
        await services.ledger.sessions.drop(name, channel_id)
