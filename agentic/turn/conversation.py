"""Continue or reset a channel's conversation with an agent.

The conversation is the channel's transcript since its last reset. A coding agent also has a session of its SDK in each
channel, which is reset with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentic.agent.events import InstructionEvent, MentionEvent, TurnEvent
from agentic.agent.services import AgentServices
from agentic.context.entries import Entry
from agentic.llm.providers.agent_sdk import AgentSession
from agentic.state.context import Sessions


class AgentSessions:
    """The SDK sessions of one agent, by channel; implements agentic.llm.providers.agent_sdk.Conversations."""

    def __init__(self, agent: str, store: Sessions) -> None:
        self._agent, self._store = agent, store

    async def of(self, channel_id: int) -> AgentSession | None:
        kept = await self._store.read(self._agent, channel_id)
        session_id = kept.get("id") if kept else None
        if kept is None or not isinstance(session_id, str) or not session_id:
            return None
        read, digest, since = kept.get("read"), kept.get("digest"), kept.get("since")
        return AgentSession(
            session_id,
            read if isinstance(read, int) else 0,
            digest if isinstance(digest, str) else "",
            since if isinstance(since, int) else 0,
        )

    async def keep(self, channel_id: int, conversation: AgentSession) -> None:
        session = {"id": conversation.session_id, "read": conversation.read, "digest": conversation.digest}
        await self._store.keep(self._agent, channel_id, {**session, "since": conversation.since})

    async def drop(self, channel_id: int) -> None:
        await self._store.drop(self._agent, channel_id)


def conversation_of(event: TurnEvent) -> int | None:
    """The channel whose conversation a turn continues; None for automation, which is no part of one."""
    return event.channel_id if isinstance(event, MentionEvent | InstructionEvent) else None


def after(entries: Sequence[Entry], reset: int) -> Sequence[Entry]:
    """The entries after the message `reset`, which still are context."""
    return [entry for entry in entries if entry.id > reset] if reset else entries


async def reset_conversation(services: AgentServices, agents: Iterable[str], channel_id: int, message_id: int) -> None:
    """Reset the agents' conversations in the channel: messages up to this one are no context. Raises RedisAway."""
    names = tuple(agents)
    await services.resets.reset(names, channel_id, message_id)
    for name in names:
        await services.ledger.sessions.drop(name, channel_id)
