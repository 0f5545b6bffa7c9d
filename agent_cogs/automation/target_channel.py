"""Where an errand speaks: the channel that its file names, else OUTPUT_CHANNEL_ID, else nowhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_chat.outlet import NO_CHANNEL
from agent_cogs.channels import ChannelInfo
from agent_themes import DEFAULT_THEME

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A channel and its theme; NO_CHANNEL for none."""

    channel_id: int
    theme: str = DEFAULT_THEME


class TargetResolver:
    """One agent's. `known` are the channels in scope that it sees now; `output` is OUTPUT_CHANNEL_ID; `arriving` says
    whether a server of its bot is still on its way, so that unknown is not strange."""

    def __init__(
        self,
        agent: str,
        known: Callable[[], Sequence[ChannelInfo]],
        output: int | None,
        arriving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._agent, self._known, self._output, self._arriving = agent, known, output, arriving
        self._told: set[tuple[str, str]] = set()

    def pending(self, channel: int | str | None) -> bool:
        """Whether the place cannot be told yet: the channel may be one of a server that has not come."""
        wanted = self._output if channel is None else channel
        if wanted is None or not self._arriving():
            return False
        return not any(wanted in (known.channel_id, known.name) for known in self._known())

    def of(self, channel: int | str | None, who: str) -> Target | None:
        """The place that a file names by id or name, None where the agent may not speak there: that is told once.
        `who` says for the log whose channel it is."""
        if channel is None:
            return self._default()
        if channel == self._output:
            return self._default()
        for known in self._known():
            if channel in (known.channel_id, known.name):
                self._told -= {(who, f"{late} {channel}") for late in (True, False)}
                return Target(known.channel_id, known.theme)
        late = self._arriving()
        if (who, f"{late} {channel}") not in self._told:
            self._told.add((who, f"{late} {channel}"))
            reason = "is not there yet, its server has not come" if late else "is none of the bot's"
            log.warning("%s: %s is passed over: the channel %s %s", self._agent, who, channel, reason)
        return None

    def _default(self) -> Target:
        themes = {known.channel_id: known.theme for known in self._known()} if self._output else {}
        return Target(self._output or NO_CHANNEL, themes.get(self._output or NO_CHANNEL, DEFAULT_THEME))
