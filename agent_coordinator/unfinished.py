"""Stores running conversations, so that the next leader can resume each at its turn."""

from __future__ import annotations

import logging

from agent_coordinator.ports import Clock, ConversationStore, Sleep, until_back
from agent_coordinator.state import ConversationState
from agentic.state.leadership import Leadership

log = logging.getLogger(__name__)


class Unfinished:
    """Waits while Redis is away: a step that is not stored would be repeated after a restart."""

    def __init__(self, conversations: ConversationStore, *, leadership: Leadership, clock: Clock, sleep: Sleep) -> None:
        self._conversations = conversations
        self._leadership = leadership
        self._clock = clock
        self._sleep = sleep

    async def keep(self, state: ConversationState) -> bool:
        """False, and not stored, where the channel is no longer held or another process leads. Of a room in which
        nothing runs only the room is stored."""
        over = state.room is not None and state.room.status != "active" and state.asking is None
        text = None if over else state.touched(self._clock()).to_json()
        record = (state.channel_id, state.conversation_id, text, self._leadership.epoch, state.room)
        if await until_back(lambda: self._conversations.keep(*record), self._sleep):
            return True
        log.debug("channel %d is no longer held, its conversation is not stored", state.channel_id)
        return False

    async def drop(self, state: ConversationState) -> None:
        """Delete the conversation, unless another process leads: that one continues it."""
        place = (state.channel_id, state.conversation_id, self._leadership.epoch)
        await until_back(lambda: self._conversations.drop(*place), self._sleep)

    async def of(self, channel_id: int) -> ConversationState | None:
        """The channel's conversation that did not end; None for none, or one that cannot be read."""
        text = await until_back(lambda: self._conversations.read(channel_id), self._sleep)
        return None if text is None else self._read(text)

    async def all(self) -> list[ConversationState]:
        """All that did not end. One that cannot be read is logged, and expires by itself."""
        states = [self._read(text) for text in await until_back(self._conversations.kept, self._sleep)]
        return [state for state in states if state is not None]

    @staticmethod
    def _read(text: str) -> ConversationState | None:
        try:
            return ConversationState.from_json(text)
        except ValueError as error:
            log.warning("a stored conversation cannot be resumed: %s", error)
            return None
