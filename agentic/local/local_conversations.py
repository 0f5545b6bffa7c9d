"""Conversations that the person at the terminal starts."""

from __future__ import annotations

from agentic.local.discord.world import World
from agentic.runtime.process import Runtime


class LocalConversations:
    """Starts conversations of the bots of a running process in the channels of its world."""

    def __init__(self, runtime: Runtime, world: World) -> None:
        assert runtime.coordinator is not None
        self._coordinator, self._stops, self._world = runtime.coordinator, runtime.services.stops, world

    def refusal(self, channel_id: int) -> str:
        """Why none can start in a channel now, and what to do; "" if one can."""
        if self._world.channel(channel_id).is_thread:
            return "this thread is a room; use /room status to see how it is, and /room resume to continue"
        if stopped := self.stopped(channel_id):
            return stopped
        name = self._world.channel(channel_id).name
        if channel_id in self._coordinator.engine.holds.busy:
            return f"one is running in #{name} already; write there to join it, or wait for its end"
        return ""

    def stopped(self, channel_id: int) -> str:
        """A line about a channel that a person stopped, "" for any other."""
        if self._stops.paused:
            return "all bots are paused, perhaps since an earlier start; /bots resume lifts it"
        if not self._stops.holds(channel_id):
            return ""
        name = self._world.channel(channel_id).name
        return f"#{name} is stopped, perhaps since an earlier start; /resume there lifts it"

    async def hold(self, channel_id: int, theme: str | None) -> str:
        """Hold one to its end; return why none started, "" if one was held."""
        if refusal := self.refusal(channel_id):
            return refusal
        report = await self._coordinator.fire(channel_id, theme)
        return "" if report is not None else self.refusal(channel_id) or "the bots are busy; try again in a moment"
