"""Keep the pulls of a channel's last choice, for people who ask why an agent spoke or not."""

from __future__ import annotations

import logging

from agent_coordinator.events import Event, SpeakerChosen
from agent_coordinator.ports import PullStore, Start
from agentic.state.pulls import Pulls
from agentic.wire.link import RedisAway

log = logging.getLogger(__name__)


class PullNotes:
    """An observer of the engine. `start` runs a task."""

    def __init__(self, pulls: PullStore, start: Start) -> None:
        self._pulls, self._start = pulls, start

    def __call__(self, event: Event) -> None:
        if isinstance(event, SpeakerChosen):
            self._start(self._keep(event), "the pulls of a choice")

    async def _keep(self, event: SpeakerChosen) -> None:
        pulls = Pulls(
            channel_id=event.channel_id,
            conversation_id=event.conversation_id,
            at=event.at,
            chosen=event.agent,
            because=event.because,
            pulls=event.pulls,
        )
        try:
            await self._pulls.keep(pulls)
        except RedisAway:
            log.debug("channel %d: the pulls of a choice were not kept, Redis is away", event.channel_id)
