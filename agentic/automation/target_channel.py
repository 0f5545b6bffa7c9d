"""The channel of an automation task: the one that its file names, else OUTPUT_CHANNEL_ID, else none."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from agentic.agent.agent import Channels
from agentic.chat.outlet import NO_CHANNEL
from agentic.themes import DEFAULT_THEME

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A channel and its theme; NO_CHANNEL for none."""

    channel_id: int
    theme: str = DEFAULT_THEME


class TargetResolver:
    """Finds the channels of one agent's tasks. `output` is OUTPUT_CHANNEL_ID."""

    def __init__(self, agent: str, channels: Channels, output: int | None) -> None:
        self._agent, self._channels, self._output = agent, channels, output
        self._logged: set[tuple[str, str]] = set()

    def pending(self, channel: int | str | None) -> bool:
        """Whether the channel may belong to a guild that has not arrived."""
        wanted = self._output if channel is None else channel
        if wanted is None or not self._channels.arriving:
            return False
        return not any(wanted in (known.channel_id, known.name) for known in self._channels.known())

    def of(self, channel: int | str | None, task: str) -> Target | None:
        """The channel that a file names by id or name; None, with one log line, where the agent may not speak there.
        `task` is the task's name for the log."""
        if channel is None or channel == self._output:
            return self._default()
        for known in self._channels.known():
            if channel in (known.channel_id, known.name):
                self._logged = {(logged, reason) for logged, reason in self._logged if logged != task}
                return Target(known.channel_id, known.theme)
        if self._channels.arriving:
            reason = f"channel {channel} is not known yet, its guild has not arrived"
        else:
            reason = f"channel {channel} is not one of this bot's channels"
        if (task, reason) not in self._logged:
            self._logged.add((task, reason))
            log.warning("%s: skipped %s: %s", self._agent, task, reason)
        return None

    def _default(self) -> Target:
        themes = {known.channel_id: known.theme for known in self._channels.known()} if self._output else {}
        return Target(self._output or NO_CHANNEL, themes.get(self._output or NO_CHANNEL, DEFAULT_THEME))
