"""What is kept of running conversations, so that a coordinator that begins to lead goes on with each at its turn."""

from __future__ import annotations

import logging

from agent_coordinator.conversations.state import ConversationState
from agent_coordinator.leadership import Leadership
from agent_coordinator.ports import Clock, ConversationStore, Sleep, until_back

log = logging.getLogger(__name__)


class Unfinished:
    """Waits while Redis is away: a step that is not kept would be taken twice after a restart."""

    def __init__(self, conversations: ConversationStore, *, leadership: Leadership, clock: Clock, sleep: Sleep) -> None:
        self._conversations = conversations
        self._leadership = leadership
        self._clock = clock
        self._sleep = sleep

    async def keep(self, state: ConversationState) -> bool:
        """False when the channel is not held any more, or another process leads: it is not kept then."""
        text = state.touched(self._clock()).to_json()
        kept = (state.channel_id, state.conversation_id, text, self._leadership.epoch)
        if await until_back(lambda: self._conversations.keep(*kept), self._sleep):
            return True
        log.debug("channel %d is not held any more, its conversation's state is not kept", state.channel_id)
        return False

    async def drop(self, state: ConversationState) -> None:
        """Forgets the conversation, unless another process leads and goes on with it."""
        where = (state.channel_id, state.conversation_id, self._leadership.epoch)
        await until_back(lambda: self._conversations.drop(*where), self._sleep)

    async def all(self) -> list[ConversationState]:
        """Those that did not come to their end; one that cannot be read is named in the log and runs out by itself."""
        states = []
        for text in await until_back(self._conversations.kept, self._sleep):
            try:
                states.append(ConversationState.from_json(text))
            except ValueError as error:
                log.warning("a kept conversation cannot be gone on with: %s", error)
        return states
